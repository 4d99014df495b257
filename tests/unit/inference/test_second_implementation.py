"""The engine against a second implementation in Python integers and fractions, for every family (design section 6)."""

import struct
from pathlib import Path

import pytest

from bytewise.inference.exact.matmul import Float64Backend
from bytewise.inference.torch_path import Runner
from tests.fixtures.inference.tiny import VARIANTS, tiny
from tests.reference.engine import files
from tests.reference.engine.model import SecondEngine, Step

TOKENS = [*b"exactl", 256]
"""More than the tiny windows hold."""


def row_of(step: Step) -> bytes:
    """The head row as the trace holds it."""
    return struct.pack(f"<{len(step.integers)}h", *step.integers)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_head_row_and_logit_equals_the_fraction_computation(variant: str, tmp_path: Path) -> None:
    model = tiny(variant, tmp_path)
    runner, second = Runner(model, Float64Backend()), SecondEngine(files.read(model.path))
    rows = runner.teacher_force(runner.cache(1, len(TOKENS)), [TOKENS], [0])[0]
    for token, row in zip(TOKENS, rows, strict=True):
        step = second.step(token)
        assert row.row == row_of(step)
        assert row.exponent == step.exponent
        assert row.logits is not None
        assert row.logits.numpy().tobytes() == struct.pack(f"<{len(step.logits)}f", *step.logits)

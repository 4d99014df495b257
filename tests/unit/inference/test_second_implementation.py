"""The engine against a second implementation in Python integers and fractions (design section 6)."""

import struct

from bytewise.inference.artifact import Artifact
from bytewise.inference.matmul import Float64Backend
from bytewise.inference.runner import Runner
from tests.unit.inference.reference import Reference


def test_every_head_row_and_logit_is_what_fractions_give(model: Artifact) -> None:
    tokens = [*b"exact", 256, 257]
    runner, reference = Runner(model, Float64Backend()), Reference(model)
    rows = runner.teacher_force(runner.cache(1, len(tokens)), [tokens], [0])[0]
    for position, (token, row) in enumerate(zip(tokens, rows, strict=True)):
        integers, exponent, logits = reference.step(token, position)
        assert row.row == struct.pack(f"<{len(integers)}h", *integers)
        assert row.exponent == exponent
        assert row.logits is not None and row.logits.tolist() == [float(logit) for logit in logits]

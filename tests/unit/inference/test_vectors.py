"""The profile's vectors: here, and in processes that are told to use other instruction sets."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bytewise.inference.golden import PROFILE_DIGEST
from bytewise.service.settings import child_environment
from tests.vectors import make_exact1

ROOT = Path(__file__).resolve().parents[3]
GOLDEN: dict[str, Any] = json.loads(make_exact1.FILE.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the model of the vectors lies."""
    path = tmp_path_factory.mktemp("vectors")
    make_exact1.small_model(path)
    return path


def test_vectors_have_not_changed(folder: Path) -> None:
    assert make_exact1.vectors(folder) == GOLDEN


def test_engine_carries_the_digest_of_the_vectors() -> None:
    assert GOLDEN["profile_digest"] == PROFILE_DIGEST.hex()


def test_vectors_hold_answers_that_differ() -> None:
    assert len({answer["tokens"] for answer in GOLDEN["answers"]}) == len(GOLDEN["answers"])


@pytest.mark.parametrize(
    ("variables", "backend"),
    [
        ({"ATEN_CPU_CAPABILITY": "default"}, None),
        ({"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}, None),
        # Without VNNI the int8 kernel saturates: the known answers drop it, and the bytes stay.
        ({"ONEDNN_MAX_CPU_ISA": "AVX2"}, "float64"),
    ],
    ids=["no vectors", "AVX2", "int8 without VNNI"],
)
def test_answers_are_the_same_under_other_instruction_sets(folder: Path, variables: dict[str, str], backend: str | None) -> None:
    command = [sys.executable, "-m", "tests.vectors.make_exact1", "answers", str(folder)]
    ended = subprocess.run(
        command, cwd=ROOT, env=child_environment(variables), capture_output=True, timeout=120, check=False, text=True
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert (found["answers"], found["vectors"]) == (GOLDEN["answers"], GOLDEN["profile_digest"])
    assert backend in (None, found["backend"])

"""The profile's vectors. `test_laws` has them in processes that are told to use other instruction sets."""

import json
from pathlib import Path
from typing import Any

import pytest

from bytewise.inference.known_answers.operations import PROFILE_DIGEST
from tests.vectors import make_exact1

GOLDEN: dict[str, Any] = json.loads(make_exact1.FILE.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the model of the vectors lies."""
    path = tmp_path_factory.mktemp("vectors")
    make_exact1.small_model(path)
    return path


def test_known_answer_vectors_have_not_changed(folder: Path) -> None:
    assert make_exact1.vectors(folder) == GOLDEN


def test_engine_carries_the_digest_of_the_vectors() -> None:
    assert GOLDEN["profile_digest"] == PROFILE_DIGEST.hex()


def test_vectors_contain_answers_that_differ() -> None:
    assert len({answer["tokens"] for answer in GOLDEN["answers"]}) == len(GOLDEN["answers"])

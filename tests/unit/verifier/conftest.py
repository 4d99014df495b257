"""A verifier's chain, store and node in memory, fresh for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.verifier.verifier_fixture import VerifierFixture


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[VerifierFixture]:
    made = VerifierFixture(tmp_path)
    yield made
    made.close()

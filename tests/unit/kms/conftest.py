"""One dealt network per module of tests; each test makes its own receipts."""

from pathlib import Path

import pytest

from tests.fixtures.kms.release_network import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """2 of 3 shards, one platform, an active epoch."""
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture()
def fresh(tmp_path: Path) -> World:
    """A network of its own, for tests that change the chain or count records."""
    return World(tmp_path)

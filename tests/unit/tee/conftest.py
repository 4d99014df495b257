"""One bench per module."""

import pytest

from tests.fixtures.tee.simulated_platform import Bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Root, platform, policy and quoter."""
    return Bench(tmp_path_factory.mktemp("tee"))

"""One bench per module, and the two ends of its channels."""

import pytest

from tests.fixtures.tee.channels import Ends
from tests.fixtures.tee.simulated_platform import Bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Root, platform, policy and quoter."""
    return Bench(tmp_path_factory.mktemp("tee"))


@pytest.fixture(scope="module")
def ends(bench: Bench) -> Ends:
    """An enclave and a shard."""
    return Ends(bench)

"""Models that the tests of the engine share: made once, never changed."""

import pytest

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.engine import ExactEngine
from tests.fixtures.inference.models import small_artifact


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A small model."""
    return small_artifact(tmp_path_factory.mktemp("model-7"), 7)


@pytest.fixture(scope="session")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Another model of the same shape."""
    return small_artifact(tmp_path_factory.mktemp("model-8"), 8)


@pytest.fixture(scope="session")
def engine(model: Artifact) -> ExactEngine:
    """An engine of the small model on the backend that the machine chooses."""
    return ExactEngine(model)

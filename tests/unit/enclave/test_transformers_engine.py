"""The enclave where its engine computes with transformers: what the process of a job has imported, and what it says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bytewise.inference.artifact import artifact
from bytewise.inference.convert.convert import convert
from bytewise.inference.engine import ExactEngine
from bytewise.inference.profiles import AnyEngine
from bytewise.protocol.digests import out_hash
from bytewise.protocol.encoding import encode
from bytewise.protocol.records.statements import Outcome
from enclave.import_blocker import ALLOWED
from tests.fixtures.inference.pinned_artifact import PinnedModel, make_place
from tests.fixtures.kms.release_network import wait_until
from tests.fixtures.verifier.forbidden_imports import FORBIDDEN, documented, packages
from tests.fixtures.verifier.running_enclave import RunningEnclave, running_enclave


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> PinnedModel:
    return make_place(tmp_path_factory.mktemp("models"))


def _pinned(place: PinnedModel, folder: Path) -> tuple[AnyEngine, str]:
    (folder / "environment.json").write_bytes(encode(place.environment))
    return place.engine, f'environment_file = "{folder / "environment.json"}"\n'


def _exact(place: PinnedModel, folder: Path) -> tuple[AnyEngine, str]:
    convert(place.source, folder / "artifact")
    return ExactEngine(artifact.load(folder / "artifact")), 'backend = "float64"\n'


@pytest.fixture(scope="module", params=[_pinned, _exact], ids=["pinned-1", "exact-1 with a named backend"])
def running(
    request: pytest.FixtureRequest, place: PinnedModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningEnclave]:
    folder = tmp_path_factory.mktemp("enclave")
    engine, settings = request.param(place, folder)
    with running_enclave(folder, engine, settings, processes=2) as enclave:
        yield enclave


@pytest.mark.e2e
def test_enclave_library_gives_the_same_bytes_and_its_jobs_no_client(running: RunningEnclave) -> None:
    for seq, step in enumerate((0, 1), start=1):
        case, request = running.case(seq, step)
        before = {each.pid for each in running.waiting()}
        result = running.judge(case)
        true = running.engine.generate(request)
        assert result.outcome == Outcome.EXECUTED, running.log()
        assert (result.tokens_hash, out_hash(result.tokens_hash, result.trace_root)) == (true.output.tokens_hash, true.out_hash)
        wait_until(lambda pids=before: not pids & {each.pid for each in running.at_rest()})
    loaded = running.imported()
    clients = {name for name in loaded if name == "urllib.request" or name.split(".")[0] in FORBIDDEN - {"transformers"}}
    assert {name for name in clients if loaded[name]} == ALLOWED, "what is no stand-in is from a file"
    assert clients - ALLOWED == documented("Stand-ins") and "http.client" not in loaded
    assert packages(loaded) == documented("Imports") | documented("Where transformers computes")

"""The enclave as it runs: what its processes hold, import and show while they judge an honest answer and a forged one."""

import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from bytewise.crypto.curve import decode_point, encode_point
from bytewise.crypto.envelope import verify_receipt_envelope
from bytewise.crypto.shares import combine_values
from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.engine import ExactEngine
from bytewise.inference.native.library import kernels
from bytewise.protocol.jobs import JOB_LIMIT_S, anchor_domain
from bytewise.protocol.records.request import Request
from bytewise.protocol.records.statements import Outcome
from bytewise.tee.appraisal import verify_result_quote
from bytewise.tee_simulated.authorities import Platform
from kms.storage import keyring
from tests.fixtures import memory_search
from tests.fixtures.kms.memory_chain import CHAIN_ID, Case
from tests.fixtures.kms.release_network import wait_until
from tests.fixtures.verifier.enclave_model import model
from tests.fixtures.verifier.forbidden_imports import FORBIDDEN, documented, packages
from tests.fixtures.verifier.running_enclave import PROMPT, RunningEnclave, children, missing, running_enclave

__all__ = ["model"]

pytestmark = pytest.mark.skipif(not kernels(), reason="without the native path an enclave holds the library, and says so")


@pytest.fixture(scope="module")
def running(model: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEnclave]:
    with running_enclave(tmp_path_factory.mktemp("enclave"), ExactEngine(model)) as enclave:
        yield enclave


@pytest.mark.e2e
def test_honest_and_forged_answers_are_judged_and_leave_nothing_behind(running: RunningEnclave) -> None:
    (honest, first), (forged, second) = running.case(1, 0), running.case(2, 1)
    before = {each.pid for each in running.waiting()}
    results = [running.judge(honest), running.judge(forged)]
    assert [each.outcome for each in results] == [Outcome.EXECUTED] * 2, running.log()
    assert results[0].tokens_hash == honest.receipt.tokens_hash
    assert results[1].tokens_hash != forged.receipt.tokens_hash, "the second backend has confirmed the true answer"
    for each in results:
        assert verify_result_quote(running.world.policy, each.quote, CHAIN_ID).statement.tokens_hash == each.tokens_hash
    wait_until(lambda: not before & {each.pid for each in running.at_rest()})
    _nothing_shows(running, _readings((first, second)) | _keys(running, (honest, forged)))


def _readings(requests: tuple[Request, ...]) -> dict[str, bytes]:
    """What shows that somebody had read the requests."""
    needles = memory_search.forms("no text at all: tokens", PROMPT)
    needles |= {f"nonce {i}": bytes(each.nonce) for i, each in enumerate(requests)}
    return needles | {f"nonce {i} hex": each.nonce.hex().encode() for i, each in enumerate(requests)}


def _keys(running: RunningEnclave, cases: tuple[Case, ...]) -> dict[str, bytes]:
    """What opens the envelopes: the point that shards' partials make, and the key that none of them has."""
    world = running.world
    held = {n: keyring.open_share(world.settings.shards[n - 1].folder, world.document).scalar() for n in (1, 2)}
    key = combine_values(held)
    domain = anchor_domain(world.contracts)
    envelopes = [verify_receipt_envelope(domain, each.receipt, each.envelope) for each in cases]
    points = [int.from_bytes(encode_point(decode_point(each.enc) * key)[1:33], "big") for each in envelopes]
    return {
        f"{i} {form}": data for i, each in enumerate([key, *points]) for form, data in memory_search.scalar_forms(each).items()
    }


def _nothing_shows(running: RunningEnclave, needles: dict[str, bytes]) -> None:
    assert memory_search.in_memory(os.getpid(), needles), "who made the requests holds them (positive control)"
    shown = running.log().encode()
    for each in running.at_rest():
        shown += Path(f"/proc/{each.pid}/cmdline").read_bytes()
        if memory_search.sees_closed():
            shown += Path(f"/proc/{each.pid}/environ").read_bytes()
            assert memory_search.in_memory(each.pid, needles) == set(), "the keeper and the next job's process never had them"
    assert {name for name, needle in needles.items() if needle in shown} == set()
    assert [path for path in running.folder.rglob("core*")] == []


@pytest.mark.e2e
def test_job_process_imports_no_network_client_and_its_imports_are_listed(running: RunningEnclave) -> None:
    before = {each.pid for each in running.waiting()}
    running.judge(running.case(3, 1)[0])
    wait_until(lambda: not before & {each.pid for each in running.at_rest()})
    loaded = running.imported()
    assert [name for name in loaded if name.split(".")[0] in FORBIDDEN] == []
    assert "http.client" not in loaded, "Python's own, which torch would bring"
    assert packages(loaded) == documented("Imports")


@pytest.mark.e2e
def test_every_process_is_fenced_and_unavailable_fences_are_reported(running: RunningEnclave) -> None:
    assert set(re.findall(r'"fence.failed","name":"(\w+)"', running.log())) == set(missing())
    for each in running.at_rest():
        status = Path(f"/proc/{each.pid}/status").read_text()
        if "no_sockets" not in missing():
            assert re.search(r"Seccomp:\s+2", status) and re.search(r"NoNewPrivs:\s+1", status)
        if "no_network" not in missing() and memory_search.sees_closed():
            assert os.readlink(f"/proc/{each.pid}/ns/net") != os.readlink("/proc/self/ns/net")
        assert each.rlimit(resource.RLIMIT_CORE) == (0, 0)
        if os.geteuid() != 0:
            assert os.stat(f"/proc/{each.pid}/mem").st_uid != os.geteuid(), "a process that is not closed belongs to its user"


@pytest.mark.e2e
def test_job_and_second_backend_processes_are_bounded_and_cannot_fork(running: RunningEnclave) -> None:
    running.at_rest()
    for each in running.waiting():
        assert each.rlimit(resource.RLIMIT_CPU) == (2 * JOB_LIMIT_S + 60,) * 2
        assert 0 < each.rlimit(resource.RLIMIT_AS)[1] < 2**40


@pytest.mark.e2e
def test_second_backend_never_has_the_signing_key_of_the_enclave(running: RunningEnclave) -> None:
    if not memory_search.sees_closed():
        # Who may not search closed processes sees at least that they are closed.
        for each in running.at_rest():
            memory_search.verify_closed(each.pid)
        return
    platform = Platform(running.folder / "world" / "platform.key")
    secrets = [each.key.private_numbers().private_value for each in (platform.pck_ca, platform.tcb_signer)]
    needles = {f"{i} {form}": data for i, each in enumerate(secrets) for form, data in memory_search.scalar_forms(each).items()}
    keeper, *others = running.at_rest()
    (second,) = [each for each in others if children(each)]
    assert memory_search.in_memory(keeper.pid, needles), "it signs (positive control)"
    assert memory_search.in_memory(second.pid, needles) | memory_search.in_children(second.pid, needles) == set()

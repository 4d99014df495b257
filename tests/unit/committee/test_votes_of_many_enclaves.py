"""Votes of a member with many enclaves, from the job order to the vote: own enclaves, the bridge, and agents that lie.

A machine without the model, a hostile one and a silent one cost time, and no vote (ADR-046).
"""

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from bytewise.protocol.decisions.snapshot import Dispute
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.jobs import JobFailed, JobResult, Prepared, RunJob
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.units import U8, ZERO_DIGEST, Blob, Digest
from bytewise.service import connections
from bytewise.service.clock import SystemClock
from bytewise.tee_simulated.__main__ import policy_for
from bytewise.tee_simulated.authorities import Platform
from bytewise.tee_simulated.quoter import SimulatedQuoter
from enclave.job_socket import JobContext
from tests.fixtures.builders import CHAIN_ID, MODEL, word
from tests.fixtures.cluster.ray_in_memory import PREPARE_S, bridge_in_memory
from tests.fixtures.committee.seated_member import SeatedMember
from tests.fixtures.kms.release_network import wait_until
from tests.fixtures.verifier import enclave_in_memory as b
from tests.fixtures.verifier.verifier_fixture import NETWORK, VerifierFixture
from verifier.cluster.agent import FENCE_BYTES, Agent
from verifier.jobs.cluster_client import ClusterClient
from verifier.jobs.enclave_pool import EnclavePool
from verifier.jobs.job import EnclaveAway
from verifier.settings import ExecutorKind, ExecutorSettings
from verifier.wiring import NodeContext

OTHER_MODEL = word("another model")


class HostileAgent(Agent):
    """An agent of a machine that names an instance and a key of its own making, and takes the ticket."""

    answer = b""
    tickets: list[Digest]
    """Instances of the tickets that all agents of a test got."""
    ended: threading.Event

    def open(self) -> bytes:
        """It needs no enclave."""
        return b""

    def claim(self, fence: int, receipt_id: bytes) -> bytes:
        """A new instance each time, and much time."""
        return fence.to_bytes(FENCE_BYTES, "big") + encode(Prepared(Digest(os.urandom(32)), Blob(b"\4" * 65), 3600))

    def run(self, fence: int, job: bytes) -> bytes:
        """No result of this job."""
        ticket = connections.parse_message(job, RunJob).ticket
        self.tickets.append(ticket.instance)
        forged = JobResult(
            ticket.subject, ticket.round, ticket.receipt_id, ticket.voter, U8(Outcome.INVALID), U8(1), ZERO_DIGEST, ZERO_DIGEST,
            ZERO_DIGEST, Blob(b"no quote"),
        )  # fmt: skip
        return fence.to_bytes(FENCE_BYTES, "big") + (self.answer or encode(forged))


class FailingAgent(HostileAgent):
    """Says that a retry may help."""

    answer = encode(JobFailed("its machine ended", True))


class GarbageAgent(HostileAgent):
    """Gives random bytes."""

    answer = os.urandom(1000)


class SilentAgent(HostileAgent):
    """Gives no answer."""

    def run(self, fence: int, job: bytes) -> bytes:
        """Waits until the test ends."""
        answer = super().run(fence, job)
        self.ended.wait()
        return answer


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VerifierFixture]:
    """A town under a policy that accepts its enclaves."""
    found = VerifierFixture(tmp_path)
    policy = policy_for(b.measurement(), word("shard"), tmp_path / "root", CHAIN_ID, 1)
    monkeypatch.setattr(b, "POLICY", Blob(encode(policy)))
    monkeypatch.setattr(HostileAgent, "tickets", [], raising=False)
    monkeypatch.setattr(HostileAgent, "ended", threading.Event(), raising=False)
    yield found
    HostileAgent.ended.set()


def disputed(setup: VerifierFixture, left_s: int = 60) -> Dispute:
    signed = setup.signed(1, cheat=True)
    setup.anchor(signed)
    return setup.dispute(signed, commit_end=setup.chain.timestamp + left_s)


def enclave(setup: VerifierFixture, path: Path, model: Digest = MODEL) -> AbstractContextManager[Path]:
    """An approved enclave at a job socket."""
    quoter = SimulatedQuoter(Platform(setup.folder / "platform.pem"), b.measurement(), SystemClock())
    return b.serving(path, JobContext(b.TwoStubEngines(), model, b.WholeKey(), quoter, CHAIN_ID, os.urandom))


def node_of(settings: ExecutorSettings) -> NodeContext:
    """What a duty process makes of section `[executor]`, without its other adapters."""
    node = NodeContext.__new__(NodeContext)
    node.settings = SimpleNamespace(executor=settings)  # type: ignore[assignment]
    node.network, node.clock = NETWORK, SystemClock()
    return node


def voted(member: SeatedMember, dispute: Dispute, ticks: int = 9) -> Outcome | None:
    """Outcome of the vote within so many ticks, 6 s of chain time each."""
    for _ in range(ticks):
        member.until_quiet()
        vote = member.vote(dispute)
        if vote is not None:
            return Outcome(vote.outcome)
        member.tick(6)
    return None


@pytest.mark.parametrize("sockets", [1, 2])
@pytest.mark.parametrize("having", ["further", "cluster"])
def test_vote_waits_for_the_enclave_with_the_model(setup: VerifierFixture, having: str, sockets: int) -> None:
    """The own enclaves answer first, and run another model: their answer would be the vote CANNOT_EXECUTE."""
    dispute = disputed(setup)
    with b.short_folder() as folder, ExitStack() as running:
        own = [folder / f"own-{number}" for number in range(sockets)]
        for path in own:
            running.enter_context(enclave(setup, path, OTHER_MODEL))
        node = node_of(ExecutorSettings(
            own[0], own[1] if own[1:] else None, (folder / "agent-0.sock",) if having == "further" else (), PREPARE_S,
            kind=ExecutorKind.RAY if having == "cluster" else ExecutorKind.LOCAL,
            bridge_socket=folder / "bridge" if having == "cluster" else None,
        ))  # fmt: skip
        with SeatedMember(setup, pool=node.pool) as member:
            for each in node.enclave_states:
                each.note_policy(b.POLICY)
            member.until_quiet()
            assert member.vote(dispute) is None, "no enclave with the model is there yet"
            running.enter_context(enclave(setup, folder / "agent-0.sock"))
            if having == "cluster":
                running.enter_context(bridge_in_memory(folder, [Agent]))
            for each in node.enclave_states:
                each.note_policy(b.POLICY)  # asks them at once
            threading.Event().wait(1.0)  # the pause of the one that was away
            assert voted(member, dispute) is Outcome.EXECUTED


@pytest.mark.parametrize("hostile", [FailingAgent, GarbageAgent])
def test_hostile_machine_uses_up_no_ticket(setup: VerifierFixture, hostile: type[HostileAgent]) -> None:
    """It names two instances while the own enclave restarts. Then the own one gets the job, and before the cluster does."""
    dispute = disputed(setup)
    with b.short_folder() as folder, bridge_in_memory(folder, [hostile]) as path:
        pool = EnclavePool([setup.enclave], [ClusterClient(path, PREPARE_S)], monotonic=lambda: setup.chain.timestamp)
        setup.enclave.running = False
        with SeatedMember(setup, pool=pool) as member:
            for _ in range(5):
                assert voted(member, dispute, 1) is None
                if len(set(hostile.tickets)) > 1:
                    break
            assert len(set(hostile.tickets)) == 2
            setup.enclave.running = True
            assert voted(member, dispute, 3) is Outcome.EXECUTED
            assert len(hostile.tickets) == 2


@pytest.mark.parametrize("hostile", [FailingAgent, GarbageAgent, HostileAgent])
def test_job_that_one_agent_failed_goes_to_another(setup: VerifierFixture, hostile: type[HostileAgent]) -> None:
    dispute = disputed(setup)
    with b.short_folder() as folder, enclave(setup, folder / "agent-0.sock"):
        with bridge_in_memory(folder, [hostile, Agent]) as path:
            pool = EnclavePool([], [ClusterClient(path, PREPARE_S)], monotonic=lambda: setup.chain.timestamp)
            with SeatedMember(setup, pool=pool) as member:
                assert voted(member, dispute) is Outcome.EXECUTED
                assert len(hostile.tickets) == 1


def test_own_enclave_votes_after_the_cluster_lost_its_head(setup: VerifierFixture) -> None:
    dispute, lost = disputed(setup), list[TryAgain]()
    with b.short_folder() as folder, enclave(setup, folder / "agent-0.sock"):
        with bridge_in_memory(folder, [Agent], lost=lost) as path:
            wait_until(lambda: lost, timeout_s=20)
            assert "its head node went away: start it" in str(lost[0])
            with pytest.raises(EnclaveAway, match="bridge"):
                ClusterClient(path, PREPARE_S).prepare(word("r"), MODEL)
            pool = EnclavePool([setup.enclave], [ClusterClient(path, PREPARE_S)], monotonic=lambda: setup.chain.timestamp)
            with SeatedMember(setup, pool=pool) as member:
                assert voted(member, dispute) is Outcome.EXECUTED


def test_silent_agent_leaves_half_of_the_time_to_the_own_enclave(setup: VerifierFixture) -> None:
    dispute = disputed(setup, left_s=5)
    with b.short_folder() as folder, bridge_in_memory(folder, [SilentAgent]) as path:
        pool = EnclavePool([setup.enclave], [ClusterClient(path, PREPARE_S)], monotonic=lambda: setup.chain.timestamp)
        pool._groups[0].presence.lost(EnclaveAway("enclave", "restarts"))
        with SeatedMember(setup, pool=pool) as member:
            for seconds in (0, 0, 2, *[0] * 400):  # the own enclave is back after 2 s
                member.tick(seconds)
                if member.vote(dispute) is not None:
                    break
                threading.Event().wait(0.01 if seconds == 0 and SilentAgent.tickets else 0.2)
            assert member.outcome(dispute) is Outcome.EXECUTED and len(SilentAgent.tickets) == 1
        HostileAgent.ended.set()

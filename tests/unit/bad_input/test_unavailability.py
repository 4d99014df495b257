"""`Unavailable` never leads to an accusation of wrong bytes: whatever is away, wherever, for however long, even of a fraud."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.decisions.disputes import MovePolicy, VotePolicy
from bytewise.protocol.decisions.strategies import WatchPolicy
from bytewise.protocol.errors.actors import CannotExecute
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.errors.catalogue import CLASSES
from bytewise.protocol.jobs import JobResult, RunJob
from bytewise.protocol.records.preflight import PreflightSubject, preflight
from bytewise.protocol.records.request import Output, Request
from bytewise.protocol.records.statements import AuditOutcome, Outcome, Verdict
from bytewise.protocol.records.trace import Verification
from bytewise.protocol.units import U8, U16, ZERO_DIGEST, Address, Blob, Digest
from bytewise.storage.archive import LightAudits
from bytewise.storage.duties import Duties
from bytewise.storage.protection import Protection
from committee.ballots import Ballots
from enclave.judge import judge_job, verify_job
from tests.fixtures.builders import CHAIN_ID, MODEL, NOW, World, signer, word
from tests.fixtures.verifier import enclave_in_memory as b
from tests.fixtures.verifier.verifier_fixture import ME, NETWORK, VerifierFixture
from tests.reference.verdict_rules import RevealedVote, tally
from verifier.audits.auditor import Auditor, Cause, conclude
from verifier.disputes.watchtower import Watchtower
from verifier.executor import ActionExecutor
from verifier.jobs.enclave_pool import EnclavePool
from verifier.node import Node, NodePart

WORLD = World()
KINDS = sorted({c for c in CLASSES.values() if issubclass(c, Unavailable) and c.rule}, key=lambda c: c.rule)
"""Every error of the branch that has a rule."""
PLACES = ("shelf.get", "chain.head", "chain.epoch", "chain.block_hash", "enclave.prepare", "enclave.run", "keys.open")
AWAY = [(place, kind) for place in PLACES for kind in KINDS] + [("engine", CannotExecute)]
"""What is away, and how it says so; an engine has one way."""
ACCUSING = (Outcome.EXECUTED, Outcome.INVALID)
"""Votes that say something of bytes."""


def away(kind: type[Unavailable]) -> Unavailable:
    return kind("something", "away", "now")


class Failing:
    """Anything of which one method is away."""

    def __init__(self, real: Any, method: str, error: Unavailable) -> None:
        self._real, self._method, self._error = real, method, error

    def __getattr__(self, name: str) -> Any:
        if name != self._method:
            return getattr(self._real, name)

        def fail(*_: object) -> None:
            raise self._error

        return fail


class AwayEngine(b.TwoStubEngines):
    """An engine that cannot verify."""

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """Never."""
        raise CannotExecute("away")


def broken(setup: VerifierFixture, place: str, kind: type[Unavailable]) -> None:
    """Takes one thing away from a town's node."""
    owner, _, method = place.partition(".")
    match owner:
        case "engine":
            setup.enclave.bench.engine = AwayEngine()
        case "keys":
            setup.enclave.bench.keys = Failing(setup.enclave.bench.keys, method, away(kind))
        case _:
            setattr(setup, owner, Failing(getattr(setup, owner), method, away(kind)))
            setup.reopen()


@contextmanager
def node_of(setup: VerifierFixture) -> Iterator[tuple[Node, EnclavePool, Protection]]:
    """A node with every role: auditor, member, watchtower."""
    pool, audits = EnclavePool([setup.enclave]), LightAudits(setup.database, setup.clock)
    auditor = Auditor(setup.chain, NETWORK, setup.records, audits, setup.journal, ME, pool, os.urandom, 5)
    duties, protection = Duties(setup.database, setup.clock), Protection(setup.database, setup.clock)
    votes = (setup.records, setup.store, duties, protection, setup.journal)
    ballots = Ballots(NETWORK, *votes, ME, pool, os.urandom, VotePolicy())
    tower = Watchtower(setup.chain, NETWORK, setup.records, ME, WatchPolicy(mismatches=1))
    executor = ActionExecutor(setup.sender, setup.journal, auditor, tower, ballots)
    parts: list[NodePart] = [auditor, ballots, tower]
    yield (
        Node(setup.chain, setup.sender, setup.pages, setup.records, executor, MovePolicy(), parts, pool, auditor, ballots),
        pool, protection,
    )  # fmt: skip
    pool.stop()


def lived(setup: VerifierFixture, ticks: int = 14) -> list[Outcome]:
    """Lets a node with a seat live through a whole commit phase, with a second fraud to audit; the votes that it protected."""
    signed = setup.signed(1, cheat=True)
    setup.anchor(signed, setup.signed(2, cheat=True))
    dispute = setup.dispute(signed)
    with node_of(setup) as (node, pool, protection):
        for _ in range(ticks):
            setup.chain.pass_time(4)
            try:
                node.tick()
            except Unavailable:
                continue
            for _ in range(6000):
                if not pool.busy():
                    break
                threading.Event().wait(0.01)
                node._finished += pool.collect()
            assert not pool.busy(), "never quiet"
            posted = [result for _, result in setup.chain.posted]
            setup.chain.posted += [(setup.chain.number + 1, r) for r, _ in setup.sender.of("audit") if r not in posted]
        stored = protection.known(dispute.id, 1, ME.address)
    return [] if stored is None else [Outcome(stored.vote.outcome)]


@pytest.mark.parametrize(("place", "kind"), AWAY)
def test_no_operator_is_accused_when_a_dependency_is_unavailable(tmp_path: Path, place: str, kind: type[Unavailable]) -> None:
    setup = VerifierFixture(tmp_path)
    broken(setup, place, kind)
    votes = lived(setup)
    assert [vote for vote in votes if vote in ACCUSING] == []
    assert [result.result for result, _ in setup.sender.of("audit") if result.result == AuditOutcome.MISMATCH] == []
    assert setup.sender.of("open") == []


def test_same_fraud_is_found_when_everything_is_available(tmp_path: Path) -> None:
    """The control: this node does accuse, once it has seen."""
    setup = VerifierFixture(tmp_path)
    assert lived(setup) == [Outcome.EXECUTED]
    assert [result.result for result, _ in setup.sender.of("audit")] == [AuditOutcome.MISMATCH] * 2
    assert len(setup.sender.of("open")) == 1, "the first is disputed already"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["keys", "verify", "confirm"])
def test_enclave_lacking_a_dependency_reports_nothing_about_the_bytes(kind: type[Unavailable], place: str) -> None:
    request = WORLD.request(1)
    truth = WORLD.engine.generate(request)
    receipt = WORLD.receipt(1, request, truth, out_hash=word("another"))
    job: RunJob = b.job(WORLD, *b.sealed(WORLD, WORLD.payload(request, truth.output), receipt))
    keys = Failing(b.WholeKey(), "open" if place == "keys" else "", away(kind))
    engine = Failing(b.TwoStubEngines(), "" if place == "keys" else place, away(kind))
    try:
        found = judge_job(job, verify_job(job, CHAIN_ID), keys, b"", engine, MODEL)
    except Unavailable as error:
        assert type(error) is kind
    else:
        assert found.outcome in (Outcome.NO_KEY, Outcome.CANNOT_EXECUTE) and any(found.tokens_hash) is False


@given(
    st.sampled_from([Outcome.UNAVAILABLE, Outcome.NO_KEY, Outcome.CANNOT_EXECUTE]), st.integers(1, 4), st.booleans(),
    st.booleans() | st.none(), st.sampled_from(["exact-1", "pinned-1", "unknown"]),
)  # fmt: skip
def test_an_audit_without_a_judgement_is_no_mismatch(
    outcome: Outcome, code: int, thin: bool, opened: bool | None, profile: str
) -> None:
    signed = WORLD.answered(1)
    header, _ = WORLD.batch((signed,))
    place = None if thin else WORLD.environment
    checklist = preflight(PreflightSubject(signed.receipt, header, place, word("policy"), 600, "simulated", opened, False))
    code = code if outcome is Outcome.CANNOT_EXECUTE else 0
    job = JobResult(
        word("r"), U16(0), word("r"), ME.address, U8(outcome), U8(code), ZERO_DIGEST, ZERO_DIGEST, ZERO_DIGEST, Blob(b"")
    )
    found = conclude(job, signed.receipt, checklist, profile, word("salt"), NOW)
    assert found.cause is not Cause.OPERATOR and found.result.result == AuditOutcome.NONE


SAID = [(Outcome.UNAVAILABLE, 0), (Outcome.NO_KEY, 0), *((Outcome.CANNOT_EXECUTE, reason) for reason in range(1, 5))]


@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from(SAID)), max_size=10), st.booleans())
def test_seats_without_the_bytes_never_convict_of_wrong_bytes(seats: list[tuple[int, tuple[Outcome, int]]], absent: bool) -> None:
    zero = ZERO_DIGEST
    votes = [
        RevealedVote(Address(signer(f"seat {i}").address), count, outcome, code, zero, zero, zero)
        for i, (count, (outcome, code)) in enumerate(seats)
    ]
    found = tally(sum(count for count, _ in seats) + absent + 1, 2, 3, votes, word("tokens"), word("claim"))
    assert found.verdict in (Verdict.NONE, Verdict.UNAVAILABLE) and found.replacement == ZERO_DIGEST

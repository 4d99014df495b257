"""A tick: what one part decided is done before the next one begins, and what one part lacks keeps no other from its work."""

from collections.abc import Sequence

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import Action, DemandList, Expire, RunVoteJob
from bytewise.protocol.decisions.disputes import MovePolicy
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.actors import NoAgreement, TryAgain
from bytewise.protocol.errors.branches import Bug
from bytewise.protocol.units import Digest
from tests.fixtures.builders import word
from tests.fixtures.verifier.verifier_fixture import VerifierFixture
from tests.fixtures.verifier.withholding import BOND, demander
from verifier.executor import ActionExecutor
from verifier.jobs.job import FinishedJob
from verifier.node import Node, NodePart

EAGER = MovePolicy(turns=1)


class Ender:
    """A part that ends a demand at each tick."""

    def __init__(self, subject: Digest) -> None:
        self._subject = subject

    def step(self, snapshot: Snapshot) -> Sequence[Action]:
        return (Expire(self._subject),)


class Slow:
    """A part that waits for DA; it remembers what was sent when it began to."""

    def __init__(self, setup: VerifierFixture) -> None:
        self._town = setup
        self.sent_before: list[list[Digest]] = []

    def step(self, snapshot: Snapshot) -> Sequence[Action]:
        self.sent_before.append(self._town.sender.of("end"))
        return ()


class Deaf:
    """A part that cannot read the chain, and whose results nobody takes."""

    def __init__(self) -> None:
        self.taken: list[Digest] = []

    def step(self, snapshot: Snapshot) -> Sequence[Action]:
        raise NoAgreement("logs", 2, "endpoint 0 against 1")

    def finish(self, finished: FinishedJob, snapshot: Snapshot) -> None:
        if finished.key[1] == word("bad"):
            raise TryAgain("chain", "unreachable")
        self.taken.append(finished.key[1])


class Broken:
    """A part with a mistake of ours."""

    def step(self, snapshot: Snapshot) -> Sequence[Action]:
        raise Bug("ours")


def node_of(setup: VerifierFixture, *parts: NodePart, votes: Deaf | None = None) -> Node:
    executor = ActionExecutor(setup.sender, setup.journal, None, None, None, demander(setup))
    return Node(setup.chain, setup.sender, setup.pages, setup.records, executor, EAGER, parts, votes=votes)


def test_actions_of_one_component_are_sent_before_the_next_begins(setup: VerifierFixture) -> None:
    slow = Slow(setup)
    node_of(setup, Ender(word("one")), slow, Ender(word("two"))).tick()
    assert slow.sent_before == [[word("one")]] and setup.sender.of("end") == [word("one"), word("two")]


def test_component_lacking_a_dependency_stops_no_other(setup: VerifierFixture) -> None:
    node = node_of(setup, Ender(word("one")), Deaf(), Ender(word("two")))
    node.tick()
    assert setup.sender.of("end") == [word("one"), word("two")] and node.ticks == 0, "and the tick is repeated"


def test_votes_lacking_a_dependency_stop_no_moves_or_components(setup: VerifierFixture) -> None:
    votes = Deaf()
    signed = setup.signed(1)
    setup.anchor(signed)
    dispute = setup.dispute(signed, phase=Phase.REVEAL, settleable=True)
    node = node_of(setup, votes, Ender(word("one")), votes=votes)
    node.tick()
    assert setup.sender.sent.keys() == {("settle", dispute.id, dispute.round), ("end", word("one"), 0)} and node.ticks == 0


def test_result_that_cannot_be_processed_yet_blocks_none_behind_it(setup: VerifierFixture) -> None:
    votes, begun = Deaf(), list[Action]()
    again = RunVoteJob(word("bad"), 1, word("receipt"), 1, word("seed"), 0, 0)
    votes.step = lambda snapshot: (again,)  # type: ignore[method-assign]
    node = node_of(setup, Ender(word("one")), votes=votes)
    node._executor.perform_all = lambda actions, snapshot: begun.extend(actions)  # type: ignore[method-assign]
    node._finished = [FinishedJob(("vote", word(name), 1), TryAgain("enclave", "busy")) for name in ("bad", "good")]
    node.tick()
    assert begun == [Expire(word("one"))], "nor is its job run again"
    assert votes.taken == [word("good")] and [each.key[1] for each in node._finished] == [word("bad")]


def test_own_bug_ends_the_tick(setup: VerifierFixture) -> None:
    with pytest.raises(Bug):
        node_of(setup, Broken(), Ender(word("one"))).tick()
    assert setup.sender.of("end") == []


def test_failing_action_stops_neither_the_next_action_nor_component(setup: VerifierFixture) -> None:

    class Wishful:
        def step(self, snapshot: Snapshot) -> Sequence[Action]:
            return DemandList(0, BOND), Expire(word("one"))

    def refuse(batch_id: int, bond_wei: int, within_s: int = 0) -> None:
        raise TryAgain("outbox", "another process writes")

    setup.sender.demand_list = refuse  # type: ignore[method-assign]
    node_of(setup, Wishful(), Ender(word("two"))).tick()
    assert setup.sender.of("end") == [word("one"), word("two")]

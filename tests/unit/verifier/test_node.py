"""A tick: what one part decided is done before the next one begins, and what one part lacks keeps no other from its work."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import Action, DemandList, Expire, RunVoteJob
from bytewise.protocol.decisions.disputes import MovePolicy
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.actors import NoAgreement, TryAgain
from bytewise.protocol.errors.branches import Bug
from bytewise.protocol.units import Digest
from tests.fixtures.builders import word
from tests.fixtures.verifier.verifier_fixture import Town
from tests.fixtures.verifier.withholding import BOND, demander
from verifier.executor import Performer
from verifier.jobs.worker import Finished
from verifier.node import Node, Part

EAGER = MovePolicy(turns=1)


class Ender:
    """A part that ends a demand at each tick."""

    def __init__(self, subject: Digest) -> None:
        self._subject = subject

    def step(self, snapshot: Snapshot) -> Sequence[Action]:
        return (Expire(self._subject),)


class Slow:
    """A part that waits for DA; it remembers what was sent when it began to."""

    def __init__(self, town: Town) -> None:
        self._town = town
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

    def finish(self, finished: Finished, snapshot: Snapshot) -> None:
        if finished.key[1] == word("bad"):
            raise TryAgain("chain", "unreachable")
        self.taken.append(finished.key[1])


class Broken:
    """A part with a mistake of ours."""

    def step(self, snapshot: Snapshot) -> Sequence[Action]:
        raise Bug("ours")


def node_of(town: Town, *parts: Part, votes: Deaf | None = None) -> Node:
    performer = Performer(town.sender, town.journal, None, None, None, demander(town))
    return Node(town.chain, town.sender, town.pages, town.records, performer, EAGER, parts, votes=votes)


def test_actions_of_one_component_are_sent_before_the_next_begins(tmp_path: Path) -> None:
    town = Town(tmp_path)
    slow = Slow(town)
    node_of(town, Ender(word("one")), slow, Ender(word("two"))).tick()
    assert slow.sent_before == [[word("one")]] and town.sender.of("end") == [word("one"), word("two")]


def test_component_lacking_a_dependency_stops_no_other(tmp_path: Path) -> None:
    town = Town(tmp_path)
    node = node_of(town, Ender(word("one")), Deaf(), Ender(word("two")))
    node.tick()
    assert town.sender.of("end") == [word("one"), word("two")] and node.ticks == 0, "and the tick is repeated"


def test_votes_lacking_a_dependency_stop_no_moves_or_components(tmp_path: Path) -> None:
    town, votes = Town(tmp_path), Deaf()
    signed = town.signed(1)
    town.anchor(signed)
    dispute = town.dispute(signed, phase=Phase.REVEAL, settleable=True)
    node = node_of(town, votes, Ender(word("one")), votes=votes)
    node.tick()
    assert town.sender.sent.keys() == {("settle", dispute.id, dispute.round), ("end", word("one"), 0)} and node.ticks == 0


def test_result_that_cannot_be_processed_yet_blocks_none_behind_it(tmp_path: Path) -> None:
    town, votes, begun = Town(tmp_path), Deaf(), list[Action]()
    again = RunVoteJob(word("bad"), 1, word("receipt"), 1, word("seed"), 0, 0)
    votes.step = lambda snapshot: (again,)  # type: ignore[method-assign]
    node = node_of(town, Ender(word("one")), votes=votes)
    node._performer.perform_all = lambda actions, snapshot: begun.extend(actions)  # type: ignore[method-assign]
    node._finished = [Finished(("vote", word(name), 1), TryAgain("enclave", "busy")) for name in ("bad", "good")]
    node.tick()
    assert begun == [Expire(word("one"))], "nor is its job run again"
    assert votes.taken == [word("good")] and [each.key[1] for each in node._finished] == [word("bad")]


def test_own_bug_ends_the_tick(tmp_path: Path) -> None:
    town = Town(tmp_path)
    with pytest.raises(Bug):
        node_of(town, Broken(), Ender(word("one"))).tick()
    assert town.sender.of("end") == []


def test_failing_action_stops_neither_the_next_action_nor_component(tmp_path: Path) -> None:
    town = Town(tmp_path)

    class Wishful:
        def step(self, snapshot: Snapshot) -> Sequence[Action]:
            return DemandList(0, BOND), Expire(word("one"))

    def refuse(batch_id: int, bond_wei: int, within_s: int = 0) -> None:
        raise TryAgain("outbox", "another process writes")

    town.sender.demand_list = refuse  # type: ignore[method-assign]
    node_of(town, Wishful(), Ender(word("two"))).tick()
    assert town.sender.of("end") == [word("one"), word("two")]

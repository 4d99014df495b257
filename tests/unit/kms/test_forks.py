"""A coordinator that signs two logs of one ceremony leaves proof with who sees both; an honest one signs one, however it dies."""

import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import CeremonyRefused, LogForked
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import BadSignature
from bytewise.protocol.keys.ceremony import CeremonyPlan, sign_plan
from bytewise.protocol.keys.ceremony_log import (
    CeremonyLogCopy,
    Exchange,
    ExchangeAnswer,
    Fork,
    LogSegment,
    Message,
    SignedHead,
    find_fork,
    fork_of_copies,
    head_after,
    make_exchange,
    read_copy,
    sign_head,
    verify_fork,
)
from bytewise.protocol.units import Address, Blob, Digest
from bytewise.service.clock import monotonic_s
from kms.ceremony.coordinator import Coordinator, ShardLink
from kms.ceremony.state import CeremonyPhase
from kms.ceremony.state_machine import apply
from tests.fixtures.kms.ceremonies import COORDINATOR, party, plan_for
from tests.fixtures.kms.ceremony_runs import run
from tests.fixtures.kms.crash_points import Crash, Fuse
from tests.fixtures.kms.dkg_fixture import CeremonyShard, brought, ceremony_shards, coordinator_of, coordinator_over, plan


def words_of(agreed: CeremonyPlan, shards: list[CeremonyShard]) -> tuple[Message, ...]:
    """What all shards say first: the log may hold it in any order."""
    return tuple(message for each in shards for message in each.exchange(brought(agreed)).messages)


def kept(shard: CeremonyShard) -> Fork | None:
    """What the shard's database has of another log, in the one ceremony that it is in."""
    return next(each for each in shard.ceremonies().copies()).fork


def exchange_of(agreed: CeremonyPlan, log: tuple[Message, ...], first: int, last: int) -> Exchange:
    """A stretch of a log, as its coordinator brings it."""
    return make_exchange(
        COORDINATOR, sign_plan(COORDINATOR, agreed), first, log[first:last], head_after(agreed.digest, log[:first])
    )


@pytest.mark.parametrize(
    ("first", "last"), [(0, 4), (0, 3), (0, 2), (1, 2), (1, 4), (2, 2), (2, 3), (3, 3), (3, 4)], ids=lambda number: str(number)
)
def test_shard_that_sees_a_second_log_keeps_evidence_of_it(tmp_path: Path, first: int, last: int) -> None:
    """The logs part at message 1; the shard has three of the first. Whichever stretch of the other it is shown, it has proof."""
    shards, _ = ceremony_shards(tmp_path, 2)
    agreed = plan(shards, 2, 2)
    words = words_of(agreed, shards)
    other = (words[0], words[2], words[1], words[3])
    shards[0].exchange(exchange_of(agreed, words, 0, 2))
    shards[0].exchange(exchange_of(agreed, words, 2, 3))
    with pytest.raises(LogForked):
        shards[0].exchange(exchange_of(agreed, other, first, last))
    shards[0].restart()
    fork = kept(shards[0])
    assert fork is not None and verify_fork(decode(Fork, encode(fork))) == agreed
    assert 2 <= fork.shorter.length <= fork.longer.length <= 4
    # The first is enough; and what was stored before goes on.
    with pytest.raises(LogForked):
        shards[0].exchange(exchange_of(agreed, tuple(reversed(words)), 0, 4))
    assert kept(shards[0]) == fork
    assert shards[0].exchange(exchange_of(agreed, words, 3, 4)).length == 4


def test_evidence_forged_from_an_honest_coordinators_messages_is_not_kept(tmp_path: Path) -> None:
    shards, _ = ceremony_shards(tmp_path, 2)
    agreed = plan(shards, 2, 2)
    words = words_of(agreed, shards)
    honest = [exchange_of(agreed, words, first, last) for first in range(5) for last in range(first, 5)]
    shards[0].exchange(exchange_of(agreed, words, 0, 2))
    heads = {each for asked in honest for each in (asked.before, asked.after)}
    stranger = partial(sign_head, shards[1].signer, honest[0].plan)
    forged = {replace(stranger(each.length, Digest(bytes(32))), length=each.length) for each in heads}
    for before in heads | forged:
        for after in heads | forged:
            for messages in (words[:2], words[1:], tuple(reversed(words)), ()):
                asked = Exchange(honest[0].plan, before, messages, after)
                if asked not in honest:
                    with pytest.raises((BadSignature, CeremonyRefused)):
                        shards[0].exchange(asked)
    assert kept(shards[0]) is None and shards[0].exchange(exchange_of(agreed, words, 2, 4)).length == 4


def a_message(number: int) -> Message:
    return Message(Digest(bytes(32)), COORDINATOR.address, "join", Blob(bytes([number])), Blob(b""))


LOGS = st.lists(st.integers(0, 1), max_size=6).map(lambda numbers: tuple(a_message(number) for number in numbers))
PLAN = sign_plan(COORDINATOR, plan_for([party(1), party(2)], 2, 2))


def stretch(log: tuple[Message, ...], first: int) -> LogSegment:
    """The end of a log, signed."""
    head = head_after(PLAN.plan.digest, log[:first])
    after = sign_head(COORDINATOR, PLAN, len(log), head_after(head, log[first:]))
    return LogSegment(sign_head(COORDINATOR, PLAN, first, head), log[first:], after)


@given(LOGS, LOGS, st.integers(0, 6))
@settings(deadline=None, max_examples=60)
def test_diverging_logs_have_a_proof_and_others_none(one: tuple[Message, ...], other: tuple[Message, ...], first: int) -> None:
    first = min(first, len(other), len(one))
    fork = find_fork(PLAN, one, stretch(one, 0).after, stretch(other, first))
    shared = min(len(one), len(other))
    assert (fork is not None) == (one[:shared] != other[:shared])
    if fork is not None:
        assert verify_fork(fork) == PLAN.plan
    copies = [CeremonyLogCopy(PLAN, log, stretch(log, 0).after, None) for log in (one, other)]
    found = fork_of_copies(*copies)
    assert (found is None) == (fork is None) and (found is None or verify_fork(found) == PLAN.plan)


@given(LOGS, st.integers(0, 6), st.integers(0, 6), st.booleans())
@settings(deadline=None, max_examples=60)
def test_two_heads_of_one_log_are_no_fork(log: tuple[Message, ...], one: int, other: int, lie: bool) -> None:
    shorter, longer = sorted((min(one, len(log)), min(other, len(log))))
    heads = [head_after(PLAN.plan.digest, log[:number]) for number in (shorter, longer)]
    signed = [sign_head(COORDINATOR, PLAN, number, head) for number, head in zip((shorter, longer), heads, strict=True)]
    at = Digest(bytes(32)) if lie else heads[0]
    with pytest.raises(CeremonyRefused):
        verify_fork(Fork(PLAN, signed[0], signed[1], at, log[shorter:longer]))


def test_altered_fork_evidence_convicts_nobody() -> None:
    one, other = (tuple(a_message(number) for number in numbers) for numbers in ((0, 1), (0, 0, 1)))
    fork = find_fork(PLAN, one, stretch(one, 0).after, stretch(other, 0))
    assert fork is not None and fork.between == other[2:]
    another = sign_plan(COORDINATOR, plan_for([party(1), party(2)], 2, 2))
    stranger = party(3).signer
    own = sign_plan(stranger, replace(PLAN.plan, scribe=stranger.address))
    heads = (stretch(other, 2).before, replace(fork.shorter, length=1), sign_head(stranger, PLAN, 2, fork.shorter.head))
    ends = (fork.shorter, replace(fork.longer, head=fork.at), SignedHead(3, fork.longer.head, Blob(bytes(65))))
    for altered in (
        *(replace(fork, plan=each) for each in (another, sign_plan(stranger, PLAN.plan), own)),
        *(replace(fork, shorter=each) for each in heads),
        *(replace(fork, longer=each) for each in ends),
        *(replace(fork, at=each) for each in (fork.shorter.head, Digest(bytes(32)))),
        *(replace(fork, between=each) for each in ((), other[1:], (a_message(7),))),
    ):
        with pytest.raises((BadSignature, CeremonyRefused)):
            verify_fork(altered)
    copy = CeremonyLogCopy(PLAN, one, stretch(one, 0).after, fork)
    assert read_copy(encode(copy)) == copy
    for value in (replace(copy, messages=other), replace(copy, end=stretch(other, 0).after), replace(copy, plan=another)):
        with pytest.raises(Fault):
            read_copy(encode(value))


class Heads:
    """What a coordinator signed in all its lives, by number of messages; a way to a shard that writes it down."""

    def __init__(self) -> None:
        self.signed: dict[int, set[Digest]] = {}

    def to(self, shards: list[CeremonyShard]) -> Mapping[Address, ShardLink]:
        return {each.signer.address: Heard(self, each) for each in shards}


class Heard:
    """One shard, whose exchanges are written down before it has them."""

    def __init__(self, heads: Heads, shard: CeremonyShard) -> None:
        self._heads, self._shard = heads, shard

    def exchange(self, asked: Exchange, timeout_s: float) -> ExchangeAnswer:
        for each in (asked.before, asked.after):
            self._heads.signed.setdefault(each.length, set()).add(each.head)
        return self._shard.exchange(asked, timeout_s)


class Hasty(Coordinator):
    """Stores what a turn brought when the turn is over: a few heads late."""

    def _append(self, message: Message) -> None:
        self.state = apply(self.state, message)
        self._log.append(message)
        self.heads.append(self.state.head)

    def exchange_round(self, until: float = math.inf, clock: Callable[[], float] = monotonic_s) -> bool:
        spoken = super().exchange_round(until, clock)
        self._records.append(self.state.id, 0, self._log)
        return spoken


def one_log(folder: Path, shards: list[CeremonyShard], kind: type[Coordinator]) -> bool:
    """Whether all that a coordinator ever signed is of one log; it dies at every moment, and in every other life one shard is
    away."""
    agreed, fuse, heads, deaths = plan(shards, 2, 2), Fuse(lit=True), Heads(), 0
    while True:
        shards[0].away = deaths % 2 == 1
        try:
            honest = coordinator_over(folder, agreed, heads.to(shards), fuse)
            coordinator = kind(agreed, COORDINATOR, honest._records, honest._links)
            run(coordinator)
            break
        except Crash:
            deaths += 1
    assert deaths == len(fuse.burnt) > 8
    return heads.signed == {number: set(coordinator.heads[number : number + 1]) for number in heads.signed}


def test_coordinator_crashing_at_every_point_signs_one_log(tmp_path: Path) -> None:
    shards, _ = ceremony_shards(tmp_path, 3)
    assert one_log(tmp_path, shards, Coordinator)
    assert [kept(each) for each in shards] == [None] * 3


def test_control_coordinator_that_signs_before_storing_is_convicted(tmp_path: Path) -> None:
    shards, _ = ceremony_shards(tmp_path, 3)
    assert not one_log(tmp_path, shards, Hasty)
    assert any(kept(each) for each in shards)


def test_two_processes_of_one_coordinator_on_one_database_sign_one_log(tmp_path: Path) -> None:
    """Whoever comes second cannot store what it would sign."""
    shards, _ = ceremony_shards(tmp_path, 3)
    agreed, heads = plan(shards, 2, 3), Heads()
    links = heads.to(shards)
    one, other = (coordinator_over(tmp_path, agreed, dict(order)) for order in ([*links.items()], [*links.items()][::-1]))
    for _ in range(3):
        one.exchange_round(), other.exchange_round()
    state = run(coordinator_over(tmp_path, agreed, links))
    of_one_log = coordinator_of(tmp_path, agreed, shards).heads
    assert state.phase is CeremonyPhase.DONE and heads.signed == {number: {of_one_log[number]} for number in heads.signed}
    assert one.heads != other.heads and [kept(each) for each in shards] == [None] * 3


def test_control_coordinator_with_a_rolled_back_log_is_convicted(tmp_path: Path) -> None:
    """Nobody can tell a lost database from a lie: who lost it takes another plan (docs/guide/key-ceremony.md)."""
    shards, _ = ceremony_shards(tmp_path, 2)
    agreed = plan(shards, 2, 2)
    coordinator = coordinator_of(tmp_path, agreed, shards)
    assert coordinator.exchange_round() and not coordinator.exchange_round()
    for file in tmp_path.glob("coordinator.sqlite*"):
        file.unlink()
    shutil.copy(tmp_path / "template.sqlite", tmp_path / "coordinator.sqlite")
    assert run(coordinator_of(tmp_path, agreed, shards)).phase is CeremonyPhase.FAILED
    for fork in map(kept, shards):
        assert fork is not None and verify_fork(fork).coordinator == COORDINATOR.address


def test_two_shards_with_one_log_each_have_the_proof_together(tmp_path: Path) -> None:
    shards, _ = ceremony_shards(tmp_path, 2)
    agreed = plan(shards, 2, 2)
    words = words_of(agreed, shards)
    shards[0].exchange(brought(agreed, words))
    shards[1].exchange(brought(agreed, tuple(reversed(words))))
    one, other = (each.ceremonies().copies()[0] for each in shards)
    assert one.fork is None and other.fork is None
    fork = fork_of_copies(one, other)
    assert fork is not None and verify_fork(fork) == agreed and fork.shorter.length == fork.longer.length == 4
    honest = plan(shards, 2, 2)
    assert run(coordinator_of(tmp_path, honest, shards)).phase is CeremonyPhase.DONE
    copies = [each.ceremonies().copies() for each in shards]
    ends = [next(copy for copy in held if copy.plan.plan == honest) for held in copies]
    assert fork_of_copies(*ends) is None and ends[0].messages == ends[1].messages
    assert fork_of_copies(one, ends[0]) is None

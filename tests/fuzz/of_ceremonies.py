"""Key ceremonies: what a shard reads of a coordinator, a coordinator of a shard, and what a member can say that every rule then
sees."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import CeremonyRefused, LogForked
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.errors.records import BadSignature
from bytewise.protocol.keys.ceremony import CeremonyPlan, sign_plan
from bytewise.protocol.keys.ceremony_log import (
    MAX_EXCHANGE_MARKS,
    CeremonyLogCopy,
    Exchange,
    ExchangeAnswer,
    Message,
    fork_of_copies,
    head_after,
    make_exchange,
    read_copy,
    read_message,
    sign_head,
    verify_fork,
)
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.suites import hybrid_epoch
from bytewise.protocol.units import Blob
from kms.ceremony.state import CeremonyState
from kms.ceremony.state_machine import apply, initial_state
from tests.fixtures.kms.ceremonies import COORDINATOR, CeremonyParties, Party, generated, party, plan_for, seat
from tests.fixtures.kms.dkg_fixture import CeremonyShard, brought, ceremony_shards, coordinator_of, plan
from tests.fuzz.edits import mutant
from tests.fuzz.target import Target, corpus, same, target


class Moment(NamedTuple):
    """A message as it was said, and where."""

    state: CeremonyState
    signer: LocalSigner
    message: Message


class Recorder(CeremonyParties):
    """A town that remembers each message with the state before it."""

    def __init__(self, plan_: CeremonyPlan, parties: Sequence[Party]) -> None:
        super().__init__(plan_, parties)
        self.moments: list[Moment] = []

    def post(self, message: Message) -> None:
        """Remembers, then posts."""
        signers = {each.signer.address: each.signer for each in self.parties} | {COORDINATOR.address: COORDINATOR}
        self.moments.append(Moment(self.state, signers[message.sender], message))
        super().post(message)


def _recorders() -> Iterator[Recorder]:
    parties = [party(number) for number in (1, 2, 3)]
    yield Recorder(plan_for(parties, 2, 3), parties)
    yield Recorder(plan_for(parties, 2, 3, epoch=hybrid_epoch(3)), parties)
    held, source = generated(2, 3)
    dealers = dict(enumerate(held, start=1))
    yield Recorder(plan_for(held, 2, 3, dealers=dealers, source=source), held)
    helpers, heir = held[:2], replace(held[2], share=None)
    yield Recorder(
        plan_for(helpers, 2, 2, dealers=dict(enumerate(helpers, start=1)), source=source, heir=seat(3, heir)), [*helpers, heir]
    )


def moments() -> list[Moment]:
    """Every message of a new key of each suite, of a refresh and of a repair."""
    towns = list(_recorders())
    for ceremony in towns:
        ceremony.run()
    return [moment for ceremony in towns for moment in ceremony.moments]


def messages(_folder: Path) -> Target:
    """Bodies that a member signs: into the log, which then says what became of it, or refused."""
    known = moments()

    def one(data: bytes) -> bool:
        state, signer, message = known[data[0] % len(known) if data else 0]
        altered = replace(message, body=Blob(mutant(data[1:], [message.body])))
        try:
            after = apply(state, replace(altered, signature=signer.sign(altered.digest)))
        except (Fault, Unavailable):
            return False
        if after.length != state.length + 1 or after.head == state.head:
            raise AssertionError("a message that the log does not show")
        return True

    return Target(one, tuple(bytes([i]) + each for i, found in enumerate(known) for each in corpus([found.message.body])))


def plans(_folder: Path) -> Target:
    """Plans that a coordinator signs, whatever they say."""
    seeds = [encode(ceremony.plan) for ceremony in _recorders()]

    def read(data: bytes) -> None:
        found = same(decode(CeremonyPlan, data), data)
        initial_state(found)
        sign_plan(COORDINATOR, found)

    return target(read, seeds)


class Tapped(CeremonyShard):
    """An office that keeps what it was asked and what it answered."""

    asked: list[bytes]
    answered: list[bytes]

    def exchange(self, asked: Exchange, timeout_s: float = 20.0) -> ExchangeAnswer:
        """As the coordinator reaches it."""
        answer = super().exchange(asked, timeout_s)
        self.asked.append(encode(asked))
        self.answered.append(encode(answer))
        return answer


def _tapped(folder: Path) -> tuple[Tapped, list[CeremonyShard]]:
    parties, chain = ceremony_shards(folder, 3)
    first = Tapped(folder / "shard-1", 1, chain, folder / "template.sqlite", 7001)
    first.asked, first.answered = [], []
    return first, [first, *parties[1:]]


def exchanges(folder: Path) -> Target:
    """The body of `POST /v1/ceremony` at a shard with its store on a disk."""
    first, parties = _tapped(folder)
    agreed = plan(parties, 2, 3)
    coordinator = coordinator_of(folder, agreed, parties)
    for _ in range(3):
        coordinator.exchange_round()
    desk = first.restart()

    def read(data: bytes) -> None:
        try:
            desk.exchange(data)
        except (BadSignature, CeremonyRefused):
            # The coordinator is no better than others: whatever it signs is looked at too.
            asked = decode(Exchange, data, MAX_EXCHANGE_MARKS)
            first = max(asked.before.length, 0)
            before = coordinator.heads[first] if first < len(coordinator.heads) else asked.before.head
            desk.exchange(
                encode(make_exchange(COORDINATOR, sign_plan(COORDINATOR, asked.plan.plan), first, asked.messages, before))
            )

    return target(read, first.asked, (Fault, Unavailable))


def log_copies(folder: Path) -> Target:
    """Files of `bytewise key forks`: a log that its coordinator signed, alone and beside a second one of it."""
    parties, _ = ceremony_shards(folder, 2)
    agreed = plan(parties, 2, 2)
    words = tuple(message for each in parties for message in each.exchange(brought(agreed)).messages)
    for log, who in ((words[:3], 0), (words[::-1], 1), (words[::-1], 0)):
        with contextlib.suppress(LogForked):
            parties[who].exchange(brought(agreed, log))
    seeds = [copy for each in parties for copy in each.ceremonies().copies()]

    def read(data: bytes) -> None:
        try:
            found = same(read_copy(data), data)
        except (BadSignature, CeremonyRefused):
            # What a coordinator signs is looked at too, whatever it is.
            copy = decode(CeremonyLogCopy, data)
            signed = sign_plan(COORDINATOR, copy.plan.plan)
            end = sign_head(COORDINATOR, signed, len(copy.messages), head_after(signed.plan.digest, copy.messages))
            found = read_copy(encode(CeremonyLogCopy(signed, copy.messages, end, copy.fork)))
        for each in seeds:
            if (fork := fork_of_copies(found, each)) is not None:
                verify_fork(fork)

    return target(read, [encode(each) for each in seeds])


def exchange_answers(folder: Path) -> Target:
    """What a coordinator reads of a shard."""
    first, parties = _tapped(folder)
    coordinator_of(folder, plan(parties, 2, 3), parties).exchange_round()

    def read(data: bytes) -> None:
        for message in same(decode(ExchangeAnswer, data, MAX_EXCHANGE_MARKS), data).messages:
            read_message(message)

    return target(read, first.answered)

"""Whether what shards released was somebody's right: what stands in their logs against disputes, seats and batches of the chain.

Two things are asked: of today's state whether there is such a right at all, and of the block whose time the record has whether it
was one then, by the rules of the shard itself. Only archive nodes have an old block's state; without one the second is left open.
"""

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from bytewise.ports import MissingRead
from bytewise.protocol import merkle
from bytewise.protocol.court import sortition
from bytewise.protocol.decisions.snapshot import Dispute, Holdings, Seat, Snapshot
from bytewise.protocol.errors.actors import NoAgreement, RpcRefused, TryAgain
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.evidence.release_evidence import AuditedReceiptPath
from bytewise.protocol.keys.epochs import RELEASES, AuditDraw, EpochState, SignedRelease
from bytewise.protocol.keys.release_log import LAG_S
from bytewise.protocol.records.statements import Release, Ticket, TicketKind
from bytewise.protocol.units import ZERO_ADDRESS, Address, Digest, hex0x
from kms.shard import release_policy
from kms.shard.chain_view import DrawingChain, drawing_at

READ_AHEAD = 200
"""Entries whose reads are made together."""


class Court(DrawingChain, Protocol):
    """What is read of the chain."""

    def dispute(self, dispute: Digest, block: int, receipt_id: Digest) -> Dispute | None:
        """One dispute, its receipt zero if it is about another than this; None if there is none."""
        ...

    def members(self, dispute: Digest, round_number: int, block: int) -> tuple[Seat, ...]:
        """Members of a round of a dispute."""
        ...

    def numbers_at(self, timestamp: int, block: int) -> Sequence[int]:
        """The blocks of that time, up to a block."""
        ...

    def snapshot(self, who: Address, block: int) -> Snapshot:
        """The protocol clock."""
        ...

    def holdings(self, who: Address, block: int) -> Holdings:
        """An account in its roles."""
        ...

    def epoch_state(self, epoch: int, block: int) -> EpochState:
        """State of a key epoch."""
        ...


class Seen(NamedTuple):
    """The block at which an auditor reads the chain."""

    block: int
    """Its number."""
    timestamp: int
    """Its Unix second."""
    now: int
    """Unix second of the auditor's own clock: the node may be far behind."""


class Unjudged(enum.StrEnum):
    """Why nobody judged whether a release was a right."""

    NO_TICKET = "the shard kept no ticket"
    NO_BATCH = "the shard did not keep which batch was audited"
    TOO_NEW = "the node does not have their block yet"
    NO_ANSWER = "the node did not answer"
    NOT_ASKED = "the chain could not be asked"


LATER = frozenset({Unjudged.TOO_NEW, Unjudged.NO_ANSWER})
"""Reasons that may be gone when the same is asked again."""


@dataclass(slots=True)
class Judged:
    """What the chain says of the releases of one log."""

    wrong: list[str] = field(default_factory=list)
    """A line for each that was nobody's right, or whose date cannot be."""
    undated: list[int] = field(default_factory=list)
    """Indices of records of which the node could not say whether they were a right when they were made."""
    unjudged: Counter[Unjudged] = field(default_factory=Counter)
    """How many were not judged, by the reason."""
    failure: str = ""
    """What came instead of an answer, the last time; empty if all was answered."""


class _Then(NamedTuple):
    """The chain at the block in which a shard decided."""

    clock: int
    state: EpochState
    case: Dispute | None
    drawing: AuditDraw | None


def read_ahead(entries: Sequence[SignedRelease], court: Court, seen: Seen, tell: Callable[[int], object]) -> None:
    """Has everything read that `judge` asks of these entries, many reads in a round trip (`chain.client.read_ahead`).

    `tell` is told how many entries have what they need. Whatever fails fails again in `judge`, which counts it, and asks nothing
    more of a node that went away.
    """
    for start in range(0, len(entries), READ_AHEAD):
        waiting, is_away = entries[start : start + READ_AHEAD], False
        while waiting:
            asked = [(signed, _missing(signed, court, seen)) for signed in waiting]
            missing = [(signed, found) for signed, found in asked if isinstance(found, MissingRead)]
            is_away |= any(isinstance(found, Unavailable) for _, found in asked)
            _fetch([found for _, found in missing])
            waiting = [signed for signed, _ in missing]
            tell(min(start + READ_AHEAD, len(entries)) - len(waiting))
        if is_away:
            return


def _fetch(missing: Sequence[MissingRead]) -> None:
    for source in {id(each.source): each.source for each in missing}.values():
        source.fetch([each.read for each in missing if each.source is source])


def _missing(signed: SignedRelease, court: Court, seen: Seen) -> MissingRead | Unavailable | None:
    """The next read of an entry; None where it has all, or why the node gave none."""
    try:
        if signed.record.decision in RELEASES:
            _verdict(signed, court, seen, False, [])
    except MissingRead as missing:
        return missing
    except Unavailable as error:
        return None if isinstance(error, RpcRefused | NoAgreement) else error
    except Fault:
        return None
    return None


def judge(entries: Iterable[SignedRelease], court: Court, seen: Seen) -> Judged:
    """Judges each release by its ticket, read at the newest block and at the block that the record names by its time.

    What was decided after the newest block is counted, for the node may be behind the shard's, unless no node can have shown that
    block yet. What was found before the node went away stays found.
    """
    found, is_away = Judged(), False
    for signed in entries:
        if signed.record.decision not in RELEASES:
            continue
        try:
            verdict = _verdict(signed, court, seen, is_away, found.undated)
        except Unavailable as error:
            is_away = not isinstance(error, RpcRefused | NoAgreement)
            verdict, found.failure = Unjudged.NO_ANSWER, str(error)
        except Fault as error:
            verdict, found.failure = Unjudged.NOT_ASKED, str(error)
        if isinstance(verdict, Unjudged):
            found.unjudged[verdict] += 1
        elif verdict:
            found.wrong.append(f"record {signed.record.index} {verdict}")
    return found


def judge_none(entries: Iterable[SignedRelease], why: Unjudged) -> Judged:
    """What is found where there is no chain to ask: how many releases nobody judged."""
    return Judged(unjudged=Counter(why for each in entries if each.record.decision in RELEASES))


def _verdict(signed: SignedRelease, court: Court, seen: Seen, is_away: bool, undated: list[int]) -> str | Unjudged:
    # Empty: it was a right.
    date = signed.record.decided_at
    if date > max(seen.timestamp, seen.now) + LAG_S:
        return f"is dated {date}, long after block {seen.block} of {seen.timestamp}"
    if date > seen.timestamp:
        return Unjudged.TOO_NEW
    if signed.right is None:
        return Unjudged.NO_TICKET
    if is_away:
        # Each further question would wait as long as the one that had no answer.
        return Unjudged.NO_ANSWER
    place = None if signed.grounds is None else signed.grounds.grounds.audit
    return _judge_one(signed.record, signed.right.ticket, place, court, seen.block, undated)


def _judge_one(
    record: Release, ticket: Ticket, place: AuditedReceiptPath | None, court: Court, block: int, undated: list[int]
) -> str | Unjudged:
    problem = _problem(ticket, place, court, block)
    try:
        problem = problem or _problem_then(ticket, place, court, record.decided_at, block)
    except (RpcRefused, NoAgreement):
        undated.append(int(record.index))
    if problem:
        return f"released without a right: {problem}"
    is_placeless = place is None and ticket.kind == TicketKind.AUDIT.value
    return Unjudged.NO_BATCH if is_placeless else ""


def _problem(ticket: Ticket, place: AuditedReceiptPath | None, court: Court, block: int) -> str:
    if ticket.kind == TicketKind.DISPUTE.value:
        return _dispute_problem(ticket, court, block)
    return "" if place is None else _audit_problem(ticket, place, court, block)


def _problem_then(ticket: Ticket, place: AuditedReceiptPath | None, court: Court, decided_at: int, block: int) -> str:
    problem = f"it says that it was decided at {decided_at}, and no block has that time"
    for number in reversed(court.numbers_at(decided_at, block)):
        problem = _problem_at(ticket, place, court, number)
        if not problem:
            break
    return problem


def _problem_at(ticket: Ticket, place: AuditedReceiptPath | None, court: Court, number: int) -> str:
    then = _read(ticket, place, court, number)
    try:
        release_policy.verify_unexpired(ticket, then.clock)
        if ticket.kind == TicketKind.DISPUTE.value:
            release_policy.dispute_seats(ticket, then.case, number)
        elif place is not None:
            _verify_audit(ticket, place, then)
        release_policy.verify_epoch(ticket, then.state)
    except (Fault, TryAgain) as error:
        return f"at block {number}, when it was decided: {error}"
    return ""


def _verify_audit(ticket: Ticket, place: AuditedReceiptPath, then: _Then) -> Ticket:
    release_policy.verify_audit(ticket)
    if then.drawing is None:
        raise TryAgain("chain view", f"no batch {place.batch_id} or no beacon")
    release_policy.audit_seats(ticket, then.drawing, then.clock)
    return ticket


def _read(ticket: Ticket, place: AuditedReceiptPath | None, court: Court, block: int) -> _Then:
    is_dispute = ticket.kind == TicketKind.DISPUTE.value
    drawing = None
    if not is_dispute and place is not None:
        drawing = drawing_at(court, ticket.voter, court.holdings(ticket.voter, block), place.batch_id, block)
    return _Then(
        clock=court.snapshot(ZERO_ADDRESS, block).clock,
        state=court.epoch_state(ticket.key_epoch, block),
        case=court.dispute(ticket.subject, block, ticket.receipt_id) if is_dispute else None,
        drawing=drawing,
    )


def _dispute_problem(ticket: Ticket, court: Court, block: int) -> str:
    case = court.dispute(ticket.subject, block, ticket.receipt_id)
    if case is None:
        return f"there is no dispute {hex0x(ticket.subject)}"
    if case.receipt_id != ticket.receipt_id:
        return f"dispute {hex0x(ticket.subject)} is about another receipt"
    if all(seat.voter != ticket.voter for seat in court.members(ticket.subject, ticket.round, block)):
        return f"{ticket.voter} had no seat in round {ticket.round} of dispute {hex0x(ticket.subject)}"
    return ""


def _audit_problem(ticket: Ticket, place: AuditedReceiptPath, court: Court, block: int) -> str:
    found = court.batch(place.batch_id, block)
    if found is None or found[0].block + sortition.BEACON_DELAY_BLOCKS > block:
        return f"there is no batch {place.batch_id}, or nothing has drawn its auditors"
    header, anchored = found
    if header.key_epoch != ticket.key_epoch:
        return f"batch {place.batch_id} is of key epoch {header.key_epoch}"
    try:
        merkle.verify_batch_proof(header.root, merkle.batch_leaf(ticket.receipt_id, place.seq), place.proof)
    except Fault:
        return f"the receipt is not in batch {place.batch_id}"
    params = court.params(anchored.params_version, block)
    stake = court.stake_at(ticket.voter, header.block, block)
    # The voter may have left its pool since: `_read` compares the pools of the block at which the shard decided.
    seats = sortition.seats_in_audit_draw(stake, params.money.audit_unit, is_member=True)
    beacon = court.block_hash(header.block + sortition.BEACON_DELAY_BLOCKS)
    if not sortition.audit_is_drawn(beacon, ticket.receipt_id, ticket.voter, params.shares.audit_rate_bps, seats):
        return f"{ticket.voter} was not drawn to audit a receipt of batch {place.batch_id}"
    return ""

"""Checks whether each release of a shard had an entitled voter.

It compares release logs with disputes, seats and batches on the chain. Each release is judged twice. The newest state of the
chain shows whether such an entitlement exists at all. The block at the record's time shows whether it existed then, by the
shard's own rules. Only archive nodes have the state of an old block. Without an archive node the second judgement is left out.
"""

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from bytewise.ports import MissingRead
from bytewise.protocol.court import sortition
from bytewise.protocol.decisions.snapshot import Dispute, Holdings, Seat, Snapshot
from bytewise.protocol.errors.actors import NoAgreement, RpcRefused, TryAgain
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.keys.epochs import RELEASES, AuditDraw, EpochState
from bytewise.protocol.keys.release_log import LAG_S, AuditedReceiptPath, SignedRelease
from bytewise.protocol.records.receipt import verify_place
from bytewise.protocol.records.statements import Release, Ticket, TicketKind
from bytewise.protocol.units import ZERO_ADDRESS, Address, Digest, hex0x
from kms.shard import release_policy
from kms.shard.audit_draw import AuditDrawChain, audit_draw_at

PREFETCH_ENTRIES = 200
"""Number of log entries whose reads of the chain go into one round trip."""


class EntitlementChain(AuditDrawChain, Protocol):
    """The reads of the chain by which releases are judged."""

    def dispute(self, dispute: Digest, block: int, receipt_id: Digest) -> Dispute | None:
        """Returns a dispute, or None if there is none with that id. Its receipt is zero if the dispute is not about this
        receipt."""
        ...

    def members(self, dispute: Digest, round_number: int, block: int) -> tuple[Seat, ...]:
        """Returns the seats of one round of a dispute."""
        ...

    def numbers_at(self, timestamp: int, block: int) -> Sequence[int]:
        """Returns the numbers of all blocks with this timestamp, among the blocks up to number `block`."""
        ...

    def snapshot(self, who: Address, block: int) -> Snapshot:
        """Returns a snapshot at a block. The judgement of a release uses only the protocol clock in it."""
        ...

    def holdings(self, who: Address, block: int) -> Holdings:
        """Returns an account's registrations and amounts in all its roles, at a block."""
        ...

    def epoch_state(self, epoch: int, block: int) -> EpochState:
        """Returns the state of a key epoch at a block."""
        ...


class AuditBlock(NamedTuple):
    """The block at which an auditor reads the chain."""

    block: int
    """Number of the block."""
    timestamp: int
    """Time of the block in Unix seconds."""
    now: int
    """Time of the auditor's own clock in Unix seconds, because the chain node may be far behind."""


class UnjudgedReason(enum.StrEnum):
    """Reason why a release was not judged."""

    NO_TICKET = "the shard stored no ticket"
    NO_BATCH = "the shard did not store which batch was audited"
    TOO_NEW = "the node does not have their block yet"
    NO_ANSWER = "the node did not answer"
    NOT_ASKED = "the chain could not be asked"


RETRYABLE = frozenset({UnjudgedReason.TOO_NEW, UnjudgedReason.NO_ANSWER})
"""Reasons that may no longer apply at the next run."""


@dataclass(slots=True)
class LogFindings:
    """Findings about the releases of one log, compared with the state of the chain."""

    wrong: list[str] = field(default_factory=list)
    """One line for each release without an entitled voter, or with an impossible date."""
    undated: list[int] = field(default_factory=list)
    """Indices of the records for which the node could not say whether the entitlement existed at their time."""
    unjudged: Counter[UnjudgedReason] = field(default_factory=Counter)
    """Number of releases that were not judged, by reason."""
    failure: str = ""
    """Last error of a read that failed, or an empty text if none failed."""


class _ChainState(NamedTuple):
    """The state of the chain at the block at which a shard decided."""

    clock: int
    state: EpochState
    case: Dispute | None
    drawing: AuditDraw | None


def prefetch(entries: Sequence[SignedRelease], chain: EntitlementChain, seen: AuditBlock, tell: Callable[[int], object]) -> None:
    """Makes all reads that `judge_log` needs for these entries, many in one round trip (`chain.client.access`).

    Calls `tell` with the number of entries whose reads are complete. A read that fails here fails again in `judge_log`, which
    counts it. Nothing more is read once the node is unreachable.
    """
    for start in range(0, len(entries), PREFETCH_ENTRIES):
        waiting, is_away = entries[start : start + PREFETCH_ENTRIES], False
        while waiting:
            asked = [(signed, _missing(signed, chain, seen)) for signed in waiting]
            missing = [(signed, found) for signed, found in asked if isinstance(found, MissingRead)]
            is_away |= any(isinstance(found, Unavailable) for _, found in asked)
            _fetch([found for _, found in missing])
            waiting = [signed for signed, _ in missing]
            tell(min(start + PREFETCH_ENTRIES, len(entries)) - len(waiting))
        if is_away:
            return


def _fetch(missing: Sequence[MissingRead]) -> None:
    for source in {id(each.source): each.source for each in missing}.values():
        source.fetch([each.read for each in missing if each.source is source])


def _missing(signed: SignedRelease, chain: EntitlementChain, seen: AuditBlock) -> MissingRead | Unavailable | None:
    """Returns the next missing read of an entry, None if no read is missing, or the error if the node could not be reached."""
    try:
        if signed.record.decision in RELEASES:
            _verdict(signed, chain, seen, False, [])
    except MissingRead as missing:
        return missing
    except Unavailable as error:
        return None if isinstance(error, RpcRefused | NoAgreement) else error
    except Fault:
        return None
    return None


def judge_log(entries: Iterable[SignedRelease], chain: EntitlementChain, seen: AuditBlock) -> LogFindings:
    """Judges each release by its ticket, at the newest block and at the block of the record's time.

    A release that is dated after the newest block counts as not judged, because this node may be behind the shard's node. If its
    date is also far after the auditor's own clock, no node can have had such a block, so the release counts as wrong. If the node
    becomes unreachable, earlier findings stay.
    """
    found, is_away = LogFindings(), False
    for signed in entries:
        if signed.record.decision not in RELEASES:
            continue
        try:
            verdict = _verdict(signed, chain, seen, is_away, found.undated)
        except Unavailable as error:
            is_away = not isinstance(error, RpcRefused | NoAgreement)
            verdict, found.failure = UnjudgedReason.NO_ANSWER, str(error)
        except Fault as error:
            verdict, found.failure = UnjudgedReason.NOT_ASKED, str(error)
        if isinstance(verdict, UnjudgedReason):
            found.unjudged[verdict] += 1
        elif verdict:
            found.wrong.append(f"record {signed.record.index} {verdict}")
    return found


def unjudged_log(entries: Iterable[SignedRelease], why: UnjudgedReason) -> LogFindings:
    """Returns findings in which every release counts as not judged, for the reason `why`."""
    return LogFindings(unjudged=Counter(why for each in entries if each.record.decision in RELEASES))


def _verdict(
    signed: SignedRelease, chain: EntitlementChain, seen: AuditBlock, is_away: bool, undated: list[int]
) -> str | UnjudgedReason:
    # Returns an empty text if a voter was entitled to the release.
    date = signed.record.decided_at
    if date > max(seen.timestamp, seen.now) + LAG_S:
        return f"is dated {date}, long after block {seen.block} of {seen.timestamp}"
    if date > seen.timestamp:
        return UnjudgedReason.TOO_NEW
    if signed.right is None:
        return UnjudgedReason.NO_TICKET
    if is_away:
        # Each further read would wait as long as the failed one.
        return UnjudgedReason.NO_ANSWER
    place = None if signed.grounds is None else signed.grounds.grounds.audit
    return _judge_one(signed.record, signed.right.ticket, place, chain, seen.block, undated)


def _judge_one(
    record: Release, ticket: Ticket, place: AuditedReceiptPath | None, chain: EntitlementChain, block: int, undated: list[int]
) -> str | UnjudgedReason:
    problem = _problem(ticket, place, chain, block)
    try:
        problem = problem or _problem_when_decided(ticket, place, chain, record.decided_at, block)
    except (RpcRefused, NoAgreement):
        undated.append(int(record.index))
    if problem:
        return f"released without entitlement: {problem}"
    is_placeless = place is None and ticket.kind == TicketKind.AUDIT.value
    return UnjudgedReason.NO_BATCH if is_placeless else ""


def _problem(ticket: Ticket, place: AuditedReceiptPath | None, chain: EntitlementChain, block: int) -> str:
    if ticket.kind == TicketKind.DISPUTE.value:
        return _dispute_problem(ticket, chain, block)
    return "" if place is None else _audit_problem(ticket, place, chain, block)


def _problem_when_decided(
    ticket: Ticket, place: AuditedReceiptPath | None, chain: EntitlementChain, decided_at: int, block: int
) -> str:
    problem = f"its date is {decided_at}, and no block has that time"
    for number in reversed(chain.numbers_at(decided_at, block)):
        problem = _problem_at(ticket, place, chain, number)
        if not problem:
            break
    return problem


def _problem_at(ticket: Ticket, place: AuditedReceiptPath | None, chain: EntitlementChain, number: int) -> str:
    then = _read(ticket, place, chain, number)
    try:
        release_policy.verify_unexpired(ticket, then.clock)
        if ticket.kind == TicketKind.DISPUTE.value:
            release_policy.dispute_seats(ticket, then.case, number)
        elif place is not None:
            _verify_audit(ticket, place, then, number)
        release_policy.verify_epoch(ticket, then.state)
    except (Fault, TryAgain) as error:
        return f"at block {number}, when it was decided: {error}"
    return ""


def _verify_audit(ticket: Ticket, place: AuditedReceiptPath, then: _ChainState, number: int) -> Ticket:
    release_policy.verify_audit(ticket)
    if then.drawing is None:
        raise TryAgain("chain view", f"no batch {place.batch_id} or no beacon")
    release_policy.audit_seats(ticket, then.drawing, then.clock, number)
    return ticket


def _read(ticket: Ticket, place: AuditedReceiptPath | None, chain: EntitlementChain, block: int) -> _ChainState:
    is_dispute = ticket.kind == TicketKind.DISPUTE.value
    drawing = None
    if not is_dispute and place is not None:
        voter = chain.holdings(ticket.voter, block)
        drawing = audit_draw_at(chain, ticket.voter, voter, ticket.receipt_id, place.batch_id, block)
    return _ChainState(
        clock=chain.snapshot(ZERO_ADDRESS, block).clock,
        state=chain.epoch_state(ticket.key_epoch, block),
        case=chain.dispute(ticket.subject, block, ticket.receipt_id) if is_dispute else None,
        drawing=drawing,
    )


def _dispute_problem(ticket: Ticket, chain: EntitlementChain, block: int) -> str:
    case = chain.dispute(ticket.subject, block, ticket.receipt_id)
    if case is None:
        return f"there is no dispute {hex0x(ticket.subject)}"
    if case.receipt_id != ticket.receipt_id:
        return f"dispute {hex0x(ticket.subject)} is about another receipt"
    if all(seat.voter != ticket.voter for seat in chain.members(ticket.subject, ticket.round, block)):
        return f"{ticket.voter} had no seat in round {ticket.round} of dispute {hex0x(ticket.subject)}"
    return ""


def _audit_problem(ticket: Ticket, place: AuditedReceiptPath, chain: EntitlementChain, block: int) -> str:
    found = chain.batch(place.batch_id, block)
    if found is None or found[0].block + sortition.BEACON_DELAY_BLOCKS > block:
        return f"there is no batch {place.batch_id}, or nothing has drawn its auditors"
    header, anchored = found
    if header.key_epoch != ticket.key_epoch:
        return f"batch {place.batch_id} is of key epoch {header.key_epoch}"
    try:
        verify_place(header, ticket.receipt_id, place.seq, place.proof)
    except Fault:
        return f"the receipt is not in batch {place.batch_id}"
    params = chain.params(anchored.params_version, block)
    stake = chain.stake_at(ticket.voter, header.block, block)
    # The voter may have left its pool since the release: `_read` compares the pools at the block at which the shard decided.
    seats = sortition.seats_in_audit_draw(stake, params.money.audit_unit, is_member=True)
    beacon = chain.block_hash(header.block + sortition.BEACON_DELAY_BLOCKS)
    if not sortition.audit_is_drawn(beacon, ticket.receipt_id, ticket.voter, params.shares.audit_rate_bps, seats):
        return f"{ticket.voter} was not drawn to audit a receipt of batch {place.batch_id}"
    return ""

"""Decides whether a request may have a partial.

The functions are pure: their callers gather the facts. The cheapest and most public facts are checked first (design section 8).
The peer is attested before (`bytewise.tee.channel`). `verify_request` needs only the request. `verify_entitlement` needs the
chain at one block. `verify_limits` needs the earlier releases of this shard. A broken rule raises its error. A request that may
become valid at a later block raises `TryAgain`, which is no refusal.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bytewise.crypto.envelope import verify_receipt_envelope
from bytewise.protocol.court import sortition
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Dispute
from bytewise.protocol.errors.actors import BudgetSpent, EpochClosed, EvidenceRefused, TicketRefused, TryAgain
from bytewise.protocol.errors.branches import Fault, TicketFlaw
from bytewise.protocol.errors.records import ForeignChain
from bytewise.protocol.evidence.appraisal_policy import EvidenceType, entry_digest
from bytewise.protocol.evidence.policy_updates import PolicyState
from bytewise.protocol.jobs import Contracts, anchor_domain, key_domain
from bytewise.protocol.keys.epochs import AuditDraw, ChainFacts, EpochState, ReleaseRequest
from bytewise.protocol.keys.release_log import LAG_S
from bytewise.protocol.records.receipt import (
    BatchHeader,
    Receipt,
    SignedReceipt,
    receipt_id,
    verify_entry,
    verify_place,
    verify_receipt,
)
from bytewise.protocol.records.seal import Envelope
from bytewise.protocol.records.statements import Ticket, TicketKind, transport_key_hash
from bytewise.protocol.signing import typed_digest, verify_signature
from bytewise.protocol.units import Digest
from bytewise.tee.appraisal import AppraisalResult
from bytewise.tee.binding import AttestedPeer

INSTANCES_PER_SEAT = 2
"""Most distinct enclave instances of one voter for each seat and round. The number allows one restart. Instances are counted for
each voter, so that no voter can use up the limit of another. A committee of s seats has at most 2s instances in one round."""

RECORDS_PER_INSTANCE = 1000
"""Most records of releases to one enclave instance for one voter's round or audit. Each try has a ticket of its own. A seat that
repeats its job because other shards are unreachable stays far below this limit."""

AHEAD_S = LAG_S // 2
"""Most seconds by which a block may be dated after the shard's own clock. The number is below `LAG_S`. After a record that is
dated so far ahead, blocks with true dates are therefore still accepted. An honest final block is a quarter of an hour old."""

AUDIT_SEATS = 1
"""Number of seats that a drawn audit counts as."""


@dataclass(frozen=True, slots=True)
class AdmittedRequest:
    """A request that passed every check for which the chain is not needed."""

    envelope: Envelope
    """The envelope, whose proof is valid for the recomputed seal context."""
    peer: AttestedPeer
    """The enclave that asks."""
    ticket_hash: Digest
    """EIP-712 digest of the ticket."""


def verify_request(request: ReleaseRequest, contracts: Contracts, peer: AttestedPeer) -> AdmittedRequest:
    """Verifies the chain id, the proof of the envelope, the ticket's signature, and then that the ticket names this receipt, its
    key epoch and the peer's transport key. Returns the verified request. Raises the error of the first check that fails."""
    ticket, receipt = request.ticket, request.receipt
    if receipt.chain_id != contracts.chain_id:
        raise ForeignChain(receipt.chain_id, contracts.chain_id)
    envelope = verify_receipt_envelope(anchor_domain(contracts), receipt, request.envelope)
    ticket_hash = typed_digest(key_domain(contracts), ticket)
    verify_signature("ticket", ticket_hash, request.ticket_signature, ticket.voter)
    _verify_ticket_names(request, contracts, peer)
    return AdmittedRequest(envelope, peer, ticket_hash)


def verify_entitlement(request: ReleaseRequest, admitted: AdmittedRequest, contracts: Contracts, facts: ChainFacts) -> int:
    """Returns the number of seats to which the ticket is entitled at the block of `facts`, which is 1 for an audit. Raises the
    error of the first rule that the request breaks."""
    ticket = request.ticket
    if admitted.peer.hello.policy != facts.policy:
        raise TryAgain("appraisal policy", "the chain names another policy than this shard has")
    verify_unexpired(ticket, facts.clock)
    _verify_assurance(admitted.peer.evidence, facts)
    is_dispute = ticket.kind == TicketKind.DISPUTE.value
    seats = dispute_seats(ticket, facts.dispute, facts.number) if is_dispute else _audit_entitlement(request, contracts, facts)
    verify_epoch(ticket, facts.epoch_state)
    return seats


def verify_unexpired(ticket: Ticket, clock: int) -> Ticket:
    """Returns the ticket. Raises `TicketRefused` if it has expired by the protocol clock."""
    if clock >= ticket.expires_at:
        raise TicketRefused(f"expired at {ticket.expires_at}, protocol time {clock}", TicketFlaw.EXPIRED)
    return ticket


def verify_epoch(ticket: Ticket, state: EpochState) -> EpochState:
    """Returns the state of the ticket's key epoch if shards still release in that state. Raises `EpochClosed` otherwise. In a
    COMPROMISED epoch, shards release for disputes only."""
    open_states = {EpochState.ACTIVE, EpochState.DRAINING}
    if ticket.kind == TicketKind.DISPUTE.value:
        open_states.add(EpochState.COMPROMISED)
    if state not in open_states:
        raise EpochClosed(ticket.key_epoch, state.name)
    return state


def dispute_seats(ticket: Ticket, case: Dispute | None, block: int) -> int:
    """Returns the number of seats of the ticket's voter in the present round, which must be in commit or reveal. `case` is the
    ticket's dispute at a block. Raises `TicketRefused` if the dispute is about another receipt, the voter has no seat or the
    round is over. Raises `TryAgain` if the dispute is not known yet or the round may still begin."""
    if case is None:
        raise TryAgain("chain view", f"no dispute {ticket.subject.hex()} at block {block}")
    if case.id != ticket.subject or case.receipt_id != ticket.receipt_id:
        raise TicketRefused("dispute is about another receipt", TicketFlaw.OTHER_DISPUTE)
    # After an earlier round a later one may begin, until nobody can appeal any more.
    last = Phase.REVEAL if case.round == ticket.round else Phase.APPEAL
    if case.phase > last or case.round > ticket.round:
        raise TicketRefused(f"dispute is in round {case.round}, {case.phase.name}", TicketFlaw.ROUND_OVER)
    if case.round < ticket.round or case.phase not in (Phase.COMMIT, Phase.REVEAL):
        raise TryAgain("chain view", f"round {ticket.round} is not drawn at block {block}")
    return _seats_of(ticket, case)


def verify_audit(ticket: Ticket) -> Ticket:
    """Returns the ticket if its subject and round are those of an audit. Raises `TicketRefused` otherwise."""
    if ticket.subject != ticket.receipt_id or ticket.round != 0:
        raise TicketRefused("the subject of an audit must be its receipt and its round 0", TicketFlaw.NO_AUDIT)
    return ticket


def audit_seats(ticket: Ticket, drawing: AuditDraw, clock: int, block: int) -> int:
    """Returns the number of seats with which a drawn audit counts. `clock` is the protocol clock at `block`.

    Raises `TicketRefused` if the challenge window is over, if the beacon did not draw the voter, or if the chain no longer has
    the block hash of the beacon. In the last case the contract would not accept the audit's result.
    """
    if clock > drawing.window_end:
        raise TicketRefused(f"window of batch {drawing.batch.batch_id} is over", TicketFlaw.WINDOW_OVER)
    if not sortition.beacon_is_known(int(drawing.batch.block), block):
        why = f"the chain no longer has the hash that drew the auditors of batch {drawing.batch.batch_id}"
        raise TicketRefused(why, TicketFlaw.WINDOW_OVER)
    if not sortition.audit_is_drawn(drawing.beacon, ticket.receipt_id, ticket.voter, drawing.rate_bps, drawing.seats):
        raise TicketRefused(f"{ticket.voter} is not drawn to audit receipt {ticket.receipt_id.hex()}", TicketFlaw.NOT_DRAWN)
    return AUDIT_SEATS


def verify_acceptance_in_force(standing: PolicyState, evidence: AppraisalResult, facts: ChainFacts) -> AppraisalResult:
    """Returns the evidence if the policy entries by which it was accepted have ended their waiting time. Raises `TryAgain` if an
    entry still waits. The time is that of the chain's block, because a local clock may have jumped ahead."""
    if {entry_digest(evidence.program), entry_digest(evidence.rule)} & standing.waiting(facts.timestamp):
        raise TryAgain("appraisal policy", f"what was added to it does not count yet at block {facts.number}")
    return evidence


def verify_limits(ticket: Ticket, seats: int, instances: frozenset[Digest], audits: int, budget: int) -> Ticket:
    """Returns the ticket. Raises `BudgetSpent` if a limit is used up.

    `instances` are the enclave instances that already got a partial for this voter's round or audit. `audits` is the number of
    audits for which this shard released in this epoch. Once `audits` has reached `budget`, a new audit is refused. Dispute seats
    have no such budget.
    """
    allowed = INSTANCES_PER_SEAT * seats
    if len(instances | {ticket.instance}) > allowed:
        raise BudgetSpent("instances", allowed)
    if ticket.kind == TicketKind.AUDIT.value and not instances and audits >= budget:
        raise BudgetSpent("audit", budget)
    return ticket


def verify_records(of_receipt: int, given: Callable[[], int]) -> None:
    """Raises `BudgetSpent` if one enclave instance already has `RECORDS_PER_INSTANCE` release records for one voter's round or
    audit.

    `of_receipt` is the number of all records of the receipt. `given` counts the releases to the instance for this round or audit,
    which is slow. It is therefore called only if `of_receipt` has reached the limit.
    """
    if of_receipt >= RECORDS_PER_INSTANCE and given() >= RECORDS_PER_INSTANCE:
        raise BudgetSpent("records", RECORDS_PER_INSTANCE)


def verify_not_ahead(facts: ChainFacts, now: int) -> ChainFacts:
    """Returns the facts. Raises `TryAgain` if their block is dated long after `now`, a Unix second of the shard's own clock.

    A false date must not get into the release log. The shard could release nothing more until that date (`verify_date`), and
    auditors would reject its log.
    """
    if facts.timestamp > now + AHEAD_S:
        why = f"block {facts.number} is dated {facts.timestamp}, and this machine's clock is at {now}"
        raise TryAgain(
            "chain view", f"{why}: set the clock if it is behind; otherwise the node's answer is false, so use other nodes"
        )
    return facts


def verify_date(newest: int, facts: ChainFacts) -> int:
    """Returns the time of the block of `facts`, which the next release record will have as its date.

    Raises `TryAgain` if that time is long before `newest`, the latest date in the release log, because auditors would reject such
    a log. The chain node that answers now is then behind the node that answered before.
    """
    if facts.timestamp + LAG_S < newest:
        raise TryAgain("chain view", f"block {facts.number} is {newest - facts.timestamp} s older than the newest date on record")
    return facts.timestamp


def _verify_ticket_names(request: ReleaseRequest, contracts: Contracts, peer: AttestedPeer) -> Ticket:
    ticket, identifier = request.ticket, receipt_id(anchor_domain(contracts), request.receipt)
    if ticket.receipt_id != identifier:
        raise TicketRefused(f"is for receipt {ticket.receipt_id.hex()}, not {identifier.hex()}", TicketFlaw.OTHER_RECEIPT)
    key = peer.hello.transport_key
    if not key or ticket.transport_key_hash != transport_key_hash(key):
        raise TicketRefused("is for a transport key that is not the channel's", TicketFlaw.OTHER_KEY)
    if ticket.key_epoch != request.receipt.key_epoch:
        raise TicketRefused(f"is for key epoch {ticket.key_epoch}, not {request.receipt.key_epoch}", TicketFlaw.OTHER_EPOCH)
    if ticket.kind not in (TicketKind.DISPUTE.value, TicketKind.AUDIT.value):
        raise TicketRefused(f"kind {ticket.kind}", TicketFlaw.UNKNOWN_KIND)
    return ticket


def _verify_assurance(evidence: AppraisalResult, facts: ChainFacts) -> AppraisalResult:
    simulated = evidence.type is EvidenceType.SIMULATED
    if simulated != (facts.assurance == EvidenceType.SIMULATED.value):
        raise EvidenceRefused(f"type {evidence.type.value} for an epoch labelled {facts.assurance}")
    return evidence


def _seats_of(ticket: Ticket, case: Dispute) -> int:
    seat = case.seat_of(ticket.voter)
    if seat is None or seat.seat_mask == 0:
        raise TicketRefused(f"{ticket.voter} has no seat in round {case.round}", TicketFlaw.NO_SEAT)
    return seat.seat_mask.bit_count()


def _audit_entitlement(request: ReleaseRequest, contracts: Contracts, facts: ChainFacts) -> int:
    ticket, drawing = verify_audit(request.ticket), facts.drawing
    if drawing is None:
        raise TryAgain("chain view", f"no batch {request.batch_id} or no beacon at block {facts.number}")
    signed, batch = SignedReceipt(request.receipt, request.receipt_signature, ""), drawing.batch
    identifier = verify_receipt(anchor_domain(contracts), signed)
    _verify_header(request.receipt, batch)
    verify_place(batch, identifier, request.receipt.seq, request.proof)
    return audit_seats(ticket, drawing, facts.clock, facts.number)


def _verify_header(receipt: Receipt, batch: BatchHeader) -> BatchHeader:
    try:
        verify_entry(batch, receipt, receipt.seq)
    except Fault:
        other = f"batch {batch.batch_id} has another operator, environment, model or key epoch"
        raise TicketRefused(other, TicketFlaw.OTHER_BATCH) from None
    return batch

"""Strategies of watchtowers: the events that a strategy gets, its proposals, and the choice among them (ADR-026).

A strategy only proposes. `decide_proposals` checks each proposal against policy, budget, window and balance; the node then acts.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from bytewise.protocol.decisions.actions import OpenDispute
from bytewise.protocol.decisions.disputes import verify_bounds
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import U64, U256, Address, Digest

MAX_PROPOSALS = 16
"""Most proposals in the answer to one event."""
MAX_REASON = 200
"""Most characters of a proposal's reason."""


@dataclass(frozen=True, slots=True)
class ReceiptEvent:
    """Event: a receipt in an open challenge window was checked against public records.

    The event is repeated when the finding or the window changes.
    """

    receipt_id: Digest
    """Id of the receipt."""
    batch_id: int
    """Number of the receipt's batch."""
    operator: Address
    """Operator that signed the receipt."""
    seq: U64
    """The operator's number of the receipt."""
    environment: Digest
    """Environment in which the answer was computed."""
    finding: str
    """Result of the check: `Good`, `Withheld`, or the class name of the fault."""
    window_end: int
    """Last second of the protocol clock in which the receipt can be disputed."""
    bond_wei: U256
    """Bond of a dispute about the receipt, in wei."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """Event: drawn auditors of a receipt have posted results. It is repeated when the counts or the window change."""

    receipt_id: Digest
    """Id of the audited receipt."""
    batch_id: int
    """Number of the receipt's batch."""
    operator: Address
    """Operator that signed the receipt."""
    mismatches: int
    """Number of drawn auditors that report another answer than the receipt's."""
    matches: int
    """Number of drawn auditors that report the receipt's answer."""
    window_end: int
    """Last second of the protocol clock in which the receipt can be disputed."""
    bond_wei: U256
    """Bond of a dispute about the receipt, in wei."""


@dataclass(frozen=True, slots=True)
class DisputeEvent:
    """Event: a dispute is on the chain. It is repeated when the phase or the verdict changes."""

    dispute: Digest
    """Id of the dispute."""
    receipt_id: Digest
    """Id of the disputed receipt."""
    operator: Address
    """Operator that signed the disputed receipt."""
    phase: str
    """Name of the dispute's phase (`bytewise.protocol.court.phases.Phase`)."""
    verdict: str
    """Name of the dispute's verdict (`bytewise.protocol.records.statements.Verdict`)."""
    is_mine: bool
    """Whether this watchtower opened the dispute."""


WatchEvent = ReceiptEvent | AuditEvent | DisputeEvent


@dataclass(frozen=True, slots=True)
class DisputeProposal:
    """A proposal to dispute a receipt. The node adds bond, proof and commitment, and decides whether to act."""

    receipt_id: Digest
    """Receipt to dispute."""
    reason: str = ""
    """One line for the log, at most 200 characters."""

    def __post_init__(self) -> None:
        if not isinstance(self.receipt_id, bytes) or len(self.receipt_id) != 32:
            raise MalformedValue("proposal", "receipt_id is not 32 bytes")
        if not isinstance(self.reason, str) or len(self.reason) > MAX_REASON:
            raise MalformedValue("proposal", f"reason is not a text of at most {MAX_REASON} characters")


Proposals = Iterable[DisputeProposal]
"""Answer of a strategy to one event. It replaces the answer to the last event of the same kind about the same receipt or
dispute."""


class Strategy:
    """Base class of strategies. Each method gets one event and returns proposals. The methods of this class propose nothing.

    The node never calls a method that a subclass does not override. Each event may be repeated after a restart.
    """

    def on_receipt(self, event: ReceiptEvent) -> Proposals:
        """Returns proposals about a checked receipt in an open challenge window."""
        return ()

    def on_audit(self, event: AuditEvent) -> Proposals:
        """Returns proposals after drawn auditors have posted results about a receipt."""
        return ()

    def on_dispute(self, event: DisputeEvent) -> Proposals:
        """Returns proposals after any account opened a dispute, and after a dispute changed."""
        return ()


METHODS: Mapping[type[WatchEvent], str] = {ReceiptEvent: "on_receipt", AuditEvent: "on_audit", DisputeEvent: "on_dispute"}
"""Name of the method that gets each kind of event."""


class Defend(Strategy):
    """Strategy that disputes a receipt under two conditions: enough drawn auditors contradict it, and more drawn auditors
    contradict it than confirm it."""

    def __init__(self, mismatches: int = 2) -> None:
        """Takes the number of drawn auditors that must contradict the receipt."""
        self._mismatches = mismatches

    def on_audit(self, event: AuditEvent) -> Proposals:
        """Proposes a dispute if enough auditors contradict the receipt."""
        if event.mismatches < self._mismatches or event.mismatches <= event.matches:
            return ()
        return (DisputeProposal(event.receipt_id, f"{event.mismatches} drawn auditors against {event.matches}"),)


class Hunt(Defend):
    """Strategy that disputes a receipt as soon as one drawn auditor contradicts it, unless as many auditors confirm it.

    It acts earlier than `Defend`, but loses a bond whenever that auditor is wrong.
    """

    def __init__(self) -> None:
        super().__init__(mismatches=1)


OBSERVE, DEFEND, HUNT = "observe", "defend", "hunt"
BUILT_IN = (OBSERVE, DEFEND, HUNT)
"""Names of the built-in strategies. `observe` decides as `defend` does, but the node sends nothing."""


def built_in(name: str, mismatches: int) -> Strategy:
    """Returns the strategy with a name from `BUILT_IN`. `mismatches` is the setting of `Defend`."""
    return Hunt() if name == HUNT else Defend(mismatches)


def overridden(strategy: Strategy) -> tuple[str, ...]:
    """Returns the names of the methods that a strategy overrides, sorted."""
    return tuple(sorted(name for name in METHODS.values() if getattr(type(strategy), name) is not getattr(Strategy, name)))


def ask(strategy: Strategy, event: WatchEvent) -> tuple[DisputeProposal, ...]:
    """Returns the proposals of a strategy for one event. Errors that the strategy raises pass through.

    Raises `MalformedValue` if the answer is not a bounded sequence of proposals.
    """
    method = METHODS[type(event)]
    answer: Any = getattr(strategy, method)(event)
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        raise MalformedValue(method, f"returned {type(answer).__name__}, not a sequence of DisputeProposal")
    found: list[DisputeProposal] = []
    for each in answer:
        if not isinstance(each, DisputeProposal):
            raise MalformedValue(method, f"proposed {type(each).__name__}, not DisputeProposal")
        if len(found) == MAX_PROPOSALS:
            raise MalformedValue(method, f"made more than {MAX_PROPOSALS} proposals for one event")
        found.append(each)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class StrategyReady:
    """Message of a strategy's process: the strategy is loaded and waits for events."""

    methods: tuple[str, ...]
    """Methods that the strategy overrides. The node sends only the events of these methods."""


@dataclass(frozen=True, slots=True)
class StrategyAnswer:
    """Message of a strategy's process: the answer to the last event."""

    proposals: tuple[DisputeProposal, ...]
    """Proposals of the strategy."""


@dataclass(frozen=True, slots=True)
class StrategyProblem:
    """Message of a strategy's process: the strategy failed to answer."""

    problem: str
    """The error and its place, in one line."""


@dataclass(frozen=True, slots=True)
class WatchPolicy:
    """Conditions under which a watchtower risks the bond of a dispute."""

    mismatches: int = 2
    """Number of distinct drawn verifiers that must report MISMATCH, at least 1. Applies to the strategies `observe` and
    `defend`."""
    margin_s: int = 2
    """Seconds of the protocol clock before the end of a window in which the watchtower opens no dispute."""
    budget_wei: int = 10**18
    """Budget in wei for disputes by strategy or by order. The bond of a dispute of this account counts if the dispute was opened
    within `budget_blocks` and is not won. With 0 the watchtower opens only disputes about demanded envelopes, which
    `demand.dispute_budget_wei` bounds."""
    budget_blocks: int = 7200
    """Number of blocks over which the budget is counted, at least 1. The default is a day of 12-second blocks."""

    def __post_init__(self) -> None:
        verify_bounds(self, "mismatches", "budget_blocks")


class Refusal(enum.StrEnum):
    """Reasons why the node does not act on a proposal, and what to do."""

    UNKNOWN = "no checked receipt in an open window has this id: propose only receipts of events"
    DISPUTED = "the receipt is disputed already: nothing to do"
    DOUBLE = "another proposal names the same receipt: nothing to do"
    LATE = "the window of the receipt is over, or too little of it is left (watch.margin_s): propose earlier"
    BUDGET = "the bond exceeds the rest of the budget: raise watch.budget_wei, or wait until own disputes are won"
    BALANCE = "the bond exceeds the balance of the account: send ether to it"


class RefusedProposal(NamedTuple):
    """A proposal on which the node does not act, with the reason."""

    proposal: DisputeProposal
    refusal: Refusal


class ReceiptTerms(NamedTuple):
    """Batch and bond of a receipt that may be disputed."""

    batch_id: int
    bond_wei: int


class Spending(NamedTuple):
    """Amounts in wei that the account risks in disputes."""

    opened_wei: int
    """Sum of the bonds of this account's disputes on the chain that were opened within the budget's period and are not won."""
    ordered: Mapping[Digest, int]
    """Bonds of disputes that were decided but are not on the chain yet, by receipt."""


class ProposalDecision(NamedTuple):
    """The actions that follow from all proposals, and the proposals that were refused."""

    actions: tuple[OpenDispute, ...]
    refused: tuple[RefusedProposal, ...]


def decide_proposals(
    snapshot: Snapshot, proposals: Sequence[DisputeProposal], terms: Mapping[Digest, ReceiptTerms], disputed: Set[Digest],
    spending: Spending, policy: WatchPolicy,
) -> ProposalDecision:  # fmt: skip
    """Decides on which proposals the node acts. While the protocol clock is paused, no proposal is accepted or refused.

    A dispute that was decided before, but is not on the chain yet, is decided again, because its first transaction may be lost.
    Its bond is not counted against the budget a second time.
    """
    if snapshot.paused:
        return ProposalDecision((), ())
    ordered_wei = sum(spending.ordered.values())
    budget, balance = policy.budget_wei - spending.opened_wei - ordered_wei, snapshot.me.balance_wei - ordered_wei
    known = disputed | {dispute.receipt_id for dispute in snapshot.disputes}
    actions: dict[Digest, OpenDispute] = {}
    refused: list[RefusedProposal] = []
    for each in sorted(proposals, key=lambda each: each.receipt_id not in spending.ordered):
        found = terms.get(each.receipt_id)
        bond = 0 if found is None or each.receipt_id in spending.ordered else found.bond_wei
        refusal = _refusal(snapshot, each, found, known, actions.keys(), policy)
        if refusal is None and bond > 0:
            refusal = Refusal.BUDGET if bond > budget else Refusal.BALANCE if bond > balance else None
        if refusal is not None or found is None:
            refused.append(RefusedProposal(each, refusal or Refusal.UNKNOWN))
            continue
        budget, balance = budget - bond, balance - bond
        actions[each.receipt_id] = OpenDispute(each.receipt_id, found.bond_wei)
    return ProposalDecision(tuple(actions.values()), tuple(refused))


def _refusal(
    snapshot: Snapshot, proposal: DisputeProposal, terms: ReceiptTerms | None, known: Set[Digest], taken: Set[Digest],
    policy: WatchPolicy,
) -> Refusal | None:  # fmt: skip
    if proposal.receipt_id in known:
        return Refusal.DISPUTED
    if terms is None:
        return Refusal.UNKNOWN
    if proposal.receipt_id in taken:
        return Refusal.DOUBLE
    if snapshot.clock + policy.margin_s > snapshot.window_end(proposal.receipt_id, terms.batch_id):
        return Refusal.LATE
    return None

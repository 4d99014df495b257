"""Strategies of watchtowers: the events that a strategy gets, its proposals, and which of them a watchtower acts on (ADR-072).

A strategy only proposes. `decide_proposals` checks each proposal against policy, budget, window and balance; the node then acts.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from bytewise.protocol.decisions.actions import OpenDispute
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import U64, U256, Address, Digest

MAX_PROPOSALS = 16
"""Most proposals in the answer to one event."""
MAX_REASON = 200
"""Most characters of a proposal's reason."""


@dataclass(frozen=True, slots=True)
class ReceiptEvent:
    """A receipt in an open window, checked by public records. It comes again when its finding or its window changes."""

    receipt_id: Digest
    """The receipt."""
    batch_id: int
    """Number of its batch."""
    operator: Address
    """Operator that signed it."""
    seq: U64
    """Its number at the operator."""
    environment: Digest
    """Environment in which it was computed."""
    finding: str
    """`Good`, `Withheld`, or the class of the fault that the check found."""
    window_end: int
    """Last second of the protocol clock to dispute it."""
    bond_wei: U256
    """Bond of a dispute about it, in wei."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """The posted results of the drawn auditors of one receipt. It comes again when the counts or the window change."""

    receipt_id: Digest
    """Audited receipt."""
    batch_id: int
    """Number of its batch."""
    operator: Address
    """Operator that signed it."""
    mismatches: int
    """Drawn auditors that report another answer than the receipt's."""
    matches: int
    """Drawn auditors that report the receipt's answer."""
    window_end: int
    """Last second of the protocol clock to dispute it."""
    bond_wei: U256
    """Bond of a dispute about it, in wei."""


@dataclass(frozen=True, slots=True)
class DisputeEvent:
    """A dispute on the chain. It comes again when its phase or its verdict changes."""

    dispute: Digest
    """Dispute id."""
    receipt_id: Digest
    """Disputed receipt."""
    operator: Address
    """Accused operator."""
    phase: str
    """Name of its phase (`bytewise.protocol.court.phases.Phase`)."""
    verdict: str
    """Name of its verdict (`bytewise.protocol.records.statements.Verdict`)."""
    is_mine: bool
    """Whether this watchtower opened it."""


WatchEvent = ReceiptEvent | AuditEvent | DisputeEvent


@dataclass(frozen=True, slots=True)
class DisputeProposal:
    """The proposal to dispute a receipt. The node adds bond, proof and commitment, and decides whether it acts."""

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
"""Answer of a strategy to one event. It replaces the answer to the same receipt's or dispute's last event of that kind."""


class Strategy:
    """Base class of strategies. Each method gets one event and returns proposals; this class proposes nothing.

    A method that a subclass does not override is never called. Each event may come again after a restart.
    """

    def on_receipt(self, event: ReceiptEvent) -> Proposals:
        """Called for each checked receipt in an open window."""
        return ()

    def on_audit(self, event: AuditEvent) -> Proposals:
        """Called when drawn auditors have posted results about a receipt."""
        return ()

    def on_dispute(self, event: DisputeEvent) -> Proposals:
        """Called when a dispute was opened, by any account, and when it goes on."""
        return ()


METHODS: Mapping[type[WatchEvent], str] = {ReceiptEvent: "on_receipt", AuditEvent: "on_audit", DisputeEvent: "on_dispute"}
"""The method that gets each kind of event."""


class Defend(Strategy):
    """Disputes a receipt when enough drawn auditors contradict it, and more contradict it than confirm it."""

    def __init__(self, mismatches: int = 2) -> None:
        """`mismatches`: how many drawn auditors must contradict the receipt."""
        self._mismatches = mismatches

    def on_audit(self, event: AuditEvent) -> Proposals:
        """Proposes a dispute while the results say so."""
        if event.mismatches < self._mismatches or event.mismatches <= event.matches:
            return ()
        return (DisputeProposal(event.receipt_id, f"{event.mismatches} drawn auditors against {event.matches}"),)


class Hunt(Defend):
    """Disputes a receipt when the first drawn auditor contradicts it. It is earlier than `Defend`, and loses bonds to auditors
    that are wrong."""

    def __init__(self) -> None:
        super().__init__(mismatches=1)


OBSERVE, DEFEND, HUNT = "observe", "defend", "hunt"
BUILT_IN = (OBSERVE, DEFEND, HUNT)
"""Names of the strategies that a node has. `observe` decides as `defend` does, and the node sends nothing."""


def built_in(name: str, mismatches: int) -> Strategy:
    """The strategy of a name in `BUILT_IN`. `mismatches` is the setting of `Defend`."""
    return Hunt() if name == HUNT else Defend(mismatches)


def overridden(strategy: Strategy) -> tuple[str, ...]:
    """Names of the methods that a strategy overrides, sorted."""
    return tuple(sorted(name for name in METHODS.values() if getattr(type(strategy), name) is not getattr(Strategy, name)))


def ask(strategy: Strategy, event: WatchEvent) -> tuple[DisputeProposal, ...]:
    """The proposals of a strategy for one event. `MalformedValue` if the answer is anything else; the strategy's own errors pass
    through."""
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
    """Message of the process of a strategy: it is loaded and waits for events."""

    methods: tuple[str, ...]
    """Methods that the strategy overrides. The node sends no event for any other."""


@dataclass(frozen=True, slots=True)
class StrategyAnswer:
    """Message of the process of a strategy: the answer to the last event."""

    proposals: tuple[DisputeProposal, ...]
    """What the strategy proposes."""


@dataclass(frozen=True, slots=True)
class StrategyProblem:
    """Message of the process of a strategy: it has no answer."""

    problem: str
    """Error and place, one line."""


@dataclass(frozen=True, slots=True)
class WatchPolicy:
    """Conditions under which a watchtower risks its bond."""

    mismatches: int = 2
    """How many distinct drawn verifiers must report MISMATCH; strategies `observe` and `defend`."""
    margin_s: int = 2
    """Seconds of the protocol clock before the end of the window in which it opens no dispute."""
    budget_wei: int = 10**18
    """Largest sum in wei of bonds of own disputes that were opened within `budget_blocks` and are not won. 0 opens none."""
    budget_blocks: int = 7200
    """Blocks over which the budget is counted: a day of 12-second blocks."""


class Refusal(enum.StrEnum):
    """Why a proposal is not acted on, and what to do."""

    UNKNOWN = "no checked receipt in an open window has this id: propose only receipts of events"
    DISPUTED = "the receipt is disputed already: nothing to do"
    DOUBLE = "another proposal names the same receipt: nothing to do"
    LATE = "the window of the receipt is over, or too little of it is left (watch.margin_s): propose earlier"
    BUDGET = "the bond exceeds the rest of the budget: raise watch.budget_wei, or wait until own disputes are won"
    BALANCE = "the bond exceeds the balance of the account: send ether to it"


class RefusedProposal(NamedTuple):
    """A proposal that is not acted on."""

    proposal: DisputeProposal
    refusal: Refusal


class ReceiptTerms(NamedTuple):
    """Batch and bond of a receipt that may be disputed."""

    batch_id: int
    bond_wei: int


class Spending(NamedTuple):
    """What the account has at risk in disputes, in wei."""

    opened_wei: int
    """Bonds of own disputes on the chain, opened within the budget's period and not won."""
    ordered: Mapping[Digest, int]
    """Bonds of disputes that were decided and are not on the chain yet, by receipt."""


class ProposalDecision(NamedTuple):
    """What a watchtower does about all proposals."""

    actions: tuple[OpenDispute, ...]
    refused: tuple[RefusedProposal, ...]


def decide_proposals(
    snapshot: Snapshot, proposals: Sequence[DisputeProposal], terms: Mapping[Digest, ReceiptTerms], disputed: Set[Digest],
    spending: Spending, policy: WatchPolicy,
) -> ProposalDecision:  # fmt: skip
    """Which proposals to act on. While the protocol is paused none is acted on or refused.

    A dispute that was ordered before is ordered again without a second charge, because the first transaction may be lost.
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

"""Availability demands (`IDemands`): the record of a demand at one block, and the decisions to open and to end demands.

The decisions are pure functions of a snapshot and of this process's findings.
"""

import enum
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from bytewise.protocol.decisions.actions import Action, DemandAnchor, DemandEnvelope, DemandList, Expire
from bytewise.protocol.decisions.disputes import MovePolicy, is_my_turn, verify_bounds
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.units import Address, Digest


class DemandKind(enum.IntEnum):
    """Kind of a demand: it asks for a list, an envelope, or the anchoring of a receipt."""

    NONE = 0
    LIST = 1
    ENVELOPE = 2
    ANCHOR = 3


class DemandState(enum.IntEnum):
    """State of a demand."""

    NONE = 0
    OPEN = 1
    ANSWERED = 2
    EXPIRED = 3


@dataclass(frozen=True, slots=True)
class DemandRecord:
    """A demand at one block. All times are of the protocol clock."""

    kind: DemandKind
    """Kind of the demanded item."""
    state: DemandState
    """State of the demand. An OPEN demand past its `deadline` can be ended by any account."""
    by: Address
    """Account that opened the demand and paid the bond."""
    operator: Address
    """Operator that must answer."""
    batch_id: int
    """Batch of the demanded list or envelope; 0 if anchoring is demanded."""
    seq: int
    """Number of the receipt to be anchored; 0 for lists and envelopes."""
    opened_at: int
    """Second at which the demand was opened."""
    deadline: int
    """Last second in which an answer counts."""
    params_version: int
    """Version of the parameters that apply to the demand."""
    bond: int
    """Bond in wei. An answer gives it to the operator, whoever sends the answer. Without an answer it goes back to the
    demander."""


Demand = DemandList | DemandEnvelope | DemandAnchor


@dataclass(frozen=True, slots=True)
class DemandPolicy:
    """Conditions under which a watchtower risks the bond of a demand."""

    budget_wei: int = 10**17
    """Budget in wei for the bonds of demands. A demand of this account counts if it was opened within `budget_s` and is open or
    was answered. With 0 the watchtower demands nothing."""
    dispute_budget_wei: int = 25 * 10**16
    """Budget in wei for the bonds of disputes about demanded envelopes. A dispute of this account counts, won or lost, if its
    envelope was demanded within `budget_s`."""
    budget_s: int = 86_400
    """Period in seconds of the protocol clock over which both budgets are counted, at least 1."""
    margin_s: int = 10
    """Seconds of the protocol clock before the end of a window in which no demand is opened."""
    tries: int = 3
    """Number of failed attempts to fetch a list or an envelope from the DA layer before it is demanded, at least 1. The attempts
    are made one after another."""

    def __post_init__(self) -> None:
        verify_bounds(self, "budget_s", "tries")


@dataclass(frozen=True, slots=True)
class MissingItem:
    """A list, an envelope or an anchoring that an operator owes, according to the findings of this process."""

    subject: Digest
    """Subject of the demand."""
    demand: Demand
    """The demand to open."""
    until: int
    """Last second of the protocol clock in which the demand can be opened."""


class DemandDecision(NamedTuple):
    """The demands to open now, and the due demands for which there is no money. Both keep the order of the missing items."""

    demands: tuple[MissingItem, ...]
    beyond: tuple[MissingItem, ...]
    """Demands that exceed the remaining budget or the balance. `is_needed` was not called for them."""


def decide_demands(
    snapshot: Snapshot, missing: Sequence[MissingItem], known: Mapping[Digest, DemandRecord], me: Address, policy: DemandPolicy,
    unwon: Set[Digest] = frozenset(), is_needed: Callable[[MissingItem], bool] = lambda _: True,
) -> DemandDecision:  # fmt: skip
    """Decides which missing items to demand now. An item is demanded if it is needed and not demanded yet, and if time and money
    allow it.

    `unwon` are subjects that this account disputes and has not won (see `spent`). `is_needed` says whether anybody needs an
    item. It is called last, because it may have to repeat the audit draw for a whole pool.
    """
    if snapshot.paused:
        return DemandDecision((), ())
    left = min(policy.budget_wei - spent(snapshot, known, me, policy, unwon), snapshot.me.balance_wei)
    found: list[MissingItem] = []
    beyond: list[MissingItem] = []
    for each in missing:
        if each.subject in known or snapshot.clock + policy.margin_s > each.until:
            continue
        if each.demand.bond_wei > left:
            beyond.append(each)
        elif is_needed(each):
            left -= each.demand.bond_wei
            found.append(each)
    return DemandDecision(tuple(found), tuple(beyond))


def spent(
    snapshot: Snapshot, known: Mapping[Digest, DemandRecord], me: Address, policy: DemandPolicy, unwon: Set[Digest] = frozenset()
) -> int:
    """Returns the used part of the budget in wei: the bonds of this account's demands that are open or were answered.

    Demands older than `budget_s` do not count. The bond of an expired demand came back. It counts only while this account has
    not won its dispute about the same subject, because the bytes may have been available.
    """
    since = snapshot.clock - policy.budget_s
    own = {subject: each for subject, each in known.items() if each.by == me and each.opened_at > since}
    gone = (DemandState.OPEN, DemandState.ANSWERED)
    return sum(each.bond for subject, each in own.items() if each.state in gone or subject in unwon)


def decide_ends(
    snapshot: Snapshot, demands: Mapping[Digest, DemandRecord], me: Address, policy: MovePolicy
) -> tuple[Action, ...]:
    """Decides which unanswered demands to end. The demander ends its own demands at once; verifiers end other demands in turns.

    `decide_expiries` ends demands for lists that other accounts made, because every snapshot already contains them.
    """
    if snapshot.paused:
        return ()
    mine = is_my_turn(snapshot, policy)
    over = [(subject, each) for subject, each in demands.items() if is_over(snapshot, each)]
    return tuple(
        Expire(subject)
        for subject, each in over
        if each.by == me or (each.kind is not DemandKind.LIST and (mine or snapshot.clock - each.deadline > policy.overdue))
    )


def is_over(snapshot: Snapshot, demand: DemandRecord) -> bool:
    """Returns whether a demand is past its deadline and can be ended."""
    return demand.state is DemandState.OPEN and snapshot.clock > demand.deadline

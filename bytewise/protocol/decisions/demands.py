"""Availability demands as one block shows them (`IDemands`): what is owed, by whom, until when, and for whose bond."""

import enum
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from bytewise.protocol.decisions.actions import Action, DemandAnchor, DemandEnvelope, DemandList, Expire
from bytewise.protocol.decisions.disputes import MovePolicy, is_my_turn
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.units import Address, Digest


class DemandKind(enum.IntEnum):
    """What is demanded."""

    NONE = 0
    LIST = 1
    ENVELOPE = 2
    ANCHOR = 3


class DemandState(enum.IntEnum):
    """How a demand stands."""

    NONE = 0
    OPEN = 1
    ANSWERED = 2
    EXPIRED = 3


@dataclass(frozen=True, slots=True)
class DemandRecord:
    """A demand; times of the protocol clock."""

    kind: DemandKind
    """What is demanded."""
    state: DemandState
    """How it stands; past `deadline` an OPEN one waits for somebody to end it."""
    by: Address
    """Whose bond it is."""
    operator: Address
    """Who owes the answer."""
    batch_id: int
    """Of a list or an envelope; 0 for an anchor."""
    seq: int
    """Number of a receipt to be anchored; 0 for the others."""
    opened_at: int
    """Since when."""
    deadline: int
    """Last second to answer."""
    params_version: int
    """Whose amounts and lengths hold."""
    bond: int
    """Wei: to whoever answers, or back."""


# What is demanded of whom, and how demands end: pure functions of a snapshot and what we know, as in `decide`.

Demand = DemandList | DemandEnvelope | DemandAnchor


@dataclass(frozen=True, slots=True)
class DemandPolicy:
    """When a watchtower risks the bond of a demand."""

    budget_wei: int = 10**17
    """Most wei in own demands that are open or were answered, opened within `budget_s`: 0 demands nothing."""
    dispute_budget_wei: int = 25 * 10**16
    """Most wei in bonds of own disputes, won or lost, over envelopes that were demanded within `budget_s`."""
    budget_s: int = 86_400
    """Protocol time over which the budget is counted."""
    margin_s: int = 10
    """No demand in the last seconds of a window; protocol clock."""
    tries: int = 3
    """How often DA must have failed for a list or an envelope, each try later than the one before."""


@dataclass(frozen=True, slots=True)
class MissingItem:
    """Something that somebody owes as far as we can tell."""

    subject: Digest
    """Of the demand."""
    demand: Demand
    """What to ask for."""
    until: int
    """Last second to ask."""


class DemandDecision(NamedTuple):
    """What to demand now, and what would be due but for its bond; both in the order of what is missing."""

    demands: tuple[MissingItem, ...]
    beyond: tuple[MissingItem, ...]
    """More than what is left of budget or balance. Whether somebody needs them was not asked."""


def decide_demands(
    snapshot: Snapshot, missing: Sequence[MissingItem], known: Mapping[Digest, DemandRecord], me: Address, policy: DemandPolicy,
    unwon: Set[Digest] = frozenset(), is_needed: Callable[[MissingItem], bool] = lambda _: True,
) -> DemandDecision:  # fmt: skip
    """Which of these to demand now: what nobody has demanded and somebody needs, while there is time and money.

    `unwon` are subjects that we dispute and have not won. `is_needed` is asked last: it may have to draw from a whole pool.
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
    """Wei of the budget that is gone: bonds of ours that are out, and those that an answer took.

    What expired came back, and counts only while a dispute that followed is not won: the bytes may have been there.
    """
    since = snapshot.clock - policy.budget_s
    own = {subject: each for subject, each in known.items() if each.by == me and each.opened_at > since}
    gone = (DemandState.OPEN, DemandState.ANSWERED)
    return sum(each.bond for subject, each in own.items() if each.state in gone or subject in unwon)


def decide_ends(
    snapshot: Snapshot, demands: Mapping[Digest, DemandRecord], me: Address, policy: MovePolicy
) -> tuple[Action, ...]:
    """Demands that nobody answered in time: who asked ends them at once, anybody else in turns.

    Lists of others are in `decide_expiries`, which every snapshot has without asking for more.
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
    """Whether a demand waits for somebody to end it."""
    return demand.state is DemandState.OPEN and snapshot.clock > demand.deadline

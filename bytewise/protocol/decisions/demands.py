"""Availability demands as one block shows them (`IDemands`): what is owed, by whom, until when, and for whose bond."""

import enum
from dataclasses import dataclass

from bytewise.protocol.units import Address


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

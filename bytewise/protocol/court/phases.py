"""Phases of a dispute as a table. Each row has the phase before, the event, the phase after, the actor that may cause the event,
and the condition.

The contract `Disputes` implements this table. `docs/reference/contracts.md` prints it.
"""

import enum
from dataclasses import dataclass


class Phase(enum.IntEnum):
    """Phase of a dispute, numbered as in `Types.sol`."""

    NONE = 0
    SEED = 1
    DRAWING = 2
    COMMIT = 3
    REVEAL = 4
    APPEAL = 5
    AIRGAP = 6
    FINAL = 7


DERIVED = frozenset({Phase.REVEAL, Phase.AIRGAP})
"""Phases that a dispute enters because time passed. The contract may still store the phase before."""


class Event(enum.StrEnum):
    """An event of a dispute, caused by a party or the clock."""

    OPEN = "open"
    REARM = "rearm"
    SEED_LOST = "rearm once too often"
    DRAW_SOME = "draw some seats"
    DRAW_LAST = "draw the last seat"
    COMMIT = "commit"
    COMMITS_CLOSED = "commits closed"
    REVEAL = "reveal"
    CERTIFY = "certify"
    SETTLE_APPEALABLE = "settle, may be appealed"
    SETTLE_LAST = "settle, cannot be appealed"
    SETTLE_RERUN = "settle without a key"
    SETTLE_LARGER = "settle, inconclusive"
    SETTLE_DRAW = "settle, inconclusive at last"
    APPEAL = "appeal"
    APPEAL_OVER = "appeal time over"
    OPEN_ALT = "open the other answer"
    REFUND = "refund"
    FINALIZE = "finalize"


class EventActor(enum.StrEnum):
    """The actor that may cause an event."""

    ANYBODY = "anybody"
    OTHERS = "anybody but the operator"
    MEMBER = "a drawn member, or who brings its signature"
    OPENS = "anybody who knows the vote"
    TIME = "time"
    GUARDIAN = "the guardian"


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the phase table."""

    start: Phase
    """Phase before the event."""
    event: Event
    """Event that causes the transition."""
    end: Phase
    """Phase after the event."""
    who: EventActor
    """The actor that may cause the event."""
    guard: str
    """Condition under which the event is allowed, in words."""


_SEEDED = "seed known, its stake epoch runs"
_SEED_GONE = "the seed can no longer be read, or its stake epoch is over; at most 3 times a round"

TRANSITIONS = (
    Transition(
        Phase.NONE, Event.OPEN, Phase.SEED, EventActor.OTHERS, "member of a batch, inside its window, never disputed, bond sent"
    ),
    Transition(Phase.SEED, Event.REARM, Phase.SEED, EventActor.ANYBODY, _SEED_GONE),
    Transition(Phase.DRAWING, Event.REARM, Phase.SEED, EventActor.ANYBODY, _SEED_GONE + "; seats drawn so far are forgotten"),
    Transition(
        Phase.SEED, Event.SEED_LOST, Phase.AIRGAP, EventActor.ANYBODY, "the 4th time: the earlier verdict stands, else DRAW"
    ),
    Transition(
        Phase.DRAWING, Event.SEED_LOST, Phase.AIRGAP, EventActor.ANYBODY, "the 4th time: the earlier verdict stands, else DRAW"
    ),
    Transition(Phase.SEED, Event.DRAW_SOME, Phase.DRAWING, EventActor.ANYBODY, _SEEDED),
    Transition(Phase.DRAWING, Event.DRAW_SOME, Phase.DRAWING, EventActor.ANYBODY, _SEEDED),
    Transition(Phase.SEED, Event.DRAW_LAST, Phase.COMMIT, EventActor.ANYBODY, _SEEDED),
    Transition(Phase.DRAWING, Event.DRAW_LAST, Phase.COMMIT, EventActor.ANYBODY, _SEEDED),
    Transition(Phase.COMMIT, Event.COMMIT, Phase.COMMIT, EventActor.MEMBER, "until `commitEnd`, once, all seats of the member"),
    Transition(Phase.COMMIT, Event.COMMITS_CLOSED, Phase.REVEAL, EventActor.TIME, "`commitEnd` passed, or all seats committed"),
    Transition(
        Phase.REVEAL, Event.REVEAL, Phase.REVEAL, EventActor.OPENS, "until `revealEnd`, once; under a commit root its voter alone"
    ),
    Transition(
        Phase.REVEAL,
        Event.CERTIFY,
        Phase.REVEAL,
        EventActor.ANYBODY,
        "until `revealEnd`, once, for a quorum that committed under a posted root alone",
    ),
    Transition(
        Phase.REVEAL, Event.SETTLE_APPEALABLE, Phase.APPEAL, EventActor.ANYBODY, "reveals closed; a verdict below the last level"
    ),
    Transition(
        Phase.REVEAL, Event.SETTLE_LAST, Phase.AIRGAP, EventActor.ANYBODY, "reveals closed; a verdict, last level or appealed"
    ),
    Transition(
        Phase.REVEAL, Event.SETTLE_RERUN, Phase.SEED, EventActor.ANYBODY, "so many NO_KEY that no verdict was left; reruns left"
    ),
    Transition(Phase.REVEAL, Event.SETTLE_LARGER, Phase.SEED, EventActor.ANYBODY, "reveals closed; no verdict, levels left"),
    Transition(
        Phase.REVEAL, Event.SETTLE_DRAW, Phase.AIRGAP, EventActor.ANYBODY, "no verdict at last: the earlier one stands, else DRAW"
    ),
    Transition(
        Phase.APPEAL, Event.APPEAL, Phase.SEED, EventActor.ANYBODY, "until `appealEnd`, once a dispute, twice the fees sent"
    ),
    Transition(Phase.APPEAL, Event.APPEAL_OVER, Phase.AIRGAP, EventActor.TIME, "`appealEnd` passed"),
    Transition(
        Phase.APPEAL, Event.OPEN_ALT, Phase.APPEAL, EventActor.ANYBODY, "the challenger's commitment opens to the verdict"
    ),
    Transition(Phase.AIRGAP, Event.OPEN_ALT, Phase.AIRGAP, EventActor.ANYBODY, "the same, until `airgapEnd`"),
    Transition(Phase.APPEAL, Event.REFUND, Phase.FINAL, EventActor.GUARDIAN, "once: REFUNDED"),
    Transition(
        Phase.AIRGAP, Event.REFUND, Phase.FINAL, EventActor.GUARDIAN, "once, held or not, until somebody finalizes: REFUNDED"
    ),
    Transition(
        Phase.AIRGAP,
        Event.FINALIZE,
        Phase.FINAL,
        EventActor.ANYBODY,
        "`airgapEnd` passed; a conviction is not held by the breaker",
    ),
)
"""All allowed transitions. While the protocol clock is paused, only the events of `AT_ANY_TIME` are accepted."""

AT_ANY_TIME = frozenset({Event.DRAW_SOME, Event.DRAW_LAST, Event.APPEAL, Event.OPEN_ALT, Event.REFUND})
"""Events that are accepted during a pause. Deadlines stand still with the protocol clock, and none of these events takes money
from an account that did not cause it.

Draws are among these events because a seed is lost at the end of its stake epoch. Otherwise the guardian could get another
committee by pausing.
"""


def phase_after(start: Phase, event: Event) -> Phase | None:
    """Returns the phase after an event, or None if the event is not allowed in this phase."""
    return next((row.end for row in TRANSITIONS if (row.start, row.event) == (start, event)), None)

"""What becomes of the receipts of a play: records that `tests.whole_system` fills in."""

from collections import Counter
from dataclasses import dataclass, field

from bytewise.protocol.records.request import Request
from bytewise.protocol.records.statements import Outcome, Verdict, Vote
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest
from enclave.judge import Judgement
from tests.liars import Filed
from tests.plays import Told


def result_of(said: Vote | Judgement) -> tuple[int, int, Digest, Digest]:
    """What somebody found, without the proof that it did the work itself."""
    return int(said.outcome), int(said.code), said.tokens_hash, said.trace_root


@dataclass
class Sat:
    """One round: who held how many seats, what an honest seat found, who said what."""

    found: Judgement
    seats: dict[Address, int]
    votes: dict[Address, Vote] = field(default_factory=dict)
    """Those that were revealed."""
    faithful: set[Address] = field(default_factory=set)
    """Who said what an honest seat finds."""
    right: set[Address] = field(default_factory=set)
    """Whom the contracts call right in the end."""

    @property
    def is_outnumbered(self) -> bool:
        """Whether as many seats say what an honest seat finds with another round digest: one of both groups is right."""
        same = [who for who, vote in self.votes.items() if result_of(vote) == result_of(self.found)]
        lazy = sum(self.seats[who] for who in same if who not in self.faithful)
        return lazy > 0 and 2 * lazy >= sum(self.seats[who] for who in same)


@dataclass
class Fate:
    """One receipt of a play, and what became of it."""

    told: Told
    asked: Request
    filed: Filed
    place: int
    known: bool = False
    """Whether who is honest has its list."""
    is_void: bool = False
    """Whether its batch is."""
    is_member: bool = False
    is_final: bool = False
    dispute: Digest = ZERO_DIGEST
    verdict: Verdict = Verdict.NONE
    replacement: Digest = ZERO_DIGEST
    rounds: list[Sat] = field(default_factory=list)
    gains: dict[Address, int] = field(default_factory=dict)
    """Wei that each account has more than before it was opened, bonds counted."""
    paid: Counter[Address] = field(default_factory=Counter)
    """Bonds."""
    left: int = 0
    """Wei in the pot of its dispute."""

    @property
    def right_votes(self) -> list[Vote]:
        """Of those whom the contracts call right."""
        return [sat.votes[who] for sat in self.rounds for who in sat.right]

    @property
    def is_mixed(self) -> bool:
        """Whether the bytes were there for some and not for others: then who found none and who found a fault are right."""
        return self.verdict is Verdict.UNAVAILABLE and any(vote.outcome != Outcome.UNAVAILABLE for vote in self.right_votes)

    @property
    def served(self) -> bytes | None:
        """The envelope, if anybody can have it."""
        return self.filed.envelope or None


@dataclass
class Penalty:
    """A fault that needs no committee: what the operator lost, and what it must lose at least."""

    what: str
    lost: int
    least: int


@dataclass
class Story:
    """What became of a play."""

    fates: list[Fate] = field(default_factory=list)
    penalties: list[Penalty] = field(default_factory=list)
    sums: dict[str, tuple[int, int]] = field(default_factory=dict)
    """What must be equal at the end: sums of the contracts and what they are sums of."""

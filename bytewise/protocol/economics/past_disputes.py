"""Ended disputes as facts of a chain: rounds with their tallies, votes, seats that were charged, and money."""

from dataclasses import dataclass, fields

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.court.settlement import SeatOutcome
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.units import Digest


@dataclass(frozen=True, slots=True)
class Range:
    """Least and largest possible value; equal if the value is known."""

    low: int
    """Least possible value."""
    high: int
    """Largest possible value."""

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)


@dataclass(frozen=True, slots=True)
class VoteGroup:
    """Seats of one round that revealed the same."""

    outcome: Outcome
    """What they found."""
    key: Digest
    """`tally.key_of` their vote."""
    seats: int
    """How many seats."""


@dataclass(frozen=True, slots=True)
class PastRound:
    """A round with its tally."""

    level: int
    """1 to 3."""
    seats: int
    """Seats that were drawn."""
    settled: bool
    """Whether its votes were counted; False if its seed was lost."""
    verdict: Verdict
    """What it said."""
    equal: int
    """Seats that confirm the claim."""
    lead: int
    """Seats of the largest group that contradicts it."""
    lead_key: Digest
    """Key of that group; zero without one."""
    lead_verdict: Verdict
    """OVERTURNED or INVALID: what that group would decide; NONE without one."""
    unavailable: int
    """Seats that found no bytes."""
    no_key: int
    """Seats that got no key."""
    cannot_execute: int
    """Seats that could not execute."""
    not_revealed: int
    """Seats that committed and did not reveal."""
    absent: int
    """Seats that did not commit."""
    certified: int
    """Seats for which one certificate speaks, which needs a quorum."""
    groups: tuple[VoteGroup, ...]
    """Revealed votes."""

    @property
    def other(self) -> int:
        """Seats that neither confirm, nor are in the leading group, nor found no bytes."""
        return self.seats - self.equal - self.lead - self.unavailable

    @property
    def scattered(self) -> int:
        """Of these the ones with an answer or a defect of their own."""
        return self.other - self.no_key - self.cannot_execute - self.not_revealed - self.absent


@dataclass(frozen=True, slots=True)
class SeatCharge:
    """Settled seats of one member in all rounds."""

    taken: int
    """Wei that they cost it: less than the rates if it had less."""
    outcomes: tuple[SeatOutcome, ...]
    """How each seat was treated."""


@dataclass(frozen=True, slots=True)
class DisputeMoney:
    """Every amount of an ended dispute, in wei: what went in, what went out, and the penalties of seats."""

    bond: int
    """Bond of the challenger."""
    appeal_bond: int
    """Bond of the appellant; zero without an appeal."""
    advanced: int
    """What the treasury advanced for further rounds."""
    slashed: int
    """What the operator lost."""
    to_challenger: int
    """Reward and returned bond of the challenger."""
    to_appellant: int
    """Bond that the appellant gets back."""
    to_operator: int
    """The operator's share of a lost bond."""
    to_verifiers: int
    """Fees and rewards of right seats."""
    repaid: int
    """What the treasury got back of its advance."""
    burned: int
    """What nobody gets."""
    penalties: int
    """What seats were charged."""


FLOWS = tuple(each.name for each in fields(DisputeMoney))
"""Names of all amounts."""


@dataclass(frozen=True, slots=True)
class PastDispute:
    """An ended dispute, as the chain has it."""

    params: ParamSet
    """Parameters of its version."""
    verdict: Verdict
    """How it ended."""
    rounds: tuple[PastRound, ...]
    """Its rounds in order."""
    appealed: Verdict
    """Verdict that was appealed; NONE: nobody appealed."""
    knew: bool
    """Whether the challenger showed that it knew the final answer."""
    paid_seats: int
    """Seats that were paid."""
    locked: int
    """Wei of the operator's stake that it locked when it was opened: less than a slash only if there was no more."""
    others_took: bool
    """Whether anything but this dispute ever took stake from the operator."""
    charges: tuple[SeatCharge, ...]
    """Settled seats by member."""
    money: DisputeMoney
    """What moved."""

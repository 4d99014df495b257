"""Records of ended disputes, as facts of a chain: rounds with their tallies, votes, charged seats, and money."""

from dataclasses import dataclass, fields

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.court.settlement import SeatOutcome
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.units import Digest


@dataclass(frozen=True, slots=True)
class Range:
    """Least and largest possible value. Both are equal if the value is known."""

    low: int
    """Least possible value."""
    high: int
    """Largest possible value."""

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)


@dataclass(frozen=True, slots=True)
class VoteGroup:
    """Seats of one round whose revealed votes are equal."""

    outcome: Outcome
    """Outcome of these votes."""
    key: Digest
    """`tally.key_of` of these votes."""
    seats: int
    """Number of seats in the group."""


@dataclass(frozen=True, slots=True)
class PastRound:
    """A round of an ended dispute, with its tally."""

    level: int
    """Level of the committee, 1 to 3."""
    seats: int
    """Number of seats that were drawn."""
    settled: bool
    """Whether the votes were counted. False if the round's seed was lost."""
    verdict: Verdict
    """Verdict of the round."""
    equal: int
    """Seats that confirm the receipt's claim."""
    lead: int
    """Seats of the largest group that contradicts the receipt's claim."""
    lead_key: Digest
    """Key of the votes of that group; zero if there is no such group."""
    lead_verdict: Verdict
    """Verdict that this group would decide: OVERTURNED or INVALID; NONE if there is no such group."""
    unavailable: int
    """Seats that did not find the envelope's bytes."""
    no_key: int
    """Seats that got no key."""
    cannot_execute: int
    """Seats that could not execute the request."""
    not_revealed: int
    """Seats that committed but did not reveal."""
    absent: int
    """Seats that did not commit."""
    certified: int
    """Seats that a verdict certificate covers. A certificate needs a quorum."""
    groups: tuple[VoteGroup, ...]
    """Groups of equal revealed votes."""

    @property
    def other(self) -> int:
        """Number of all seats except these: seats that confirm the receipt, seats of the leading group, seats without the
        envelope's bytes."""
        return self.seats - self.equal - self.lead - self.unavailable

    @property
    def scattered(self) -> int:
        """Number of the seats in `other` that revealed an answer or a defect, but in a smaller group."""
        return self.other - self.no_key - self.cannot_execute - self.not_revealed - self.absent


@dataclass(frozen=True, slots=True)
class SeatCharge:
    """Settled seats of one member in all rounds of a dispute."""

    taken: int
    """Penalty in wei that the member paid for these seats. It is below the rates of the parameters if the member had less than
    they ask."""
    outcomes: tuple[SeatOutcome, ...]
    """Outcome of each seat."""


@dataclass(frozen=True, slots=True)
class DisputeMoney:
    """Every amount of an ended dispute, in wei: money that was paid in, money that was paid out, and penalties of seats."""

    bond: int
    """Bond that the challenger paid."""
    appeal_bond: int
    """Bond that the appellant paid; zero without an appeal."""
    advanced: int
    """Amount that the treasury advanced for further rounds."""
    slashed: int
    """Stake that the operator lost."""
    to_challenger: int
    """Reward and returned bond that the challenger got."""
    to_appellant: int
    """Bond that the appellant got back."""
    to_operator: int
    """Share of a lost bond that the operator got."""
    to_verifiers: int
    """Fees and rewards that the paid seats got."""
    repaid: int
    """Part of the advance that the treasury got back."""
    burned: int
    """Amount that was burned."""
    penalties: int
    """Penalties that seats were charged."""


FLOWS = tuple(each.name for each in fields(DisputeMoney))
"""Names of all amounts of `DisputeMoney`."""


@dataclass(frozen=True, slots=True)
class PastDispute:
    """An ended dispute, as the chain recorded it."""

    params: ParamSet
    """Parameters of the dispute's version."""
    verdict: Verdict
    """Verdict with which the dispute ended."""
    rounds: tuple[PastRound, ...]
    """Rounds of the dispute, in order."""
    appealed: Verdict
    """Verdict that was appealed; NONE if nobody appealed."""
    knew: bool
    """Whether the challenger showed that it knew the final answer."""
    paid_seats: int
    """Number of seats that were paid."""
    locked: int
    """Wei of the operator's stake that were locked when the dispute was opened. It is less than a slash only if the operator had
    no more."""
    others_took: bool
    """Whether anything other than this dispute ever took stake from the operator."""
    charges: tuple[SeatCharge, ...]
    """Settled seats, by member."""
    money: DisputeMoney
    """Amounts that moved."""

"""What the seats of a round said, counted as they say it: the incremental tally of `TallyLib`.

`tests.reference.verdict_rules` counts a finished round at once; this keeps the count as each member reveals, as the contract
does. Of two groups of one size the one that got there first leads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bytewise.protocol import digests
from bytewise.protocol.digests import keccak256_abi
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Finding, Outcome, Verdict, Vote
from bytewise.protocol.units import ZERO_DIGEST, Digest

WORKED = frozenset({Outcome.EXECUTED, Outcome.INVALID, Outcome.UNAVAILABLE})
"""Outcomes that a draw or a refund pays."""


@dataclass(frozen=True, slots=True)
class VoteContent:
    """What a vote or a certificate says, as far as it counts."""

    outcome: Outcome
    """Which case."""
    code: int
    """Defect code or `CannotReason`, else 0."""
    tokens_hash: Digest
    """What was computed; zero unless EXECUTED."""
    out_hash: Digest
    """What was computed; zero unless EXECUTED."""
    group: Digest
    """Hash of everything revealed: seats of one group count together."""

    @property
    def key(self) -> Digest:
        """What it says without the round digest: comparable across rounds."""
        return key_of(self.outcome, self.code, self.out_hash)


@dataclass(frozen=True, slots=True)
class Count:
    """Seats of a round by what they said so far."""

    equal: int = 0
    """Largest group that computed the claim."""
    lead: int = 0
    """Largest group among other results and defects."""
    unavailable: int = 0
    """Seats that found no bytes."""
    no_key: int = 0
    """Seats that got no key."""
    cannot_execute: int = 0
    """Seats whose machine cannot run it."""
    lead_said: VoteContent | None = None
    """What the leading fault says."""
    groups: Mapping[Digest, int] = field(default_factory=dict)
    """Seats of each group."""
    largest: Mapping[Digest, Digest] = field(default_factory=dict)
    """Key → its largest group."""

    def add(self, said: VoteContent, seats: int, claimed: tuple[Digest, Digest]) -> "Count":
        """The count with some more seats that said this; `claimed` are tokens_hash and out_hash of the receipt."""
        size = self.groups.get(said.group, 0) + seats
        largest = self.largest
        if size > self.groups.get(largest.get(said.key, ZERO_DIGEST), 0):
            largest = {**largest, said.key: said.group}
        grown = replace(self, groups={**self.groups, said.group: size}, largest=largest)
        match said.outcome:
            case Outcome.UNAVAILABLE:
                return replace(grown, unavailable=self.unavailable + seats)
            case Outcome.NO_KEY:
                return replace(grown, no_key=self.no_key + seats)
            case Outcome.CANNOT_EXECUTE:
                return replace(grown, cannot_execute=self.cannot_execute + seats)
            case _ if said.outcome is Outcome.EXECUTED and (said.tokens_hash, said.out_hash) == claimed:
                return replace(grown, equal=max(self.equal, size))
            case _ if size > self.lead:
                return replace(grown, lead=size, lead_said=said)
        return grown


@dataclass(frozen=True, slots=True)
class RoundVerdict:
    """What a count comes to."""

    verdict: Verdict
    """NONE: inconclusive."""
    key: Digest = ZERO_DIGEST
    """What the right seats said; zero if nobody is right."""
    second_key: Digest = ZERO_DIGEST
    """The leading fault of a mixed UNAVAILABLE, which is right too."""
    replacement: Digest = ZERO_DIGEST
    """The output that replaces the claim."""


MISSING = keccak256_abi(("uint8", "uint8", "bytes32"), (Outcome.UNAVAILABLE, 0, ZERO_DIGEST))
"""Key of a vote that found no bytes."""


def key_of(outcome: int, code: int, out_hash: Digest) -> Digest:
    """keccak256(abi.encode(outcome, code, outHash))."""
    return keccak256_abi(("uint8", "uint8", "bytes32"), (outcome, code, out_hash))


def vote_content(vote: Vote | Finding) -> VoteContent:
    """What a vote or finding says; `MalformedValue` unless it has the one form of its outcome."""
    words = (vote.tokens_hash, vote.trace_root, vote.round_digest)
    if int(vote.outcome) not in tuple(Outcome):
        raise MalformedValue("vote", f"outcome {vote.outcome}")
    outcome = Outcome(vote.outcome)
    executed = outcome is Outcome.EXECUTED
    coded = outcome in (Outcome.INVALID, Outcome.CANNOT_EXECUTE)
    if (not executed and any(map(any, words))) or (not coded and vote.code != 0):
        raise MalformedValue("vote", f"outcome {vote.outcome}, code {vote.code}")
    kinds = ("uint8", "uint8", "bytes32", "bytes32", "bytes32")
    group = keccak256_abi(kinds, (vote.outcome, vote.code, *words))
    out = digests.out_hash(vote.tokens_hash, vote.trace_root) if executed else ZERO_DIGEST
    return VoteContent(outcome, vote.code, vote.tokens_hash, out, group)


def judge(count: Count, claimed_out_hash: Digest, quorum: int) -> RoundVerdict:
    """The verdict of a count: the first line of design section 9's table that applies."""
    lead = ZERO_DIGEST if count.lead_said is None else count.lead_said.key
    if count.equal >= quorum:
        return RoundVerdict(Verdict.UPHELD, key_of(Outcome.EXECUTED, 0, claimed_out_hash))
    if count.lead_said is not None and count.lead >= quorum:
        if count.lead_said.outcome is Outcome.INVALID:
            return RoundVerdict(Verdict.INVALID, lead)
        return RoundVerdict(Verdict.OVERTURNED, lead, replacement=count.lead_said.out_hash)
    if count.unavailable >= quorum:
        return RoundVerdict(Verdict.UNAVAILABLE, MISSING)
    if count.lead + count.unavailable >= quorum:
        # Bytes for some and not for others: withholding must never be cheaper than lying (design section 9).
        return RoundVerdict(Verdict.UNAVAILABLE, MISSING, lead)
    return RoundVerdict(Verdict.NONE)

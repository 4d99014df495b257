"""Tally of a round that is updated with each reveal, as the contract library `TallyLib` does.

Of two groups of votes of equal size, the group that reached this size first leads. `tests.reference.verdict_rules` counts a
finished round at once instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bytewise.protocol import digests
from bytewise.protocol.digests import keccak256_abi
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Finding, Outcome, Verdict, Vote
from bytewise.protocol.units import ZERO_DIGEST, Digest

WORKED = frozenset({Outcome.EXECUTED, Outcome.INVALID, Outcome.UNAVAILABLE})
"""Outcomes whose seats are paid in a refund."""


@dataclass(frozen=True, slots=True)
class VoteContent:
    """The part of a vote or certificate that is counted."""

    outcome: Outcome
    """Outcome of the vote."""
    code: int
    """Defect code, or number of a `CannotReason`; 0 if the outcome needs neither."""
    tokens_hash: Digest
    """Recomputed tokens hash; zero unless EXECUTED."""
    out_hash: Digest
    """Recomputed out_hash; zero unless EXECUTED."""
    group: Digest
    """Hash of outcome, code, both recomputed hashes and the round digest, but not of salt and quote. Seats with equal hashes form
    one group and are counted together."""

    @property
    def key(self) -> Digest:
        """Key of the vote's result (`key_of`). It omits the round digest, so results of different rounds can be compared."""
        return key_of(self.outcome, self.code, self.out_hash)


@dataclass(frozen=True, slots=True)
class Count:
    """Numbers of seats of a round so far, by the content of their votes."""

    equal: int = 0
    """Size of the largest group that confirms the receipt."""
    lead: int = 0
    """Size of the largest group that found another result or a defect."""
    unavailable: int = 0
    """Seats that did not get the envelope's bytes."""
    no_key: int = 0
    """Seats that did not get a key."""
    cannot_execute: int = 0
    """Seats whose machine cannot execute the request."""
    lead_content: VoteContent | None = None
    """Content of the largest group that contradicts the receipt."""
    groups: Mapping[Digest, int] = field(default_factory=dict)
    """Number of seats in each group, by the group's hash."""
    largest: Mapping[Digest, Digest] = field(default_factory=dict)
    """Hash of the largest group for each `VoteContent.key`."""

    def add(self, content: VoteContent, seats: int, claimed: tuple[Digest, Digest]) -> "Count":
        """Returns the count after `seats` more seats voted with this content.

        `claimed` is the receipt's tokens_hash and out_hash.
        """
        size = self.groups.get(content.group, 0) + seats
        largest = self.largest
        if size > self.groups.get(largest.get(content.key, ZERO_DIGEST), 0):
            largest = {**largest, content.key: content.group}
        grown = replace(self, groups={**self.groups, content.group: size}, largest=largest)
        match content.outcome:
            case Outcome.UNAVAILABLE:
                return replace(grown, unavailable=self.unavailable + seats)
            case Outcome.NO_KEY:
                return replace(grown, no_key=self.no_key + seats)
            case Outcome.CANNOT_EXECUTE:
                return replace(grown, cannot_execute=self.cannot_execute + seats)
            case _ if content.outcome is Outcome.EXECUTED and (content.tokens_hash, content.out_hash) == claimed:
                return replace(grown, equal=max(self.equal, size))
            case _ if size > self.lead:
                return replace(grown, lead=size, lead_content=content)
        return grown


@dataclass(frozen=True, slots=True)
class RoundVerdict:
    """Verdict that follows from a round's count."""

    verdict: Verdict
    """The verdict; NONE if the round is inconclusive."""
    key: Digest = ZERO_DIGEST
    """`VoteContent.key` of the votes that were right; zero if there is no verdict."""
    second_key: Digest = ZERO_DIGEST
    """Key of a second group that was right: the leading fault in a mixed UNAVAILABLE verdict. Zero otherwise."""
    replacement: Digest = ZERO_DIGEST
    """The out_hash that replaces the receipt's, or zero."""


MISSING = keccak256_abi(("uint8", "uint8", "bytes32"), (Outcome.UNAVAILABLE, 0, ZERO_DIGEST))
"""`VoteContent.key` of a vote that did not find the bytes."""


def key_of(outcome: int, code: int, out_hash: Digest) -> Digest:
    """Returns keccak256(abi.encode(outcome, code, outHash)): the key of a result.

    The contracts compare votes, verdicts and challengers' expected answers by this key.
    """
    return keccak256_abi(("uint8", "uint8", "bytes32"), (outcome, code, out_hash))


def vote_content(vote: Vote | Finding) -> VoteContent:
    """Returns the content of a vote or finding. Raises `MalformedValue` if the outcome is unknown, or if a field is set that the
    outcome must leave zero."""
    revealed = (vote.tokens_hash, vote.trace_root, vote.round_digest)
    if int(vote.outcome) not in tuple(Outcome):
        raise MalformedValue("vote", f"outcome {vote.outcome}")
    outcome = Outcome(vote.outcome)
    executed = outcome is Outcome.EXECUTED
    coded = outcome in (Outcome.INVALID, Outcome.CANNOT_EXECUTE)
    if (not executed and any(map(any, revealed))) or (not coded and vote.code != 0):
        raise MalformedValue("vote", f"outcome {vote.outcome}, code {vote.code}")
    kinds = ("uint8", "uint8", "bytes32", "bytes32", "bytes32")
    group = keccak256_abi(kinds, (vote.outcome, vote.code, *revealed))
    out = digests.out_hash(vote.tokens_hash, vote.trace_root) if executed else ZERO_DIGEST
    return VoteContent(outcome, vote.code, vote.tokens_hash, out, group)


def judge(count: Count, claimed_out_hash: Digest, quorum: int) -> RoundVerdict:
    """Returns the verdict of a count: the first row of the table in design section 9 that applies.

    `quorum` is the number of seats that a verdict needs.
    """
    lead = ZERO_DIGEST if count.lead_content is None else count.lead_content.key
    if count.equal >= quorum:
        return RoundVerdict(Verdict.UPHELD, key_of(Outcome.EXECUTED, 0, claimed_out_hash))
    if count.lead_content is not None and count.lead >= quorum:
        if count.lead_content.outcome is Outcome.INVALID:
            return RoundVerdict(Verdict.INVALID, lead)
        return RoundVerdict(Verdict.OVERTURNED, lead, replacement=count.lead_content.out_hash)
    if count.unavailable >= quorum:
        return RoundVerdict(Verdict.UNAVAILABLE, MISSING)
    if count.lead + count.unavailable >= quorum:
        # Some seats got the bytes and others did not. Withholding must never be cheaper than lying (design section 9).
        return RoundVerdict(Verdict.UNAVAILABLE, MISSING, lead)
    return RoundVerdict(Verdict.NONE)

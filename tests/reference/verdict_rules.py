"""What one round's revealed votes come to: the table of design section 9, as `Disputes.settle` applies it.

Seats count together only if everything that was revealed agrees: outcome, code, tokens hash, trace root, round digest. With
τ above one half at most one line of the table can apply.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest

Group = tuple[int, int, Digest, Digest, Digest]
"""Outcome, code, tokens hash, trace root, round digest: what equal votes have in common."""


@dataclass(frozen=True, slots=True)
class RevealedVote:
    """One member's opened vote, with the number of its seats."""

    voter: Address
    """Seat holder."""
    seats: int
    """How many seats."""
    outcome: int
    """`Outcome`."""
    code: int
    """Defect code or `CannotReason`."""
    tokens_hash: Digest
    """Recomputed, or zero."""
    trace_root: Digest
    """Recomputed, or zero."""
    round_digest: Digest
    """Proof of holding every leaf, or zero."""

    @property
    def group(self) -> Group:
        """All that a vote must share to be counted with it."""
        return (self.outcome, self.code, self.tokens_hash, self.trace_root, self.round_digest)

    def is_equal(self, claimed_tokens_hash: Digest, claimed_out_hash: Digest) -> bool:
        """Whether the voter computed what a receipt says, in both fields."""
        executed = self.outcome == Outcome.EXECUTED
        return executed and digests.is_equal(claimed_tokens_hash, claimed_out_hash, self.tokens_hash, self.trace_root)

    @property
    def out_hash(self) -> Digest:
        """What the voter computed; zero unless EXECUTED."""
        if self.outcome != Outcome.EXECUTED:
            return ZERO_DIGEST
        return digests.out_hash(self.tokens_hash, self.trace_root)


@dataclass(frozen=True, slots=True)
class Tally:
    """The result of one round."""

    verdict: Verdict
    """NONE means inconclusive: the next round, or DRAW after the last."""
    winners: tuple[Address, ...]
    """Members that voted for the verdict, in the order of the votes: the ones who are paid."""
    replacement: Digest
    """out_hash that replaces the claim; zero unless OVERTURNED (and there is one)."""
    code: int
    """Defect code of an INVALID verdict, else 0."""
    quorum: int
    """Seats that a verdict needs: ceil(seats · τ)."""
    equal: int
    """Seats of the largest group that computed the claim."""
    fault: int
    """Seats of the largest group for one other answer or one defect code."""
    unavailable: int
    """Seats that found no bytes."""
    revealed: int
    """Seats whose votes are open."""


def tally(
    seats: int,
    tau_num: int,
    tau_den: int,
    votes: Sequence[RevealedVote],
    claimed_tokens_hash: Digest,
    claimed_out_hash: Digest,
    paper_rule: bool = False,
) -> Tally:
    """The verdict of a round of `seats` seats, votes in the order in which their members were first drawn.

    What is claimed are both fields of the receipt: a vote for the true out_hash of a receipt with other tokens is a vote for
    another answer, and its out_hash replaces the claim, although it is the same.
    `paper_rule` is the paper's Algorithm 2, which slashes whenever equal votes stay below the quorum; it exists so that tests
    can show whom it harms (design section 12). `MalformedValue` for more votes than seats or a τ outside (1/2, 1].
    """
    revealed = sum(vote.seats for vote in votes)
    if revealed > seats or not tau_den < 2 * tau_num <= 2 * tau_den:
        raise MalformedValue("tally", f"{revealed} of {seats} seats, quorum {tau_num}/{tau_den}")
    quorum = -(-seats * tau_num // tau_den)
    equals = [v for v in votes if v.is_equal(claimed_tokens_hash, claimed_out_hash)]
    faults = [v for v in votes if v.outcome in (Outcome.EXECUTED, Outcome.INVALID) and v not in equals]
    equal, fault = _leading(equals), _leading(faults)
    missing = [v for v in votes if v.outcome == Outcome.UNAVAILABLE]
    verdict, winning = _verdict(quorum, equal, fault, missing, paper_rule)
    return Tally(
        verdict=verdict, winners=tuple(vote.voter for vote in votes if vote in winning),
        replacement=fault[0].out_hash if verdict is Verdict.OVERTURNED and fault else ZERO_DIGEST,
        code=fault[0].code if verdict is Verdict.INVALID else 0, quorum=quorum, equal=_seats(equal), fault=_seats(fault),
        unavailable=_seats(missing), revealed=revealed,
    )  # fmt: skip


def _verdict(
    quorum: int, equal: list[RevealedVote], fault: list[RevealedVote], missing: list[RevealedVote], paper_rule: bool
) -> tuple[Verdict, list[RevealedVote]]:
    if _seats(equal) >= quorum:
        return Verdict.UPHELD, equal
    if _seats(fault) >= quorum or paper_rule:
        # Under the paper's rule silence convicts too, and then there is no other answer to replace the claim.
        return (Verdict.INVALID if fault and fault[0].outcome == Outcome.INVALID else Verdict.OVERTURNED), fault
    if _seats(missing) >= quorum:
        return Verdict.UNAVAILABLE, missing
    if _seats(missing) + _seats(fault) >= quorum:
        # Bytes for some and not for others: withholding must never be cheaper than lying (design section 9).
        return Verdict.UNAVAILABLE, missing + fault
    return Verdict.NONE, []


def _leading(votes: Iterable[RevealedVote]) -> list[RevealedVote]:
    """The group with most seats; of equal ones the one that comes first. The contract takes the group that reached the size first
    (`court.tally`)."""
    groups: dict[Group, list[RevealedVote]] = {}
    for vote in votes:
        groups.setdefault(vote.group, []).append(vote)
    return max(groups.values(), key=_seats, default=[])


def _seats(votes: Iterable[RevealedVote]) -> int:
    return sum(vote.seats for vote in votes)

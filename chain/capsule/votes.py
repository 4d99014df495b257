"""Checks a capsule's votes against the committees in the state, and the verdict by the rule of `bytewise.protocol.court`."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.court.tally import Count, RoundVerdict, VoteContent, judge, key_of, vote_content
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.receipt import Receipt
from bytewise.protocol.records.statements import Finding, Verdict
from bytewise.protocol.units import U16, ZERO_DIGEST, Digest
from chain.capsule.facts import CommitteeMember, Facts, Round, Tally
from chain.capsule.report import Failure, Stop
from chain.capsule.schema import CertifiedVote, RevealedVote, RoundVotes


class SeatsVote(NamedTuple):
    """The vote of a group of seats in a round: the seats of one member, or all seats of a certificate."""

    round: int
    """Number of the round."""
    voters: tuple[CommitteeMember, ...]
    """The member. For a certificate, all members for whose seats it counts."""
    mask: int
    """Bit mask of the seats."""
    content: VoteContent
    """What the seats voted."""
    is_certified: bool
    """Whether a certificate shows the vote."""


def votes_of(facts: Facts, dispute: Digest, listed: Sequence[RoundVotes]) -> list[SeatsVote]:
    """Checks every vote of a capsule against the contracts' state, and returns the votes. Raises `Stop` if the capsule has a
    vote that the state does not have, or if it lacks a vote that the state has."""
    have, want = [each.round for each in listed], [each.number for each in facts.rounds]
    if have != want:
        raise Stop(Failure.VOTES_ROUNDS, f"votes of rounds {have}, drawn were {want}")
    said: list[SeatsVote] = []
    for drawn, votes in zip(facts.rounds, listed, strict=True):
        said += _revealed(drawn, dispute, votes.votes)
        said += _certified(drawn, dispute, votes.certificate)
    return said


def _revealed(drawn: Round, dispute: Digest, votes: Sequence[RevealedVote]) -> Iterator[SeatsVote]:
    """Yields the votes that members of a round revealed directly. Raises `Stop` unless the state has exactly these votes."""
    members = {_lowest(each.mask): each for each in drawn.members}
    opened, before = 0, -1
    for vote in votes:
        where = f"seat {vote.seat} of round {drawn.number}"
        if vote.seat <= before:
            raise Stop(Failure.VOTES_SEAT_TWICE, f"{where} comes after seat {before}")
        before, member = vote.seat, members.get(vote.seat)
        if member is None or member.mask & drawn.opened != member.mask:
            raise Stop(Failure.VOTES_COMMITTEE, f"{where} is not the first of a member that revealed")
        content = _content(vote, dispute, drawn.number, where)
        if content.group != member.word:
            raise Stop(Failure.VOTES_GROUP, f"the vote of {where} is not the one in the state")
        opened |= member.mask
        yield SeatsVote(drawn.number, (member,), member.mask, content, False)
    if opened != drawn.opened:
        raise Stop(Failure.VOTES_MISSING, f"round {drawn.number} has {(drawn.opened & ~opened).bit_count()} more revealed seats")


def _certified(drawn: Round, dispute: Digest, vote: CertifiedVote | None) -> Iterator[SeatsVote]:
    """Yields the vote of a round's certificate, if there is one. Raises `Stop` unless the state has the same certificate or
    none."""
    where = f"the certificate of round {drawn.number}"
    if (vote is None) != (drawn.certified == 0):
        failure = Failure.VOTES_MISSING if vote is None else Failure.VOTES_COMMITTEE
        raise Stop(failure, f"{where} is {'missing' if vote is None else 'not in the state'}")
    if vote is None:
        return
    content = _content(vote, dispute, drawn.number, where)
    if content.group != drawn.certified_group:
        raise Stop(Failure.VOTES_GROUP, f"{where} is not the one in the state")
    signers = tuple(each for each in drawn.members if each.mask & drawn.certified)
    yield SeatsVote(drawn.number, signers, drawn.certified, content, True)


def _content(vote: RevealedVote | CertifiedVote, dispute: Digest, number: int, where: str) -> VoteContent:
    finding = Finding(
        dispute, U16(number), vote.outcome, vote.code, vote.tokens_hash, vote.trace_root, vote.round_digest
    )  # fmt: skip
    try:
        return vote_content(finding)
    except MalformedValue as error:
        raise Stop(Failure.VOTES_FORM, f"{where}: {error}") from None


def verdict_by_rule(facts: Facts, said: Sequence[SeatsVote], receipt: Receipt) -> RoundVerdict:
    """Returns the verdict that the votes of the deciding round give. Raises `Stop` if the state has another verdict.

    Every other round must give no verdict. The exception is the round with the verdict that was appealed.
    """
    by_round = {
        each.number: _judged(each, [vote for vote in said if vote.round == each.number], receipt) for each in facts.rounds
    }
    case, found = facts.case, by_round.get(facts.case.decided_in, RoundVerdict(Verdict.NONE))
    if case.verdict in {Verdict.UPHELD, *CONVICTIONS}:
        if found.verdict is not case.verdict or any(found.second_key) != case.is_mixed:
            told = f"round {case.decided_in} gives {found.verdict.name}, the state has {case.verdict.name}"
            raise Stop(Failure.VERDICT_RULE, told)
    others = [each.verdict for number, each in by_round.items() if number != case.decided_in]
    allowed = {Verdict.NONE, case.appealed}
    if not allowed.issuperset(others) or (case.verdict is Verdict.DRAW and found.verdict is not Verdict.NONE):
        raise Stop(Failure.VERDICT_RULE, f"another round gives a verdict: {', '.join(each.name for each in others)}")
    return found


def _judged(drawn: Round, said: Sequence[SeatsVote], receipt: Receipt) -> RoundVerdict:
    """Returns the verdict of one round, counted from its votes. Raises `Stop` if the contract counted otherwise."""
    claimed, leading = (receipt.tokens_hash, receipt.out_hash), key_of(*drawn.lead)
    count = Count()
    # Of two groups with equally many seats, the group leads that reached the number first. The state names the leading group,
    # so its votes are counted first.
    for vote in sorted(said, key=lambda each: each.content.key != leading):
        count = count.add(vote.content, vote.mask.bit_count(), claimed)
    have = Tally(count.equal, count.lead, count.unavailable, count.no_key, count.cannot_execute)
    lead = count.lead_content
    have_lead = (0, 0, ZERO_DIGEST) if lead is None else (lead.outcome.value, lead.code, lead.out_hash)
    if have != drawn.tally or (lead is not None and have_lead != drawn.lead):
        raise Stop(Failure.VERDICT_TALLY, f"round {drawn.number} counts {have}, the state has {drawn.tally}")
    return judge(count, receipt.out_hash, drawn.quorum) if drawn.is_settled else RoundVerdict(Verdict.NONE)


def _lowest(mask: int) -> int:
    """Returns the number of the first seat in a mask."""
    return (mask & -mask).bit_length() - 1

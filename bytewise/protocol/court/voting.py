"""What members say: commit, reveal, certify (`DisputeVotes.sol`)."""

from collections.abc import Iterable
from dataclasses import replace

from bytewise.protocol import digests
from bytewise.protocol.court import checks
from bytewise.protocol.court.count import said_by
from bytewise.protocol.court.state import Court, Dispute, Word
from bytewise.protocol.errors import CommitmentMismatch, MalformedValue, NotAMember, TooEarly
from bytewise.protocol.messages import Finding, Vote
from bytewise.protocol.phases import Phase
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest


def commit(court: Court, dispute: Digest, who: Address, seat_mask: int, commitment: Digest) -> Court:
    """Commit to a vote with all seats of a member, by itself or by its signature. Final."""
    checks.running(court)
    found = _committing(court, dispute)
    _masked(found, who, seat_mask)
    checks.new(who not in found.round.words, who, "committed already")
    if commitment == ZERO_DIGEST:
        raise MalformedValue("commitment", "empty")
    found = found.with_round(words={**found.round.words, who: Word(commitment)})
    if found.round.committed == (1 << found.round.seats) - 1:
        # Nobody is left to wait for: commits ended before this second, and reveals begin in it.
        reveal_end = court.now + court.params_of(found).times.reveal_time
        found = found.with_round(commit_end=court.now - 1, reveal_end=reveal_end)
    return court.put(found)


def post_root(court: Court, dispute: Digest, root: Digest) -> Court:
    """Say that commitments of this root existed before anybody revealed."""
    checks.running(court)
    found = _committing(court, dispute)
    if root == ZERO_DIGEST:
        raise MalformedValue("commit root", "empty")
    return court.put(found.with_round(roots=found.round.roots | {root}))


def reveal(court: Court, vote: Vote, quote: bytes = b"") -> Court:
    """Open a vote, by whoever knows it."""
    checks.running(court)
    found = _revealing(court, vote.dispute)
    if vote.round != len(found.rounds):
        raise MalformedValue("vote", f"round {vote.round} of {len(found.rounds)}")
    _masked(found, vote.voter, vote.seat_mask)
    word = found.round.words.get(vote.voter, Word())
    checks.new(word.said is None, vote.voter, "revealed already")
    if word.commitment != typed_digest(court.domain, vote):
        raise CommitmentMismatch(vote.voter, word.commitment.hex())
    said = said_by(vote)
    have = digests.keccak256(quote) if quote else ZERO_DIGEST
    if have != vote.quote_hash:
        raise MalformedValue("quote", f"hash {have.hex()} instead of {vote.quote_hash.hex()}")
    words = {**found.round.words, vote.voter: replace(word, said=said)}
    count = found.round.count.add(said, vote.seat_mask.bit_count(), found.claim.out_hash)
    return court.put(found.with_round(words=words, count=count))


def certify(court: Court, finding: Finding, root: Digest, signers: Iterable[Address]) -> Court:
    """One signature, checked by the caller, of members whose seats make a quorum and who did not commit on the chain."""
    checks.running(court)
    found = _revealing(court, finding.dispute)
    if finding.round != len(found.rounds) or root not in found.round.roots:
        raise MalformedValue("certificate", f"round {finding.round}, root {root.hex()}")
    checks.new(not found.round.certified, f"round {finding.round}", "certified already")
    said, seats, words = said_by(finding), 0, dict(found.round.words)
    for who in signers:
        mask = found.round.mask(who)
        if not mask:
            raise NotAMember(who, found.id.hex(), finding.round)
        if who in words:
            raise MalformedValue("certificate", f"{who} committed itself, or is named twice")
        words[who], seats = Word(said=said), seats | mask
    quorum = court.params_of(found).quorum(found.round.seats)
    if seats.bit_count() < quorum:
        raise MalformedValue("certificate", f"{seats.bit_count()} seats of {quorum}")
    count = found.round.count.add(said, seats.bit_count(), found.claim.out_hash)
    return court.put(found.with_round(words=words, count=count, certified=seats))


def _committing(court: Court, dispute: Digest) -> Dispute:
    found = checks.in_phase(court, dispute, Phase.COMMIT, Phase.REVEAL)
    checks.not_after("the commit phase", found.round.commit_end, court.now)
    return found


def _revealing(court: Court, dispute: Digest) -> Dispute:
    found = checks.in_phase(court, dispute, Phase.COMMIT, Phase.REVEAL)
    if not court.commits_closed(found.round):
        raise TooEarly("a reveal", found.round.commit_end + 1, court.now)
    checks.not_after("the reveal phase", found.round.reveal_end, court.now)
    return found


def _masked(found: Dispute, who: Address, seat_mask: int) -> None:
    mask = found.round.mask(who)
    if not mask:
        raise NotAMember(who, found.id.hex(), len(found.rounds))
    if seat_mask != mask:
        raise MalformedValue("seat mask", f"{seat_mask:b} instead of {mask:b}")

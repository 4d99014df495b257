"""What members say: commit, reveal, certify (`DisputeVotes.sol`)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bytewise.protocol import digests, merkle
from bytewise.protocol.court import commitments
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.tally import vote_content
from bytewise.protocol.errors.actors import CommitmentMismatch, NotAMember, TooEarly
from bytewise.protocol.errors.records import MalformedValue, MerkleProofMismatch
from bytewise.protocol.records.statements import Finding, Vote
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest
from tests.reference import checks
from tests.reference.state import Court, Dispute, VoteRecord


def commit(court: Court, dispute: Digest, who: Address, seat_mask: int, commitment: Digest) -> Court:
    """Commit to a vote with all seats of a member, by itself or by its signature. Final."""
    checks.running(court)
    found = _committing(court, dispute)
    _masked(found, who, seat_mask)
    checks.new(who not in found.round.words, who, "committed already")
    if commitment == ZERO_DIGEST:
        raise MalformedValue("commitment", "empty")
    found = found.with_round(words={**found.round.words, who: VoteRecord(commitment)})
    if found.round.committed == (1 << found.round.seats) - 1:
        # Nobody is left to wait for: commits ended before this second, and reveals begin in it.
        reveal_end = court.now + court.params_of(found).times.reveal_time
        found = found.with_round(commit_end=court.now - 1, reveal_end=reveal_end)
    return court.put(found)


def post_root(court: Court, dispute: Digest, who: Address, root: Digest) -> Court:
    """Say, as a member, that commitments of this root existed before anybody revealed."""
    checks.running(court)
    found = _committing(court, dispute)
    if root == ZERO_DIGEST:
        raise MalformedValue("commit root", "empty")
    if not found.round.mask(who):
        raise NotAMember(who, found.id.hex(), len(found.rounds))
    return court.put(found.with_round(roots=tuple(dict.fromkeys((*found.round.roots, root)))))


def reveal(court: Court, vote: Vote, quote: bytes = b"") -> Court:
    """Open a vote, by whoever knows it."""
    found, word = _closed(court, vote)
    if word.commitment != typed_digest(court.domain, vote):
        raise CommitmentMismatch(vote.voter, word.commitment.hex())
    return _opened(court, found, vote, quote)


def reveal_under_root(court: Court, vote: Vote, who: Address, proof: Sequence[Digest], quote: bytes = b"") -> Court:
    """Open a vote whose commitment is under the first root of the round and not on the chain, by its voter alone."""
    found, word = _closed(court, vote)
    if who != vote.voter:
        raise NotAMember(who, found.id.hex(), len(found.rounds))
    if word.commitment != ZERO_DIGEST:
        raise MalformedValue("vote under a root", f"{who} committed itself")
    leaf = commitments.sealed(typed_digest(court.domain, vote), vote.voter, vote.seat_mask)
    place = (vote.seat_mask & -vote.seat_mask).bit_length() - 1
    root = merkle.commit_root_from(leaf, place, proof)
    if root not in found.round.roots[:1]:
        raise MerkleProofMismatch(leaf.hex(), root.hex())
    return _opened(court, found, vote, quote)


def certify(court: Court, finding: Finding, root: Digest, signers: Iterable[Address]) -> Court:
    """One signature, checked by the caller, of members whose seats make a quorum and who did not commit on the chain.

    Who of them has opened its vote under the root is counted for that.
    """
    checks.running(court)
    found = _revealing(court, finding.dispute)
    if finding.round != len(found.rounds) or root not in found.round.roots:
        raise MalformedValue("certificate", f"round {finding.round}, root {root.hex()}")
    checks.new(not found.round.certified, f"round {finding.round}", "certified already")
    signing = tuple(signers)
    counted = found.round.words.keys()
    words = {who: VoteRecord(said=vote_content(finding)) for who in signing if who not in counted}
    quorum, seats = court.params_of(found).quorum(found.round.seats), _signing(found, signing)
    if seats < quorum:
        raise MalformedValue("certificate", f"{seats} seats of {quorum}")
    checks.new(bool(words), f"round {finding.round}", "every signer has opened its vote")
    mask = sum(found.round.mask(who) for who in words)
    count = found.round.count.add(vote_content(finding), mask.bit_count(), found.claim.answer)
    return court.put(found.with_round(words={**found.round.words, **words}, count=count, certified=mask))


def _signing(found: Dispute, signers: Sequence[Address]) -> int:
    """Seats of the signers, none of whom committed on the chain."""
    times = Counter(signers)
    for who in signers:
        if not found.round.mask(who):
            raise NotAMember(who, found.id.hex(), len(found.rounds))
        if times[who] > 1 or found.round.words.get(who, VoteRecord()).commitment != ZERO_DIGEST:
            raise MalformedValue("certificate", f"{who} committed itself, or is named twice")
    return sum(found.round.mask(who).bit_count() for who in signers)


def _closed(court: Court, vote: Vote) -> tuple[Dispute, VoteRecord]:
    """The dispute of a vote that nobody has opened or certified, and what its voter did so far."""
    checks.running(court)
    found = _revealing(court, vote.dispute)
    if vote.round != len(found.rounds):
        raise MalformedValue("vote", f"round {vote.round} of {len(found.rounds)}")
    _masked(found, vote.voter, vote.seat_mask)
    word = found.round.words.get(vote.voter, VoteRecord())
    checks.new(word.said is None, vote.voter, "revealed already")
    return found, word


def _opened(court: Court, found: Dispute, vote: Vote, quote: bytes) -> Court:
    said = vote_content(vote)
    have = digests.keccak256(quote) if quote else ZERO_DIGEST
    if have != vote.quote_hash:
        raise MalformedValue("quote", f"hash {have.hex()} instead of {vote.quote_hash.hex()}")
    word = found.round.words.get(vote.voter, VoteRecord())
    words = {**found.round.words, vote.voter: replace(word, said=said)}
    count = found.round.count.add(said, vote.seat_mask.bit_count(), found.claim.answer)
    return court.put(found.with_round(words=words, count=count))


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

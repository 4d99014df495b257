"""Verdict certificates of a committee: the messages that members send each other, and the decisions of a member (ADR-031).

A member decides in every round in which one Merkle root can contain the commitments of several members. A member that takes part
adds its commitment to a shared root, sends its opened vote to the other members, and signs one statement for the seats of all
signers. Each step has a time limit. After the limit the member acts alone on the chain: it posts its own commitment, or reveals
its vote under the root. The round therefore ends correctly with any number of dishonest members, and even without any message.

The member's account signs each message as a `RoundMessage`, a type that no contract accepts. Nobody can therefore use a message
to commit its sender on the chain (ADR-030), and nobody can send a message in the name of another member.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from bytewise.protocol import merkle
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import CertifyRound, PostCommitRoot, RevealUnderRoot
from bytewise.protocol.decisions.snapshot import Dispute, Seat
from bytewise.protocol.digests import keccak256
from bytewise.protocol.encoding import encode, from_json, to_json
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Finding, Vote
from bytewise.protocol.signing import Domain, Signer, typed_digest, typed_preimage, verify_signature
from bytewise.protocol.units import U16, U256, Address, Blob, Digest, hex0x, unhex

MAX_SIGNATURE_CHARS = 132


@dataclass(frozen=True, slots=True)
class RoundMessage:
    """The statement that a member's account signs for each of its messages, under the domain of `Disputes`."""

    dispute: Digest
    """Id of the dispute."""
    round: U16
    """Number of the round: 1, 2, …"""
    voter: Address
    """Account of the member that sends the message."""
    content: Digest
    """keccak256 of the message's canonical bytes."""


@dataclass(frozen=True, slots=True)
class SharedCommitment:
    """Message with a member's commitment, which another member posts on the chain under a common Merkle root."""

    dispute: Digest
    """Id of the dispute."""
    round: U16
    """Number of the round: 1, 2, …"""
    voter: Address
    """Account of the member that sends the message."""
    seat_mask: U256
    """Mask of all seats of this member."""
    commitment: Digest
    """EIP-712 digest of the member's vote."""


@dataclass(frozen=True, slots=True)
class RootMembers:
    """Message that lists the members whose commitments are in a commit root.

    It is true if the commitments of these members hash to the root on the chain.
    """

    dispute: Digest
    """Id of the dispute."""
    round: U16
    """Number of the round: 1, 2, …"""
    voter: Address
    """Account of the member that posts the root."""
    members: U256
    """Mask of the seats of the members in the root."""


@dataclass(frozen=True, slots=True)
class OpenedVote:
    """Message with a member's vote, sent after the commit phase. It is true if it hashes to the member's commitment."""

    dispute: Digest
    """Id of the dispute."""
    round: U16
    """Number of the round: 1, 2, …"""
    voter: Address
    """Account of the member that sends the message."""
    vote: Vote
    """The vote with its salt."""


@dataclass(frozen=True, slots=True)
class CertificateShare:
    """Message with one member's BLS signature over a finding, for a set of seats (`commitments.certified_digest`)."""

    dispute: Digest
    """Id of the dispute."""
    round: U16
    """Number of the round: 1, 2, …"""
    voter: Address
    """Account of the member that sends the message."""
    signers: U256
    """Mask of the seats of all members that are to sign."""
    signature: Blob
    """BLS signature: a point of G2, 256 bytes."""


CertificateMessage = SharedCommitment | RootMembers | OpenedVote | CertificateShare
_KINDS: dict[str, type[CertificateMessage]] = {
    "commitment": SharedCommitment, "root": RootMembers, "vote": OpenedVote, "share": CertificateShare,
}  # fmt: skip


class SignedMessage(NamedTuple):
    """A message with its signature. The signature is not verified yet."""

    message: CertificateMessage
    statement: RoundMessage
    signature: bytes

    def verify(self, domain: Domain) -> None:
        """Raises `BadSignature` unless the member's account signed the message."""
        verify_signature("message", typed_digest(domain, self.statement), self.signature, self.message.voter)


def signed_body(domain: Domain, signer: Signer, message: CertificateMessage) -> dict[str, Any]:
    """Signs a message with the member's account. Returns the JSON body that is sent."""
    body = {"kind": next(name for name, kind in _KINDS.items() if isinstance(message, kind)), **to_json(message)}
    signature = signer.sign_preimage(typed_preimage(domain, _statement(message, body)))
    return {**body, "proof": hex0x(signature)}


def message_of(body: dict[str, Any]) -> SignedMessage:
    """Reads a message from a JSON body, without checking its signature.

    Raises `MalformedValue` or `WrongFields` if the body is not a message.
    """
    kind, proof = _KINDS.get(str(body.get("kind"))), body.get("proof")
    if kind is None or not isinstance(proof, str) or len(proof) != MAX_SIGNATURE_CHARS:
        raise MalformedValue("message", f"has no proof, or kind {str(body.get('kind'))[:20]!r} is none of {', '.join(_KINDS)}")
    message = from_json(kind, {name: value for name, value in body.items() if name not in ("kind", "proof")})
    said = {name: value for name, value in body.items() if name != "proof"}
    return SignedMessage(message, _statement(message, said), unhex(proof))


def _statement(message: CertificateMessage, body: dict[str, Any]) -> RoundMessage:
    return RoundMessage(message.dispute, message.round, message.voter, keccak256(encode(body)))


CertificateAction = PostCommitRoot | CertifyRound | RevealUnderRoot

ATTEMPTS = 3
"""Largest number of different sets of seats for which a member signs in one round."""
COLLECT_PARTS, DIRECT_PARTS = 8, 12
"""Times in the commit phase, in sixteenths of its length. At the first, the commitments collected so far become a root. From the
second on, a member posts its commitment alone."""
REVEAL_PARTS = 8
"""Time in the reveal phase, in sixteenths of its length, from which on a member reveals alone. One attempt to make a certificate
takes two sixteenths."""
PARTS = 16


@dataclass(frozen=True, slots=True)
class RoundBoard:
    """The knowledge of one member about a round, from verified messages and from the chain.

    A set of seats is a mask: bit i is set for seat i.
    """

    able: Set[Address] = frozenset()
    """Members that have registered a key for certificates."""
    leaves: Mapping[Address, Digest] = field(default_factory=dict)
    """Commitments that members shared, in the form of `commitments.sealed`. A member that signed two different commitments is
    left out."""
    root: Digest | None = None
    """First commit root of the round on the chain, or None."""
    under: Mapping[int, Digest] | None = None
    """Commitments under that root, each by the first seat of its member. None if the commitments are not known."""
    opened: Mapping[Address, Finding] = field(default_factory=dict)
    """Findings of the members that opened a vote which fits their commitment."""
    signed: tuple[int, ...] = ()
    """Sets of seats for which this member signed, oldest first."""
    shares: Mapping[int, Collection[Address]] = field(default_factory=dict)
    """Members that signed for each set of seats, as far as this member knows. Members that sent a wrong signature are left
    out."""
    complete: Set[int] = frozenset()
    """Sets of seats for which every signature arrived and was checked."""


@dataclass(frozen=True, slots=True)
class CertificatePlan:
    """The steps of a member in one round at one block."""

    acts_alone: bool = False
    """Whether the member commits and reveals alone, as in a round without certificates."""
    actions: tuple[CertificateAction, ...] = ()
    """Transactions to send."""
    shares_commitment: bool = False
    """Whether the member sends its commitment to the other members."""
    opens_vote: bool = False
    """Whether the member sends its vote to the other members."""
    signs: int = 0
    """Set of seats for which the member signs now, or 0."""


ALONE = CertificatePlan(acts_alone=True)


def decide_certificate(clock: int, dispute: Dispute, me: Address, vote: Vote, leaf: Digest, board: RoundBoard) -> CertificatePlan:
    """Returns the plan of a member that has a vote in the protection table.

    `clock` is the protocol clock. `leaf` is the member's commitment in the form of `commitments.sealed`.
    """
    seat = dispute.seat_of(me)
    if seat is None or seat.committed:
        return ALONE
    if dispute.phase is Phase.COMMIT and me in board.able:
        return _decide_commit(clock, dispute, seat, leaf, board)
    # A member under the root has only this way to reveal, also if it lost its key for certificates.
    if dispute.phase is Phase.REVEAL and board.under is not None and board.under.get(first_seat(seat)) == leaf:
        own = replace(board, opened={**board.opened, me: finding_of(vote)})
        return _decide_reveal(clock, dispute, seat, vote, own)
    return ALONE


def finding_of(vote: Vote) -> Finding:
    """Returns the finding of a vote: its content without voter, seats, quote and salt."""
    return Finding(
        vote.dispute, vote.round, vote.outcome, vote.code, vote.tokens_hash, vote.trace_root, vote.round_digest
    )  # fmt: skip


def first_seat(seat: Seat) -> int:
    """Returns the number of a member's lowest seat, which is its place in the commitment tree."""
    return (seat.seat_mask & -seat.seat_mask).bit_length() - 1


def leaves_of(dispute: Dispute, leaves: Mapping[Address, Digest], members: int) -> dict[int, Digest]:
    """Returns the known commitments, by first seat, of the members whose seats are in the mask `members`."""
    return {first_seat(each): leaves[each.voter] for each in dispute.members if each.voter in leaves and each.seat_mask & members}


def _decide_commit(clock: int, dispute: Dispute, seat: Seat, leaf: Digest, board: RoundBoard) -> CertificatePlan:
    begin, place = dispute.commit_end - dispute.commit_s, first_seat(seat)
    late = clock >= begin + dispute.commit_s * DIRECT_PARTS // PARTS
    if board.under is not None:
        return CertificatePlan() if board.under.get(place) == leaf else ALONE
    if late:
        return ALONE
    if board.root is not None:
        return CertificatePlan(shares_commitment=True)
    sharing = [each for each in _in_order(dispute) if each.voter in board.leaves and not each.committed]
    everybody = all(each.committed or each.voter in board.leaves for each in dispute.members if each.voter in board.able)
    rank = next((number for number, each in enumerate(sharing) if each.voter == seat.voter), None)
    plan = CertificatePlan(shares_commitment=True)
    if rank is None or _size(sharing) < dispute.quorum:
        return plan
    turn = begin + dispute.commit_s * (COLLECT_PARTS + rank) // PARTS
    if clock < turn and not (everybody and rank == 0):
        return plan
    root = merkle.commit_root(leaves_of(dispute, board.leaves, mask_of(sharing)))
    return CertificatePlan(shares_commitment=True, actions=(PostCommitRoot(dispute.id, dispute.round, root),))


def _decide_reveal(clock: int, dispute: Dispute, seat: Seat, vote: Vote, board: RoundBoard) -> CertificatePlan:
    length, passed = dispute.reveal_end - dispute.commit_end, clock - dispute.commit_end
    assert board.under is not None
    alone = RevealUnderRoot(vote, merkle.commit_proof(board.under, first_seat(seat)))
    same = _agreeing(dispute, finding_of(vote), board)
    heard = all(each.voter in board.opened for each in dispute.members if first_seat(each) in board.under)
    number = min(passed * PARTS // max(1, 2 * length), ATTEMPTS)
    hopeless = (heard or number >= 1) and _size(same) < dispute.quorum
    if any(dispute.certified_group) or hopeless or passed * PARTS >= length * REVEAL_PARTS:
        return CertificatePlan(actions=(alone,), opens_vote=True)
    actions = _certify(clock, dispute, seat, vote, board)
    wanted = _next_mask(dispute, same, heard, number, board)
    # A member never signs for a set without its own seats.
    return CertificatePlan(actions=actions, opens_vote=True, signs=wanted if wanted & seat.seat_mask else 0)


def _next_mask(dispute: Dispute, same: Sequence[Seat], heard: bool, number: int, board: RoundBoard) -> int:
    """Returns the set of seats for which the member signs now, or 0.

    The first set has all members that agree. Later sets have those of them that signed before.
    """
    if len(board.signed) >= ATTEMPTS or board.complete:
        return 0
    if not board.signed:
        return mask_of(same) if heard or number >= 1 else 0
    if len(board.signed) >= number:
        return 0
    spoke = {who for mask in board.shares for who in board.shares[mask]} if number == 2 else set(board.shares[board.signed[-1]])
    willing = [each for each in same if each.voter in spoke]
    wanted = mask_of(willing)
    return wanted if wanted not in board.signed and _size(willing) >= dispute.quorum else 0


def _certify(clock: int, dispute: Dispute, seat: Seat, vote: Vote, board: RoundBoard) -> tuple[CertifyRound, ...]:
    """Returns the action to send a complete certificate, or nothing.

    The first signer sends it at once; the others wait their turn.
    """
    mask = next((each for each in board.signed if each in board.complete), 0)
    if not mask or board.root is None:
        return ()
    signers = [each for each in _in_order(dispute) if each.seat_mask & mask]
    rank = next(number for number, each in enumerate(signers) if each.voter == seat.voter)
    length = dispute.reveal_end - dispute.commit_end
    if rank and clock < dispute.commit_end + length * (6 * 4 + rank) // (PARTS * 4):
        return ()
    spoken = mask | mask_of([each for each in dispute.members if any(each.group)])
    return (CertifyRound(finding_of(vote), board.root, mask, spoken == (1 << dispute.seats) - 1),)


def _agreeing(dispute: Dispute, finding: Finding, board: RoundBoard) -> list[Seat]:
    """Returns the members under the root that may sign and that opened this finding."""
    under = board.under or {}
    return [
        each for each in _in_order(dispute)
        if first_seat(each) in under and each.voter in board.able and not each.committed
        and board.opened.get(each.voter) == finding
    ]  # fmt: skip


def _in_order(dispute: Dispute) -> list[Seat]:
    """Returns the members by first seat. This is the order of the draw, which no member can choose."""
    return sorted((each for each in dispute.members if each.seat_mask), key=first_seat)


def mask_of(seats: Sequence[Seat]) -> int:
    """Returns the mask of all seats of these members."""
    return sum(each.seat_mask for each in seats)


def _size(seats: Sequence[Seat]) -> int:
    return mask_of(seats).bit_count()


def round_of(dispute: Dispute) -> tuple[Digest, U16]:
    """Returns dispute id and round number in the types that messages use."""
    return dispute.id, U16(dispute.round)

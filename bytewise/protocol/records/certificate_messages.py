"""Messages that committee members send each other to make a verdict certificate (ADR-031).

The member's account signs each message as a `RoundMessage`, a type that no contract accepts. Nobody can therefore use a message
to commit its sender on the chain (ADR-030), and nobody can send a message in the name of another member.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from bytewise.protocol.digests import keccak256
from bytewise.protocol.encoding import encode, from_json, to_json
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Vote
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

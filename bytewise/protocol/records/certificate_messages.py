"""What members send each other to make a verdict certificate (ADR-077).

Every message is signed by its member's account, over a type that no contract takes. So nobody can commit a member on the chain
with a message (ADR-026), and nobody can speak for another.
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
    """The statement that a member's account signs, under the domain of `Disputes`, for each of its messages."""

    dispute: Digest
    """Dispute id."""
    round: U16
    """1, 2, …"""
    voter: Address
    """The member."""
    content: Digest
    """keccak256 of the message's canonical bytes."""


@dataclass(frozen=True, slots=True)
class SharedCommitment:
    """A member's commitment, for a commit root."""

    dispute: Digest
    """Dispute id."""
    round: U16
    """1, 2, …"""
    voter: Address
    """The member."""
    seat_mask: U256
    """All its seats."""
    commitment: Digest
    """EIP-712 digest of its vote."""


@dataclass(frozen=True, slots=True)
class RootMembers:
    """Whose commitments a root has. True if they hash to the root that the chain has."""

    dispute: Digest
    """Dispute id."""
    round: U16
    """1, 2, …"""
    voter: Address
    """The member that posts the root."""
    members: U256
    """Mask of the seats of these members."""


@dataclass(frozen=True, slots=True)
class OpenedVote:
    """A member's vote after the commit phase. True if it hashes to the member's commitment."""

    dispute: Digest
    """Dispute id."""
    round: U16
    """1, 2, …"""
    voter: Address
    """The member."""
    vote: Vote
    """The vote with its salt."""


@dataclass(frozen=True, slots=True)
class CertificateShare:
    """One member's BLS signature over a finding for a set of seats (`commitments.certified_digest`)."""

    dispute: Digest
    """Dispute id."""
    round: U16
    """1, 2, …"""
    voter: Address
    """The member."""
    signers: U256
    """Mask of the seats of all members that are to sign."""
    signature: Blob
    """Point of G2, 256 bytes."""


CertificateMessage = SharedCommitment | RootMembers | OpenedVote | CertificateShare
_KINDS: dict[str, type[CertificateMessage]] = {
    "commitment": SharedCommitment, "root": RootMembers, "vote": OpenedVote, "share": CertificateShare,
}  # fmt: skip


class SignedMessage(NamedTuple):
    """A message with the signature that it came with."""

    message: CertificateMessage
    statement: RoundMessage
    signature: bytes

    def verify(self, domain: Domain) -> None:
        """`BadSignature` unless the member's account signed it."""
        verify_signature("message", typed_digest(domain, self.statement), self.signature, self.message.voter)


def signed_body(domain: Domain, signer: Signer, message: CertificateMessage) -> dict[str, Any]:
    """The JSON body of a message, signed by its member."""
    body = {"kind": next(name for name, kind in _KINDS.items() if isinstance(message, kind)), **to_json(message)}
    signature = signer.sign_preimage(typed_preimage(domain, _statement(message, body)))
    return {**body, "proof": hex0x(signature)}


def message_of(body: dict[str, Any]) -> SignedMessage:
    """The message of a body; its signature is not checked. `MalformedValue` or `WrongFields` if it is none."""
    kind, proof = _KINDS.get(str(body.get("kind"))), body.get("proof")
    if kind is None or not isinstance(proof, str) or len(proof) != MAX_SIGNATURE_CHARS:
        raise MalformedValue("message", f"has no proof, or kind {str(body.get('kind'))[:20]!r} is none of {', '.join(_KINDS)}")
    message = from_json(kind, {name: value for name, value in body.items() if name not in ("kind", "proof")})
    said = {name: value for name, value in body.items() if name != "proof"}
    return SignedMessage(message, _statement(message, said), unhex(proof))


def _statement(message: CertificateMessage, body: dict[str, Any]) -> RoundMessage:
    return RoundMessage(message.dispute, message.round, message.voter, keccak256(encode(body)))

"""Messages between the two ends of an attested channel, and the checks of them, as functions of bytes.

Evidence is made after the TLS handshake and binds this one session. Its report data hash the session's exporter, both TLS keys
and both nonces, each in the order sender, receiver, and every field of the `Hello`. Evidence of another session, of the other end
of this one, or for another key, role, policy or epoch therefore has other report data (`research/kms.md` 4.3, 5).
"""

from dataclasses import dataclass

from bytewise.crypto.curve import point_flaw
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.evidence import ChannelRefused
from bytewise.protocol.errors.reasons import ChannelFlaw
from bytewise.protocol.evidence.appraisal_policy import MeasurementRole
from bytewise.protocol.evidence.claims import MAX_EVIDENCE_BYTES, REPORT_DATA_BYTES
from bytewise.protocol.evidence.policy_updates import PolicyState
from bytewise.protocol.jobs import Contracts
from bytewise.protocol.signing import verify_signature
from bytewise.protocol.units import U64, Address, Blob, Digest
from bytewise.tee.appraisal import AppraisalResult, verify_evidence

VERSION = 1
"""Version of these messages. Any other version is refused; versions are not negotiated."""

EXPORTER_LABEL = b"EXPERIMENTAL bytewise attested channel v1"
"""RFC 5705 section 4: labels with this prefix need no registration."""

EXPORTER_BYTES = 32

MAX_HELLO_BYTES = 1024
"""Largest hello in bytes; a real one has about 400."""

MAX_PROOF_BYTES = 2 * MAX_EVIDENCE_BYTES + 1024
"""Largest proof in bytes: the largest evidence, in hex, and a signature."""

_MAX_MARKS = 16
"""Most marks (`encoding.MAX_MARKS`) of a message; a hello has 7, a proof 3."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The statement of one end about itself. It is unverified until the end's evidence binds it."""

    version: int
    """`VERSION`."""
    role: MeasurementRole
    """Role in which it speaks."""
    nonce: Digest
    """Fresh for this session."""
    key_epoch: U64
    """Key epoch of the channel."""
    policy: Digest
    """Digest of the appraisal policy by which this end judges the other and accepts to be judged."""
    transport_key: Blob
    """P-256 point (65 bytes) to which the other end seals secrets for this end; empty if there are none."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The evidence for a hello."""

    evidence: Blob
    """Evidence bytes over the session's report data."""
    signature: Blob
    """Signature of the end's account over the same statement, if its role has an account; else empty."""


@dataclass(frozen=True, slots=True)
class PeerRequirements:
    """Requirements of one end for the other."""

    own: MeasurementRole
    """Role in which this end speaks."""
    peer: MeasurementRole
    """Role in which the other must speak."""
    contracts: Contracts
    """Network of both."""
    key_epoch: U64
    """Key epoch of the channel."""
    standing: PolicyState
    """Appraisal policy: the other end must name the same, and its evidence must satisfy it."""
    account: Address | None
    """Account that the other end must have; None where no account is registered for its role."""

    def __post_init__(self) -> None:
        # The role distinguishes one end's evidence from the other's, even if one end had the other's TLS key.
        if self.own is self.peer:
            raise ConfigurationError("attested channel", f"both ends are {self.own.value}")


@dataclass(frozen=True, slots=True)
class ChannelStatement:
    """All values that the evidence of one end binds, in the order of hashing."""

    contracts: Contracts
    """Network."""
    hello: Hello
    """The sender's hello: role, own nonce, policy, epoch, transport key."""
    exporter: bytes
    """32 bytes that only the two ends of this TLS session have."""
    own_key: Digest
    """Name of the sender's TLS key."""
    peer_key: Digest
    """Name of the receiver's TLS key, as the sender saw it."""
    peer_nonce: Digest
    """The receiver's nonce, as the sender saw it."""


@dataclass(frozen=True, slots=True)
class AttestedPeer:
    """The other end of a channel after its verification."""

    hello: Hello
    """The peer's hello, which its evidence binds."""
    evidence: AppraisalResult
    """The peer's program and platform."""


def report_data(statement: ChannelStatement) -> bytes:
    """The 64 bytes that evidence for this end of this session carries: a labelled hash, then zeros."""
    contracts, hello = statement.contracts, statement.hello
    bound = digests.labelled(
        Label.CHANNEL, hello.version, contracts.chain_id, contracts.key_epochs.encode(), hello.role.value.encode(),
        statement.exporter, statement.own_key, statement.peer_key, hello.nonce, statement.peer_nonce,
        hello.policy, hello.key_epoch, hello.transport_key,
    )  # fmt: skip
    return bound.ljust(REPORT_DATA_BYTES, b"\0")


def account_digest(statement: ChannelStatement) -> Digest:
    """Digest that an end's account signs to state that the end belongs to it."""
    return digests.labelled(Label.CHANNEL_ACCOUNT, report_data(statement))


def verify_hello(terms: PeerRequirements, data: bytes) -> Hello:
    """Returns the other end's hello if it fits these requirements; else raises a named `Fault`. Verifies no signature."""
    if len(data) > MAX_HELLO_BYTES:
        raise ChannelRefused("hello", f"{len(data)} bytes, at most {MAX_HELLO_BYTES}", ChannelFlaw.TOO_LARGE)
    hello = decode(Hello, data, _MAX_MARKS)
    if hello.version != VERSION:
        raise ChannelRefused("hello", f"version {hello.version}")
    if hello.role is not terms.peer:
        raise ChannelRefused("hello", f"role {hello.role.value} where {terms.peer.value} was expected")
    if hello.key_epoch != terms.key_epoch:
        raise ChannelRefused("hello", f"key epoch {hello.key_epoch} where {terms.key_epoch} was expected")
    if hello.policy != terms.standing.policy.digest:
        raise ChannelRefused("hello", f"appraisal policy {hello.policy.hex()[:16]} is not this end's")
    _verify_transport_key(hello)
    return hello


def verify_proof(terms: PeerRequirements, statement: ChannelStatement, data: bytes, now: int) -> AttestedPeer:
    """Checks the proof of the other end for its `statement` at Unix second `now`, and returns the attested peer. A named `Fault`
    if the proof does not hold.

    Cheap checks come first: size and shape, then the account's signature, then the evidence. `bytewise.tee.appraisal` compares
    the report data of the evidence before it verifies a signature.
    """
    if len(data) > MAX_PROOF_BYTES:
        raise ChannelRefused("proof", f"{len(data)} bytes, at most {MAX_PROOF_BYTES}", ChannelFlaw.TOO_LARGE)
    proof = decode(Proof, data, _MAX_MARKS)
    if terms.account is not None:
        verify_signature("attested channel", account_digest(statement), proof.signature, terms.account)
    elif proof.signature:
        raise ChannelRefused("proof", f"signed by an account, which no {terms.peer.value} has")
    policy = terms.standing.at(now)
    found = verify_evidence(policy, proof.evidence, report_data(statement), now, terms.contracts.chain_id, terms.peer)
    return AttestedPeer(statement.hello, found)


def _verify_transport_key(hello: Hello) -> Blob:
    # Secrets will be sealed to this point, so an invalid one must fail here, as a fault of the peer.
    flaw = point_flaw(hello.transport_key) if hello.transport_key else None
    if flaw is not None:
        raise ChannelRefused("hello", f"its transport key, {len(hello.transport_key)} bytes, is no point of P-256: {flaw}", flaw)
    return hello.transport_key

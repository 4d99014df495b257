"""Messages between the two ends of an attested channel, and the checks of these messages, as functions of bytes.

An end makes its evidence after the TLS handshake, so that the evidence binds this one session. The report data of the evidence
are a hash. The hash covers the session's exporter (a secret of this TLS session), both TLS keys, both nonces and every field of
the `Hello`. Keys and nonces stand in the order sender, receiver. Evidence of another session or of the other end of this session
therefore has other report data. Evidence for another key, role, policy or epoch also has other report data (`research/kms.md`
4.3, 5).
"""

from dataclasses import dataclass

from bytewise.crypto.curve import point_flaw
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import ChannelFlaw
from bytewise.protocol.errors.evidence import ChannelRefused
from bytewise.protocol.evidence.appraisal_policy import MeasurementRole
from bytewise.protocol.evidence.claims import MAX_EVIDENCE_BYTES, REPORT_DATA_BYTES
from bytewise.protocol.evidence.policy_updates import PolicyState
from bytewise.protocol.jobs import Contracts
from bytewise.protocol.signing import verify_signature
from bytewise.protocol.units import U64, Address, Blob, Digest
from bytewise.tee.appraisal import AppraisalResult, verify_evidence

VERSION = 1
"""Version of these messages. An end refuses any other version; versions are not negotiated."""

EXPORTER_LABEL = b"EXPERIMENTAL bytewise attested channel v1"
"""Label for the TLS exporter. By RFC 5705 section 4, labels with this prefix need no registration."""

EXPORTER_BYTES = 32

MAX_HELLO_BYTES = 1024
"""Size in bytes of the largest hello that is read. A real hello has about 400 bytes."""

MAX_PROOF_BYTES = 2 * MAX_EVIDENCE_BYTES + 1024
"""Size in bytes of the largest proof that is read: the largest evidence, in hex, and a signature."""

_MAX_MARKS = 16
"""Most brackets, commas and backslashes in a message (see `encoding.MAX_MARKS`). A hello has 7, a proof 3."""


@dataclass(frozen=True, slots=True)
class Hello:
    """Statement of one end about itself. It is unverified until the evidence of that end binds it."""

    version: int
    """Version of the messages, equal to `VERSION`."""
    role: MeasurementRole
    """Role in which the end speaks."""
    nonce: Digest
    """Random value of this end for this session."""
    key_epoch: U64
    """Key epoch of the channel."""
    policy: Digest
    """Digest of the appraisal policy by which this end judges the other end. This end also agrees that the other end judges it by
    this policy."""
    transport_key: Blob
    """P-256 point (65 bytes) to which the other end seals secrets for this end. Empty if no secrets are sent."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Message in which one end proves its hello."""

    evidence: Blob
    """Evidence bytes over the session's report data."""
    signature: Blob
    """Signature of the end's account over the statement that the evidence binds (`account_digest`). It is empty if the end's role
    has no account."""


@dataclass(frozen=True, slots=True)
class PeerRequirements:
    """Requirements that one end has for the other end."""

    own: MeasurementRole
    """Role in which this end speaks."""
    peer: MeasurementRole
    """Role in which the other end must speak."""
    contracts: Contracts
    """Network to which both ends belong."""
    key_epoch: U64
    """Key epoch of the channel."""
    standing: PolicyState
    """State of the appraisal policy. The other end must name the same policy in its hello. The evidence of the other end must
    satisfy that policy."""
    account: Address | None
    """Account that the other end must have; None if accounts are not registered for its role."""

    def __post_init__(self) -> None:
        # The role distinguishes one end's evidence from the other's, even if one end had the other's TLS key.
        if self.own is self.peer:
            raise ConfigurationError("attested channel", f"both ends are {self.own.value}")


@dataclass(frozen=True, slots=True)
class ChannelStatement:
    """All values that the evidence of one end binds. The sender is the end that sends the evidence. The receiver is the other
    end."""

    contracts: Contracts
    """Network to which both ends belong."""
    hello: Hello
    """Hello of the sender: role, nonce, policy, epoch, transport key."""
    exporter: bytes
    """Secret of 32 bytes that only the two ends of this TLS session can compute."""
    own_key: Digest
    """Name of the sender's TLS key."""
    peer_key: Digest
    """Name of the receiver's TLS key, as the sender saw it."""
    peer_nonce: Digest
    """Nonce of the receiver, as the sender saw it."""


@dataclass(frozen=True, slots=True)
class AttestedPeer:
    """Other end of a channel after its proof was verified."""

    hello: Hello
    """Hello of the peer. The peer's evidence binds it."""
    evidence: AppraisalResult
    """Result of the appraisal: the program and platform of the peer."""


def report_data(statement: ChannelStatement) -> bytes:
    """Returns the 64 bytes of report data that evidence for this statement must have. They are a labelled hash, followed by
    zeros."""
    contracts, hello = statement.contracts, statement.hello
    bound = digests.labelled(
        Label.CHANNEL, hello.version, contracts.chain_id, contracts.key_epochs.encode(), hello.role.value.encode(),
        statement.exporter, statement.own_key, statement.peer_key, hello.nonce, statement.peer_nonce,
        hello.policy, hello.key_epoch, hello.transport_key,
    )  # fmt: skip
    return bound.ljust(REPORT_DATA_BYTES, b"\0")


def account_digest(statement: ChannelStatement) -> Digest:
    """Returns the digest that an end's account signs to confirm that the end belongs to the account."""
    return digests.labelled(Label.CHANNEL_ACCOUNT, report_data(statement))


def verify_hello(terms: PeerRequirements, data: bytes) -> Hello:
    """Decodes the hello of the other end, and returns it if it fits these requirements. Raises a subclass of `Fault` that names
    the flaw. Verifies no signature."""
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
    """Checks the other end's proof of its `statement` at Unix second `now`, and returns the attested peer.

    Raises a subclass of `Fault` that names the flaw if the proof does not hold. Cheap checks come first: size and shape, then
    the account's signature, then the evidence. `bytewise.tee.appraisal` compares the report data of the evidence before it
    verifies a signature.
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

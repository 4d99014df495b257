"""Shape of the sealed envelope, its context and its padded plaintext (design section 8). The cryptography is in
`bytewise.crypto`."""

from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode, encode, to_json
from bytewise.protocol.errors.records import PlaintextNotCanonical
from bytewise.protocol.records.receipt import Receipt
from bytewise.protocol.records.request import Output, Request
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U64, Blob, Digest

BUCKETS = tuple(4096 << i for i in range(10))
"""Sizes to which plaintexts are padded: 4 KiB to 2 MiB."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """The envelope of one receipt on the DA layer: HPKE ciphertext, and a proof that its maker knew the ephemeral key."""

    suite: int
    """Suite of its epoch (`bytewise.protocol.suites`)."""
    key_epoch: U64
    """Key epoch to which it is sealed."""
    enc: Blob
    """Ephemeral point R = rG, 65 bytes uncompressed."""
    ubar: Blob
    """rḠ for the second generator Ḡ, 65 bytes."""
    e: Blob
    """Challenge of the TDH2 proof, 32 bytes."""
    f: Blob
    """Response of the TDH2 proof, 32 bytes."""
    ciphertext: Blob
    """AES-256-GCM ciphertext of the padded payload."""


@dataclass(frozen=True, slots=True)
class HybridPart:
    """One shard's share of an envelope's PSK."""

    kem: Blob
    """ML-KEM-768 ciphertext to the shard's key, 1,088 bytes."""
    sealed: Blob
    """The share encrypted under the encapsulated secret, AES-256-GCM: 48 bytes."""
    commitment: Digest
    """Labelled hash of the share. With it a shard notices a wrong share."""


@dataclass(frozen=True, slots=True)
class HybridEnvelope(Envelope):
    """An envelope of suite 2 (P-256 and ML-KEM-768). The TDH2 proof (`e`, `f`) also covers the hybrid parts."""

    parts: tuple[HybridPart, ...]
    """Parts in order of the shards."""


@dataclass(frozen=True, slots=True)
class Payload:
    """Content of an envelope: request, output, and the client's signature over the request hash."""

    request: Request
    """The request."""
    output: Output
    """The output."""
    client_signature: Blob
    """65-byte signature over `client_digest`."""


def envelope_hash(data: bytes) -> Digest:
    """`envelopeHash` of a receipt: labelled hash of the envelope bytes."""
    return digests.labelled(Label.ENVELOPE, data)


def seal_context(anchor: Domain, receipt: Receipt) -> Digest:
    """HPKE `info` and proof label: chain, contract, and every receipt field except `envelopeHash`."""
    fields = to_json(receipt)
    del fields["envelope_hash"]
    return digests.labelled(Label.SEAL_CONTEXT, anchor.chain_id, anchor.contract.encode(), encode(fields))


def client_digest(req_hash: Digest, chain_id: int) -> Digest:
    """The digest that a client signs for its request."""
    return digests.labelled(Label.CLIENT_SIGNATURE, req_hash, chain_id)


def pad(payload: Payload) -> bytes:
    """Length (4 bytes), canonical payload, zeros up to the next bucket."""
    raw = encode(payload)
    size = _bucket(len(raw))
    if size is None:
        raise PlaintextNotCanonical("(own)", f"payload of {len(raw)} bytes is above the largest bucket")
    return (len(raw).to_bytes(4, "big") + raw).ljust(size, b"\0")


def unpad(plaintext: bytes) -> Payload:
    """Returns the payload of a padded plaintext; otherwise raises a fault of encoding or padding, to which the caller gives the
    rule."""
    length = int.from_bytes(plaintext[:4], "big")
    if len(plaintext) != _bucket(length) or any(plaintext[4 + length :]):
        raise PlaintextNotCanonical("", "padding")
    return decode(Payload, plaintext[4 : 4 + length])


def _bucket(length: int) -> int | None:
    """The one padded size of a payload of this length; None above the largest bucket."""
    return next((bucket for bucket in BUCKETS if bucket >= length + 4), None)

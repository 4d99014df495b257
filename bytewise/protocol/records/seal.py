"""The sealed envelope: its form, its seal context, its padded plaintext, and the checks of the opened plaintext.

The cryptography is in `bytewise.crypto` (design section 8). The checks of the opened plaintext find a defect of the record. This
is case 2 of the vote function (design section 9). The order of the checks is part of the protocol. The first check that fails
decides the vote, which is then the same for every honest seat.
"""

from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode, encode, to_json
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import (
    BadSignature,
    ClientSignatureBad,
    OutsideLimits,
    PlaintextNotCanonical,
    RequestDiffers,
    RequestExpired,
    RequestHashMismatch,
    TokensHashMismatch,
)
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import ClientMode, Receipt
from bytewise.protocol.records.request import Output, Request
from bytewise.protocol.signing import Domain, verify_signature
from bytewise.protocol.units import U64, Blob, Digest

BUCKETS = tuple(4096 << i for i in range(10))
"""Sizes in bytes to which plaintexts are padded: 4 KiB to 2 MiB."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """The envelope of one receipt on DA: HPKE ciphertext, and a proof that the sender knew the ephemeral key."""

    suite: int
    """Suite of the key epoch (`bytewise.protocol.suites`)."""
    key_epoch: U64
    """Key epoch to which the envelope is sealed."""
    enc: Blob
    """Ephemeral point R = rG, 65 bytes uncompressed."""
    ubar: Blob
    """Point rḠ for the second generator Ḡ, 65 bytes."""
    e: Blob
    """Challenge of the TDH2 proof, 32 bytes."""
    f: Blob
    """Response of the TDH2 proof, 32 bytes."""
    ciphertext: Blob
    """AES-256-GCM ciphertext of the padded payload."""


@dataclass(frozen=True, slots=True)
class HybridPart:
    """The part of a hybrid envelope for one shard: a share of the envelope's pre-shared key (PSK)."""

    kem: Blob
    """ML-KEM-768 ciphertext to the shard's key, 1,088 bytes."""
    sealed: Blob
    """The share encrypted under the encapsulated secret, AES-256-GCM: 48 bytes."""
    commitment: Digest
    """Labelled hash of the share. It lets the shard detect a wrong share."""


@dataclass(frozen=True, slots=True)
class HybridEnvelope(Envelope):
    """An envelope of suite 2 (P-256 and ML-KEM-768). The TDH2 proof (`e`, `f`) also covers the hybrid parts."""

    parts: tuple[HybridPart, ...]
    """One part for each shard, in order of the shards' indices."""


@dataclass(frozen=True, slots=True)
class Payload:
    """Content of an envelope: request, output, and the client's signature over the request hash."""

    request: Request
    """Request of the client."""
    output: Output
    """Answer of the operator."""
    client_signature: Blob
    """65-byte signature over `client_digest`."""


def envelope_hash(data: bytes) -> Digest:
    """Returns the labelled hash of the envelope's bytes, which is `envelopeHash` of a receipt."""
    return digests.labelled(Label.ENVELOPE, data)


def seal_context(anchor: Domain, receipt: Receipt) -> Digest:
    """Returns the seal context of a receipt. It hashes chain, contract, and every receipt field except `envelopeHash`.

    It is the HPKE `info` of the envelope, and the envelope's proof covers it.
    """
    fields = to_json(receipt)
    del fields["envelope_hash"]
    return digests.labelled(Label.SEAL_CONTEXT, anchor.chain_id, anchor.contract.encode(), encode(fields))


def client_digest(req_hash: Digest, chain_id: int) -> Digest:
    """Returns the digest that a client signs for its request."""
    return digests.labelled(Label.CLIENT_SIGNATURE, req_hash, chain_id)


def pad(payload: Payload) -> bytes:
    """Returns the padded plaintext of a payload: its length in 4 bytes, the canonical payload, zeros up to the next bucket size.

    Raises `PlaintextNotCanonical` if the payload is above the largest bucket.
    """
    raw = encode(payload)
    size = _bucket(len(raw))
    if size is None:
        raise PlaintextNotCanonical("(own)", f"payload of {len(raw)} bytes is above the largest bucket")
    return (len(raw).to_bytes(4, "big") + raw).ljust(size, b"\0")


def unpad(plaintext: bytes) -> Payload:
    """Returns the payload of a padded plaintext. Raises a `Fault` if padding or encoding is wrong.

    The caller turns this fault into the defect of the receipt.
    """
    length = int.from_bytes(plaintext[:4], "big")
    if len(plaintext) != _bucket(length) or any(plaintext[4 + length :]):
        raise PlaintextNotCanonical("", "padding")
    return decode(Payload, plaintext[4 : 4 + length])


def _bucket(length: int) -> int | None:
    """Returns the padded size of a payload of this length; None above the largest bucket."""
    return next((bucket for bucket in BUCKETS if bucket >= length + 4), None)


def verify_opening(receipt: Receipt, receipt_id: Digest, plaintext: bytes, environment: Environment, anchored_at: int) -> Payload:
    """Returns the payload of a receipt's decrypted envelope. Raises the `Defect` if the record has one.

    `anchored_at` is the chain time of the batch in Unix seconds.
    """
    try:
        payload = unpad(plaintext)
    except Fault as fault:
        raise PlaintextNotCanonical(receipt_id.hex(), fault) from None
    verify_hashes(payload, receipt)
    request = payload.request
    try:
        signed = client_digest(request.req_hash, receipt.chain_id)
        verify_signature("request", signed, payload.client_signature, request.client)
    except BadSignature:
        raise ClientSignatureBad(request.client, request.req_hash.hex()) from None
    _verify_agreement(request, receipt, environment)
    verify_limits(request, environment)
    if request.expiry < anchored_at:
        raise RequestExpired(request.expiry, anchored_at)
    return payload


def verify_limits(request: Request, environment: Environment) -> Request:
    """Returns the request if it is within the environment's limits; otherwise raises `OutsideLimits`."""
    limits = environment.limits
    for what, value, most in (
        ("request bytes", len(encode(request)), limits.max_request_bytes),
        ("new tokens", request.decode.max_new_tokens, limits.max_new_tokens),
        ("context", len(request.prompt) + request.decode.max_new_tokens, limits.max_context),
        ("largest token id", max(request.prompt), limits.vocabulary - 1),
    ):
        if value > most:
            raise OutsideLimits(what, value, most)
    return request


def verify_hashes(payload: Payload, receipt: Receipt) -> Payload:
    """Returns the payload if its request and output have the hashes in the receipt. Otherwise raises the `Defect`."""
    request, output = payload.request, payload.output
    if request.req_hash != receipt.req_hash:
        raise RequestHashMismatch(request.req_hash.hex(), receipt.req_hash.hex())
    if output.tokens_hash != receipt.tokens_hash:
        raise TokensHashMismatch(output.tokens_hash.hex(), receipt.tokens_hash.hex())
    return payload


def _verify_agreement(request: Request, receipt: Receipt, environment: Environment) -> None:
    # A client that signs its own request adds a key for sealed replies; the operator's gateway adds none (design section 3).
    mode = ClientMode.DELEGATED if request.reply_key is None else ClientMode.SIGNED
    for what, have, want in (
        ("model", request.model_id, receipt.model_id),
        ("environment", request.environment, receipt.environment),
        ("chain", request.chain_id, receipt.chain_id),
        ("client mode", mode, receipt.client_mode),
        ("architecture", environment.gpu_arch_id, receipt.gpu_arch),
    ):
        if have != want:
            raise RequestDiffers(what, have, want)

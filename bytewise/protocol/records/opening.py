"""Finds a defect of the record in an opened envelope. This is case 2 of the vote function (design section 9).

The order of the checks is part of the protocol. The first check that fails decides the vote, which is then the same for every
honest seat.
"""

from bytewise.protocol.encoding import encode
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
from bytewise.protocol.records.request import Request
from bytewise.protocol.records.seal import Payload, client_digest, unpad
from bytewise.protocol.signing import verify_signature
from bytewise.protocol.units import Digest


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

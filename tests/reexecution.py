"""What an honest re-execution says of a receipt: by generating the answer, field by field, and apart from the enclave's judge.

Two fields no execution determines: `issued_at` and `anchor_by` are what an operator's clock said (`tests.lies.PROMISED`).
"""

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

from bytewise.crypto.curve import decode_point
from bytewise.crypto.envelope import open_with_point, verify_receipt_envelope
from bytewise.inference.engine import ExactEngine
from bytewise.protocol.digests import out_hash
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import (
    ClientSignatureBad,
    Defect,
    OutsideLimits,
    PlaintextNotCanonical,
    RequestDiffers,
    RequestExpired,
    RequestHashMismatch,
    TokensHashMismatch,
)
from bytewise.protocol.records.compare import Generated
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import ClientMode, Mode, Receipt, receipt_id
from bytewise.protocol.records.request import Request
from bytewise.protocol.records.seal import Payload, client_digest, envelope_hash, seal_context, unpad
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.signing import Domain, recover
from bytewise.protocol.units import U8, U64, U256, ZERO_ADDRESS, ZERO_DIGEST, Digest
from tests.liars import Filed
from tests.unit.verifier.bench import PUBLIC, SECRET


class Found(NamedTuple):
    """What a re-execution finds, as a vote says it."""

    outcome: Outcome
    code: int = 0
    tokens_hash: Digest = ZERO_DIGEST
    trace_root: Digest = ZERO_DIGEST

    @property
    def out_hash(self) -> Digest:
        """The output that it replaces a false one by."""
        return out_hash(self.tokens_hash, self.trace_root)


class Reexecution:
    """Knows the questions that clients asked, the engine, and the key of all envelopes."""

    def __init__(self, anchor: Domain, engine: ExactEngine, environment: Environment, blind: Iterable[str] = ()) -> None:
        """`blind`: fields that it does not compare, to show that each comparison is needed."""
        self.anchor, self.engine, self.environment, self.blind = anchor, engine, environment, frozenset(blind)
        self._truths: dict[Digest, Generated] = {}

    def truth(self, asked: Request) -> Generated:
        """The one answer."""
        if asked.req_hash not in self._truths:
            self._truths[asked.req_hash] = self.engine.generate(asked)
        return self._truths[asked.req_hash]

    def differences(self, filed: Filed, place: int, served: bytes | None, asked: Request) -> frozenset[str]:
        """Signed fields that are not what an honest operator would have signed for the question in that place of its batch.

        `served`: the envelope, if anybody can have it.
        """
        receipt, header, truth = filed.signed.receipt, filed.header, self.truth(asked)
        expected = Receipt(
            operator=header.operator, seq=U64(header.first_seq + place), req_hash=asked.req_hash,
            tokens_hash=truth.output.tokens_hash, out_hash=truth.out_hash, model_id=header.model_id,
            environment=header.environment, gpu_arch=self.environment.gpu_arch_id, key_epoch=header.key_epoch,
            envelope_hash=ZERO_DIGEST if served is None else envelope_hash(served), issued_at=receipt.issued_at,
            anchor_by=receipt.anchor_by, mode=U8(Mode.PLAIN), client_mode=U8(ClientMode.DELEGATED), enclave_key=ZERO_ADDRESS,
            chain_id=U256(self.anchor.chain_id),
        )  # fmt: skip
        found = _differing("Receipt", receipt, expected)
        payload = None if served is None else self._opened(receipt, served)
        if isinstance(payload, Payload):
            found |= _differing("Request", payload.request, asked) | _differing("Output", payload.output, truth.output)
            found |= set() if self._is_signed(payload, receipt) else {"Payload.client_signature"}
        elif isinstance(payload, Defect):
            found |= {"Payload"}
        return frozenset(found - self.blind)

    def found(self, filed: Filed, served: bytes | None) -> Found:
        """What everybody who re-executes the request in the envelope says of the receipt."""
        receipt = filed.signed.receipt
        if served is None or envelope_hash(served) != receipt.envelope_hash:
            return Found(Outcome.UNAVAILABLE)
        payload = self._opened(receipt, served)
        defect = payload if isinstance(payload, Defect) else self._defect(payload, filed)
        if defect is not None:
            return Found(Outcome.INVALID, defect.code)
        assert isinstance(payload, Payload)
        truth = self.truth(payload.request)
        return Found(Outcome.EXECUTED, 0, truth.output.tokens_hash, truth.trace_root)

    def _opened(self, receipt: Receipt, served: bytes) -> Payload | Defect:
        identifier = receipt_id(self.anchor, receipt)
        try:
            envelope = verify_receipt_envelope(self.anchor, receipt, served)
            context = seal_context(self.anchor, receipt)
            plaintext = open_with_point(envelope, decode_point(envelope.enc) * SECRET, PUBLIC, context, identifier)
        except Defect as defect:
            return defect
        try:
            return unpad(plaintext)
        except Fault as fault:
            return PlaintextNotCanonical(identifier.hex(), fault)

    def _is_signed(self, payload: Payload, receipt: Receipt) -> bool:
        digest = client_digest(payload.request.req_hash, receipt.chain_id)
        return recover(digest, payload.client_signature) == payload.request.client

    def _defect(self, payload: Payload, filed: Filed) -> type[Defect] | None:
        """The first in the order of design section 9."""
        receipt, request = filed.signed.receipt, payload.request
        mode = ClientMode.DELEGATED if request.reply_key is None else ClientMode.SIGNED
        said = (request.model_id, request.environment, request.chain_id, mode, self.environment.gpu_arch_id)
        named = (receipt.model_id, receipt.environment, receipt.chain_id, receipt.client_mode, receipt.gpu_arch)
        holds = {
            RequestHashMismatch: request.req_hash == receipt.req_hash,
            TokensHashMismatch: payload.output.tokens_hash == receipt.tokens_hash,
            ClientSignatureBad: self._is_signed(payload, receipt),
            RequestDiffers: said == named,
            OutsideLimits: request.decode.max_new_tokens <= self.environment.limits.max_new_tokens,
            RequestExpired: request.expiry >= filed.header.anchored_at,
        }
        return next((defect for defect, is_so in holds.items() if not is_so), None)


def _differing(record: str, said: Any, true: Any) -> set[str]:
    names = (field.name for field in dataclasses.fields(said))
    return {f"{record}.{name}" for name in names if getattr(said, name) != getattr(true, name)}

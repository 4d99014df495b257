"""Computes one answer: run, seal, put on DA, sign, store, answer (design section 5). These steps run in the engine's thread.
`Pipeline.prepare` checks the request before, in a thread of the HTTP server.

A crash is harmless at every point. One transaction stores number, signed receipt and answer together. Before the transaction,
no signed record has left the process; at worst DA has a ciphertext that no receipt names. After it, a retry gets the stored
answer, and the batcher publishes the receipt. An answer with several choices has several receipts. The transaction stores all
of them or none.

A remote signer may have signed although its response was lost. So the operator first stores the answer as a draft, without
signatures. While there is a draft, the operator asks the signer only for the receipts of this draft. The draft ends when its
receipts are signed, or when too little time is left to anchor them (ADR-009).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from bytewise.crypto.envelope import seal, sealing_key
from bytewise.crypto.hybrid import recipients
from bytewise.ports import BlobStore, Clock, Engine
from bytewise.protocol.encoding import decode, encode, verify_size
from bytewise.protocol.errors.actors import BadRequest, TryAgain
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import TooLarge
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.records.answer import completion, several
from bytewise.protocol.records.receipt import ClientMode, Mode, Receipt, SignedReceipt, plain_enclave_key, receipt_id
from bytewise.protocol.records.request import Request
from bytewise.protocol.records.seal import Payload, envelope_hash, pad, seal_context, verify_opening
from bytewise.protocol.records.trace import Generated
from bytewise.protocol.signing import Domain, LocalSigner, Signer, typed_preimage
from bytewise.protocol.units import U8, U64, U256, ZERO_DIGEST, Blob, Digest, hex0x
from bytewise.service import metrics, telemetry
from bytewise.storage.journal import Journal
from bytewise.storage.receipt_store import IssuedReceipt, ReceiptStore, StoredDraft
from serving.anchoring_order import verify_time_left
from serving.openai import ChatRequest
from serving.readiness import Readiness, ReadinessWatch
from serving.request_builder import ChatTokenizer, Offer, Rng, make_choices, make_request
from serving.request_queue import RequestTicket

AnswerHook = Callable[[int, Request, Generated], Generated]
"""Function that may change a computed answer before the operator seals and signs it. It gets the receipt number, the request
and the answer."""


def unchanged_answer(_seq: int, _request: Request, answer: Generated) -> Generated:
    """Returns the answer unchanged. All operators use this hook, except the operator of an attention fund."""
    return answer


@dataclass(frozen=True, slots=True)
class PipelineDeps:
    """The keys and connections that a pipeline uses. The module `serving.wiring` chooses them."""

    engine: Engine
    tokenizer: ChatTokenizer
    operator: Signer
    """Signer of the operator's account, which owns the stake."""
    gateway: LocalSigner
    """Signer of the requests that the operator builds for clients."""
    blobs: BlobStore
    receipt_store: ReceiptStore
    journal: Journal
    watch: ReadinessWatch
    clock: Clock
    rng: Rng
    anchor: Domain
    """EIP-712 domain of `ReceiptAnchor`."""
    finish: AnswerHook = unchanged_answer
    """Hook for each answer (`serving.attention`). The pipeline calls it when the answer's receipt number is known."""


@dataclass(frozen=True, slots=True)
class SealedAnswer:
    """One choice of an answer. Its envelope is on DA, and its receipt is not signed yet."""

    payload: Payload
    receipt: Receipt
    envelope: Blob
    locator: str


@dataclass(frozen=True, slots=True)
class DraftedAnswer:
    """All choices of an answer whose receipts are not signed yet. The store keeps an answer in this form."""

    key: Digest
    """Name of the request."""
    once: bool
    """Whether the store may have only one answer under this name, because the client sent an idempotency key."""
    assurance: str
    """Assurance of the key epoch to which the envelopes are sealed."""
    choices: tuple[SealedAnswer, ...]


def readable_draft(answer: DraftedAnswer) -> bytes:
    """Encodes an answer whose receipts are not signed yet, for the store. Raises `BadRequest` if the bytes are too large to be
    decoded again. This happens with several very long choices."""
    try:
        return verify_size(encode(answer))
    except TooLarge:
        raise BadRequest("n", "choices of this size cannot be signed together: ask for fewer") from None


class Pipeline:
    """Turns chat requests into stored, signed answers."""

    def __init__(
        self, offer: Offer, deps: PipelineDeps, anchor_within_s: int, accept_simulated: bool, accept_rebuilt: bool = False
    ) -> None:
        self._offer = offer
        self._deps = deps
        self._anchor_within_s = anchor_within_s
        self._accept_simulated = accept_simulated
        self._accept_rebuilt = accept_rebuilt

    def prepare(self, asked: RequestTicket, ask: ChatRequest) -> Callable[[], bytes]:
        """Checks the request and returns the function that computes its answer. Raises `BadRequest` or `TryAgain` if the
        operator cannot serve the request."""
        deps = self._deps
        readiness, _ = deps.watch.open()
        request, _ = make_request(
            ask, self._offer, deps.tokenizer, deps.gateway, deps.rng, readiness.timestamp, readiness.pause_s
        )
        choices = make_choices(request, ask.choices, deps.gateway, deps.rng, self._offer.environment)
        return lambda: self._answer(asked, choices)

    def _answer(self, asked: RequestTicket, choices: list[tuple[Request, Blob]]) -> bytes:
        with metrics.ANSWER_SECONDS.time():
            return self._signed_answer(asked, choices)

    def _signed_answer(self, asked: RequestTicket, choices: list[tuple[Request, Blob]]) -> bytes:
        deps = self._deps
        resumed = self._finish_draft()
        # A retry may have waited in the queue while another request finished its draft.
        known = deps.receipt_store.answer_from(asked.start) if asked.once or resumed == asked.name else None
        if known is not None:
            asked.verify_name(known[0])
            return known[1]
        # While the request waited, the chain may have closed the service. Then no answer may be computed.
        deps.watch.open()
        generated = [deps.engine.generate(request) for request, _ in choices]
        # The chain may have advanced while the engine ran. The receipts name the epoch that is in force now.
        readiness, epoch = deps.watch.open()
        for request, _ in choices:
            verify_time_left(request, readiness.timestamp + readiness.promise_s(self._anchor_within_s) + readiness.pause_s)
        # The number is taken when the receipt is stored. Only this thread takes numbers, and the receipt store refuses any number
        # but the next.
        first = deps.receipt_store.next_seq()
        readiness.verify_room(first + len(choices) - 1)
        finished = [
            deps.finish(seq, request, each)
            for seq, ((request, _), each) in enumerate(zip(choices, generated, strict=True), first)
        ]
        sealed = [
            self._seal(Payload(request, each.output, signature), each, seq, readiness, epoch)
            for seq, ((request, signature), each) in enumerate(zip(choices, finished, strict=True), first)
        ]
        answer = DraftedAnswer(asked.name, asked.once, epoch.assurance, tuple(sealed))
        draft = StoredDraft(first, len(sealed), min(each.receipt.anchor_by for each in sealed), readable_draft(answer))
        for each in sealed:
            entry = {"seq": str(each.receipt.seq), "req_hash": hex0x(each.receipt.req_hash)}
            deps.journal.append("receipt.sign", receipt_id(deps.anchor, each.receipt), entry)
        deps.receipt_store.draft(draft)
        return self._issue(answer)

    def _finish_draft(self) -> Digest | None:
        """Signs the stored draft, whose signatures were lost, and stores the result. Returns the name of its request, or None
        if there is no draft.

        The operator gives the draft up when half of the promised time or less is left. The draft's numbers then stay without
        receipts. Until then this method raises `Unavailable` if the signer does not sign, if the draft cannot be decoded, or if
        the draft is of another model or environment.
        """
        deps = self._deps
        draft = deps.receipt_store.drafted()
        if draft is None:
            return None
        readiness, _ = deps.watch.open()
        left_s = draft.anchor_by - readiness.timestamp - readiness.promise_s(self._anchor_within_s) // 2
        if left_s <= 0:
            deps.receipt_store.give_up_draft()
            telemetry.log("receipt.given_up", seq=draft.first_seq, count=draft.receipts, anchor_by=draft.anchor_by)
            return None
        try:
            answer = decode(DraftedAnswer, draft.content)
        except Fault:
            # Its receipts may be signed, so their numbers go to no other receipt.
            raise TryAgain("operator", f"an earlier answer cannot be read, and is given up in {left_s} s") from None
        if any(not self._is_served(each.receipt) for each in answer.choices):
            # This model's tokenizer and this environment would give the client another text and fingerprint.
            why = f"an earlier answer is of another model or environment, and is given up in {left_s} s"
            raise TryAgain("operator", why)
        self._issue(answer)
        return answer.key

    def _is_served(self, receipt: Receipt) -> bool:
        offer = self._offer
        return (receipt.model_id, receipt.environment) == (offer.model_id, offer.environment.digest)

    def _seal(self, payload: Payload, generated: Generated, seq: int, readiness: Readiness, epoch: EpochRecord) -> SealedAnswer:
        deps = self._deps
        unsealed = self._receipt(payload, generated, seq, readiness, epoch)
        # The enclave judge reads the opening in this way. A record that it refuses would convict this operator.
        verify_opening(unsealed, receipt_id(deps.anchor, unsealed), pad(payload), self._offer.environment, unsealed.anchor_by)
        key_point = sealing_key(epoch, self._accept_simulated, self._accept_rebuilt)
        context = seal_context(deps.anchor, unsealed)
        envelope = seal(payload, key_point, context, epoch.epoch, deps.rng, recipients(epoch))
        receipt = replace(unsealed, envelope_hash=envelope_hash(envelope))
        return SealedAnswer(payload, receipt, Blob(envelope), deps.blobs.put(envelope))

    def _issue(self, answer: DraftedAnswer) -> bytes:
        deps, issued, answers = self._deps, [], []
        for each in answer.choices:
            identifier = receipt_id(deps.anchor, each.receipt)
            signature = deps.operator.sign_preimage(typed_preimage(deps.anchor, each.receipt))
            signed = SignedReceipt(each.receipt, signature, each.locator)
            answers.append(
                completion(identifier, signed, each.payload, self._offer.environment, deps.tokenizer, answer.assurance)
            )
            issued.append(IssuedReceipt(identifier, signed, each.envelope, encode(answers[-1]), each.payload.request.expiry))
        response = encode(several(answers)) if len(answers) > 1 else issued[0].response
        deps.receipt_store.issue(answer.key, [replace(issued[0], response=response), *issued[1:]], answer.once)
        for kept in issued:
            metrics.RECEIPTS_SIGNED.inc()
            telemetry.log("receipt.signed", receipt_id=kept.identifier, seq=kept.signed.receipt.seq, assurance=answer.assurance)
        return response

    def _receipt(self, payload: Payload, generated: Generated, seq: int, readiness: Readiness, epoch: EpochRecord) -> Receipt:
        deps, environment = self._deps, self._offer.environment
        anchor_by = readiness.timestamp + readiness.promise_s(self._anchor_within_s)
        # The operator's clock may be ahead of the chain's. No receipt is issued after its own deadline.
        issued_at = min(deps.clock.now(), anchor_by)
        # The seal context covers every field but envelopeHash, which is still zero here.
        return Receipt(
            operator=deps.operator.address, seq=U64(seq), req_hash=payload.request.req_hash,
            tokens_hash=generated.output.tokens_hash, out_hash=generated.out_hash, model_id=self._offer.model_id,
            environment=environment.digest, gpu_arch=environment.gpu_arch_id, key_epoch=epoch.epoch,
            envelope_hash=ZERO_DIGEST, issued_at=U64(issued_at), anchor_by=U64(anchor_by), mode=U8(Mode.PLAIN),
            client_mode=U8(ClientMode.DELEGATED), enclave_key=plain_enclave_key(), chain_id=U256(deps.anchor.chain_id),
        )  # fmt: skip

"""A small consistent network in memory, for tests that read as prose: real keys, real records, one tiny deterministic model.

Everything is derived from names, so a failing test fails again. `Parrot` stands in for nothing: it is a complete `Engine` for a
model so small that the test can compute with it (a linear congruential walk over the vocabulary).
"""

import dataclasses
from dataclasses import dataclass
from functools import cached_property

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.merkle import batch_root
from bytewise.protocol.records import trace
from bytewise.protocol.records.compare import Divergence, DivergenceClass, Generated, Verification
from bytewise.protocol.records.environment import PROFILE_EXACT_1, Environment, Limits, Version
from bytewise.protocol.records.receipt import (
    BatchHeader,
    ClientMode,
    ListEntry,
    Mode,
    Receipt,
    ReceiptList,
    SignedReceipt,
    batch_leaves,
    receipt_id,
)
from bytewise.protocol.records.request import REQUEST_VERSION, DecodePolicy, Output, Request, output_for
from bytewise.protocol.records.seal import Payload, client_digest
from bytewise.protocol.records.trace import TraceStep, trace_leaves
from bytewise.protocol.signing import Domain, LocalSigner
from bytewise.protocol.units import U8, U32, U64, U256, ZERO_ADDRESS, Address, Decimal, Digest, short_text

CHAIN_ID = 31337
ANCHOR = Domain(CHAIN_ID, Address("0x" + "a0" * 20))
DEMANDS = Domain(CHAIN_ID, Address("0x" + "d0" * 20))
DISPUTES = Domain(CHAIN_ID, Address("0x" + "d1" * 20))
KEY_EPOCHS = Domain(CHAIN_ID, Address("0x" + "e9" * 20))
NOW = U64(1_800_000_000)
"""Chain time at which batches of this world are anchored."""
MODEL = Digest(b"a model of 257 tokens, 32 bytes.")
GREEDY = DecodePolicy(16, Decimal("0"), Decimal("1"), 0, (256,))


def word(*names: object) -> Digest:
    """A reproducible arbitrary digest."""
    return digests.labelled(Label.KEY_DERIVATION, b"world", *(str(name).encode() for name in names))


def signer(name: str) -> LocalSigner:
    """The account of a named person."""
    return LocalSigner(word("account", name))


@dataclass(frozen=True, slots=True)
class Parrot:
    """A deterministic engine: the next token is a fixed function of the last one, the position and the model's `step`."""

    step: int = 7
    """What makes this model another model."""

    def generate(self, request: Request) -> Generated:
        """The one answer to the request."""
        return self._continue(request, ())

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """One pass over the claimed tokens; the first that this model does not give is the divergence."""
        truth = self.generate(request)
        if truth.out_hash == out_hash and truth.output == claimed:
            return Verification(truth, None, 1)
        pairs = zip(truth.output.token_ids, claimed.token_ids, strict=False)
        position = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
        if position is not None:
            ours, theirs = truth.output.token_ids[position], claimed.token_ids[position]
            return Verification(truth, Divergence(position, DivergenceClass.TOKEN, ours, theirs), 1)
        same = truth.output == claimed
        kind = DivergenceClass.TRACE if same else DivergenceClass.LENGTH
        return Verification(truth, Divergence(min(len(truth.output.token_ids), len(claimed.token_ids)), kind, None, None), 1)

    def _continue(self, request: Request, prefix: tuple[int, ...]) -> Generated:
        tokens, steps = list(prefix), []
        while len(tokens) < request.decode.max_new_tokens:
            last = tokens[-1] if tokens else request.prompt[-1]
            token = (last * 31 + self.step * (len(tokens) + 1)) % 256
            steps.append(TraceStep(last.to_bytes(2, "little"), 120 + self.step, token))
            tokens.append(token)
            if token in request.decode.stop_tokens:
                break
        reason = "stop" if tokens[-1] in request.decode.stop_tokens else "length"
        return Generated(output_for(request, tuple(tokens), reason), trace_leaves(request.nonce, steps))


@dataclass(frozen=True)
class World:
    """One operator, one client, one environment; methods make what they would send."""

    engine: Parrot = Parrot()
    """What the operator runs."""

    @cached_property
    def operator(self) -> LocalSigner:
        """Who answers."""
        return signer("operator")

    @cached_property
    def client(self) -> LocalSigner:
        """Who asks (here the gateway's own key: client=delegated)."""
        return signer("client")

    @cached_property
    def environment(self) -> Environment:
        """Where answers are computed."""
        return Environment(
            container=word("container"),
            profile=PROFILE_EXACT_1,
            gpu_arch="cpu",
            driver="none",
            libraries=(Version("parrot", "1"),),
            engine_flags=(),
            limits=Limits(max_context=256, max_new_tokens=64, max_request_bytes=4096, vocabulary=257),
        )

    def request(self, number: int = 1, **changes: object) -> Request:
        """The client's question number `number`."""
        plain = Request(
            version=REQUEST_VERSION, model_id=MODEL, model_name="parrot", environment=self.environment.digest, decode=GREEDY,
            seed=U64(number), prompt=tuple(range(number, number + 70)), template_digest=word("template"),
            tokenizer_digest=word("tokenizer"), prompt_commitments=None, nonce=word("nonce", number),
            chain_id=U256(CHAIN_ID), expiry=U64(NOW + 600), client=self.client.address, reply_key=None,
        )  # fmt: skip
        return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]

    def payload(self, request: Request, output: Output) -> Payload:
        """What the envelope holds."""
        return Payload(request, output, self.client.sign(client_digest(request.req_hash, CHAIN_ID)))

    def receipt(self, seq: int, request: Request, generated: Generated, **changes: object) -> Receipt:
        """The operator's receipt number `seq`, envelope hash still zero."""
        plain = Receipt(
            operator=self.operator.address, seq=U64(seq), req_hash=request.req_hash, tokens_hash=generated.output.tokens_hash,
            out_hash=generated.out_hash, model_id=request.model_id, environment=request.environment, gpu_arch=short_text("cpu"),
            key_epoch=U64(1), envelope_hash=Digest(bytes(32)), issued_at=NOW, anchor_by=U64(NOW + 300), mode=U8(Mode.PLAIN),
            client_mode=U8(ClientMode.DELEGATED), enclave_key=ZERO_ADDRESS, chain_id=U256(CHAIN_ID),
        )  # fmt: skip
        return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]

    def sign(self, receipt: Receipt, locator: str = "eigenda:standard:0x00") -> SignedReceipt:
        """The receipt with the operator's signature."""
        return SignedReceipt(receipt, self.operator.sign(receipt_id(ANCHOR, receipt)), locator)

    def answered(self, seq: int) -> SignedReceipt:
        """A signed receipt for question `seq`, honestly answered."""
        request = self.request(seq)
        return self.sign(self.receipt(seq, request, self.engine.generate(request)))

    def batch(self, entries: tuple[ListEntry, ...]) -> tuple[BatchHeader, ReceiptList]:
        """A list of receipts and the header under which it is anchored."""
        first = next(each.receipt for each in entries if isinstance(each, SignedReceipt))
        first_seq = entries[0].record.seq
        listed = ReceiptList(first.operator, first_seq, entries)
        header = BatchHeader(
            batch_id=0, operator=first.operator, first_seq=first_seq, count=U32(len(entries)),
            root=batch_root(batch_leaves(ANCHOR, entries)), list_hash=listed.list_hash, environment=first.environment,
            model_id=first.model_id, key_epoch=first.key_epoch, locator="eigenda:standard:0x01", anchored_at=NOW, block=U64(10),
        )  # fmt: skip
        return header, listed


def other_trace(generated: Generated) -> Digest:
    """out_hash of true tokens under a trace of another computation."""
    return digests.out_hash(generated.output.tokens_hash, trace.trace_root(generated.leaves[::-1]))

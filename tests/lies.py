"""Another value of every signed field: what an operator may say instead of the truth. Lists are complete, as a test checks."""

from dataclasses import replace
from typing import Any

from bytewise.protocol.records.receipt import ClientMode, Mode
from bytewise.protocol.records.request import Output, Request, TokenLogprobs
from bytewise.protocol.units import U8, U64, U256, Decimal, short_text
from tests.court_world import word
from tests.devnet import signer
from tests.unit.verifier.bench import PUBLIC

TOKENS = 12
"""Of a true answer."""

CONVICTED: dict[str, Any] = {
    "req_hash": word("another request"), "tokens_hash": word("other tokens"), "out_hash": word("another computation"),
    "gpu_arch": short_text("another"), "client_mode": U8(ClientMode.SIGNED), "envelope_hash": word("no such bytes"),
}  # fmt: skip
"""What a committee finds, and the operator pays for."""

REFUSED: dict[str, Any] = {
    "operator": signer(2).address, "seq": U64(10**6), "model_id": word("another model"), "environment": word("elsewhere"),
    "key_epoch": U64(2), "mode": U8(Mode.TEE), "enclave_key": signer(2).address, "chain_id": U256(1),
}  # fmt: skip
"""What everybody's check names and the anchor takes as no member: no such receipt is ever accepted."""

PROMISED: dict[str, Any] = {"issued_at": U64(2**40), "anchor_by": U64(1)}
"""Times by the operator's clock: the check names what cannot be true. An earlier `anchor_by` can be demanded the sooner."""

RECEIPT_LIES = CONVICTED | REFUSED | PROMISED

MALFORMED = (
    (b'"version":2', b'"version":3'),
    (b'"completion_tokens":%d' % TOKENS, b'"completion_tokens":%d' % (TOKENS - 1)),
)
"""Fields that no record of ours can have another value in."""


def request_lies(true: Request) -> dict[str, Any]:
    """Another value of every field but the version, which no record of ours can have another value of."""
    return {
        "model_id": word("another model"), "model_name": "another", "environment": word("elsewhere"),
        "decode": replace(true.decode, max_new_tokens=TOKENS - 1), "seed": U64(true.seed + 1), "prompt": (*true.prompt, 33),
        "template_digest": word("template"), "tokenizer_digest": word("tokenizer"), "prompt_commitments": word("documents"),
        "nonce": word("another nonce"), "chain_id": U256(1), "expiry": U64(1), "client": signer(2).address,
        "reply_key": PUBLIC,
    }  # fmt: skip


def output_lies(true: Output) -> dict[str, Any]:
    """Another value of every field but the count of tokens, which follows from them."""
    assert true.logprobs is not None
    first = TokenLogprobs(Decimal("-1"), true.logprobs[0].top)
    return {
        "req_hash": word("another request"), "token_ids": (*true.token_ids[:-1], (true.token_ids[-1] + 1) % 256),
        "finish_reason": "stop" if true.finish_reason == "length" else "length", "prompt_tokens": true.prompt_tokens + 1,
        "blind": word("no blind"), "logprobs": (first, *true.logprobs[1:]),
    }  # fmt: skip

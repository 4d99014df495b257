"""Builds the Request for a chat request: prompt, seed, nonce, expiry (design sections 3 and 4). The engine executes this
Request.

The gateway is a part of the operator. In client mode `delegated` it signs the Request with its own key, and the receipt says
so.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from bytewise.protocol.errors.actors import BadRequest, UnsupportedModel
from bytewise.protocol.errors.records import MalformedValue, OutsideLimits
from bytewise.protocol.records.answer import AnswerTokenizer
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.request import MAX_LOGPROBS, REQUEST_VERSION, DecodePolicy, Request, choice_seed
from bytewise.protocol.records.seal import client_digest, verify_limits
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import MAX_SAFE_INTEGER, U64, U256, Blob, Digest
from serving.openai import ChatRequest
from serving.refusals import Code

Rng = Callable[[int], bytes]
"""Function that returns a number of random bytes. The service uses `os.urandom`."""


class ChatTokenizer(AnswerTokenizer, Protocol):
    """The part of the artifact's tokenizer that the gateway needs."""

    @property
    def stop_tokens(self) -> tuple[int, ...]:
        """Token ids that end an answer."""
        ...

    @property
    def vocabulary(self) -> int:
        """Number of token ids of the model."""
        ...

    def render(self, messages: list[dict[str, str]]) -> tuple[int, ...]:
        """Returns the prompt of a conversation as token ids, by the artifact's chat template."""
        ...

    def refusal(self, schema: str) -> str:
        """Returns the reason why no answer can satisfy a JSON schema. Returns an empty text if an answer can satisfy it."""
        ...


@dataclass(frozen=True, slots=True)
class Offer:
    """The model and the conditions that this operator offers. They do not change while the process runs."""

    model_name: str
    """Name by which clients ask for the model."""
    model_id: Digest
    template_digest: Digest
    tokenizer_digest: Digest
    environment: Environment
    chain_id: int
    request_ttl_s: int
    """Seconds from the creation of a Request in which the operator may anchor its receipt, without pauses. It is at least twice
    the setting `anchor_within_s`."""


def make_request(
    ask: ChatRequest, offer: Offer, tokenizer: ChatTokenizer, client: LocalSigner, rng: Rng, now: int, pause_s: int = 0
) -> tuple[Request, Blob]:
    """Builds the Request, and returns it with the signature of the gateway's key.

    `now` is chain time in Unix seconds. The expiry includes the longest pause, `pause_s`, because a Request also expires during
    a pause (ADR-011). Raises `BadRequest` with the parameter that is outside the limits.
    """
    prompt = _render(ask, tokenizer)
    limits = offer.environment.limits
    room = limits.max_context - len(prompt)
    most = MAX_LOGPROBS // (1 if ask.logprobs is None else ask.logprobs + 1)
    wanted = ask.max_new_tokens if ask.max_new_tokens is not None else min(room, limits.max_new_tokens, most)
    if room < 1 or wanted > room:
        raise BadRequest("messages", _too_long(limits.max_context, len(prompt), max(wanted, 1)), Code.CONTEXT)
    if wanted > limits.max_new_tokens:
        raise BadRequest("max_completion_tokens", f"is {wanted}, this server allows {limits.max_new_tokens}")
    if ask.logprobs is not None and wanted > most:
        raise BadRequest(
            "top_logprobs", f"of {wanted} tokens are too many for one answer: at most {most} tokens can have so many"
        )
    _verify_words(ask, tokenizer)
    # A drawn seed stays below 2^53, so that any client can send it back as a JSON number.
    seed = ask.seed if ask.seed is not None else int.from_bytes(rng(7), "big") & MAX_SAFE_INTEGER
    decode = DecodePolicy(
        wanted, ask.temperature, ask.top_p, ask.top_k, tokenizer.stop_tokens, min_p=ask.min_p,
        repetition_penalty=ask.repetition_penalty, presence_penalty=ask.presence_penalty,
        frequency_penalty=ask.frequency_penalty, logit_bias=ask.logit_bias, stop_strings=ask.stop_strings,
        logprobs=ask.logprobs, grammar=ask.grammar,
    )  # fmt: skip
    request = Request(
        version=REQUEST_VERSION, model_id=offer.model_id, model_name=offer.model_name, environment=offer.environment.digest,
        decode=decode, seed=U64(seed), prompt=prompt, template_digest=offer.template_digest,
        tokenizer_digest=offer.tokenizer_digest, prompt_commitments=None, nonce=Digest(rng(32)), chain_id=U256(offer.chain_id),
        expiry=U64(now + offer.request_ttl_s + pause_s), client=client.address, reply_key=None,
    )  # fmt: skip
    _within_limits(request, offer.environment)
    return request, client.sign(client_digest(request.req_hash, offer.chain_id))


def make_choices(
    request: Request, count: int, client: LocalSigner, rng: Rng, environment: Environment
) -> list[tuple[Request, Blob]]:
    """Makes the signed Requests for `count` choices. The first is `request` itself. The others are copies of it with new seeds
    and nonces.

    Raises `BadRequest` if one of these Requests is larger than the limits allow. A copy can be larger than `request`, because
    its seed may have more digits.
    """
    others = [replace(request, seed=choice_seed(request.seed, i), nonce=Digest(rng(32))) for i in range(1, count)]
    within = [_within_limits(each, environment) for each in (request, *others)]
    return [(each, client.sign(client_digest(each.req_hash, each.chain_id))) for each in within]


def _within_limits(request: Request, environment: Environment) -> Request:
    try:
        return verify_limits(request, environment)
    except OutsideLimits as error:
        raise BadRequest("messages", str(error)) from None


def _too_long(context: int, prompt: int, new: int) -> str:
    # The text is OpenAI's, because some clients look at the text and not at the code.
    return (
        f"This model's maximum context length is {context} tokens. However, your messages resulted in {prompt} tokens, and the "
        f"answer may have {new}: shorten the messages or lower max_completion_tokens"
    )


def _verify_words(ask: ChatRequest, tokenizer: ChatTokenizer) -> None:
    for token, _ in ask.logit_bias:
        if token >= tokenizer.vocabulary:
            raise BadRequest(f"logit_bias.{token}", f"is no token of this model, which has {tokenizer.vocabulary}")
    refusal = "" if ask.grammar is None else tokenizer.refusal(ask.grammar)
    if refusal:
        raise BadRequest("response_format", f"no answer can satisfy the schema: {refusal[:200]}")


def _render(ask: ChatRequest, tokenizer: ChatTokenizer) -> tuple[int, ...]:
    try:
        prompt = tokenizer.render([{"role": role, "content": text} for role, text in ask.messages])
    except (UnsupportedModel, MalformedValue) as error:
        raise BadRequest("messages", f"the model cannot read them: {error}") from None
    if not prompt:
        raise BadRequest("messages", "render to an empty prompt")
    return prompt

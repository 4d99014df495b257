"""From an understood chat request to the Request that is signed and executed: prompt, seed, nonce, expiry (design sections 3, 4).

In `client=delegated` the gateway does this with its own key, and the receipt says so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bytewise.protocol.environment import Environment
from bytewise.protocol.errors import BadRequest, MalformedValue, OutsideLimits, UnsupportedModel
from bytewise.protocol.opening import verify_limits
from bytewise.protocol.request import REQUEST_VERSION, DecodePolicy, Request
from bytewise.protocol.seal import client_digest
from bytewise.protocol.signing import Signer
from bytewise.protocol.units import MAX_SAFE_INTEGER, U64, U256, Blob, Digest
from serving.openai import Ask

Rng = Callable[[int], bytes]
"""Random bytes, injected: `os.urandom` in the service."""


class Words(Protocol):
    """The artifact's tokenizer, as far as the gateway needs it."""

    @property
    def stop_tokens(self) -> tuple[int, ...]:
        """Token ids that end an answer."""
        ...

    def render(self, messages: list[dict[str, str]]) -> tuple[int, ...]:
        """Prompt of a conversation, by the artifact's chat template."""
        ...

    def text(self, token_ids: tuple[int, ...]) -> str:
        """Text of tokens."""
        ...


@dataclass(frozen=True, slots=True)
class Offer:
    """What this operator serves; fixed for the life of the process."""

    model_name: str
    """Name under which clients ask."""
    model_id: Digest
    template_digest: Digest
    tokenizer_digest: Digest
    environment: Environment
    chain_id: int
    request_ttl_s: int
    """How long after its making a Request may be anchored: well above the longest anchoring delay."""


def make_request(ask: Ask, offer: Offer, words: Words, client: Signer, rng: Rng, now: int) -> tuple[Request, Blob]:
    """The Request and the gateway's signature over it; `BadRequest` names the parameter that is outside the limits.

    `now` is chain time in Unix seconds: the expiry is judged by the chain's clock.
    """
    prompt = _render(ask, words)
    limits = offer.environment.limits
    room = limits.max_context - len(prompt)
    wanted = ask.max_new_tokens if ask.max_new_tokens is not None else min(room, limits.max_new_tokens)
    if room < 1 or wanted > room:
        raise BadRequest("messages", f"{len(prompt)} prompt tokens and {max(wanted, 1)} new ones exceed {limits.max_context}")
    if wanted > limits.max_new_tokens:
        raise BadRequest("max_completion_tokens", f"is {wanted}, this server allows {limits.max_new_tokens}")
    # A drawn seed stays below 2^53, so that any client can send it back as a JSON number.
    seed = ask.seed if ask.seed is not None else int.from_bytes(rng(7), "big") & MAX_SAFE_INTEGER
    decode = DecodePolicy(wanted, ask.temperature, ask.top_p, ask.top_k, words.stop_tokens)
    request = Request(
        version=REQUEST_VERSION, model_id=offer.model_id, model_name=offer.model_name, environment=offer.environment.digest,
        decode=decode, seed=U64(seed), prompt=prompt, template_digest=offer.template_digest,
        tokenizer_digest=offer.tokenizer_digest, prompt_commitments=None, nonce=Digest(rng(32)), chain_id=U256(offer.chain_id),
        expiry=U64(now + offer.request_ttl_s), client=client.address, reply_key=None,
    )  # fmt: skip
    try:
        verify_limits(request, offer.environment)
    except OutsideLimits as error:
        raise BadRequest("messages", str(error)) from None
    return request, client.sign(client_digest(request.req_hash, offer.chain_id))


def _render(ask: Ask, words: Words) -> tuple[int, ...]:
    try:
        prompt = words.render([{"role": role, "content": text} for role, text in ask.messages])
    except (UnsupportedModel, MalformedValue) as error:
        raise BadRequest("messages", f"the model cannot read them: {error}") from None
    if not prompt:
        raise BadRequest("messages", "render to an empty prompt")
    return prompt

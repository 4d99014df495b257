"""Request and Output, the two private records: the question of a client and the answer of the operator (design section 4)."""

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode, verify_depth
from bytewise.protocol.errors.records import MalformedValue, NotCanonical
from bytewise.protocol.units import MAX_SAFE_INTEGER, U64, U256, Address, Blob, Decimal, Digest, decimal, fraction

REQUEST_VERSION = 2
TOKEN_LIMIT = 2**31

MAX_BIASES = 1024
"""Most tokens with a logit bias."""
MAX_STOP_TOKENS = 1024
"""Most tokens that a request may list as ends of the answer."""
MAX_STOP_STRINGS = 16
MAX_STOP_BYTES = 256
"""Longest stop string, in bytes of UTF-8."""
MAX_GRAMMAR_BYTES = 2**16
"""Longest JSON schema, in bytes of UTF-8."""
MAX_TOP_LOGPROBS = 20
MAX_LOGPROBS = 2**15
"""Most logprobs in one answer, including those of the chosen tokens. The largest answer with so many still fits the largest
bucket."""

_ZERO, _ONE = Decimal("0"), Decimal("1")


@dataclass(frozen=True, slots=True)
class DecodePolicy:
    """All decoding parameters of a request. The sampler depends only on them, the logits, its key and the position."""

    max_new_tokens: int
    """Most generated tokens; at least 1."""
    temperature: Decimal
    """The logits are divided by this number; 0 means greedy decoding."""
    top_p: Decimal
    """Nucleus mass in (0, 1]: the share of probability from which tokens are drawn; 1 keeps every token."""
    top_k: int
    """Most candidate tokens that are kept; 0 keeps all."""
    stop_tokens: tuple[int, ...]
    """Token ids that end the answer, ascending, without repetition. The stop token is part of the answer."""
    _: KW_ONLY
    """The parameters below are passed by name. Their defaults turn them off."""
    min_p: Decimal = _ZERO
    """Tokens whose weight is below this fraction of the heaviest token's are not drawn; 0 keeps all, 1 only the heaviest."""
    repetition_penalty: Decimal = _ONE
    """Divides positive logits, and multiplies negative logits, of tokens in prompt or answer; 0.01 to 100, 1 is off."""
    presence_penalty: Decimal = _ZERO
    """Subtracted once from the logit of each token in the answer; -2 to 2."""
    frequency_penalty: Decimal = _ZERO
    """Subtracted for each occurrence of the token in the answer; -2 to 2."""
    logit_bias: tuple[tuple[int, Decimal], ...] = ()
    """(token, bias from -100 to 100 added to its logit), ascending by token. Tokens outside the vocabulary have no effect."""
    stop_strings: tuple[str, ...] = ()
    """Texts that end the answer with the token that completes one of them; ascending by code point, without repetition."""
    logprobs: int | None = None
    """Number of alternatives, 0 to 20, whose logprobs the output lists for each token. None lists no logprobs."""
    grammar: str | None = None
    """JSON schema that the answer's text must satisfy, as JSON text, or None. The order of its properties matters."""

    def __post_init__(self) -> None:
        _integer("max_new_tokens", self.max_new_tokens, 1, 2**20)
        _number("temperature", self.temperature, "0", "100")
        _number("top_p", self.top_p, "0", "1")
        if fraction(self.top_p) == 0:
            raise MalformedValue("top_p", self.top_p)
        _integer("top_k", self.top_k, 0, 2**20)
        _integer("stop_tokens entries", len(self.stop_tokens), 0, MAX_STOP_TOKENS)
        check_tokens(self.stop_tokens)
        _ascending("stop_tokens", self.stop_tokens)
        _number("min_p", self.min_p, "0", "1")
        _number("repetition_penalty", self.repetition_penalty, "0.01", "100")
        _number("presence_penalty", self.presence_penalty, "-2", "2")
        _number("frequency_penalty", self.frequency_penalty, "-2", "2")
        self._check_bias()
        self._check_texts()
        if self.logprobs is not None:
            _integer("logprobs", self.logprobs, 0, MAX_TOP_LOGPROBS)
            _integer("logprobs of all tokens", self.max_new_tokens * (self.logprobs + 1), 0, MAX_LOGPROBS)

    def _check_bias(self) -> None:
        tokens = tuple(token for token, _ in self.logit_bias)
        _integer("logit_bias entries", len(tokens), 0, MAX_BIASES)
        check_tokens(tokens)
        _ascending("logit_bias", tokens)
        for token, bias in self.logit_bias:
            _number(f"logit_bias of {token}", bias, "-100", "100")

    def _check_texts(self) -> None:
        _ascending("stop_strings", self.stop_strings)
        _integer("stop_strings entries", len(self.stop_strings), 0, MAX_STOP_STRINGS)
        for text in self.stop_strings:
            _integer("stop string bytes", len(_utf8("stop_strings", text)), 1, MAX_STOP_BYTES)
        if self.grammar is not None:
            raw = _utf8("grammar", self.grammar)
            _integer("grammar bytes", len(raw), 1, MAX_GRAMMAR_BYTES)
            try:
                # Schema libraries are recursive, so bound the depth before they read it.
                verify_depth(raw)
            except NotCanonical as error:
                raise MalformedValue("grammar", str(error)) from None

    @property
    def temperature_fraction(self) -> Fraction:
        """Temperature as an exact rational."""
        return fraction(self.temperature)

    @property
    def top_p_fraction(self) -> Fraction:
        """Nucleus mass as an exact rational."""
        return fraction(self.top_p)

    @property
    def min_p_fraction(self) -> Fraction:
        """Smallest weight of a token that may be drawn, as an exact fraction of the heaviest token's weight."""
        return fraction(self.min_p)

    @property
    def penalises(self) -> bool:
        """Whether the policy has a penalty or bias that can change a logit."""
        neutral = (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) == (_ONE, _ZERO, _ZERO)
        return not neutral or bool(self.logit_bias)


@dataclass(frozen=True, slots=True)
class Request:
    """One private request. Together with the artifact it determines the one true answer."""

    version: int
    """Format version, always 2."""
    model_id: Digest
    """Digest of the artifact that must answer."""
    model_name: str
    """Name of the model that the client used. Verifiers ignore it."""
    environment: Digest
    """Digest of the registered environment."""
    decode: DecodePolicy
    """All parameters of decoding."""
    seed: U64
    """Seed of the sampler; unused in greedy decoding."""
    prompt: tuple[int, ...]
    """Prompt as token ids, at least one."""
    template_digest: Digest
    """Digest of the chat template that rendered the prompt."""
    tokenizer_digest: Digest
    """Digest of the tokenizer files."""
    prompt_commitments: Digest | None
    """Merkle root over retrieved documents and tool outputs, or null."""
    nonce: Digest
    """32 random bytes. They keep `req_hash` from revealing a guessed request, and blind output and trace."""
    chain_id: U256
    """EIP-155 chain id."""
    expiry: U64
    """Unix second after which the request must not be anchored."""
    client: Address
    """Account that signed `req_hash`."""
    reply_key: Blob | None
    """HPKE public key of the client for sealed replies. None in client mode `delegated`."""

    def __post_init__(self) -> None:
        if self.version != REQUEST_VERSION:
            raise MalformedValue("request version", str(self.version))
        if not self.prompt:
            raise MalformedValue("prompt", "no tokens")
        check_tokens(self.prompt)

    @property
    def req_hash(self) -> Digest:
        """Labelled hash of the canonical request."""
        return digests.labelled(Label.REQUEST, encode(self))


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural logarithms of the model's probabilities, before any decoding parameter applies.

    A probability below 2^-41 of the largest one is written as -9999.
    """

    chosen: Decimal
    """Logprob of the chosen token."""
    top: tuple[tuple[int, Decimal], ...]
    """Pairs (token, logprob) of the most probable tokens, most probable first. Equal ones are ordered by token id."""


@dataclass(frozen=True, slots=True)
class Output:
    """The private answer to one request, as token ids. The text is derived from them and is not hashed."""

    req_hash: Digest
    """Hash of the request to which this is the answer."""
    token_ids: tuple[int, ...]
    """Generated tokens, including the stop token."""
    finish_reason: str
    """Reason why the answer ended: `stop`, `length` or `error`. The arithmetic profile ends an answer with `error` at an
    undefined row."""
    prompt_tokens: int
    """Number of tokens in the prompt."""
    completion_tokens: int
    """Number of tokens in `token_ids`."""
    blind: Digest
    """Secret derived from the request's nonce by HKDF. Without it nobody can test a guessed answer against the hash."""
    logprobs: tuple[TokenLogprobs, ...] | None = None
    """One entry for each token if the request asks for logprobs, else None."""

    def __post_init__(self) -> None:
        if self.finish_reason not in ("stop", "length", "error"):
            raise MalformedValue("finish_reason", self.finish_reason[:40])
        if self.completion_tokens != len(self.token_ids):
            raise MalformedValue("completion_tokens", str(self.completion_tokens))
        check_tokens(self.token_ids)
        if self.logprobs is not None and len(self.logprobs) != len(self.token_ids):
            raise MalformedValue("logprobs", f"{len(self.logprobs)} for {len(self.token_ids)} tokens")

    @property
    def tokens_hash(self) -> Digest:
        """Labelled hash of the canonical output."""
        return digests.labelled(Label.TOKENS, encode(self))


def output_for(
    request: Request, token_ids: tuple[int, ...], finish_reason: str, logprobs: tuple[TokenLogprobs, ...] | None = None
) -> Output:
    """Returns the only valid `Output` record for these tokens as the answer to the request."""
    blind = Digest(digests.derive(Label.OUTPUT_BLIND, request.nonce))
    return Output(request.req_hash, token_ids, finish_reason, len(request.prompt), len(token_ids), blind, logprobs)


def choice_seed(seed: U64, choice: int) -> U64:
    """Returns the seed of choice number `choice` of an answer.

    Choice 0 has the seed of the request. Every other choice has 53 bits of a hash over this seed and the number of the choice.
    """
    if choice == 0:
        return seed
    hashed = digests.labelled(Label.CHOICE, seed, choice)
    # With 53 bits any client can send the seed back as a JSON number, and gets exactly that choice.
    return U64(int.from_bytes(hashed) >> 256 - MAX_SAFE_INTEGER.bit_length())


def execution_hash(model_id: Digest, profile: str, decode: DecodePolicy, prompt: tuple[int, ...]) -> Digest:
    """Returns the hash of all values that determine the computation, without nonce and seed.

    The sampler derives its randomness from this hash, the seed and the position (design section 6).
    """
    tokens = encode(list(prompt))
    return digests.labelled(Label.EXECUTION, model_id, profile.encode(), encode(decode), tokens)


def check_tokens(token_ids: tuple[int, ...]) -> None:
    """Raises `MalformedValue` unless every id is an integer from 0 to 2^31 - 1."""
    for token in token_ids:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < TOKEN_LIMIT:
            raise MalformedValue("token id", str(token)[:40])


def _integer(name: str, value: int, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise MalformedValue(name, str(value)[:40])


def _number(name: str, value: Decimal, least: str, most: str) -> None:
    if not Fraction(least) <= fraction(decimal(value)) <= Fraction(most):
        raise MalformedValue(name, value)


def _ascending(name: str, values: tuple[int, ...] | tuple[str, ...]) -> None:
    if any(values[i] >= values[i + 1] for i in range(len(values) - 1)):  # type: ignore[operator]
        raise MalformedValue(name, "not ascending or repeated")


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise MalformedValue(name, "not a text of Unicode characters") from None

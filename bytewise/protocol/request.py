"""What a client asks and what it gets: Request and Output, the two private records (design section 4)."""

from dataclasses import dataclass
from fractions import Fraction

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors import MalformedValue
from bytewise.protocol.units import U64, U256, Address, Blob, Decimal, Digest, decimal, fraction

REQUEST_VERSION = 1
TOKEN_LIMIT = 2**31


@dataclass(frozen=True, slots=True)
class DecodePolicy:
    """Every knob of decoding; the sampler is a pure function of these, the logits, the key and the position."""

    max_new_tokens: int
    """Most tokens that are generated; at least 1."""
    temperature: Decimal
    """0 means greedy; otherwise logits are divided by it."""
    top_p: Decimal
    """Nucleus mass in (0, 1]; 1 keeps every token."""
    top_k: int
    """Most candidates kept; 0 keeps all."""
    stop_tokens: tuple[int, ...]
    """Token ids that end the answer, ascending, each once; the stop token is part of the answer."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_new_tokens <= 2**20:
            raise MalformedValue("max_new_tokens", str(self.max_new_tokens))
        if not 0 <= fraction(decimal(self.temperature)) <= 100:
            raise MalformedValue("temperature", self.temperature)
        if not 0 < fraction(decimal(self.top_p)) <= 1:
            raise MalformedValue("top_p", self.top_p)
        if not 0 <= self.top_k <= 2**20:
            raise MalformedValue("top_k", str(self.top_k))
        if list(self.stop_tokens) != sorted(set(self.stop_tokens)):
            raise MalformedValue("stop_tokens", "not ascending or repeated")
        check_tokens(self.stop_tokens)

    @property
    def temperature_fraction(self) -> Fraction:
        """Temperature as an exact rational."""
        return fraction(self.temperature)

    @property
    def top_p_fraction(self) -> Fraction:
        """Nucleus mass as an exact rational."""
        return fraction(self.top_p)


@dataclass(frozen=True, slots=True)
class Request:
    """One private request, complete: who holds it and the artifact can compute the one answer."""

    version: int
    """1."""
    model_id: Digest
    """Digest of the artifact that must answer."""
    model_name: str
    """Name under which the client asked; not judged."""
    environment: Digest
    """Digest of the registered environment."""
    decode: DecodePolicy
    """Decoding knobs."""
    seed: U64
    """Sampler seed; unused when greedy."""
    prompt: tuple[int, ...]
    """Assembled prompt as token ids; at least one."""
    template_digest: Digest
    """Digest of the chat template that rendered the prompt."""
    tokenizer_digest: Digest
    """Digest of the tokenizer files."""
    prompt_commitments: Digest | None
    """Merkle root over retrieved documents and tool outputs, or null."""
    nonce: Digest
    """32 random bytes that make `req_hash` hiding and blind Output and trace."""
    chain_id: U256
    """EIP-155 chain id."""
    expiry: U64
    """Unix seconds after which the request must not be anchored."""
    client: Address
    """Whose key signed the request hash."""
    reply_key: Blob | None
    """HPKE public key for sealed replies, or null (delegated)."""

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
class Output:
    """The private answer to one request, as token ids; text is derived from them and is not hashed."""

    req_hash: Digest
    """Request that it answers."""
    token_ids: tuple[int, ...]
    """Generated tokens, the stop token included."""
    finish_reason: str
    """`stop`, `length` or `error` (the profile's defined end of an undefined row)."""
    prompt_tokens: int
    """Length of the prompt."""
    completion_tokens: int
    """Length of `token_ids`."""
    blind: Digest
    """HKDF(nonce, output): hides the answer from who guesses it."""

    def __post_init__(self) -> None:
        if self.finish_reason not in ("stop", "length", "error"):
            raise MalformedValue("finish_reason", self.finish_reason[:40])
        if self.completion_tokens != len(self.token_ids):
            raise MalformedValue("completion_tokens", str(self.completion_tokens))
        check_tokens(self.token_ids)

    @property
    def tokens_hash(self) -> Digest:
        """Labelled hash of the canonical output."""
        return digests.labelled(Label.TOKENS, encode(self))


def output_for(request: Request, token_ids: tuple[int, ...], finish_reason: str) -> Output:
    """The one Output record of these tokens as the answer to the request."""
    blind = Digest(digests.derive(Label.OUTPUT_BLIND, request.nonce))
    return Output(request.req_hash, token_ids, finish_reason, len(request.prompt), len(token_ids), blind)


def execution_hash(model_id: Digest, profile: str, decode: DecodePolicy, prompt: tuple[int, ...]) -> Digest:
    """What determines the computation, without nonce or seed: keys the sampler (design section 6)."""
    tokens = encode(list(prompt))
    return digests.labelled(Label.EXECUTION, model_id, profile.encode(), encode(decode), tokens)


def check_tokens(token_ids: tuple[int, ...]) -> None:
    """`MalformedValue` unless every id is an integer from 0 to 2^31 - 1."""
    for token in token_ids:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < TOKEN_LIMIT:
            raise MalformedValue("token id", str(token)[:40])

"""Test vectors of a model: fixed questions and the answers that every engine of its profile must give.

The account that proposes a model, or an environment that serves it, publishes the digest of its vectors. A verifier certifies
them after it computed the same answers. The questions follow from the model's id, so a proposer cannot leave out questions that
its engine answers wrongly.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.records.request import REQUEST_VERSION, DecodePolicy, Request
from bytewise.protocol.units import U64, U256, ZERO_ADDRESS, ZERO_DIGEST, Decimal, Digest

NEW_TOKENS = 24
"""Number of tokens in an answer. It is lower if the model's context is short."""

_GREEDY = DecodePolicy(NEW_TOKENS, Decimal("0"), Decimal("1"), 0, ())

KINDS: Mapping[str, tuple[int, DecodePolicy]] = {
    "one token, greedy": (1, _GREEDY),
    "greedy with logprobs": (17, replace(_GREEDY, logprobs=3)),
    "sampled": (40, replace(_GREEDY, temperature=Decimal("0.7"))),
    "sampled of few": (64, replace(_GREEDY, temperature=Decimal("1.3"), top_p=Decimal("0.9"), top_k=20)),
    "sampled with penalties": (
        90,
        replace(
            _GREEDY, temperature=Decimal("1"), min_p=Decimal("0.05"), repetition_penalty=Decimal("1.2"),
            presence_penalty=Decimal("0.5"), frequency_penalty=Decimal("0.25"),
        ),
    ),
    "a longer prompt": (300, _GREEDY),
}  # fmt: skip
"""Maps the name of each question to the length of its prompt and its decode policy. The prompt is shorter if the model's context
is short. These entries never change."""


@dataclass(frozen=True, slots=True)
class VectorAnswer:
    """The hashes by which an answer is compared."""

    tokens_hash: Digest
    """Hash of the output."""
    trace_root: Digest
    """Root over the trace of the answer's computation."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors that an engine computed for one model. A proposal of the model or of an environment names their digest."""

    profile: str
    """Name of the arithmetic profile."""
    profile_vectors: Digest
    """Digest of the profile's general vectors, which include those of the known models."""
    model_id: Digest
    """Id of the model: the digest of its artifact."""
    environment: Digest
    """Environment in which the answers were computed, if the profile depends on it; zero under `exact-1`."""
    answers: tuple[VectorAnswer, ...]
    """Answers to `questions`, in order."""

    @property
    def digest(self) -> Digest:
        """The digest that a proposal of the model or of an environment names."""
        return digests.labelled(Label.MODEL_VECTORS, encode(self))

    def differences(self, other: "Vectors") -> tuple[str, ...]:
        """Lists the fields and answers in which another engine's vectors differ. It is empty exactly if the digests are equal."""
        plain = ("profile", "profile_vectors", "model_id", "environment")
        named = [name.replace("_", " ") for name in plain if getattr(self, name) != getattr(other, name)]
        if len(self.answers) != len(other.answers):
            return (*named, f"{len(self.answers)} answers, not {len(other.answers)}")
        pairs = enumerate(zip(self.answers, other.answers, strict=True))
        return (*named, *(f"vector {i + 1}{_kind(i)}: {_parts(a, b)}" for i, (a, b) in pairs if a != b))


def questions(model_id: Digest, environment: Digest, vocabulary: int, max_context: int) -> tuple[Request, ...]:
    """Returns the requests of a model's vectors. They follow from the model's id, vocabulary and context length."""
    return tuple(_question(model_id, environment, i, vocabulary, max_context) for i in range(len(KINDS)))


def _question(model_id: Digest, environment: Digest, number: int, vocabulary: int, max_context: int) -> Request:
    wanted, decode = list(KINDS.values())[number]
    new = max(1, min(NEW_TOKENS, max_context // 2))
    length = max(1, min(wanted, max_context - new))
    prompt = tuple(_number(model_id, number, place) % vocabulary for place in range(length))
    nonce = digests.labelled(Label.VECTOR_QUESTION, model_id, number)
    return Request(
        version=REQUEST_VERSION, model_id=model_id, model_name="", environment=environment,
        decode=replace(decode, max_new_tokens=new), seed=U64(number), prompt=prompt, template_digest=ZERO_DIGEST,
        tokenizer_digest=ZERO_DIGEST, prompt_commitments=None, nonce=nonce, chain_id=U256(0), expiry=U64(0),
        client=ZERO_ADDRESS, reply_key=None,
    )  # fmt: skip


def _number(model_id: Digest, number: int, place: int) -> int:
    return int.from_bytes(digests.labelled(Label.VECTOR_QUESTION, model_id, number, place)[:8], "big")


def _kind(place: int) -> str:
    return f" ({list(KINDS)[place]})" if place < len(KINDS) else ""


def _parts(one: VectorAnswer, other: VectorAnswer) -> str:
    names = {"tokens_hash": "other tokens", "trace_root": "another computation"}
    return " and ".join(said for name, said in names.items() if getattr(one, name) != getattr(other, name))

"""Small models and requests for the tests of the engine."""

from collections.abc import Sequence
from pathlib import Path

from bytewise.inference.artifact import artifact
from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.convert.convert import convert
from bytewise.inference.convert.make import make_model
from bytewise.inference.known_answers.operations import integers
from bytewise.protocol.records.request import REQUEST_VERSION, DecodePolicy, Request
from bytewise.protocol.units import U64, U256, ZERO_ADDRESS, ZERO_DIGEST, Decimal, Digest

NONCE = Digest(bytes(range(32)))


def small_artifact(folder: Path, seed: int) -> Artifact:
    """A model of two layers and width 64, converted and loaded; `folder` holds checkpoint and artifact."""
    make_model(folder / "checkpoint", seed, layers=2, width=64, heads=4, key_value_heads=2, context=256)
    convert(folder / "checkpoint", folder / "artifact")
    return artifact.load(folder / "artifact")


def policy(new: int, temperature: str = "0", top_p: str = "1", top_k: int = 0, stops: tuple[int, ...] = (257,)) -> DecodePolicy:
    """A decode policy."""
    return DecodePolicy(new, Decimal(temperature), Decimal(top_p), top_k, stops)


def request(model: Artifact, prompt: Sequence[int], decode: DecodePolicy, seed: int = 1) -> Request:
    """A request to the model; what does not determine the computation is constant."""
    return Request(
        REQUEST_VERSION, model.model_id,
        "test", ZERO_DIGEST, decode, U64(seed), tuple(prompt), model.template_digest, model.tokenizer_digest,
        None, NONCE, U256(1), U64(2**40), ZERO_ADDRESS, None,
    )  # fmt: skip


def prompts(count: int, longest: int = 24) -> list[list[int]]:
    """Prompts of 1 to `longest` bytes, made of counter-mode hashes."""
    return [[abs(n) for n in integers(f"prompt-{i}", 1 + i % longest, 255)] for i in range(count)]


def varied_requests(model: Artifact, count: int, new: int) -> list[Request]:
    """Requests with other prompts, half of them greedy, the rest sampled under four policies."""
    policies = [
        policy(new), policy(new, "0.8", "0.9"), policy(new), policy(new, "1.5", "1", 20),
        policy(new), policy(new, "0.3", "0.5", 5), policy(new), policy(new, "1"),
    ]  # fmt: skip
    return [request(model, prompt, policies[i % 8], seed=i) for i, prompt in enumerate(prompts(count))]

"""Computes the published figures from measured seconds: ratios (above 1 where our engine is faster), targets, and memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.engines import BFLOAT16, FLOAT32, LLAMACPP, NATIVE, TORCH, TORCH_ALONE
from bench.rounds import Samples, less, medians, times_faster

TARGETS = {
    "generate_over_hf_fp32": 8.0, "generate_over_llamacpp_q8": 1.0, "verify_over_llamacpp_prefill": 1.5,
    "verify_over_hf_prefill": 2.0, "batched_verify_gain_8": 1.3, "torch_path_over_hf_fp32": 1.5,
}  # fmt: skip
"""Smallest value that each of these figures should have."""

CEILINGS = {"memory_over_artifact": 1.3}
"""Largest value that each of these figures should have, because less is better."""

EXPLAINED = {
    "generate_over_*": "seconds of the peer over ours for the same prompt and number of tokens: with prefill, greedy, no stop",
    "decode_over_*": "the same without the prefill and the first token",
    "verify_over_*_prefill": "seconds of the peer to prefill prompt and answer (logits of the last token only) over ours to"
    " verify the answer (logits of every answered token, all checks and hashes)",
    "verify_over_generate_256": "our seconds to generate the long answer over those to verify it",
    "batched_verify_gain_8": "seconds to verify 8 short claims one by one over those in one batch, first size of `batch_gain`",
    "memory_over_artifact": "peak resident memory of our process, less that of imported libraries, over the bytes of the artifact"
    " and of keys and values in 16 bits: less is better, 1 is the artifact itself",
    "torch_path_*": "the torch path, in place of the native one, with the fastest product: see `engines`",
    "torch_alone_*": "the torch path without the C engine's product, as where no compiler was",
    "ppl_delta_*": "relative loss of perplexity against float32: less is better (`bench/perplexity.py`)",
    "top level": "the worst of both models; each is under `models`",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """All measured seconds and bytes of one model."""

    first: Samples
    """Seconds for the prefill of the prompt and one token."""
    answer: Samples
    """Seconds for the prefill and the whole answer."""
    judged: Samples
    """Seconds for one pass over a prompt and a long answer. Our engine verifies the answer, peers prefill the same tokens."""
    long: Samples
    """Seconds of our engine to generate that long answer."""
    batches: list[Samples]
    """Seconds of our engine for 8 claims, `together` and `one by one`, with the shortest claims first."""
    memory: dict[str, int]
    """Peak of resident memory of each engine in bytes, without its libraries."""
    artifact_bytes: int
    """Bytes of all files of the artifact."""
    cache_bytes: int
    """Bytes of keys and values of the longest sequence with which the memory was measured."""


def ratios(measured: Measured) -> dict[str, float]:
    """Returns the published figures (keys) of one model."""
    keys = {
        "generate_over_hf_fp32": times_faster(measured.answer, NATIVE, FLOAT32),
        "generate_over_hf_bf16": times_faster(measured.answer, NATIVE, BFLOAT16),
        "generate_over_llamacpp_q8": times_faster(measured.answer, NATIVE, LLAMACPP),
        "decode_over_hf_fp32": times_faster(less(measured.answer, measured.first), NATIVE, FLOAT32),
        "decode_over_llamacpp_q8": times_faster(less(measured.answer, measured.first), NATIVE, LLAMACPP),
        "verify_over_llamacpp_prefill": times_faster(measured.judged, NATIVE, LLAMACPP),
        "verify_over_hf_prefill": times_faster(measured.judged, NATIVE, FLOAT32),
        "verify_over_hf_bf16_prefill": times_faster(measured.judged, NATIVE, BFLOAT16),
        "verify_over_generate_256": times_faster(measured.long | {"verify": measured.judged[NATIVE]}, "verify", NATIVE),
        "batched_verify_gain_8": times_faster(measured.batches[0], "together", "one by one"),
        "memory_over_artifact": measured.memory[NATIVE] / (measured.artifact_bytes + measured.cache_bytes),
        "torch_path_over_hf_fp32": times_faster(measured.answer, TORCH, FLOAT32),
        "torch_alone_over_hf_fp32": times_faster(measured.answer, TORCH_ALONE, FLOAT32),
        "torch_path_verify_over_hf_prefill": times_faster(measured.judged, TORCH, FLOAT32),
    }  # fmt: skip
    return {name: round(value, 3) for name, value in keys.items()}


def speeds(measured: Measured, answer: int, judged: int) -> dict[str, dict[str, float]]:
    """Returns tokens per second of each engine: of decoding without prefill, and of the one pass over `judged` tokens."""
    decode, one_pass = medians(less(measured.answer, measured.first)), medians(measured.judged)
    found = {name: {"decode": round((answer - 1) / decode[name], 2)} for name in decode}
    for name, seconds in one_pass.items():
        found[name]["one_pass"] = round(judged / seconds, 2)
    return found


def worst(models: dict[str, dict[str, float]]) -> dict[str, float]:
    """Returns for each key the worst figure of all models, which holds for every model."""
    names = next(iter(models.values()))
    return {name: (max if name in CEILINGS else min)(keys[name] for keys in models.values()) for name in names}


def targets(keys: dict[str, float]) -> dict[str, dict[str, Any]]:
    """Returns each target, the value that was reached, and whether the target is met."""
    floors = {name: {"at_least": aim, "reached": keys[name], "met": keys[name] >= aim} for name, aim in TARGETS.items()}
    ceilings = {name: {"at_most": aim, "reached": keys[name], "met": keys[name] <= aim} for name, aim in CEILINGS.items()}
    return floors | ceilings


def gains(measured: Measured, sizes: Sequence[tuple[int, int]]) -> list[dict[str, float]]:
    """Returns how many times faster one batch of claims is than single claims, for each size of claim."""
    return [
        {"shortest_prompt": prompt, "shortest_answer": answer, "gain": round(times_faster(batch, "together", "one by one"), 3)}
        for (prompt, answer), batch in zip(sizes, measured.batches, strict=True)
    ]


def memory(measured: Measured) -> dict[str, Any]:
    """Returns the bytes of files and cache, and the peak of each engine."""
    return {"artifact": measured.artifact_bytes, "cache": measured.cache_bytes, "peak": measured.memory}


def samples(measured: Measured) -> dict[str, Any]:
    """Returns all measured seconds, so that anyone can compute the ratios again."""
    single = {name: getattr(measured, name) for name in ("first", "answer", "judged", "long")}
    return {name: _rounded(value) for name, value in single.items()} | {
        "batches": [_rounded(value) for value in measured.batches]
    }


def _rounded(seconds: Samples) -> Samples:
    return {name: [round(value, 5) for value in values] for name, values in seconds.items()}

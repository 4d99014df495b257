"""Checks byte equality and measures speed on a GPU: `python -m bench.gpu` writes `bench/results/gpu.json`. No GPU ran it yet.

First every backend must pass its known answers, golden vectors and known models on the GPU. Then processor and GPU answer the
same request with one whole model, and their hashes are compared. After that the speed is measured, in turns with `transformers`
in bfloat16.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from bench import engines, machine, models
from bench.ours import Ours
from bench.peer_transformers import Transformers
from bench.rounds import Samples, interleaved, medians, times_faster
from bench.worker import Engine
from bytewise.inference.artifact import artifact
from bytewise.inference.cuda.runner import CUDA_BACKENDS, open_cuda
from bytewise.inference.determinism import fixed
from bytewise.inference.pinned.fingerprint import read_gpu
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.units import Digest

OURS, PEER = "bytewise", "transformers-bf16"
PROMPT, ANSWER, ROUNDS = 256, 256, 5
RESULT = Path("bench/results/gpu.json")


class Hashing(Ours):
    """Our engine with a method that returns `out_hash`, which a receipt contains."""

    def out_hash(self, prompt: Sequence[int], count: int) -> Digest:
        """Returns the hash of tokens and trace of the greedy answer."""
        return self._engine.generate(self.request(prompt, count)).out_hash


class OnCuda(Transformers):
    """The peer `transformers` with model and data on the GPU. Reading a token waits for the GPU, so the time includes its
    work."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "bfloat16", 1)
        self._model = self._model.to("cuda")

    def generate(self, prompt: Sequence[int], count: int) -> list[int]:
        """Generates `count` tokens greedily."""
        with torch.device("cuda"):
            return super().generate(prompt, count)

    def logits(self, tokens: Sequence[int]) -> Sequence[float]:
        """Returns the logits after the last token."""
        with torch.device("cuda"):
            return super().logits(tokens)


def exactness(path: Path) -> dict[str, str]:
    """Checks known answers, vectors and known models of each backend on the current GPU. Returns for each backend `exact`, or the
    error that names the difference."""
    model, said = artifact.load(path), {}
    for backend in CUDA_BACKENDS:
        try:
            with fixed(1):
                open_cuda(model, backend.name).vectors()
            said[backend.name] = "exact"
        except (BytewiseError, RuntimeError) as error:
            said[backend.name] = str(error)[:200]
    return said


def same_hashes(one: Hashing, other: Hashing, prompt: Sequence[int], count: int) -> bool:
    """Returns whether two engines give the same `out_hash`, trace included, for one greedy request."""
    return one.out_hash(prompt, count) == other.out_hash(prompt, count)


def measure(ours: Engine, peer: Engine, prompt: Sequence[int], answer: int, rounds: int) -> dict[str, float]:
    """Returns ratios, which are above 1 where our engine is faster, and tokens per second. Each work runs once before it is
    measured."""

    def timed(work: Callable[[], object]) -> Callable[[], float]:
        def seconds() -> float:
            start = time.perf_counter()
            work()
            return time.perf_counter() - start

        return seconds

    claims = [(prompt, answer)]
    for each in (ours, peer):
        each.generate(prompt, answer)
        each.prepare(claims)
        each.judge(claims, together=False)
    made: Samples = interleaved(
        {OURS: timed(lambda: ours.generate(prompt, answer)), PEER: timed(lambda: peer.generate(prompt, answer))}, rounds, _tell
    )
    judged: Samples = interleaved(
        {OURS: timed(lambda: ours.judge(claims, together=False)), PEER: timed(lambda: peer.judge(claims, together=False))},
        rounds, _tell,
    )  # fmt: skip
    both = {"generate": made[OURS], "verify": judged[OURS]}
    return {
        "generate_over_hf_bf16": times_faster(made, OURS, PEER),
        "verify_over_hf_prefill": times_faster(judged, OURS, PEER),
        "verify_over_generate": times_faster(both, "verify", "generate"),
        "tokens_per_second": answer / medians(made)[OURS],
        "tokens_per_second_hf_bf16": answer / medians(made)[PEER],
    }


def main() -> int:
    """Measures on the current GPU. Returns exit code 69 (EX_UNAVAILABLE) if there is no GPU."""
    parser = argparse.ArgumentParser(prog="bench.gpu", description=__doc__)
    parser.add_argument("--checkpoint", type=Path, help="checkpoint folder of the peer; with --artifact, made from it")
    parser.add_argument("--artifact", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device is here: nothing was measured", file=sys.stderr)
        return 69
    shape = models.SMALL
    checkpoint = options.checkpoint or models.checkpoint(engines.ROOT, shape)
    path = options.artifact or engines.artifact(shape)
    backends, prompt = exactness(path), [32 + i % 90 for i in range(PROMPT)]
    card, processor = Hashing(path, "cuda", 1), Hashing(path, "torch", torch.get_num_threads())
    found: dict[str, Any] = {
        "model": path.name, "machine": machine.describe(), "card": list(read_gpu().facts), "driver": read_gpu().driver,
        "cuda": torch.version.cuda, "backends": backends, "chosen": card.name, "prompt": PROMPT, "answer": ANSWER,
        "cpu_hash_equals_gpu_hash": same_hashes(processor, card, prompt, 64),
        **measure(card, OnCuda(checkpoint), prompt, ANSWER, ROUNDS),
    }  # fmt: skip
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(RESULT.read_text())
    return 0


def _tell(what: str) -> None:
    print(what, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

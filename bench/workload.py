"""Defines the measured work: lengths of prompts and answers, and the order in which engines take turns."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.child import Child
from bench.engines import FLOAT32, NATIVE, TORCH_ALONE
from bench.models import Shape
from bench.rounds import Samples, interleaved
from bench.summary import Measured
from bench.worker import Claim

PROMPT = 32
"""Tokens of the prompt that every engine answers."""

CLAIMS = 8
"""Claims that are verified in one batch."""

UNJUDGED = {TORCH_ALONE}
"""Engines that are not timed over one long pass, because it takes minutes and no target names them."""

ALIKE = 0.99
"""Smallest cosine between the logits of two engines that run the same weights. Quantisation costs less than this allows, a wrong
layout far more."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Effort:
    """Amount of work that is measured."""

    rounds: int
    answer: int
    """Tokens that every engine generates."""
    long: int
    """Tokens of the answer that is verified in one pass."""
    batches: tuple[tuple[int, int], ...]
    """Shortest prompt and answer of each batch of 8 claims. Each further claim is longer by one token. The first batch gives the
    published key."""
    table: tuple[int, ...]
    """Prompt and answer lengths of the table."""
    growth: tuple[int, ...]
    """Answer lengths of the growth table."""

    @property
    def context(self) -> int:
        """Tokens of the longest sequence of all measurements."""
        return PROMPT + max((self.long, *self.growth))


FULL = Effort(3, 32, 256, ((4, 1), (8, 8), (32, 32)), (16, 64, 256), (64, 256, 1024, 4096))
SHARED = Effort(5, 32, 256, ((4, 1), (8, 8), (32, 32)), (), ())
"""Work for the published ratios alone. It makes no tables, because a table measures each value once, and one measurement means
nothing on a machine that does other work."""
QUICK = Effort(1, 16, 32, ((4, 1),), (16,), (64,))


def prompt(shape: Shape, length: int, seed: int = 0) -> list[int]:
    """Returns random token ids, the same for every engine."""
    return [int(token) for token in np.random.Generator(np.random.SFC64(seed)).integers(0, shape.vocabulary, length)]


def claims(shape: Shape, shortest: int, answer: int) -> list[Claim]:
    """Returns eight claims, of which no two are equally long."""
    return [(prompt(shape, shortest + i, i), answer + i) for i in range(CLAIMS)]


def alike(shape: Shape, children: Mapping[str, Child]) -> dict[str, float]:
    """Returns the cosine of each engine's logits with those of `transformers` float32. Raises `SystemExit` if an engine runs
    another model."""
    tokens = prompt(shape, 16)
    logits = {name: np.asarray(child.logits(tokens)) for name, child in children.items()}
    truth = logits[FLOAT32]
    cosines = {name: float(x @ truth / np.linalg.norm(x) / np.linalg.norm(truth)) for name, x in logits.items()}
    for name, cosine in cosines.items():
        if not cosine > ALIKE:
            raise SystemExit(f"{name} runs another model than transformers: cosine of logits {cosine:.4f}")
    return {name: round(cosine, 5) for name, cosine in cosines.items()}


def measure(shape: Shape, children: Mapping[str, Child], effort: Effort, artifact: Path, progress: Progress) -> Measured:
    """Makes all measurements from which the ratios of one model are computed."""
    tokens = prompt(shape, PROMPT)
    claim = [(tokens, effort.long)]
    ours = {NATIVE: children[NATIVE]}
    judging = {name: child for name, child in children.items() if name not in UNJUDGED}
    memory = {name: _warm_up(child, tokens, effort, progress) for name, child in children.items()}

    def each(what: str, work: Callable[[Child], float], who: Mapping[str, Child] = children) -> Samples:
        works = {name: functools.partial(work, child) for name, child in who.items()}
        return interleaved(works, effort.rounds, lambda text: progress(f"{what}: {text}"))

    return Measured(
        first=each("prompt", lambda child: child.generate(tokens, 1)),
        answer=each("answer", lambda child: child.generate(tokens, effort.answer)),
        judged=each("one pass", lambda child: child.judge(claim), judging),
        long=each("long answer", lambda child: child.generate(tokens, effort.long), ours),
        batches=[_batch(claims(shape, *sizes), children[NATIVE], effort.rounds, progress) for sizes in effort.batches],
        memory=memory,
        artifact_bytes=sum(file.stat().st_size for file in artifact.iterdir()),
        cache_bytes=shape.cache_bytes_per_token * (PROMPT + effort.long),
    )


def _warm_up(child: Child, tokens: list[int], effort: Effort, progress: Progress) -> int:
    # The memory of the engine is measured after this work.
    progress(f"{child.name}: warm-up")
    child.generate(tokens, effort.answer)
    if child.name not in UNJUDGED:
        child.judge([(tokens, effort.long)])
    return child.memory()


def _batch(given: list[Claim], ours: Child, rounds: int, progress: Progress) -> Samples:
    ours.judge(given, together=True)
    works = {"together": lambda: ours.judge(given, together=True), "one by one": lambda: ours.judge(given)}
    return interleaved(works, rounds, lambda text: progress(f"batch of {len(given)}: {text}"))

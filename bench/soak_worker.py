"""One process of the determinism soak, which runs the known models: `python -m bench.soak_worker FIRST LAST STEP`.

A run reads a prompt and decodes a few tokens. The number of the run determines settings that must not change the result: path,
kernel or backend, threads, chunk, neighbours and place in the batch, a cached prefix of another conversation. The process prints
one line of JSON for each run.
"""

import functools
import hashlib
import json
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from bytewise.inference.backend_selection import AnyPath
from bytewise.inference.determinism import fixed
from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.exact.matmul import BACKENDS, backend_named
from bytewise.inference.known_answers import known_models, operations
from bytewise.inference.known_answers.operations import integers
from bytewise.inference.native.library import kernels
from bytewise.inference.native.path import NativePath, missing_feature
from bytewise.inference.sampling.sampler import choose
from bytewise.inference.torch_path import Runner
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import NotExact
from bytewise.protocol.records.request import DecodePolicy
from bytewise.protocol.units import Decimal, Digest

PROMPTS = 500
"""Number of different prompts. Each is run equally often."""

LONGEST = 48
DECODED = 6

# The first three models run on both paths. Only two of 29 prompts are for models that torch alone has, because torch is slow.
MODELS = ["bias and window", "norms of heads, two limbs", "wide scores"] * 9 + ["softcaps", "experts"]


class Setting(NamedTuple):
    """Settings of a run that must not change its result."""

    path: str
    """Kind of path: `native` or `torch`."""
    way: str
    """Name of the kernel or backend."""
    threads: int
    """Threads of the path."""
    chunk: int
    """Most tokens of a forward call."""
    neighbours: int
    """Number of other prompts in the batch."""
    prefix: bool
    """Whether the cache held another conversation with the same beginning. Then the prompt is alone in its batch."""


class Draws:
    """Pseudorandom numbers that follow from a name, so that they are the same on every machine."""

    def __init__(self, name: str) -> None:
        self._numbers = iter(integers(f"soak {name}", 64, 2**30))

    def below(self, bound: int) -> int:
        """Returns the next number, from 0 to bound - 1."""
        return abs(next(self._numbers)) % bound


def main() -> None:
    """Performs every STEP-th run from FIRST to before LAST and prints its result."""
    first, last, step = map(int, sys.argv[1:])
    for run in range(first, last, step):
        prompt = run % PROMPTS
        setting = computed(setting_of(run, MODELS[prompt % len(MODELS)]))
        print(json.dumps({"prompt": prompt, "hash": perform(run, prompt, setting), **setting._asdict()}), flush=True)


def setting_of(run: int, model: str) -> Setting:
    """Returns the settings of a run. If the native path supports the model, one run in thirty is on torch; otherwise all are."""
    draws = Draws(f"run-{run}")
    native = missing_feature(known_models.KNOWN_MODELS[model].architecture) is None and kernels() and draws.below(30)
    ways = kernels() if native else tuple(backend.name for backend in BACKENDS)
    prefix = draws.below(4) == 0
    return Setting(
        "native" if native else "torch", ways[draws.below(len(ways))], 1 + draws.below(2), (1, 3, 7, 16, 64)[draws.below(5)],
        0 if prefix else draws.below(5), prefix,
    )  # fmt: skip


def tokens_of(prompt: int) -> list[int]:
    """Returns the tokens of a prompt."""
    length = 2 + Draws(f"length-{prompt}").below(LONGEST - 2)
    return [abs(n) for n in integers(f"soak-prompt-{prompt}", length, 63)]


@functools.cache
def path_of(model: str, kind: str, way: str, threads: int) -> AnyPath:
    """Returns an open path. A native path for the first model has passed the known-answer test of its kernel. The backend of a
    torch path was checked before, by `computed`."""
    known = known_models.built_model(model)
    if kind == "torch":
        return Runner(known, backend_named(way.partition(" ")[0]))
    path = NativePath(known, kernel=way, threads=threads)
    if model == MODELS[0]:
        path.vectors()
    return path


def computed(setting: Setting) -> Setting:
    """Returns the setting, with float64 in place of a backend that fails its known answers in this process.

    The engine refuses such a backend too. For example, int8 products saturate if libraries on a processor with VNNI are told that
    it has no VNNI.
    """
    if setting.path == "native" or is_exact(setting.way):
        return setting
    return setting._replace(way=f"float64 for {setting.way}")


@functools.cache
def is_exact(name: str) -> bool:
    """Whether the backend of that name passes its known answers in this process."""
    try:
        with fixed(1):
            operations.verify_operations(backend_named(name))
    except NotExact as error:
        print(error, file=sys.stderr)
        return False
    return True


def perform(run: int, prompt: int, setting: Setting) -> str:
    """Performs a run. Returns a hash of the prompt's last head row, of the tokens decoded after it, and of their rows."""
    with fixed(setting.threads):
        path = path_of(MODELS[prompt % len(MODELS)], setting.path, setting.way, setting.threads)
        cache, row = _with_prefix(path, prompt, setting) if setting.prefix else _in_batch(path, run, prompt, setting)
        policy = DecodePolicy(DECODED, Decimal("0" if prompt % 2 else "0.9"), Decimal("1"), 0, ())
        said = hashlib.sha256()
        for i in range(DECODED):
            said.update(repr(known_models.parts_of(row)).encode())
            if row.logits is None:
                break
            token = choose(row.logits, policy, prompt, _execution(prompt), i)
            said.update(token.to_bytes(4))
            row = path.feed(cache, token, len(tokens_of(prompt)) + i)
    return said.hexdigest()


def _in_batch(path: AnyPath, run: int, prompt: int, setting: Setting) -> tuple[Any, HeadRow]:
    draws = Draws(f"batch-{run}")
    batch: list[Sequence[int]] = [tokens_of(draws.below(PROMPTS)) for _ in range(setting.neighbours)]
    place = draws.below(setting.neighbours + 1)
    batch.insert(place, tokens_of(prompt))
    cache = path.cache(len(batch), LONGEST + DECODED)
    rows = path.teacher_force(cache, batch, [len(tokens) - 1 for tokens in batch], setting.chunk)
    one = cache.select(place)
    one.crop(len(batch[place]))
    return one, rows[place][0]


def _with_prefix(path: AnyPath, prompt: int, setting: Setting) -> tuple[Any, HeadRow]:
    tokens, cache = tokens_of(prompt), path.cache(1, LONGEST + DECODED)
    shared = len(tokens) // 2
    path.teacher_force(cache, [[*tokens[:shared], *tokens_of(prompt + 1)[: LONGEST - shared]]], [0], setting.chunk)
    cache.crop(shared)
    rest = tokens[shared:]
    return cache, path.teacher_force(cache, [rest], [len(rest) - 1], setting.chunk)[0][0]


def _execution(prompt: int) -> Digest:
    return digests.labelled(Label.EXECUTION, b"soak", prompt)


if __name__ == "__main__":
    main()

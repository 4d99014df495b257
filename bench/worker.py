"""Child process of a measurement. It runs one engine, reads commands as JSON lines from stdin and writes answers to stdout.

It uses the standard library only, because peers run it in a virtual environment without our packages.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

Claim = tuple[Sequence[int], int]
"""A prompt, and the number of tokens of its answer."""

CLOCK = "BYTEWISE_BENCH_CLOCK"
"""Environment variable that selects the clock. The value `processor` counts the processor time of all threads of an engine. Any
other value counts wall time."""


class Engine(Protocol):
    """Interface of a measured engine. It decodes greedily and without stop tokens. Unless a method says otherwise, it works on
    one sequence at a time."""

    name: str
    """Library, version and kernel, as the engine states them."""

    def generate(self, prompt: Sequence[int], count: int) -> Sequence[int]:
        """Generates and returns `count` tokens after the prompt."""
        ...

    def prepare(self, claims: Sequence[Claim]) -> None:
        """Does the work that must precede `judge` of these claims. It is not measured."""
        ...

    def judge(self, claims: Sequence[Claim], together: bool) -> None:
        """Makes one pass over prompt and answer of each claim. Our engine verifies the answer, a peer only prefills the same
        tokens."""
        ...

    def logits(self, tokens: Sequence[int]) -> Sequence[float]:
        """Returns the logits after the last token, which show whether all engines run the same model."""
        ...


def peak_bytes() -> int:
    """Returns the most memory in bytes that this process ever had resident (Linux: VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel does not say VmHWM")


def serve(load: Callable[[], Engine]) -> None:
    """Loads an engine and answers commands until stdin ends. The memory in use before `load` is subtracted, so that imported
    libraries do not count."""
    # Text that a library prints must not end up among the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    baseline = peak_bytes()
    engine = load()
    print(json.dumps({"name": engine.name}), file=answers, flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        reply = {"memory": peak_bytes() - baseline} if command["do"] == "memory" else _do(engine, **command)
        print(json.dumps(reply), file=answers, flush=True)


def clock() -> Callable[[], float]:
    """Returns the clock that the environment variable selects."""
    return time.process_time if os.environ.get(CLOCK) == "processor" else time.perf_counter


def _do(engine: Engine, do: str, **arguments: Any) -> dict[str, Any]:
    now = clock()
    if do == "logits":
        return {"logits": [float(value) for value in engine.logits(arguments["tokens"])]}
    if do == "judge":
        engine.prepare(arguments["claims"])
        start = now()
        engine.judge(**arguments)
        return {"seconds": now() - start}
    start = now()
    tokens = engine.generate(**arguments)
    return {"seconds": now() - start, "tokens": [int(token) for token in tokens]}

"""Child side of a measurement: one engine, with commands as JSON lines on stdin and answers as JSON lines on stdout.

Standard library only: the peer runs it in a virtual environment that has none of ours.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

Claim = tuple[Sequence[int], int]
"""A prompt and how many tokens of answer."""

CLOCK = "BYTEWISE_BENCH_CLOCK"
"""Variable of the environment: `processor` counts the processor time of all threads of an engine, anything else what passes."""


class Engine(Protocol):
    """What is measured of an engine: greedy, no stop, one sequence at a time unless said otherwise."""

    name: str
    """What it calls itself: library, version, kernel."""

    def generate(self, prompt: Sequence[int], count: int) -> Sequence[int]:
        """`count` tokens after the prompt."""
        ...

    def prepare(self, claims: Sequence[Claim]) -> None:
        """Makes, unmeasured, what `judge` of these claims needs."""
        ...

    def judge(self, claims: Sequence[Claim], together: bool) -> None:
        """One pass over prompt and answer of each claim: ours verifies it, a peer only prefills the same tokens."""
        ...

    def logits(self, tokens: Sequence[int]) -> Sequence[float]:
        """Logits after the last token, to see that all engines run the same model."""
        ...


def peak_bytes() -> int:
    """Most memory that this process ever had resident (Linux: VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel does not say VmHWM")


def serve(load: Callable[[], Engine]) -> None:
    """Loads an engine and answers until stdin ends. Memory is counted from before `load`: libraries are not the engine's."""
    # Whatever a library prints must not end up among the answers.
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
    """The clock that the environment names."""
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

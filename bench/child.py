"""Parent side of a measurement: runs an engine as a process and asks it by lines of JSON."""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.worker import Claim


class ChildFailed(Exception):
    """An engine ended or said something that is no answer."""


class Child:
    """One engine. A context manager: the process ends with it."""

    def __init__(self, name: str, command: Sequence[str | Path]) -> None:
        """Starts `command`, which must call `worker.serve`, and waits until it is loaded."""
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        self.engine: str = self._answer()["name"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def generate(self, prompt: Sequence[int], count: int) -> float:
        """Seconds for `count` tokens after the prompt, prefill included."""
        reply = self._ask("generate", prompt=prompt, count=count)
        if len(reply["tokens"]) != count:
            raise ChildFailed(f"{self.name} gave {len(reply['tokens'])} tokens, not {count}: its time means nothing")
        return float(reply["seconds"])

    def judge(self, claims: Sequence[Claim], together: bool = False) -> float:
        """Seconds to verify (ours) or prefill (peers) the tokens of the claims, one by one or in one batch."""
        return float(self._ask("judge", claims=claims, together=together)["seconds"])

    def logits(self, tokens: Sequence[int]) -> list[float]:
        """Logits after the last token."""
        values: list[float] = self._ask("logits", tokens=tokens)["logits"]
        return values

    def memory(self) -> int:
        """Most bytes ever resident, less those of the imported libraries."""
        return int(self._ask("memory")["memory"])

    def _ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            print(json.dumps({"do": do, **arguments}), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            pass  # It has ended: reading says so, with what it printed.
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            raise ChildFailed(f"{self.name} ended with {self._process.returncode}:\n{self._errors.read()[-2000:]}")
        reply: dict[str, Any] = json.loads(line)
        return reply

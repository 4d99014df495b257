"""Runs a measured engine as a child process, and sends it commands as JSON lines."""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.worker import Claim


class ChildFailed(Exception):
    """Error of an engine that ended, or whose answer cannot be used."""


class Child:
    """One engine in a child process. It is a context manager that kills the process at the end."""

    def __init__(self, name: str, command: Sequence[str | Path]) -> None:
        """Starts `command`, which must call `worker.serve`, and waits until the engine is loaded."""
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
        """Returns the seconds for `count` tokens after the prompt, prefill included."""
        reply = self._ask("generate", prompt=prompt, count=count)
        if len(reply["tokens"]) != count:
            raise ChildFailed(f"{self.name} gave {len(reply['tokens'])} tokens, not {count}: its time means nothing")
        return float(reply["seconds"])

    def judge(self, claims: Sequence[Claim], together: bool = False) -> float:
        """Returns the seconds to verify (our engine) or prefill (peers) the tokens of the claims, one by one or in one batch."""
        return float(self._ask("judge", claims=claims, together=together)["seconds"])

    def logits(self, tokens: Sequence[int]) -> list[float]:
        """Returns the logits after the last token."""
        values: list[float] = self._ask("logits", tokens=tokens)["logits"]
        return values

    def memory(self) -> int:
        """Returns the peak of resident memory in bytes, without that of the imported libraries."""
        return int(self._ask("memory")["memory"])

    def _ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            print(json.dumps({"do": do, **arguments}), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            pass  # The process has ended. `_answer` reports that, with its output.
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

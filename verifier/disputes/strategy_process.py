"""Runs a strategy that the user of the node wrote, in a process of its own (ADR-026).

The process gets no key. Of the node's environment variables it gets only those for paths, home and locale
(`child_environment`). Of the node's file descriptors it gets only one socket and the standard error. It may raise errors, hang or
end. The node waits at most one deadline for an answer. After a failure the node kills the process, and starts it again after a
pause. The pause grows with each failure in a row.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bytewise.protocol import encoding
from bytewise.protocol.decisions.strategies import (
    DisputeProposal,
    StrategyAnswer,
    StrategyProblem,
    StrategyReady,
    WatchEvent,
)
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import MalformedValue
from bytewise.service import telemetry
from bytewise.service.clock import monotonic_s
from bytewise.service.settings import child_environment

START_LIMIT_S = 30.0
"""Most seconds from the start of the process until it has loaded the strategy."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""First and longest pause, in seconds, before the process is started again. The pause doubles after each failure in a row."""
MAX_ANSWER_BYTES = 2**16
"""Longest message in bytes that the node accepts from the process."""

M = TypeVar("M", StrategyReady, StrategyAnswer)


class StrategyProcess:
    """One strategy and the process that runs it. Implements `strategist.StrategyRunner`."""

    def __init__(self, name: str, folder: Path | None, deadline_s: float, monotonic: Callable[[], float] = monotonic_s) -> None:
        """`name` is `module:Class`. `folder` contains the module, or is None if the module is installed. `deadline_s` bounds each
        answer."""
        self._name = name
        self._folder = folder
        self._deadline_s = deadline_s
        self._monotonic = monotonic
        self._process: subprocess.Popen[bytes] | None = None
        self._peer: socket.socket | None = None
        self._methods: frozenset[str] | None = None
        self._received = bytearray()
        self._failures = 0
        self._started_at = 0.0
        self._not_before = 0.0
        self.generation = 0

    def methods(self) -> frozenset[str]:
        """Returns the names of the methods that the strategy overrides, and starts the process if needed. Raises `TryAgain` while
        the process starts or waits for its next start, and if the strategy cannot be loaded."""
        if self._methods is not None:
            return self._methods
        now = self._monotonic()
        if self._process is None:
            if now < self._not_before:
                raise TryAgain("strategy", f"{self._name} failed and waits for its next start")
            self._start()
        try:
            ready = self._receive(StrategyReady, until=now + self._deadline_s)
        except TryAgain:
            if self._monotonic() - self._started_at < START_LIMIT_S and self._is_running():
                raise TryAgain("strategy", f"{self._name} is still starting") from None
            self._fail()
            raise
        except (_Reported, Fault) as error:
            self._fail()
            raise TryAgain("strategy", f"{self._name} could not be loaded: {error}") from None
        self._methods = frozenset(ready.methods)
        telemetry.log("strategy.started", strategy=self._name, methods=",".join(ready.methods))
        return self._methods

    def ask(self, event: WatchEvent) -> tuple[DisputeProposal, ...]:
        """Shows the strategy an event, and returns its proposals. Raises `MalformedValue` if the strategy raised an error; then
        the process goes on. Raises `TryAgain` if the process ended or did not answer in time; then the next call of `methods`
        starts a new process after a pause."""
        if self._peer is None or self._methods is None:
            raise TryAgain("strategy", f"{self._name} is not running")
        raw = encoding.encode(event)
        until = self._monotonic() + self._deadline_s
        try:
            self._peer.settimeout(self._deadline_s)
            self._peer.sendall(len(raw).to_bytes(4, "big") + raw)
            answer = self._receive(StrategyAnswer, until)
        except _Reported as problem:
            raise MalformedValue("strategy", f"{self._name}: {problem}") from None
        except TryAgain:
            self._fail()
            raise
        except (OSError, Fault) as error:
            self._fail()
            raise TryAgain("strategy", f"{self._name} is started again: {type(error).__name__} {error}") from None
        self._failures = 0
        return tuple(answer.proposals)

    def close(self) -> None:
        """Kills the process with everything that it started."""
        if self._peer is not None:
            self._peer.close()
        if self._process is not None:
            # The process group has everything that the strategy started. Its leader was not waited for, so no other process can
            # have its id.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = self._peer = self._methods = None
        self._received.clear()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        folder = {} if self._folder is None else {"PYTHONPATH": str(self._folder)}
        command = [sys.executable, "-P", "-m", "bytewise_client.strategy_process", self._name, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                command, env=child_environment(folder), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self._peer, self._started_at = ours, self._monotonic()
        self.generation += 1

    def _is_running(self) -> bool:
        # `poll` would take the exit status, and another process could then get the id that `close` kills.
        return self._process is not None and os.waitid(
            os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ) is None  # fmt: skip

    def _fail(self) -> None:
        self.close()
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**self._failures)
        self._failures = min(self._failures + 1, 16)
        self._not_before = self._monotonic() + pause

    def _receive(self, expected: type[M], until: float) -> M:
        """Returns the next message of the process. Bytes that arrive before `until` are kept for the next call if the message is
        not complete."""
        length = int.from_bytes(self._read(4, until), "big")
        if not 0 < length <= MAX_ANSWER_BYTES:
            raise MalformedValue("message", f"{length} bytes, at most {MAX_ANSWER_BYTES}")
        raw = self._read(4 + length, until)[4:]
        self._received.clear()
        value = encoding.parse(raw)
        if isinstance(value, dict) and value.keys() == {"problem"}:
            raise _Reported(encoding.from_json(StrategyProblem, value).problem)
        return encoding.from_json(expected, value)

    def _read(self, size: int, until: float) -> bytes:
        """Returns the next `size` bytes of the process, and keeps them until the whole message was read. Raises `TryAgain` if
        they do not arrive before `until`."""
        assert self._peer is not None
        while len(self._received) < size:
            left = until - self._monotonic()
            if left <= 0:
                raise TryAgain("strategy", f"{self._name} gave no answer in {self._deadline_s} s")
            self._peer.settimeout(left)
            try:
                chunk = self._peer.recv(size - len(self._received))
            except TimeoutError:
                continue
            if not chunk:
                raise TryAgain("strategy", f"the process of {self._name} ended")
            self._received += chunk
        return bytes(self._received[:size])


class _Reported(Exception):
    """Raised when the process reported a problem of the strategy."""

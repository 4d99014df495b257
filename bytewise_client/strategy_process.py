"""The process of one strategy: `python -m bytewise_client.strategy_process MODULE:CLASS DESCRIPTOR`, started by a watchtower.

It loads the strategy, then answers each event on the socket with that descriptor. It ends with the watchtower.
"""

import importlib
import os
import resource
import socket
import sys
import threading
import time
import traceback
from typing import NoReturn

from bytewise.protocol.decisions.strategies import (
    AuditEvent,
    DisputeEvent,
    ReceiptEvent,
    Strategy,
    StrategyAnswer,
    StrategyProblem,
    StrategyReady,
    ask,
    overridden,
)
from bytewise.protocol.errors.branches import Unavailable
from bytewise.service import frames

MEMORY_BYTES = 2 * 2**30
"""Most memory of the process. A strategy that wants more gets a `MemoryError`."""
LONGEST_PROBLEM = 400
"""Most characters of a reported problem."""


def main() -> int:
    """Serves until the watchtower closes the socket; exit code 0."""
    name, descriptor = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    peer = socket.socket(fileno=int(descriptor))
    peer.set_inheritable(False)
    try:
        strategy = load(name)
    except Exception as error:  # noqa: BLE001  (foreign code: the watchtower reports it)
        frames.send(peer, StrategyProblem(problem_text(error)))
        return 0
    frames.send(peer, StrategyReady(overridden(strategy)))
    while True:
        try:
            event = frames.receive(peer, ReceiptEvent, AuditEvent, DisputeEvent)
        except Unavailable:
            return 0
        frames.send(peer, answer_to(strategy, event))


def load(name: str) -> Strategy:
    """The strategy of `module:Class`, made without arguments. Errors of the module pass through; `TypeError` if it is none."""
    module, _, cls = name.partition(":")
    made = getattr(importlib.import_module(module), cls)()
    if not isinstance(made, Strategy):
        raise TypeError(f"{name} is no subclass of bytewise_client.watch.Strategy")
    return made


def answer_to(strategy: Strategy, event: ReceiptEvent | AuditEvent | DisputeEvent) -> StrategyAnswer | StrategyProblem:
    """The answer of a strategy, or its problem: an error, or an answer of another type."""
    try:
        return StrategyAnswer(ask(strategy, event))
    except Exception as error:  # noqa: BLE001  (foreign code: the watchtower reports it)
        return StrategyProblem(problem_text(error))


def problem_text(error: Exception) -> str:
    """One line: class and text of the error, and the last line of code that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:LONGEST_PROBLEM]} ({os.path.basename(frame.filename)}:{frame.lineno})"


def _end_with_parent(parent: int) -> NoReturn:
    # A strategy that hangs would outlive a watchtower that was killed.
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())

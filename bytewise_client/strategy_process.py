"""The process of one strategy: `python -m bytewise_client.strategy_process MODULE:CLASS DESCRIPTOR`. A watchtower starts it.

It loads the strategy, and then answers each event on the socket with that file descriptor. It ends when the watchtower ends.
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
from bytewise.service import connections

MEMORY_BYTES = 2 * 2**30
"""Most bytes of memory that the process may use. If a strategy needs more, it gets a `MemoryError`."""
LONGEST_PROBLEM = 400
"""Most characters of an error's text in a reported problem."""


def main() -> int:
    """Loads the strategy, and answers events until the watchtower closes the socket. If the strategy cannot be loaded, reports
    that and ends at once. Returns exit code 0 in both cases."""
    name, descriptor = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    peer = socket.socket(fileno=int(descriptor))
    peer.set_inheritable(False)
    try:
        strategy = load(name)
    except Exception as error:  # noqa: BLE001  (foreign code: the watchtower reports it)
        connections.send(peer, StrategyProblem(problem_text(error)))
        return 0
    connections.send(peer, StrategyReady(overridden(strategy)))
    while True:
        try:
            event = connections.receive(peer, ReceiptEvent, AuditEvent, DisputeEvent)
        except Unavailable:
            return 0
        connections.send(peer, answer_to(strategy, event))


def load(name: str) -> Strategy:
    """Imports the strategy `module:Class` and returns an object of it, made without arguments.

    Errors of the module pass through. Raises `TypeError` if the class is no strategy.
    """
    module, _, cls = name.partition(":")
    made = getattr(importlib.import_module(module), cls)()
    if not isinstance(made, Strategy):
        raise TypeError(f"{name} is no subclass of bytewise_client.watch.Strategy")
    return made


def answer_to(strategy: Strategy, event: ReceiptEvent | AuditEvent | DisputeEvent) -> StrategyAnswer | StrategyProblem:
    """Returns the answer of a strategy to an event.

    If the strategy raises an error or returns another type, returns that problem.
    """
    try:
        return StrategyAnswer(ask(strategy, event))
    except Exception as error:  # noqa: BLE001  (foreign code: the watchtower reports it)
        return StrategyProblem(problem_text(error))


def problem_text(error: Exception) -> str:
    """Returns one line about an error: its class, its text, and the last line of code that raised it."""
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

"""The second backend in its process: whatever becomes of who asks it or of one opinion, it is no vote, and the next is given."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from bytewise.protocol.errors.actors import CannotExecute, TryAgain
from bytewise.protocol.errors.records import OutsideLimits
from bytewise.protocol.records.request import Output, Request
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.units import Digest
from bytewise.service import connections
from enclave.cross_check import CrossCheck, CrossCheckRequest, OpenedBackend
from enclave.forked_process import ProcessReady
from tests.fixtures.builders import World

WORLD = World()
REQUEST = WORLD.request(1)
TRUTH = WORLD.engine.generate(REQUEST)
RETRIES = 10

Act = Callable[[], object]


class Second:
    """An engine that does something at each doubt, in whichever process, and agrees once there is nothing left to do."""

    def __init__(self, *acts: Act) -> None:
        self._acts = acts
        self._turn, self._next = os.pipe()
        os.write(self._next, bytes(range(200)))

    def concur(self, request: Request, output: Output, out_hash: Digest) -> None:
        """Agrees, if it comes to that."""
        turn = os.read(self._turn, 1)[0]
        if turn < len(self._acts):
            self._acts[turn]()
        assert (request, output, out_hash) == (REQUEST, TRUTH.output, TRUTH.out_hash)


@contextmanager
def asked(*acts: Act, limit_s: int = 60) -> Iterator[CrossCheck]:
    """A second backend whose first opinions do that."""
    engine = Second(*acts)
    second = CrossCheck(lambda: OpenedBackend(engine, ("one",)), lambda: ("another",), limit_s)
    try:
        assert second.ready() == ProcessReady(("another", "one")), "what is missing around either process is told"
        yield second
    finally:
        second.close()


def raises(error: Exception) -> Act:
    """Does just that."""

    def act() -> None:
        raise error

    return act


def dies() -> None:
    """As of the kernel's hand, out of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def agrees(second: CrossCheck) -> None:
    """Asserts that it gives an opinion."""
    second.verify(REQUEST, TRUTH)


def test_second_backend_agrees_or_gives_its_reason() -> None:
    acts = (
        raises(CannotExecute("other token")), raises(CannotExecute("small", CannotReason.RESOURCES)), raises(MemoryError()),
        raises(OutsideLimits("context", 1, 2)),
    )  # fmt: skip
    with asked(*acts) as second:
        reasons = []
        for _ in acts:
            with pytest.raises(CannotExecute) as refused:
                agrees(second)
            reasons.append(refused.value.values[1])
        assert reasons == [CannotReason.BACKEND, *[CannotReason.RESOURCES] * 3]
        agrees(second)


def test_dying_second_backend_is_unavailable_and_the_next_one_answers() -> None:
    with asked(dies) as second:
        with pytest.raises(TryAgain):
            agrees(second)
        agrees(second)


def test_silent_second_backend_is_ended_and_the_next_one_answers() -> None:
    with asked(threading.Event().wait, limit_s=1) as second:
        with pytest.raises(TryAgain):
            agrees(second)
        for _ in range(RETRIES):
            with suppress(TryAgain):
                agrees(second)
                return
    raise AssertionError("no other process gives opinions")


def _garbage(stream: socket.socket) -> None:
    stream.sendall((7).to_bytes(4, "big") + b"garbage")


def _half(stream: socket.socket) -> None:
    stream.sendall((100).to_bytes(4, "big") + b"{")


def _asks(stream: socket.socket) -> None:
    connections.send(stream, CrossCheckRequest(REQUEST, TRUTH.output, TRUTH.out_hash))


ASKERS: dict[str, Callable[[socket.socket], None]] = {
    "is gone before it asks": lambda _: None,
    "is gone in mid-sentence": _half,
    "says what nobody understands": _garbage,
    "is gone before the answer": _asks,
}


@pytest.mark.parametrize("name", ASKERS)
def test_caller_of_the_second_backend_may_die_at_any_point(name: str) -> None:
    with asked() as second:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            connections.send_stream(second._line, theirs)
            ASKERS[name](ours)
        agrees(second)
        agrees(second)


def test_message_without_a_stream_is_dropped() -> None:
    with asked() as second:
        second._line.sendall(b"\1")
        agrees(second)


def test_ended_second_backend_is_unavailable() -> None:
    with asked() as second:
        os.kill(second.process.pid, signal.SIGKILL)
        assert second.process.has_ended(30)
        with pytest.raises(TryAgain):
            agrees(second)

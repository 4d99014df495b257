"""The queue: equal requests are one, the queue is bounded, a bug is told."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from bytewise.protocol.errors import BadRequest, NotExact, TryAgain
from bytewise.protocol.units import Digest
from serving.desk import Desk, request_key

KEY = Digest(b"k" * 32)
WAIT_S = 60.0


class Kitchen:
    """Work that waits until it is let go, and a memory of finished answers."""

    def __init__(self) -> None:
        self.memory: dict[Digest, bytes] = {}
        self.go = threading.Event()
        self.runs = 0
        self.bugs: list[BaseException] = []
        self.desk = Desk(self.memory.get, 2, self.bugs.append)

    def work(self, key: Digest, answer: bytes) -> Callable[[], Callable[[], bytes]]:
        def run() -> bytes:
            assert self.go.wait(WAIT_S)
            self.runs += 1
            self.memory[key] = answer
            return answer

        return lambda: run


@pytest.fixture
def kitchen() -> Iterator[Kitchen]:
    made = Kitchen()
    yield made
    made.go.set()
    made.desk.close()


def test_equal_requests_in_flight_are_one_run(kitchen: Kitchen) -> None:
    with ThreadPoolExecutor(8) as pool:
        futures = list(pool.map(lambda _: kitchen.desk.submit(KEY, kitchen.work(KEY, b"a")), range(8)))
        kitchen.go.set()
    assert [future.result(WAIT_S) for future in futures] == [b"a"] * 8 and kitchen.runs == 1


def test_a_remembered_answer_is_given_without_a_run_or_a_check(kitchen: Kitchen) -> None:
    kitchen.memory[KEY] = b"old"

    def refuse() -> Callable[[], bytes]:
        raise TryAgain("operator", "closed")

    assert kitchen.desk.submit(KEY, refuse).result(WAIT_S) == b"old" and kitchen.runs == 0


def test_a_full_queue_refuses_new_requests_and_still_joins_old_ones(kitchen: Kitchen) -> None:
    keys = [Digest(bytes([i]) * 32) for i in range(3)]
    held = [kitchen.desk.submit(key, kitchen.work(key, b"x")) for key in keys[:2]]
    with pytest.raises(TryAgain):
        kitchen.desk.submit(keys[2], kitchen.work(keys[2], b"x"))
    assert kitchen.desk.submit(keys[0], kitchen.work(keys[0], b"y")) is held[0]
    kitchen.go.set()
    assert [future.result(WAIT_S) for future in held] == [b"x", b"x"]


def test_a_refused_request_leaves_no_trace(kitchen: Kitchen) -> None:
    def refuse() -> Callable[[], bytes]:
        raise BadRequest("messages", "too long")

    with pytest.raises(BadRequest):
        kitchen.desk.submit(KEY, refuse)
    kitchen.go.set()
    assert kitchen.desk.submit(KEY, kitchen.work(KEY, b"fresh")).result(WAIT_S) == b"fresh"


def test_a_failed_run_is_forgotten_and_only_a_bug_ends_the_process(kitchen: Kitchen) -> None:
    def failing(error: Exception) -> Callable[[], Callable[[], bytes]]:
        def run() -> bytes:
            raise error

        return lambda: run

    for error, bugs in ((TryAgain("da", "down"), 0), (NotExact("row"), 1)):
        with pytest.raises(type(error)):
            kitchen.desk.submit(KEY, failing(error)).result(WAIT_S)
        assert len(kitchen.bugs) == bugs
    kitchen.go.set()
    assert kitchen.desk.submit(KEY, kitchen.work(KEY, b"fresh")).result(WAIT_S) == b"fresh"


def test_a_request_is_named_by_caller_body_and_idempotency_key() -> None:
    names = {request_key(body, who, own) for body in (b"a", b"b") for who in ("", "x") for own in ("", "1")}
    assert len(names) == 8

"""The queue: a retry gets the answer that it repeats, other requests their own; the queue is bounded, a bug is told."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from bytewise.protocol.errors.actors import BadRequest, NotExact, TryAgain
from bytewise.protocol.units import Digest
from serving.refusals import Busy
from serving.request_queue import MAX_KEY_CHARACTERS, RequestQueue, RequestTicket, request_ticket

WAIT_S = 60.0


def asked(body: str = "hi", retry: int = 0, key: str = "", who: str = "Bearer x", address: str = "10.0.0.1") -> RequestTicket:
    """The ticket of a request."""
    return request_ticket(body.encode(), who, address, key, str(retry))


class Kitchen:
    """Work that waits until it is let go and answers with its own number, and a memory of finished answers."""

    def __init__(self) -> None:
        self.memory: dict[Digest, bytes] = {}
        self.go = threading.Event()
        self.begun = 0
        self.bugs: list[BaseException] = []
        self.queue = RequestQueue(self.remembered, 4, self.bugs.append)

    def remembered(self, start: bytes) -> tuple[Digest, bytes] | None:
        return next(((name, answer) for name, answer in self.memory.items() if name.startswith(start)), None)

    def submit(self, wanted: RequestTicket) -> Future[bytes]:
        def prepare() -> Callable[[], bytes]:
            self.begun += 1
            answer = b"%d" % self.begun

            def run() -> bytes:
                assert self.go.wait(WAIT_S)
                self.memory[wanted.name] = answer
                return answer

            return run

        return self.queue.submit(wanted, prepare)

    def fail(self, wanted: RequestTicket, error: Exception) -> None:
        """A request whose work fails."""

        def run() -> bytes:
            raise error

        with pytest.raises(type(error)):
            self.queue.submit(wanted, lambda: run).result(WAIT_S)

    def served(self, wanted: RequestTicket) -> bytes:
        """The answer, after all work was let go."""
        self.go.set()
        return self.submit(wanted).result(WAIT_S)


@pytest.fixture
def kitchen() -> Iterator[Kitchen]:
    made = Kitchen()
    yield made
    made.go.set()
    made.queue.close()


def test_repeated_request_gets_another_answer_and_a_lost_answer_its_own(kitchen: Kitchen) -> None:
    assert [kitchen.served(asked(retry=retry)) for retry in (0, 0, 1, 2, 0, 1)] == [b"1", b"2", b"2", b"2", b"3", b"3"]


def test_equal_concurrent_requests_and_their_retries_get_their_own_answers(kitchen: Kitchen) -> None:
    first = [kitchen.submit(asked()) for _ in range(3)]
    again = [[kitchen.submit(asked(retry=retry)) for _ in range(3)] for retry in (1, 2)]
    kitchen.go.set()
    answers = [future.result(WAIT_S) for future in first]
    assert sorted(answers) == [b"1", b"2", b"3"]
    assert all(sorted(future.result(WAIT_S) for future in each) == answers for each in again)


def test_retry_of_a_refused_request_gets_no_answer_of_an_equal_request(kitchen: Kitchen) -> None:
    held = [kitchen.submit(asked()) for _ in range(4)]
    for _ in range(2):
        with pytest.raises(Busy):
            kitchen.submit(asked())
    kitchen.go.set()
    assert {future.result(WAIT_S) for future in held} == {b"1", b"2", b"3", b"4"}
    assert {kitchen.served(asked(retry=1)) for _ in range(2)} == {b"7", b"8"}, "5 and 6 were refused"
    assert kitchen.served(asked(retry=1)) == b"8"


def test_retry_of_a_failed_request_gets_no_answer_of_an_equal_request(kitchen: Kitchen) -> None:
    kitchen.fail(asked(), TryAgain("da", "down"))
    assert kitchen.served(asked()) == b"1" and kitchen.served(asked(retry=1)) == b"2"


def test_idempotency_key_has_one_answer_however_often_it_is_sent(kitchen: Kitchen) -> None:
    with ThreadPoolExecutor(8) as pool:
        futures = list(pool.map(lambda _: kitchen.submit(asked(key="k")), range(8)))
        kitchen.go.set()
    assert len({future.result(WAIT_S) for future in futures}) == 1 and len(kitchen.memory) == 1
    assert kitchen.served(asked(key="k")) == futures[0].result()


def test_key_of_another_body_is_refused_while_running_and_remembered(kitchen: Kitchen) -> None:
    running = kitchen.submit(asked(key="k"))
    for _ in range(2):
        with pytest.raises(BadRequest, match="another body"):
            kitchen.submit(asked("other", key="k"))
        kitchen.go.set()
        running.result(WAIT_S)
    kitchen.memory.clear()
    assert kitchen.served(asked("other", key="k")) == b"2", "nothing was left of what was refused"


def test_idempotency_keys_and_retries_belong_to_their_caller(kitchen: Kitchen) -> None:
    callers = [("Bearer x", "10.0.0.1"), ("Bearer x", "10.0.0.2"), ("", "10.0.0.1"), ("", "10.0.0.2")]
    for key, body in (("k", "hi"), ("", "hi")):
        answers = [kitchen.served(asked(body, key=key, who=who, address=address)) for who, address in callers]
        assert len(set(answers)) == 4
        again = [kitchen.served(asked(body, 1, key, who, address)) for who, address in callers]
        assert again == answers


def test_remembered_answer_is_returned_without_a_run_or_a_check(kitchen: Kitchen) -> None:
    def refuse() -> Callable[[], bytes]:
        raise TryAgain("operator", "closed")

    for wanted in (asked(retry=1), asked(key="k")):
        kitchen.memory[wanted.name] = b"old"
        assert kitchen.queue.submit(wanted, refuse).result(WAIT_S) == b"old"


def test_full_queue_refuses_new_requests_and_joins_old_ones(kitchen: Kitchen) -> None:
    held = [kitchen.submit(asked(str(i), key=str(i) if i % 2 else "")) for i in range(4)]
    for key in ("", "k"):
        with pytest.raises(Busy):
            kitchen.submit(asked("new", key=key))
    assert kitchen.submit(asked("0", retry=1)) is held[0] and kitchen.submit(asked("1", key="1")) is held[1]
    kitchen.go.set()
    assert [future.result(WAIT_S) for future in held] == [b"1", b"2", b"3", b"4"]
    assert kitchen.served(asked("new", key="k")) == b"7", "a refused request used up no key"


def test_a_refused_request_leaves_no_trace(kitchen: Kitchen) -> None:
    def refuse() -> Callable[[], bytes]:
        raise BadRequest("messages", "too long")

    for wanted in (asked(), asked(key="k")):
        with pytest.raises(BadRequest):
            kitchen.queue.submit(wanted, refuse)
    assert kitchen.served(asked("other", key="k")) == b"1"


def test_failed_run_is_forgotten_and_only_a_bug_ends_the_process(kitchen: Kitchen) -> None:
    bug = NotExact("row")
    for error in (TryAgain("da", "down"), bug):
        kitchen.fail(asked(key="k"), error)
    assert kitchen.served(asked(key="k")) == b"1"
    kitchen.queue.close()
    assert kitchen.bugs == [bug]


def test_malformed_retry_count_is_no_retry_and_an_overlong_key_is_refused() -> None:
    for count in ("", "-1", "1.0", "٣", "x", "9" * 10):
        assert request_ticket(b"", "", "", "", count).retry == 0
    assert request_ticket(b"", "", "", "", "12").retry == 12
    assert request_ticket(b"", "", "", "k" * MAX_KEY_CHARACTERS, "").once
    with pytest.raises(BadRequest, match="longer than"):
        request_ticket(b"", "", "", "k" * (MAX_KEY_CHARACTERS + 1), "")

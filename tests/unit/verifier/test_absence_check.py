"""Whether DA serves us is asked of blobs that it has already; others are put there seldom, however long it serves nobody."""

from collections.abc import Callable

from bytewise.protocol.errors.actors import CallerError, TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from tests.fixtures.verifier.verifier_fixture import BlobShelf, randomness
from verifier.watch.absence_check import FIRST_PAUSE_S, LONGEST_PAUSE_S, PAUSE_S, ProbedStore

DAY_S = 86_400


class Broken(BlobShelf):
    """DA that takes blobs and gives none while it is `deaf`."""

    deaf = False
    refusal: BytewiseError = TryAgain("da", "no answer")

    def get(self, locator: str, accept: Callable[[bytes], bool] | None = None) -> bytes:
        if self.deaf:
            raise self.refusal
        return super().get(locator, accept)

    def put(self, data: bytes) -> str:
        if self.deaf and isinstance(self.refusal, CallerError):
            raise self.refusal
        return super().put(data)


class Times:
    """A clock under the test's hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def of(shelf: Broken) -> tuple[ProbedStore, Times]:
    times = Times()
    return ProbedStore(shelf, randomness, times), times


def test_day_of_read_outage_stores_few_blobs() -> None:
    shelf = Broken()
    shelf.deaf = True
    store, times = of(shelf)
    while times.now < DAY_S:
        assert not store.works()
        times.now += PAUSE_S
    assert 2 <= shelf.puts <= DAY_S // LONGEST_PAUSE_S + 10


def test_da_is_believed_as_soon_as_it_recovers_from_a_full_outage() -> None:
    """A seat without another proof votes in the second half of a commit phase, or not at all."""
    shelf = Broken()
    store, _ = of(shelf)
    shelf.away = True
    assert not any(store.works() for _ in range(20))
    shelf.away = False
    assert store.works() and shelf.puts == 1


def test_blob_stored_during_an_outage_proves_its_end() -> None:
    shelf = Broken()
    shelf.deaf = True
    store, _ = of(shelf)
    assert not store.works() and not store.works() and shelf.puts == 1
    shelf.deaf = False
    assert store.works() and shelf.puts == 1, "at once, and without another"


def test_da_that_refuses_every_call_does_not_work_and_ends_nothing() -> None:
    shelf = Broken()
    store, _ = of(shelf)
    assert store.works()
    shelf.deaf, shelf.refusal = True, CallerError("da", "HTTP 400")
    assert not store.works() and not store.works()
    shelf.deaf = False
    assert store.works()


def test_blob_lost_by_da_is_followed_by_another_after_a_pause() -> None:
    shelf = Broken()
    store, times = of(shelf)
    assert store.works() and store.works() and shelf.puts == 1
    shelf.deaf = True
    for _ in range(20):
        assert not store.works()
        times.now += LONGEST_PAUSE_S
    shelf.deaf = False
    puts = shelf.puts
    for _ in range(3):
        shelf.blobs.clear()
        assert store.works()
        shelf.blobs.clear()
        assert not store.works(), "not another one yet"
        times.now += FIRST_PAUSE_S
    assert shelf.puts == puts + 3, "the pauses began anew once it worked"

"""What is over for good is read no more, and nothing else is left out."""

from collections.abc import Iterable
from dataclasses import replace

from bytewise.protocol.decisions.actions import ExpireList
from bytewise.protocol.decisions.disputes import MovePolicy, decide_expiries
from bytewise.protocol.decisions.snapshot import AnchoredBatch, Snapshot
from tests.fixtures.verifier.verifier_fixture import VerifierFixture
from verifier.watch.open_windows import SnapshotPages


class Demanded:
    """`anchored` of a chain with an open demand for the list of one batch."""

    def __init__(self, setup: VerifierFixture, batch_id: int, deadline: int) -> None:
        self._plain, self.batch_id, self.deadline = setup.chain.anchored, batch_id, deadline

    def __call__(self, from_batch: int, block: int) -> tuple[AnchoredBatch, ...]:
        return tuple(self._shown(self._plain(from_batch, block)))

    def _shown(self, page: Iterable[AnchoredBatch]) -> Iterable[AnchoredBatch]:
        for each in page:
            owed = each.batch_id == self.batch_id
            yield replace(each, list_demanded=True, list_deadline=self.deadline, window_end=self.deadline) if owed else each


def test_list_demanded_in_the_last_second_is_still_expired(setup: VerifierFixture) -> None:
    setup.anchor(setup.signed(1))
    end = setup.chain.timestamp + 100
    setup.chain.anchored = Demanded(setup, 0, end)  # type: ignore[method-assign]
    pages = setup.pages
    setup.chain.pass_time(100)
    assert decide_expiries(*both(pages, setup), MovePolicy()) == ()
    setup.chain.pass_time(100)
    assert decide_expiries(*both(pages, setup), MovePolicy()) == (ExpireList(0),)
    assert not pages.read(setup.chain.number).is_open(0)
    setup.chain.anchored.batch_id = 1
    setup.chain.pass_time(1000)
    assert pages.read(setup.chain.number).batches == (), "it is over"


def both(pages: SnapshotPages, setup: VerifierFixture) -> tuple[Snapshot, tuple[AnchoredBatch, ...]]:
    seen = pages.read(setup.chain.number)
    return seen, seen.batches

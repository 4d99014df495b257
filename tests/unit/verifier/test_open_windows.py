"""What is over for good is read no more, and nothing else is left out."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from bytewise.protocol.decisions.actions import ExpireList
from bytewise.protocol.decisions.disputes import MovePolicy, decide_expiries
from bytewise.protocol.decisions.snapshot import AnchoredBatch, Snapshot
from tests.fixtures.verifier.verifier_fixture import Town
from verifier.watch.open_windows import SnapshotPages


class Demanded:
    """`anchored` of a chain with an open demand for the list of one batch."""

    def __init__(self, town: Town, batch_id: int, deadline: int) -> None:
        self._plain, self.batch_id, self.deadline = town.chain.anchored, batch_id, deadline

    def __call__(self, from_batch: int, block: int) -> tuple[AnchoredBatch, ...]:
        return tuple(self._shown(self._plain(from_batch, block)))

    def _shown(self, page: Iterable[AnchoredBatch]) -> Iterable[AnchoredBatch]:
        for each in page:
            owed = each.batch_id == self.batch_id
            yield replace(each, list_demanded=True, list_deadline=self.deadline, window_end=self.deadline) if owed else each


def test_list_demanded_in_the_last_second_is_still_expired(tmp_path: Path) -> None:
    town = Town(tmp_path)
    town.anchor(town.signed(1))
    end = town.chain.timestamp + 100
    town.chain.anchored = Demanded(town, 0, end)  # type: ignore[method-assign]
    pages = town.pages
    town.chain.pass_time(100)
    assert decide_expiries(*both(pages, town), MovePolicy()) == ()
    town.chain.pass_time(100)
    assert decide_expiries(*both(pages, town), MovePolicy()) == (ExpireList(0),)
    assert not pages.read(town.chain.number).is_open(0)
    town.chain.anchored.batch_id = 1
    town.chain.pass_time(1000)
    assert pages.read(town.chain.number).batches == (), "it is over"


def both(pages: SnapshotPages, town: Town) -> tuple[Snapshot, tuple[AnchoredBatch, ...]]:
    seen = pages.read(town.chain.number)
    return seen, seen.batches

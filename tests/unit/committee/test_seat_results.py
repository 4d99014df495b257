"""What a member counts and logs about its seats, from votes on a real chain to the penalty."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import SeatOutcome, SeatSettledEvent
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import Address
from chain.deployment.params import DEVNET
from chain.reads.earnings import earnings
from chain.reads.history import CourtHistory
from committee.ballots import SeatResults
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import word
from tests.fixtures.court.claimed_receipts import claimed
from tests.fixtures.court.session import TRUE, DisputeFixture
from tests.fixtures.metric_values import value_of
from tests.fixtures.snapshot_builders import case, snapshot
from verifier.watch.open_windows import SnapshotPages


class Watched:
    """The results of one member, which follows the chain as its node does. Its reads fail as often as `fails` says."""

    def __init__(self, court: DisputeFixture, me: Address, fails: int = 0) -> None:
        self.reads, self._history, self._fails = 0, CourtHistory(court.reader), fails
        self._pages = SnapshotPages(court.reader, me, 0)
        self._reader, self._results = court.reader, SeatResults(self, me)

    def seats(self, from_block: int, to_block: int) -> Sequence[SeatSettledEvent]:
        self.reads += 1
        if self.reads <= self._fails:
            raise TryAgain("chain", "away")
        return self._history.seats(from_block, to_block)

    def step(self) -> None:
        assert self._results.step(self._pages.read_cases(self._reader.head())) == ()


def counted() -> dict[str, float]:
    """Seats by outcome, as the process serves them."""
    return {each: value_of("bytewise_seats_total", outcome=each) for each in ("right", "wrong", "absent", "not_revealed")}


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines() if '"event":"seats.settled"' in line]


def test_charged_and_paid_seats_are_counted_once(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    court = DisputeFixture(anvil, tmp_path)
    court.open(0, word("wrong guess"))
    liar, honest = sorted(court.until(Phase.COMMIT).members, key=lambda each: each.seat_mask.bit_count())[:2]
    nodes = [Watched(court, liar.voter, fails=1), Watched(court, honest.voter)]
    before = counted()
    for each in nodes:
        each.step()
    ended = court.judged(lambda voter: TRUE if voter == liar.voter else claimed(court, 0))
    assert ended.verdict is Verdict.UPHELD
    court.settled()
    late = Watched(court, liar.voter)
    late.step()
    with pytest.raises(TryAgain):
        nodes[0].step()
    for each in (*nodes, *nodes, late):
        each.step()
    assert [each.reads for each in (*nodes, late)] == [2, 1, 0]
    charged, paid = (each.seat_mask.bit_count() for each in (liar, honest))
    after = counted()
    expected = {"wrong": charged, "right": paid}
    assert {each: after[each] - before[each] for each in after if after[each] != before[each]} == expected
    wrong, right = lines(capsys)
    assert (wrong["outcome"], wrong["seats"], wrong["penalty_wei"]) == ("wrong", charged, charged * DEVNET.money.wrong_penalty)
    assert (right["outcome"], right["pay_wei"], right["penalty_wei"]) == ("right", paid * DEVNET.money.fee_per_seat, 0)
    losses = earnings(CourtHistory(court.reader), liar.voter, 0, court.reader.head()).paid
    assert losses == {"seat_penalty": wrong["penalty_wei"]}, "`bytewise status` calls it no slash"
    court.everything_is_accounted_for()


class Forked:
    """A chain whose settlement a reorganisation moves to other blocks."""

    def __init__(self) -> None:
        self.block, self.asked = 104, list[tuple[int, int]]()

    def seats(self, from_block: int, to_block: int) -> Sequence[SeatSettledEvent]:
        self.asked.append((from_block, to_block))
        event = SeatSettledEvent(DISPUTE, 1, ME, 0b11, SeatOutcome.WRONG, 0, 7, self.block)
        return [event] if from_block <= self.block <= to_block else []


DISPUTE, ME = word("forked"), Address("0x" + "ab" * 20)


def test_reorganisation_neither_hides_nor_repeats_a_settled_seat() -> None:
    chain = Forked()
    results, before = SeatResults(chain, ME), counted()["wrong"]
    open_, over = case(id=DISPUTE, phase=Phase.AIRGAP), case(id=DISPUTE, phase=Phase.FINAL, paid=True, rounds=())
    for number, seen in ((90, open_), (105, open_), (103, over)):
        results.step(snapshot(seen, number=number))
    assert counted()["wrong"] == before, "block 103 of the other branch has no settlement yet"
    for number, seen in ((104, open_), (106, over), (107, open_), (108, over)):
        results.step(snapshot(seen, number=number))
    assert counted()["wrong"] == before + 2


def test_seats_of_an_unfinished_dispute_are_not_counted(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    court.open(0, word("wrong guess"))
    member = court.until(Phase.COMMIT).members[0]
    node = Watched(court, member.voter)
    court.judged(claimed(court, 0), Phase.AIRGAP)
    for _ in range(3):
        node.step()
        court.step()
    assert node.reads == 0

"""Bytes that come late, wrong or never: later ones count, none accuses an honest operator, and no tick waits long for any."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bytewise.protocol.errors.actors import NotServed, TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.records import MalformedValue, UnknownKeyEpoch
from bytewise.protocol.records.receipt import BatchHeader, list_subject, receipt_id
from bytewise.protocol.units import U64, Blob
from bytewise.storage.archive import Cursor
from tests.fixtures.builders import ANCHOR, DEMANDS
from tests.fixtures.verifier.verifier_fixture import NETWORK, VerifierFixture
from verifier.watch.blob_fetcher import LONGEST_PAUSE_S, Backlog
from verifier.watch.list_reader import CHECKED, GOOD, NEW, WITHHELD
from verifier.watch.records import FETCH_BUDGET_S, WITHHELD_FINDING, Records

Broken = tuple[BatchHeader, bytes]


@pytest.mark.parametrize("what", ["list", "envelope"])
def test_withheld_bytes_count_once_they_are_there(setup: VerifierFixture, what: str) -> None:
    signed = setup.signed(1)
    header = setup.anchor(signed)
    locator = header.locator if what == "list" else signed.locator
    data = setup.shelf.blobs.pop(locator)
    setup.records.step(setup.chain.now())
    setup.records.step(setup.chain.pass_time(100))
    found = setup.archive.batch(0).state, [live.seen.finding for live in setup.records.live]  # type: ignore[union-attr]
    assert found == ((WITHHELD, []) if what == "list" else (CHECKED, [WITHHELD_FINDING]))
    setup.reopen()
    setup.shelf.blobs[locator] = data
    setup.records.step(setup.chain.pass_time(LONGEST_PAUSE_S))
    assert setup.archive.batch(0).state == CHECKED  # type: ignore[union-attr]
    assert [live.seen.finding for live in setup.records.live] == [GOOD]
    assert setup.archive.receipts(0)[0].finding == GOOD


@pytest.mark.parametrize("answer", [b"<html>captive portal</html>", b"", b"[" * 1000])
def test_bytes_other_than_the_chain_names_are_no_fault_of_the_operator(setup: VerifierFixture, answer: bytes) -> None:
    header = setup.anchor(setup.signed(1))
    data, setup.shelf.blobs[header.locator] = setup.shelf.blobs[header.locator], answer
    setup.records.step(setup.chain.now())
    assert setup.archive.batch(0).state == NEW  # type: ignore[union-attr]
    setup.shelf.blobs[header.locator] = data
    setup.records.step(setup.chain.pass_time(5))
    assert setup.archive.batch(0).state == CHECKED  # type: ignore[union-attr]


@pytest.mark.parametrize("error", [MalformedValue("JSON-RPC result", "None"), UnknownKeyEpoch(1), TryAgain("chain", "away")])
@pytest.mark.parametrize("method", ["epoch", "environment"])
def test_unreadable_chain_answer_says_nothing_about_a_batch(setup: VerifierFixture, method: str, error: BytewiseError) -> None:
    setup.anchor(setup.signed(1))

    def broken(*_: object) -> None:
        raise error

    setattr(setup.chain, method, broken)
    setup.records.step(setup.chain.now())
    setup.records.step(setup.chain.pass_time(100))
    assert setup.archive.batch(0).state == NEW  # type: ignore[union-attr]
    delattr(setup.chain, method)
    setup.records.step(setup.chain.pass_time(100))
    assert setup.archive.batch(0).state == CHECKED  # type: ignore[union-attr]


def test_fetch_continues_in_the_next_tick_after_its_budget(setup: VerifierFixture) -> None:
    header = setup.anchor(setup.signed(1))
    setup.chain.headers += [replace(header, batch_id=i, locator=f"eigenda:standard:0x02{i:04x}") for i in range(1, 40)]
    time = [0.0]
    ask = setup.shelf.get

    def slow(locator: str, accept: Callable[[bytes], bool] | None = None) -> bytes:
        time[0] += 0.6
        return ask(locator, accept)

    setup.shelf.get = slow  # type: ignore[method-assign]
    records = Records(
        setup.chain, setup.chain, setup.shelf, setup.archive, Cursor(setup.database, "batches"), NETWORK, 60, lambda: time[0]
    )
    for _ in range(3):
        before = time[0]
        records.step(setup.chain.pass_time(1))
        assert time[0] - before <= FETCH_BUDGET_S + 0.6
    late = setup.anchor(setup.signed(2), first_seq=U64(2), block=U64(setup.chain.number + 1))
    for _ in range(12):
        records.step(setup.chain.pass_time(1))
    assert setup.archive.batch(late.batch_id).state == CHECKED  # type: ignore[union-attr]
    before = setup.shelf.reads
    for _ in range(5):
        records.step(setup.chain.pass_time(1))
    assert setup.shelf.reads - before <= 5 * 4, "what fails pauses"


def test_list_answered_on_the_chain_is_read_there(setup: VerifierFixture) -> None:
    """An operator that keeps its lists off DA, and answers demands only, would be audited by nobody."""
    header = setup.anchor(setup.signed(1))
    data = Blob(setup.shelf.blobs.pop(header.locator))
    setup.records.step(setup.chain.now())
    assert setup.archive.batch(0).state == NEW  # type: ignore[union-attr]
    subject = list_subject(DEMANDS, 0)
    for answer, state in ((Blob(data + b" "), NEW), (data, CHECKED)):
        setup.chain.answers[subject] = answer
        setup.records.step(setup.chain.pass_time(5))
        assert setup.archive.batch(0).state == state  # type: ignore[union-attr]


@pytest.mark.parametrize("answer", [b"", b"\xff\xfe", b"eigenda:standard:0x02", b"https://elsewhere"])
def test_envelope_is_fetched_from_its_new_locator(setup: VerifierFixture, answer: bytes) -> None:
    """Seats that ask the first place only would convict an operator that answered the demand in time."""
    signed = setup.signed(1)
    setup.anchor(signed)
    name, data = receipt_id(ANCHOR, signed.receipt), setup.shelf.blobs.pop(signed.locator)
    setup.records.step(setup.chain.now())
    for said in (None, answer):
        if said is not None:
            setup.chain.answers[name] = Blob(said)
        with pytest.raises(NotServed):
            setup.records.obtain(name, 0, setup.chain.pass_time(1))
    setup.chain.answers[name] = Blob(setup.shelf.put(data).encode())
    assert setup.records.obtain(name, 0, setup.chain.pass_time(1)) == data
    assert setup.records.case(name, setup.chain.now()).envelope == data


def test_least_failed_fetch_comes_first_and_pauses_grow_with_failures() -> None:
    backlog: Backlog[str] = Backlog()
    for name in ("bogus", "young"):
        backlog.add(name)
    now = 0
    waits: list[int] = []
    for _ in range(9):
        assert backlog.due(now)[-1] == "bogus" or waits == []
        backlog.failed("bogus", now)
        since = now
        while "bogus" not in backlog.due(now):
            now += 1
        waits.append(now - since)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 64, 64]
    backlog.drop("young")
    backlog.add("bogus")
    assert backlog.due(now) == ["bogus"]

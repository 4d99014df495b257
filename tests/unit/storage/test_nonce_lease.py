"""A lease that is held for the whole life of a process."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, update

from bytewise.protocol.errors.actors import KeyInUse, LeaseLost, LeaseTaken, TryAgain
from bytewise.protocol.units import Blob
from bytewise.service.clock import SystemClock
from bytewise.storage.engine import read_transaction, write_transaction
from bytewise.storage.nonce_lease import NonceLease, hold_account_key, hold_lease
from bytewise.storage.protection import Protection
from bytewise.storage.tables import NonceLeaseRow
from tests.fixtures.metric_values import value_of
from tests.fixtures.storage.hand_clock import HandClock
from tests.fixtures.storage.stored_records import ACCOUNT, vote

LIMIT_S = 60


def lease(engine: Engine, clock: HandClock) -> NonceLease:
    """The account's nonce lease as another process sees it, with a short lease."""
    return NonceLease(engine, clock, 1, ACCOUNT, ttl_s=1)


def until(done: Callable[[], bool]) -> None:
    """Waits for what another thread does."""
    for _ in range(LIMIT_S * 20):
        if done():
            return
        threading.Event().wait(0.05)
    raise AssertionError("it did not happen")


def leased_until(engine: Engine) -> int:
    with read_transaction(engine) as connection:
        found: int = connection.execute(select(NonceLeaseRow.leased_until)).scalar_one()
    return found


def refusals() -> float:
    return value_of("bytewise_lease_conflicts_total", kind="refused")


def test_lease_is_renewed_while_its_process_is_busy(engine: Engine, clock: HandClock) -> None:
    with hold_lease(lease(engine, clock), threading.Event()):
        for _ in range(3):
            clock.seconds += 1
            now = clock.seconds
            until(lambda now=now: leased_until(engine) > now)  # type: ignore[misc]
            with pytest.raises(LeaseTaken):
                lease(engine, clock).acquire()
    assert lease(engine, clock).acquire() > 0, "and it is given back at the end"


def test_renewal_that_fails_for_one_reason_is_logged_once(
    engine: Engine, clock: HandClock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on a full disk, for hours. After a renewal that succeeded, the same reason is new."""
    mine, tries = lease(engine, clock), list[int]()
    renew = mine.renew

    def renew_where_there_is_room() -> int:
        tries.append(len(tries))
        if tries[-1] in (0, 1, 2, 4):
            raise TryAgain("database", "database or disk is full")
        return renew()

    monkeypatch.setattr(mine, "renew", renew_where_there_is_room)
    with hold_lease(mine, threading.Event()):
        until(lambda: len(tries) > 5)
    assert capsys.readouterr().err.count('"nonce_lease.renewal_failed"') == 2


def test_process_that_lost_its_lease_ends_without_voting_or_retaking_it(engine: Engine, clock: HandClock) -> None:
    stop, first, second = threading.Event(), lease(engine, clock), lease(engine, clock)
    table = Protection(engine, clock, first)
    with pytest.raises(LeaseLost), hold_lease(first, stop):
        table.sign_once(vote(dispute=1), Blob(b""))
        # Another process took it while this one slept: the two of them in one transaction, so that no renewal comes between.
        with write_transaction(engine) as connection:
            fence = first.require_in(connection).fencing_token + 1
            connection.execute(
                update(NonceLeaseRow).values(owner=second.owner, fencing_token=fence, leased_until=clock.seconds + 1)
            )
        until(stop.is_set)
        for attempt in (lambda: table.sign_once(vote(dispute=2), Blob(b"")), first.acquire):
            with pytest.raises(LeaseLost):
                attempt()
    assert [stored.vote for stored in table.rows()] == [vote(dispute=1)]
    with pytest.raises(LeaseTaken):
        lease(engine, clock).acquire()
    with read_transaction(engine) as connection:
        assert connection.execute(select(NonceLeaseRow.refused_owner)).scalar_one() == first.owner, "the new holder counts it"


def test_import_after_a_lost_lease_adds_nothing(engine: Engine, clock: HandClock, fresh: Callable[[], str]) -> None:
    first = lease(engine, clock)
    first.acquire()
    table = Protection(engine, clock, first)
    table.sign_once(vote(dispute=1), Blob(b""))
    document = table.export()
    clock.seconds += 1
    lease(engine, clock).acquire()
    with pytest.raises(LeaseLost):
        table.import_votes(document)


def test_lease_is_refused_at_once_without_waiting_and_waiting_can_stop(engine: Engine, clock: HandClock) -> None:
    lease(engine, clock).acquire()
    with pytest.raises(LeaseTaken), hold_lease(lease(engine, clock), threading.Event(), wait=False):
        raise AssertionError("it is another's")
    stop = threading.Event()
    stop.set()
    with pytest.raises(LeaseTaken), hold_lease(lease(engine, clock), stop):
        raise AssertionError("it is another's")


def test_refused_process_is_logged_once_and_counted_by_the_holder(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    """The refused process ends at once, so that only the holder's figures are read."""
    system, before = SystemClock(), refusals()
    first, second = (NonceLease(engine, system, 31337, ACCOUNT, name, ttl_s=4) for name in ("first", "second"))
    with hold_lease(first, threading.Event()):
        with pytest.raises(LeaseTaken), hold_lease(second, threading.Event()):
            pass
        until(lambda: refusals() > before)
        first.renew()
        with pytest.raises(LeaseTaken), hold_lease(second, threading.Event(), wait=False):
            pass
        first.renew()
        assert refusals() == before + 1, "a verb beside a running node is only refused"
    said = capsys.readouterr().err
    assert said.count('"nonce_lease.refused"') == 1
    assert said.count('"nonce_lease.contested"') == 1 and '"process":"second"' in said


def test_process_refused_by_the_key_lock_is_counted_by_the_holder(engine: Engine, clock: HandClock, tmp_path: Path) -> None:
    key, url, before = tmp_path / "account.key", engine.url.render_as_string(hide_password=False), refusals()
    key.touch()
    with hold_account_key(key, url), hold_lease(lease(engine, clock), threading.Event()):
        with pytest.raises(KeyInUse), hold_account_key(key, url):
            raise AssertionError("another process has it")
        until(lambda: refusals() > before)
        with pytest.raises(KeyInUse), hold_account_key(key, "sqlite:////nowhere/at/all.db"):
            raise AssertionError("another process has it")
    with hold_account_key(key, url):
        assert refusals() == before + 1


def test_lease_of_a_killed_process_ends_although_the_clock_went_back(engine: Engine, clock: HandClock) -> None:
    before = refusals()
    clock.seconds += 3_600
    lease(engine, clock).acquire()
    clock.seconds -= 3_600
    with hold_lease(lease(engine, clock), threading.Event()) as successor:
        assert successor.is_ours() and successor.renew() and refusals() == before, "a restart after a kill is no second process"


def test_lease_that_is_renewed_is_not_taken_whatever_the_clock_says(engine: Engine, clock: HandClock) -> None:
    clock.seconds += 3_600
    with hold_lease(lease(engine, clock), threading.Event()) as first:
        behind = HandClock(clock.seconds - 3_600)
        renewing = threading.Event()

        def pass_time() -> None:
            while not renewing.wait(0.2):
                clock.seconds += 1

        thread = threading.Thread(target=pass_time)
        thread.start()
        try:
            with pytest.raises(LeaseTaken), hold_lease(lease(engine, behind), threading.Event()):
                pass
        finally:
            renewing.set()
            thread.join(LIMIT_S)
        assert first.renew() > 0

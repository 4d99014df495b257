"""Release records: written first, chained, and tampering shows."""

import subprocess
import sys
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import ScalarSelect, delete, insert, select, text, update
from sqlalchemy.orm import aliased

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import StoreCorrupt
from bytewise.protocol.jobs import key_domain
from bytewise.protocol.keys.epochs import Decision
from bytewise.protocol.keys.release_log import ReleaseLog
from bytewise.protocol.records.statements import TicketKind
from bytewise.protocol.units import U8, U16, U64, Digest
from bytewise.service.settings import child_environment
from bytewise.storage import releases
from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.releases import ReleaseRecords, right_id
from bytewise.storage.tables import ReleaseRow
from tests.fixtures.kms.memory_chain import CONTRACTS, OTHER_VOTER
from tests.fixtures.kms.release_network import World

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.e2e
def test_a_crash_after_the_record_and_before_the_answer_leaves_the_record(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fixtures.kms.crashing_shard", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, timeout=60, check=False)
    assert ended.returncode == 9, ended.stderr
    records = ReleaseRecords(open_database(f"sqlite:///{tmp_path / 'shard-1' / 'kms.sqlite'}"), key_domain(CONTRACTS))
    assert records.verify_chain(1).next_index == 1
    assert records.page(1, 0)[0].record.decision == Decision.RELEASED


def three_records(world: World) -> ReleaseRecords:
    shard = world.shard(1)
    for _ in range(3):
        case = world.disputed()
        world.release(shard, case)
    return world.records(1)


def of_record(number: int, column: str) -> ScalarSelect[bytes | None]:
    """What another record has there."""
    other = aliased(ReleaseRow)
    return select(getattr(other, column)).where(other.number == number).scalar_subquery()


SECOND = update(ReleaseRow).where(ReleaseRow.number == 1)
TAMPERINGS: dict[str, object] = {
    "signature": SECOND.values(signature=bytes(65)),
    "stored digest": update(ReleaseRow).where(ReleaseRow.number == 2).values(digest=bytes(32)),
    "hole": delete(ReleaseRow).where(ReleaseRow.number == 1),
    "beginning": delete(ReleaseRow).where(ReleaseRow.number == 0),
    "another's ticket": SECOND.values(signed_ticket=of_record(2, "signed_ticket")),
    "another's grounds": SECOND.values(release_evidence=of_record(2, "release_evidence")),
    "no grounds": SECOND.values(release_evidence=b"{}"),
    "content": text("UPDATE release_record SET record = CAST(replace(record, :old, :new) AS BLOB)").bindparams(
        old='"decision":"1"', new='"decision":"2"'
    ),
    "garbage": text("UPDATE release_record SET record = CAST('{}' AS BLOB)"),
}


@pytest.mark.parametrize("what", TAMPERINGS)
def test_tampering_with_the_stored_chain_is_detected(fresh: World, what: str) -> None:
    records = three_records(fresh)
    assert records.verify_chain(1).next_index == 3
    with write_transaction(open_database(f"sqlite:///{fresh.folder / 'shard-1' / 'kms.sqlite'}")) as connection:
        connection.execute(TAMPERINGS[what])  # type: ignore[call-overload]
    with pytest.raises(StoreCorrupt):
        records.verify_chain(1)


def test_page_size_is_bounded_and_each_page_has_at_least_one_record(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    records = three_records(fresh)
    rows = records.page(1, 0)
    assert len(rows) == 3
    for most, found in ((1, 1), (len(encode(ReleaseLog(rows[:2]))), 2), (len(encode(ReleaseLog(rows))), 3)):
        monkeypatch.setattr(releases, "PAGE_BYTES", most)
        assert records.page(1, 0) == rows[:found]
        monkeypatch.setattr(releases, "PAGE_BYTES", most - 1)
        assert records.page(1, 0) == rows[: max(found - 1, 1)]
        assert records.verify_chain(1).next_index == 3


def test_records_outside_the_page_are_not_read(fresh: World) -> None:
    """A stranger asks for a page: the memory that it costs is of the answer's size, however long the log is."""
    records = three_records(fresh)
    engine = open_database(f"sqlite:///{fresh.folder / 'shard-1' / 'kms.sqlite'}")
    with write_transaction(engine) as connection:
        row = dict(connection.execute(select(ReleaseRow.__table__).limit(1)).mappings().one())
        for number in range(3, 203):
            # Grounds of the largest size: they are not parsed, since a page ends before the second of them.
            changes = {"number": number, "release_evidence": b"{" * releases.PAGE_BYTES, "digest": number.to_bytes(32)}
            connection.execute(insert(ReleaseRow).values({**row, **changes}))
    tracemalloc.start()
    try:
        assert len(records.page(1, 0)) == 3
        assert tracemalloc.get_traced_memory()[1] < 2 * releases.PAGE_BYTES
    finally:
        tracemalloc.stop()


def test_records_without_evidence_from_older_versions_are_read(fresh: World) -> None:
    records = three_records(fresh)
    with write_transaction(open_database(f"sqlite:///{fresh.folder / 'shard-1' / 'kms.sqlite'}")) as connection:
        connection.execute(update(ReleaseRow).where(ReleaseRow.number < 2).values(release_evidence=None))
    assert [each.grounds is None for each in records.page(1, 0)] == [True, True, False]
    assert records.verify_chain(1).next_index == 3


def test_releases_in_parallel_leave_one_chain_without_gap(fresh: World) -> None:
    """Truncation at the end is the one thing a chain alone cannot show; the enclave keeps its own signed record."""
    shard, cases = fresh.shard(1), [fresh.disputed(n) for n in range(1, 9)]
    failures: list[Exception] = []

    def release(case: object) -> None:
        try:
            fresh.release(shard, case)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001  (collected and asserted below)
            failures.append(error)

    threads = [threading.Thread(target=release, args=(case,)) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert failures == []
    assert fresh.records(1).verify_chain(1).next_index == len(cases)
    assert {Digest(e.record.receipt_id) for e in shard.log(0).entries} == {case.id for case in cases}


def test_entitlement_is_named_by_its_object_and_not_by_its_opener(world: World) -> None:
    """Limits are counted by this name: what it left out, two rights would use up together."""
    ticket = world.ticket(world.case())
    others: tuple[dict[str, Any], ...] = (
        {"kind": U8(TicketKind.AUDIT)}, {"subject": ticket.receipt_id}, {"round": U16(2)}, {"receipt_id": ticket.subject},
        {"voter": OTHER_VOTER.address},
    )  # fmt: skip
    names = {right_id(ticket), *(right_id(replace(ticket, **changes)) for changes in others)}
    assert len(names) == 1 + len(others)
    again = replace(ticket, instance=Digest(bytes(32)), transport_key_hash=Digest(bytes(32)), expires_at=U64(1))
    assert right_id(again) == right_id(ticket)

"""What only PostgreSQL has: sessions with settings of their own, and a server that ends them."""

import secrets
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url, select, text

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.service.settings import developer_variable
from bytewise.storage.backups.database_copy import SQLITE, copy_database, place_database, verify_copy
from bytewise.storage.engine import BUSY_TIMEOUT_MS, insert_if_new, open_database, read_transaction, write_transaction
from bytewise.storage.migrations.migrate import database_on, make_databases
from bytewise.storage.tables import NamedLockRow

if developer_variable("TEST_DATABASE") is None:
    pytest.skip("needs BYTEWISE_TEST_DATABASE", allow_module_level=True)


def test_careless_defaults_of_the_server_are_overridden(url: str) -> None:
    careless = "-c synchronous_commit=off -c default_transaction_isolation=serializable -c lock_timeout=0"
    engine = open_database(make_url(url).update_query_dict({"options": careless}).render_as_string(hide_password=False))
    with write_transaction(engine) as connection:
        found = [
            connection.execute(text(f"SHOW {name}")).scalar_one()
            for name in ("synchronous_commit", "transaction_isolation", "lock_timeout")
        ]
    assert found == ["on", "read committed", f"{BUSY_TIMEOUT_MS // 1000}s"]
    engine.dispose()


def test_each_actor_gets_a_migrated_database_of_its_own(url: str) -> None:
    prefix = f"t{secrets.token_hex(6)}"
    names = [f"{prefix}_{each}" for each in ("ada", "ben")]
    make_databases(url, f"{prefix}_template", names)
    engines = [open_database(database_on(url, name)) for name in names]
    with write_transaction(engines[0]) as connection:
        assert insert_if_new(connection, NamedLockRow, name="mine")
    with read_transaction(engines[1]) as connection:
        assert connection.execute(select(NamedLockRow.name)).all() == []
    for engine in engines:
        engine.dispose()
    with pytest.raises(ConfigurationError, match="already exists"):
        make_databases(url, f"{prefix}_template", names)


def test_stronger_setting_of_the_server_is_kept(url: str) -> None:
    stronger = make_url(url).update_query_dict({"options": "-c synchronous_commit=remote_apply"})
    engine = open_database(stronger.render_as_string(hide_password=False))
    with read_transaction(engine) as connection:
        assert connection.execute(text("SHOW synchronous_commit")).scalar_one() == "remote_apply"
    engine.dispose()


def test_reader_cannot_write_and_the_next_writer_can(engine: Engine) -> None:
    with pytest.raises(Exception, match="read-only"), read_transaction(engine) as connection:
        insert_if_new(connection, NamedLockRow, name="x")
    with write_transaction(engine) as connection:
        assert insert_if_new(connection, NamedLockRow, name="x")
        assert connection.execute(text("SHOW transaction_isolation")).scalar_one() == "read committed"


def test_session_ended_by_the_server_costs_one_attempt(engine: Engine, url: str) -> None:
    other = open_database(url)
    with pytest.raises(TryAgain), write_transaction(engine) as connection:
        insert_if_new(connection, NamedLockRow, name="x")
        mine = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with write_transaction(other) as killer:
            killer.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": mine})
        connection.execute(select(NamedLockRow.name))
    with write_transaction(engine) as connection:
        assert insert_if_new(connection, NamedLockRow, name="x"), "what the ended session did was rolled back"
    other.dispose()


def test_missing_pg_dump_is_named_with_what_to_run(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"pg_dump: is not installed.*pg_dump --format=custom"):
        copy_database(engine, tmp_path)


def test_dump_into_a_database_that_is_not_there_is_named(engine: Engine, tmp_path: Path) -> None:
    copy = copy_database(engine, tmp_path)
    verify_copy(copy)
    absent = open_database(engine.url.set(database="absent").render_as_string(hide_password=False))
    with pytest.raises(ConfigurationError, match="createdb"):
        place_database(copy, absent)
    (tmp_path / SQLITE).write_bytes(b"")
    with pytest.raises(ConfigurationError, match=SQLITE):
        place_database(tmp_path / SQLITE, engine)

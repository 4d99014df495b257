"""The engine, the schema and its migrations."""

import contextlib
import io
import threading
from collections.abc import Callable

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from bytewise.protocol.errors.actors import ConfigurationError, StoreCorrupt, TryAgain
from bytewise.storage.engine import (
    HEAD,
    REVISIONS,
    check_revision,
    insert_if_new,
    lock_name,
    open_database,
    read_transaction,
    write_transaction,
)
from bytewise.storage.migrations.migrate import configuration, migrate
from bytewise.storage.tables import METADATA, CursorRow, NamedLockRow
from tests.fixtures.storage.stored_records import name

ENDLESS = {
    "sqlite": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n",
    "postgresql": "SELECT pg_sleep(86400)",
}


def test_endless_question_is_interrupted_and_frees_its_connection(engine: Engine) -> None:
    for _ in range(3):
        with pytest.raises(TryAgain), read_transaction(engine, 0.05) as connection:
            connection.execute(text(ENDLESS[engine.dialect.name]))
        assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    # The limit does not stay with the connection.
    with read_transaction(engine) as connection:
        assert connection.execute(text("SELECT 1")).scalar_one() == 1
    with read_transaction(engine, 60.0) as connection:
        assert connection.execute(text("SELECT 2")).scalar_one() == 2


def test_sqlite_is_opened_for_durability(sqlite_engine: Engine) -> None:
    with sqlite_engine.connect() as connection:
        asked = {
            key: connection.exec_driver_sql(f"PRAGMA {key}").scalar() for key in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert asked == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_revision_checked_by_actors_is_the_newest(engine: Engine) -> None:
    scripts = ScriptDirectory.from_config(configuration())
    assert HEAD == scripts.get_current_head() == check_revision(engine)
    assert list(REVISIONS) == [each.revision for each in scripts.walk_revisions()][::-1]


def test_a_database_that_was_not_migrated_is_refused(fresh: Callable[[], str]) -> None:
    opened = open_database(fresh())
    with write_transaction(opened) as connection:
        connection.execute(text("DROP TABLE alembic_version"))
    with pytest.raises(ConfigurationError, match="migrate"):
        check_revision(opened)


def test_migrations_make_exactly_the_tables_of_the_code(engine: Engine) -> None:
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_migrating_again_changes_nothing(url: str) -> None:
    assert migrate(url) == migrate(url) == HEAD


def test_migrations_and_tables_are_valid_in_postgresql() -> None:
    config = configuration()
    config.set_main_option("dialect", "postgresql")
    printed = io.StringIO()
    config.output_buffer = printed
    command.upgrade(config, "head", sql=True)
    assert printed.getvalue().count("CREATE TABLE") == len(METADATA.tables) + 1, "and Alembic's own"
    for table in METADATA.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("url", ["mysql://host/db", "nonsense", "postgresql+pg8000://host/db"])
def test_a_database_that_cannot_be_opened_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigurationError):
        open_database(url)


def test_a_failed_transaction_leaves_nothing(engine: Engine) -> None:
    with contextlib.suppress(ZeroDivisionError), write_transaction(engine) as connection:
        insert_if_new(connection, NamedLockRow, name="x")
        raise ZeroDivisionError
    with read_transaction(engine) as connection:
        assert connection.execute(select(NamedLockRow.name)).all() == []


def test_insert_if_new_inserts_once(engine: Engine) -> None:
    with write_transaction(engine) as connection:
        assert insert_if_new(connection, CursorRow, name="a", number=1, hash=name(1))
        assert not insert_if_new(connection, CursorRow, name="a", number=1, hash=name(2))
        assert connection.execute(select(CursorRow.hash)).scalar_one() == name(1)


def test_a_reader_does_not_wait_for_a_writer(engine: Engine) -> None:
    with write_transaction(engine) as writer, read_transaction(engine) as reader:
        insert_if_new(writer, NamedLockRow, name="x")
        assert reader.execute(select(NamedLockRow.name)).all() == []


def test_a_busy_database_is_unavailable_after_a_bounded_wait(url: str, engine: Engine) -> None:
    impatient = open_database(url, wait_ms=50)
    with write_transaction(engine) as connection:
        lock_name(connection, "x")
        with pytest.raises(TryAgain, match="lock"), write_transaction(impatient) as other:
            lock_name(other, "x")


def test_reader_sees_one_snapshot(engine: Engine) -> None:
    with read_transaction(engine) as reader:
        before = reader.execute(select(NamedLockRow.name)).all()
        with write_transaction(engine) as writer:
            insert_if_new(writer, NamedLockRow, name="x")
        assert reader.execute(select(NamedLockRow.name)).all() == before == []


def test_violated_constraint_names_no_values(engine: Engine) -> None:
    with pytest.raises(StoreCorrupt) as caught, write_transaction(engine) as connection:
        connection.execute(text("INSERT INTO named_lock (name) VALUES (:n)"), [{"n": "hidden value"}, {"n": "hidden value"}])
    assert "hidden" not in str(caught.value)


def test_threads_write_in_turn(engine: Engine) -> None:
    def add(base: int) -> None:
        for number in range(20):
            with write_transaction(engine) as connection:
                insert_if_new(connection, CursorRow, name="t", number=base + number, hash=name(1))

    threads = [threading.Thread(target=add, args=(base,)) for base in (0, 100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    with read_transaction(engine) as connection:
        assert len(connection.execute(select(CursorRow.number)).all()) == 80

"""Copies the database of a node while it is used, and restores a database from such a copy.

For SQLite it uses the online backup of the library. For PostgreSQL it runs `pg_dump` and `pg_restore` of the client package as
child processes, and passes the password in a file that only its owner can read. Either copy shows the database at one moment.
"""

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Engine, inspect
from sqlalchemy.exc import SQLAlchemyError

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.service.settings import child_environment
from bytewise.storage.engine import cause_of, read_transaction

SQLITE, POSTGRESQL = "database.sqlite", "database.dump"
"""Names of the copy in a backup, for each kind of database."""
LIMIT_S = 3600.0
"""Seconds after which a running `pg_dump` or `pg_restore` is stopped."""


def copy_database(engine: Engine, folder: Path) -> Path:
    """Writes a consistent copy of the database to a new file in the folder, and returns its path. Writers do not wait for it.

    Raises `TryAgain` if the database is busy or `pg_dump` takes too long, and `ConfigurationError` if the copy fails otherwise.
    """
    if engine.dialect.name == "sqlite":
        return _copy_sqlite(engine, folder / SQLITE)
    file = folder / POSTGRESQL
    _run_tool("pg_dump", engine, "--format=custom", "--no-owner", "--no-privileges", f"--file={file}")
    return file


def place_database(copy: Path, engine: Engine) -> None:
    """Restores a copy to a place that has no database file, or to a database without tables.

    Raises `ConfigurationError` if the place has a file or tables, or if the copy is of the other kind of database.
    Raises `TryAgain` if `pg_restore` takes too long.
    """
    is_sqlite = engine.dialect.name == "sqlite"
    if copy.name != (SQLITE if is_sqlite else POSTGRESQL):
        raise ConfigurationError("db", f"the settings name a {engine.dialect.name} database, and the backup has {copy.name}")
    if is_sqlite:
        place = Path(engine.url.database or "")
        if place.exists():
            raise ConfigurationError(place.name, "exists, and a database is never overwritten")
        shutil.copyfile(copy, place)
        place.chmod(0o600)
        return
    try:
        tables = inspect(engine).get_table_names()
    except SQLAlchemyError as error:
        where = engine.url.render_as_string(hide_password=True)
        raise ConfigurationError("db", f"{where}: {cause_of(error)}; make it with `createdb`, or repair its URL") from None
    if tables:
        where = engine.url.render_as_string(hide_password=True)
        raise ConfigurationError("db", f"{where} has tables, and a database is never overwritten: make a new one with `createdb`")
    # The format of `pg_restore` runs no command of the shell, which a script of `psql` may contain.
    database = f"--dbname={engine.url.database}"
    _run_tool("pg_restore", engine, "--exit-on-error", "--single-transaction", "--no-owner", database, str(copy))


def verify_copy(copy: Path) -> None:
    """Raises `ConfigurationError` if a copy is damaged or is not of the kind that its name says.

    Of a PostgreSQL dump only the first bytes are read.
    """
    if copy.name == POSTGRESQL:
        with copy.open("rb") as file:
            if file.read(5) != b"PGDMP":
                raise ConfigurationError(copy.name, "is no dump of `pg_dump --format=custom`")
        return
    try:
        with closing(sqlite3.connect(copy)) as database:
            found = database.execute("PRAGMA integrity_check").fetchone()[0]
    except sqlite3.Error as error:
        found = str(error)
    if found != "ok":
        raise ConfigurationError(copy.name, f"is no sound database: {str(found)[:80]}")


def _copy_sqlite(engine: Engine, file: Path) -> Path:
    with read_transaction(engine) as connection:
        source = connection.connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        try:
            with closing(sqlite3.connect(file)) as target:
                source.backup(target)
        except sqlite3.Error as error:
            raise ConfigurationError(file.name, f"{error}: the database was not copied") from None
    file.chmod(0o600)
    return file


def _run_tool(tool: str, engine: Engine, *arguments: str) -> None:
    program, url = shutil.which(tool), engine.url
    if program is None:
        where = f"{tool} --format=custom -h {url.host} -U {url.username} {url.database}"
        raise ConfigurationError(tool, f"is not installed: install the PostgreSQL client, or run where it is: {where}")
    with _password_file(engine) as extra:
        try:
            done = subprocess.run(
                [program, "--no-password", *arguments], env=child_environment(extra), capture_output=True, text=True,
                errors="replace", timeout=LIMIT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            why = f"it was stopped after {LIMIT_S:g} s, its limit: the server is slow, waits for a lock, or has too much data"
            raise TryAgain(tool, why) from None
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ConfigurationError(tool, why[:200])


@contextmanager
def _password_file(engine: Engine) -> Iterator[dict[str, str]]:
    """Context manager that yields the variables of libpq that name the server, and a file with the password.

    The file is deleted at the end of the block.
    """
    url = engine.url
    named = {"PGHOST": url.host, "PGPORT": url.port, "PGUSER": url.username, "PGDATABASE": url.database}
    variables = {name: str(value) for name, value in named.items() if value is not None}
    if url.password is None:
        yield variables
        return
    handle, name = tempfile.mkstemp()  # mode 0600
    try:
        with os.fdopen(handle, "w") as file:
            escaped = str(url.password).replace("\\", "\\\\").replace(":", "\\:")
            file.write(f"*:*:*:*:{escaped}\n")
        yield variables | {"PGPASSFILE": name}
    finally:
        os.unlink(name)

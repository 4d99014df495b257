"""Where fresh databases of a test run come from: copies of one that was migrated once."""

import itertools
import os
import shutil
from pathlib import Path
from typing import Protocol

from sqlalchemy import create_engine, make_url

from bytewise.storage.migrate import migrate


class Databases(Protocol):
    """Makes and removes databases at the newest revision."""

    def create(self) -> str:
        """URL of a new one."""
        ...

    def drop(self, url: str) -> None:
        """Removes it, whoever is still connected."""
        ...


class SqliteFiles:
    """Files of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._template = folder / "template.db"
        migrate(f"sqlite:///{self._template}")

    def create(self) -> str:
        """A copy of the template."""
        return f"sqlite:///{shutil.copy(self._template, self._folder / f'{next(self._numbers)}.db')}"

    def drop(self, url: str) -> None:
        """Deletes the file and what WAL keeps beside it."""
        path = make_url(url).database
        assert path is not None
        for name in (path, f"{path}-wal", f"{path}-shm"):
            Path(name).unlink(missing_ok=True)


class PostgresDatabases:
    """Databases of a server; `url` is that of one to connect to first, by a role that may create others."""

    def __init__(self, url: str) -> None:
        self._server = make_url(url)
        self._numbers = itertools.count(1)
        self._prefix = f"bytewise_test_{os.getpid()}"
        self._template = self._new("template0")
        migrate(self._template)

    def create(self) -> str:
        """A copy of the template."""
        return self._new(str(make_url(self._template).database))

    def drop(self, url: str) -> None:
        """Ends its sessions and drops it."""
        self._execute(f'DROP DATABASE "{make_url(url).database}" WITH (FORCE)')

    def close(self) -> None:
        """Drops the template."""
        self.drop(self._template)

    def _new(self, template: str) -> str:
        name = f"{self._prefix}_{next(self._numbers)}"
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self._server.set(database=name).render_as_string(hide_password=False)

    def _execute(self, statement: str) -> None:
        engine = create_engine(self._server, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()

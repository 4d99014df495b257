"""Every moment at which a process can die with something on its disk that was not there: found by looking, not by a list.

A moment comes before each commit and each change of a file, after each commit, when a file was opened and nothing is written in
it yet, and before each answer. Its name says what is written, so that the same moment has the same name in the next life; a new
write has one by itself.
"""

import os
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event

Moment = Callable[[str], None]
"""Told the name of each moment; does not return if the process dies there."""

_RANDOM = re.compile(r"\.[0-9a-f]{16}\.new$")
"""End of the name of a draft of `service.files`, which is another one each time."""

_CHANGES = ("os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


_VERBS = {"INSERT": 1, "UPDATE": 0, "DELETE": 1, "CREATE": 1, "ALTER": 1, "DROP": 1}
"""What writes to a database, and which of the words that follow is the table."""


class Crash(BaseException):
    """The process is gone: no handler of ours may catch it."""


@dataclass
class Fuse:
    """If lit, crashes once at every moment that has a name of its own. Who is dead makes nothing durable any more."""

    lit: bool = False
    burnt: list[str] = field(default_factory=list)
    dead: bool = False

    def moment(self, name: str) -> None:
        """One moment at which a process can die."""
        if not self.dead and self.lit and name not in self.burnt:
            self.burnt.append(name)
            self.dead = True
        if self.dead:
            raise Crash(name)


def watch_database(engine: Engine, moment: Moment) -> Engine:
    """The engine, which tells of every commit that writes something."""
    written: list[str] = []
    commit = engine.dialect.do_commit

    @event.listens_for(engine, "before_cursor_execute")
    def _execute(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        verb, *words = statement.split()
        if verb in _VERBS:
            # Bytes are left out: what is sealed differs with every try.
            told = [str(each) for each in parameters if isinstance(each, str | int)]
            written.append(" ".join([verb, words[_VERBS[verb]], *told]))

    @event.listens_for(engine, "rollback")
    def _rollback(_connection: Any) -> None:
        written.clear()

    def do_commit(connection: Any) -> None:
        what = ", ".join(written)
        written.clear()
        if what:
            moment(f"before commit: {what}")
        commit(connection)
        if what:
            moment(f"after commit: {what}")

    vars(engine.dialect)["do_commit"] = do_commit
    return engine


def watch_databases(moment: Moment) -> None:
    """Every database that this process opens from now on tells of its commits."""

    @event.listens_for(Engine, "engine_connect")
    def _connect(connection: Connection) -> None:
        if "do_commit" not in vars(connection.dialect):
            watch_database(connection.engine, moment)


_FOLDERS: dict[str, Moment] = {}
_DURING = threading.local()
"""Whether this thread tells of a moment right now: what it does to files for that is not told."""


def watch_folder(folder: Path, moment: Moment) -> Path:
    """The folder, of which every change by Python is told. The database there writes on its own: see `watch_database`."""
    if not _FOLDERS:
        sys.addaudithook(_audit)
    _FOLDERS[os.fspath(folder)] = moment
    return folder


def _audit(name: str, arguments: tuple[Any, ...]) -> None:
    if name == "open":
        path, mode, flags = arguments
        if not (set(mode or "") & set("wax+") or (mode is None and flags & _WRITES)):
            return
    elif name in _CHANGES:
        path, mode, flags = arguments[0], "", 0
    else:
        return
    if isinstance(path, str | os.PathLike) and not getattr(_DURING, "a_moment", False):
        folder, file = os.path.split(os.fspath(path))
        if folder in _FOLDERS:
            file = _RANDOM.sub(".new", file)
            _FOLDERS[folder](f"before {name} {file} {mode} {flags}")
            if flags & (os.O_CREAT | os.O_TRUNC):
                _opened(path, flags, _FOLDERS[folder], f"after {name} {file} {mode} {flags}")


def _opened(path: str | os.PathLike[str], flags: int, moment: Moment, name: str) -> None:
    """The moment at which a file is opened and empty: nothing tells of it, so the same is done here first."""
    once = flags & os.O_EXCL
    if once and os.path.exists(path):
        return
    _DURING.a_moment = True
    try:
        os.close(os.open(path, flags, 0o600))
        moment(name)
        if once:
            os.unlink(path)
    finally:
        _DURING.a_moment = False

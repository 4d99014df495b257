"""A shard as `python -m kms serve` makes it, what it releases, and what becomes of its database."""

import contextlib
import sqlite3
from pathlib import Path

from sqlalchemy import delete

from bytewise.storage.engine import open_database, writing
from bytewise.storage.tables import ReleaseRow
from kms.shard.release import Shard
from tests.unit.kms.test_policies import start
from tests.unit.kms.world import World, empty_database


def folder_of(world: World) -> Path:
    return world.settings.shards[0].folder


def started(world: World) -> Shard:
    """As `python -m kms serve` makes it, from what lies in the folder."""
    return start(world, world.policy)


def release(world: World, shard: Shard, *numbers: int) -> None:
    for number in numbers:
        case = world.case(number)
        world.chain.open(case)
        world.release(shard, case)


def lost(world: World) -> None:
    """The database is gone, and its owner made a new one, as a new shard's."""
    for path in folder_of(world).glob("kms.sqlite*"):
        path.unlink()
    (folder_of(world) / "kms.sqlite").write_bytes(empty_database())


def drop(world: World, first: int) -> None:
    """An older copy of the database: records from this one on are not there."""
    with writing(open_database(f"sqlite:///{folder_of(world) / 'kms.sqlite'}")) as connection:
        connection.execute(delete(ReleaseRow).where(ReleaseRow.number >= first))


def copied(database: Path, to: Path) -> None:
    """As `sqlite3 .backup` does."""
    with contextlib.closing(sqlite3.connect(database)) as one, contextlib.closing(sqlite3.connect(to)) as other:
        one.backup(other)


def full(_path: Path, _data: bytes) -> None:
    """A file is written where there is no space."""
    raise OSError(28, "No space left on device")

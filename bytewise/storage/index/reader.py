"""Reads the index: one consistent snapshot for a question, at the newest block or at an earlier one."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Executable, Select, and_, func, or_, select

from bytewise.protocol.units import Digest
from bytewise.storage.engine import read_transaction
from bytewise.storage.index.tables import INDEX_METADATA, BlockRow, EventRow, Fact, MetaRow

Row = Mapping[str, Any]
"""Columns of a row by name."""


class IndexState(NamedTuple):
    """How far the index is."""

    chain_id: int
    number: int
    """Newest indexed block; with `at`, the block that was asked for. -1 in a new index."""
    hash: Digest
    timestamp: int
    safe: int
    finalized: int
    head: int
    """Newest block that the node had at the last look."""
    seen_at: int
    """Unix seconds of the last look at the node; 0 before the first."""
    checked_block: int
    """Block of the last self-check; 0 before the first."""
    differences: tuple[str, ...]
    """What the last self-check found."""
    record_life: int | None
    """Blocks for which a record of stake at EigenLayer counts; None if no self-check has read it, -1 if none counts."""


class StoredEvent(NamedTuple):
    """An event with the hash and time of its block."""

    block: int
    place: int
    block_hash: Digest
    timestamp: int
    transaction: Digest
    contract: str
    address: str
    name: str
    subject: str
    arguments: Mapping[str, Any]


class Page(NamedTuple):
    """Some rows, and where the next ones begin."""

    rows: Sequence[Row]
    next: list[Any] | None
    """Values of the last row in the order of the sort; None on the last page."""


class IndexSnapshot:
    """The index in one transaction. Facts are those in force at `at`, by default at the newest block."""

    def __init__(self, connection: Connection, at: int | None = None) -> None:
        self._connection = connection
        self._at = at

    def state(self) -> IndexState:
        """How far the index is."""
        meta = {name: value for name, value in self._connection.execute(select(MetaRow.name, MetaRow.value))}
        newest = select(BlockRow.number, BlockRow.hash, BlockRow.timestamp).order_by(BlockRow.number.desc()).limit(1)
        if self._at is not None:
            newest = newest.where(BlockRow.number <= self._at)
        row = self._connection.execute(newest).one_or_none()
        number, hash_, timestamp = row or (-1, b"", 0)
        return IndexState(
            int(meta.get("chain_id", 0)), number if self._at is None or row is None else self._at, Digest(hash_), timestamp,
            int(meta.get("safe", 0)), int(meta.get("finalized", 0)), int(meta.get("head", -1)), int(meta.get("seen_at", 0)),
            int(meta.get("checked_block", 0)), tuple(line for line in meta.get("differences", "").splitlines() if line),
            int(meta["record_life"]) if "record_life" in meta else None,
        )  # fmt: skip

    def find(self, table: type[Fact], *key: Any) -> Row | None:
        """The fact with this key; None if there is none at that block."""
        names = _key_names(table)
        rows = self.all(table, **dict(zip(names, key, strict=True)))
        return rows[0] if rows else None

    def all(self, table: type[Fact], **where: Any) -> list[Row]:
        """Facts whose columns have these values (a tuple: one of them), in the order of their keys."""
        columns = INDEX_METADATA.tables[table.__tablename__].c
        return self.rows(self.select_facts(table, where).order_by(*(columns[name] for name in _key_names(table))))

    def between(self, table: type[Fact], column: str, blocks: range) -> list[Row]:
        """Facts whose column names one of these blocks, in the order of their keys."""
        columns = INDEX_METADATA.tables[table.__tablename__].c
        query = self.select_facts(table, {}).where(columns[column] >= blocks.start, columns[column] < blocks.stop)
        return self.rows(query.order_by(*(columns[name] for name in _key_names(table))))

    def rows(self, query: Executable) -> list[Row]:
        """Rows of a question of the caller's own, in this transaction."""
        return [dict(row) for row in self._connection.execute(query).mappings()]

    def history(self, table: type[Fact], *key: Any) -> list[Row]:
        """All versions of a fact up to that block, oldest first."""
        columns = INDEX_METADATA.tables[table.__tablename__].c
        query = select(INDEX_METADATA.tables[table.__tablename__]).order_by(columns["valid_from"])
        query = query.where(*(columns[name] == value for name, value in zip(_key_names(table), key, strict=True)))
        if self._at is not None:
            query = query.where(columns["valid_from"] <= self._at)
        return self.rows(query)

    def since(self, table: type[Fact], **where: Any) -> dict[tuple[Any, ...], int]:
        """The first block in which each fact had these values, by its key, whatever became of it up to that block."""
        columns = INDEX_METADATA.tables[table.__tablename__].c
        keys = [columns[name] for name in _key_names(table)]
        query = select(*keys, func.min(columns["valid_from"])).where(*(columns[name] == each for name, each in where.items()))
        if self._at is not None:
            query = query.where(columns["valid_from"] <= self._at)
        return {tuple(key): block for *key, block in self._connection.execute(query.group_by(*keys))}

    def count(self, table: type[Fact], **where: Any) -> int:
        """How many facts have these values."""
        query = self.select_facts(table, where).with_only_columns(func.count())
        return int(self._connection.execute(query).scalar_one())

    def count_by(self, table: type[Fact], column: str, **where: Any) -> dict[Any, int]:
        """How many facts have each value of a column."""
        by = INDEX_METADATA.tables[table.__tablename__].c[column]
        query = self.select_facts(table, where).with_only_columns(by, func.count()).group_by(by)
        return {value: count for value, count in self._connection.execute(query)}

    def page(
        self, table: type[Fact], sort: str, descending: bool, limit: int, after: Sequence[Any] | None = None, **where: Any
    ) -> Page:
        """At most `limit` facts in the order of a column and then of their keys, after the values that `Page.next` named."""
        order = _order(table, sort)
        query = self.select_facts(table, where)
        if after is not None:
            query = query.where(_beyond(order, after, descending))
        query = query.order_by(*(each.desc() if descending else each for each in order)).limit(limit + 1)
        rows = self.rows(query)
        more = len(rows) > limit
        rows = rows[:limit]
        return Page(rows, [rows[-1][each.name] for each in order] if more else None)

    def events(
        self, after: tuple[int, int] | None = None, limit: int = 100, descending: bool = False, subject: str = "",
        names: Sequence[tuple[str, str]] = (),
    ) -> list[StoredEvent]:  # fmt: skip
        """Events in chain order, or newest first, after a (block, place); of a subject, or of these (contract, name)."""
        columns = [BlockRow.hash.label("block_hash"), BlockRow.timestamp, *EventRow.__table__.columns]
        query: Select[Any] = select(*columns).join(BlockRow, BlockRow.number == EventRow.block)
        place: list[ColumnElement[Any]] = [EventRow.__table__.c.block, EventRow.__table__.c.place]
        if after is not None:
            query = query.where(_beyond(place, after, descending))
        if subject:
            query = query.where(EventRow.subject == subject)
        if names:
            query = query.where(or_(*(and_(EventRow.contract == c, EventRow.name == n) for c, n in names)))
        if self._at is not None:
            query = query.where(EventRow.block <= self._at)
        query = query.order_by(*(each.desc() if descending else each for each in place)).limit(limit)
        found = self._connection.execute(query).mappings()
        return [StoredEvent(**{name: row[name] for name in StoredEvent._fields}) for row in found]

    def subjects(self, names: Sequence[tuple[str, str]]) -> set[str]:
        """Subjects of the events of these (contract, name)."""
        query = (
            select(EventRow.subject).distinct().where(or_(*(and_(EventRow.contract == c, EventRow.name == n) for c, n in names)))
        )
        if self._at is not None:
            query = query.where(EventRow.block <= self._at)
        return set(self._connection.execute(query).scalars())

    def count_events(self) -> int:
        """How many events the index has."""
        return int(self._connection.execute(select(func.count()).select_from(EventRow)).scalar_one())

    def block_times(self, numbers: Sequence[int]) -> dict[int, int]:
        """Times of the blocks that are kept, Unix seconds; a block with an event always is."""
        wanted, found = sorted(set(numbers)), dict[int, int]()
        for start in range(0, len(wanted), 500):
            query = select(BlockRow.number, BlockRow.timestamp).where(BlockRow.number.in_(wanted[start : start + 500]))
            found |= {number: timestamp for number, timestamp in self._connection.execute(query)}
        return found

    def blocks_of(self, since: int | None, until: int | None) -> range:
        """Kept blocks with a time from `since` until before `until`, Unix seconds; None: without that bound. Times never fall."""
        query = select(func.min(BlockRow.number), func.max(BlockRow.number))
        for bound in (
            None if since is None else BlockRow.timestamp >= since, None if until is None else BlockRow.timestamp < until,
            None if self._at is None else BlockRow.number <= self._at,
        ):  # fmt: skip
            query = query if bound is None else query.where(bound)
        first, last = self._connection.execute(query).one()
        return range(0) if first is None else range(first, last + 1)

    def block_hash(self, number: int) -> Digest | None:
        """Hash of a kept block."""
        found = self._connection.execute(select(BlockRow.hash).where(BlockRow.number == number)).scalar()
        return None if found is None else Digest(found)

    def select_facts(self, table: type[Fact], where: Mapping[str, Any]) -> Select[Any]:
        """Query for the facts in force at `at` whose columns have these values, for further conditions."""
        whole = INDEX_METADATA.tables[table.__tablename__]
        query = select(whole)
        if self._at is None:
            query = query.where(whole.c["valid_to"].is_(None))
        else:
            ended = or_(whole.c["valid_to"].is_(None), whole.c["valid_to"] > self._at)
            query = query.where(whole.c["valid_from"] <= self._at, ended)
        for name, value in where.items():
            column = whole.c[name]
            if isinstance(value, tuple):
                query = query.where(column.in_(value))
            else:
                query = query.where(column.is_(None) if value is None else column == value)
        return query


class IndexReader:
    """The index, for anybody who only reads it."""

    def __init__(self, engine: Engine, limit_s: float | None = None) -> None:
        """`limit_s`: how long a snapshot may be asked, in seconds."""
        self._engine = engine
        self._limit_s = limit_s

    @contextmanager
    def snapshot(self, at: int | None = None) -> Iterator[IndexSnapshot]:
        """One read-only transaction: every answer inside is of one state, whatever is written meanwhile."""
        with read_transaction(self._engine, self._limit_s) as connection:
            yield IndexSnapshot(connection, at)


def sort_types(table: type[Fact], sort: str) -> list[type]:
    """Types of the values that `IndexSnapshot.page` takes in `after`."""
    return [column.type.python_type for column in _order(table, sort)]


def _order(table: type[Fact], sort: str) -> list[ColumnElement[Any]]:
    columns = INDEX_METADATA.tables[table.__tablename__].c
    return [columns[name] for name in dict.fromkeys((sort, *_key_names(table)))]


def _key_names(table: type[Fact]) -> list[str]:
    primary = INDEX_METADATA.tables[table.__tablename__].primary_key.columns
    return [column.name for column in primary if column.name != "valid_from"]


def _beyond(order: Sequence[ColumnElement[Any]], after: Sequence[Any], descending: bool) -> ColumnElement[bool]:
    """Rows behind these values: (a, b) > (x, y) as a > x or (a = x and b > y), which every database understands."""
    conditions = []
    for place, (column, value) in enumerate(zip(order, after, strict=True)):
        equal = [each == known for each, known in zip(order[:place], after, strict=False)]
        conditions.append(and_(*equal, column < value if descending else column > value))
    return or_(*conditions)

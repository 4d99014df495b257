"""Reads the index. Each snapshot is consistent, and shows the newest block or an earlier block."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Executable, Select, and_, func, or_, select

from bytewise.protocol.units import Digest
from bytewise.storage.engine import read_transaction
from bytewise.storage.index.tables import INDEX_METADATA, BlockRow, EventRow, Fact, MetaRow

Row = Mapping[str, Any]
"""The columns of a row, by name."""

_NO_BLOCK = (-1, b"", 0)
"""Number, hash and time of the newest block of an index that has none."""


class IndexState(NamedTuple):
    """State of the index and of the chain node that it reads."""

    chain_id: int
    number: int
    """Number of the newest indexed block, or the requested block if the snapshot has one. It is -1 in a new index."""
    hash: Digest
    timestamp: int
    newest: int
    """Number of the newest indexed block, whether or not the snapshot has a requested block. It is -1 in a new index."""
    newest_timestamp: int
    safe: int
    finalized: int
    head: int
    """Newest block of the chain node when the indexer last asked it."""
    seen_at: int
    """Unix second at which the indexer last asked the chain node, or 0 if it never did."""
    checked_block: int
    """Block at which the index was last compared with the contracts, or 0 if it never was."""
    differences: tuple[str, ...]
    """Differences that the last comparison with the contracts found, one text for each."""
    record_life: int | None
    """Number of blocks for which a record of stake at EigenLayer counts. It is None if no comparison has read it, and -1 if no
    record counts."""


class StoredEvent(NamedTuple):
    """An event, with the hash and the time of its block."""

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
    """Some rows of a longer result, and the place where the next page begins."""

    rows: Sequence[Row]
    next: list[Any] | None
    """Values of the last row in the columns that sort the result. It is None on the last page."""


class IndexSnapshot:
    """The index as one transaction sees it.

    It shows the facts that were in force at block `at`, or at the newest block if `at` is None.
    """

    def __init__(self, connection: Connection, at: int | None = None) -> None:
        self._connection = connection
        self._at = at

    def state(self) -> IndexState:
        """Returns the state of the index."""
        meta = {name: value for name, value in self._connection.execute(select(MetaRow.name, MetaRow.value))}
        newest = select(BlockRow.number, BlockRow.hash, BlockRow.timestamp).order_by(BlockRow.number.desc()).limit(1)
        tip = row = self._connection.execute(newest).one_or_none()
        if self._at is not None:
            row = self._connection.execute(newest.where(BlockRow.number <= self._at)).one_or_none()
        number, hash_, timestamp = row or _NO_BLOCK
        newest_number, _, newest_timestamp = tip or _NO_BLOCK
        differences = tuple(line for line in meta.get("differences", "").splitlines() if line)
        return IndexState(
            int(meta.get("chain_id", 0)), number if self._at is None or row is None else self._at, Digest(hash_), timestamp,
            newest_number, newest_timestamp, int(meta.get("safe", 0)), int(meta.get("finalized", 0)), int(meta.get("head", -1)),
            int(meta.get("seen_at", 0)), int(meta.get("checked_block", 0)), differences,
            int(meta["record_life"]) if "record_life" in meta else None,
        )  # fmt: skip

    def find(self, table: type[Fact], *key: Any) -> Row | None:
        """Returns the fact with this key, or None if there is none at the block of the snapshot."""
        names = _key_names(table)
        rows = self.all(table, **dict(zip(names, key, strict=True)))
        return rows[0] if rows else None

    def all(self, table: type[Fact], **where: Any) -> list[Row]:
        """Returns the facts whose columns have the values of `where`, in the order of their keys.

        If a value in `where` is a tuple, the column may have any value of the tuple.
        """
        columns = INDEX_METADATA.tables[table.__tablename__].c
        return self.rows(self.select_facts(table, where).order_by(*(columns[name] for name in _key_names(table))))

    def between(self, table: type[Fact], column: str, blocks: range) -> list[Row]:
        """Returns the facts that have the number of one of these blocks in `column`, in the order of their keys."""
        columns = INDEX_METADATA.tables[table.__tablename__].c
        query = self.select_facts(table, {}).where(columns[column] >= blocks.start, columns[column] < blocks.stop)
        return self.rows(query.order_by(*(columns[name] for name in _key_names(table))))

    def rows(self, query: Executable) -> list[Row]:
        """Runs any query of the caller in this transaction, and returns its rows."""
        return [dict(row) for row in self._connection.execute(query).mappings()]

    def history(self, table: type[Fact], *key: Any) -> list[Row]:
        """Returns all versions of a fact up to the block of the snapshot, the oldest first."""
        columns = INDEX_METADATA.tables[table.__tablename__].c
        query = select(INDEX_METADATA.tables[table.__tablename__]).order_by(columns["valid_from"])
        query = query.where(*(columns[name] == value for name, value in zip(_key_names(table), key, strict=True)))
        if self._at is not None:
            query = query.where(columns["valid_from"] <= self._at)
        return self.rows(query)

    def since(self, table: type[Fact], **where: Any) -> dict[tuple[Any, ...], int]:
        """Returns for each key the first block from which its fact had these values. Today the fact may have other values."""
        columns = INDEX_METADATA.tables[table.__tablename__].c
        keys = [columns[name] for name in _key_names(table)]
        query = select(*keys, func.min(columns["valid_from"])).where(*(columns[name] == each for name, each in where.items()))
        if self._at is not None:
            query = query.where(columns["valid_from"] <= self._at)
        return {tuple(key): block for *key, block in self._connection.execute(query.group_by(*keys))}

    def count(self, table: type[Fact], **where: Any) -> int:
        """Returns the number of facts that have these values."""
        query = self.select_facts(table, where).with_only_columns(func.count())
        return int(self._connection.execute(query).scalar_one())

    def count_by(self, table: type[Fact], column: str, **where: Any) -> dict[Any, int]:
        """Counts the facts for each value of `column`, among the facts that have the values of `where`."""
        by = INDEX_METADATA.tables[table.__tablename__].c[column]
        query = self.select_facts(table, where).with_only_columns(by, func.count()).group_by(by)
        return {value: count for value, count in self._connection.execute(query)}

    def page(
        self, table: type[Fact], sort: str, descending: bool, limit: int, after: Sequence[Any] | None = None, **where: Any
    ) -> Page:
        """Returns at most `limit` facts in the order of a column and then of their keys.

        `after` is the `Page.next` of the page before.
        """
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
        """Returns at most `limit` events, in chain order or the newest first.

        `after` is the (block, place) of the last event of the page before. A `subject` that is not empty selects the events about
        it. `names` are pairs of contract and event name; if there are any, only events with one of these pairs are returned.
        """
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
        """Returns the distinct subjects of the events that have one of these pairs of contract and event name."""
        query = (
            select(EventRow.subject).distinct().where(or_(*(and_(EventRow.contract == c, EventRow.name == n) for c, n in names)))
        )
        if self._at is not None:
            query = query.where(EventRow.block <= self._at)
        return set(self._connection.execute(query).scalars())

    def count_events(self) -> int:
        """Returns the number of events in the index."""
        return int(self._connection.execute(select(func.count()).select_from(EventRow)).scalar_one())

    def block_times(self, numbers: Sequence[int]) -> dict[int, int]:
        """Returns the times of these blocks in Unix seconds, without blocks that the index has deleted.

        A block with an event is never deleted.
        """
        wanted, found = sorted(set(numbers)), dict[int, int]()
        for start in range(0, len(wanted), 500):
            query = select(BlockRow.number, BlockRow.timestamp).where(BlockRow.number.in_(wanted[start : start + 500]))
            found |= {number: timestamp for number, timestamp in self._connection.execute(query)}
        return found

    def blocks_of(self, since: int | None, until: int | None) -> range:
        """Returns the range of stored blocks whose time is at least `since` and below `until`, in Unix seconds.

        None means no bound. Times of blocks never decrease.
        """
        query = select(func.min(BlockRow.number), func.max(BlockRow.number))
        for bound in (
            None if since is None else BlockRow.timestamp >= since, None if until is None else BlockRow.timestamp < until,
            None if self._at is None else BlockRow.number <= self._at,
        ):  # fmt: skip
            query = query if bound is None else query.where(bound)
        first, last = self._connection.execute(query).one()
        return range(0) if first is None else range(first, last + 1)

    def block_hash(self, number: int) -> Digest | None:
        """Returns the hash of a block, or None if the index does not have the block."""
        found = self._connection.execute(select(BlockRow.hash).where(BlockRow.number == number)).scalar()
        return None if found is None else Digest(found)

    def select_facts(self, table: type[Fact], where: Mapping[str, Any]) -> Select[Any]:
        """Returns a query for the facts in force whose columns have these values. The caller may add conditions."""
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
    """The index, for a process that only reads it."""

    def __init__(self, engine: Engine, limit_s: float | None = None) -> None:
        """Creates the reader. `limit_s` is the time limit of a snapshot in seconds."""
        self._engine = engine
        self._limit_s = limit_s

    @contextmanager
    def snapshot(self, at: int | None = None) -> Iterator[IndexSnapshot]:
        """Context manager of one read-only transaction.

        All answers in it show one state, whatever another process writes meanwhile.
        """
        with read_transaction(self._engine, self._limit_s) as connection:
            yield IndexSnapshot(connection, at)


def sort_types(table: type[Fact], sort: str) -> list[type]:
    """Returns the types of the values that `IndexSnapshot.page` takes in `after`."""
    return [column.type.python_type for column in _order(table, sort)]


def _order(table: type[Fact], sort: str) -> list[ColumnElement[Any]]:
    columns = INDEX_METADATA.tables[table.__tablename__].c
    return [columns[name] for name in dict.fromkeys((sort, *_key_names(table)))]


def _key_names(table: type[Fact]) -> list[str]:
    primary = INDEX_METADATA.tables[table.__tablename__].primary_key.columns
    return [column.name for column in primary if column.name != "valid_from"]


def _beyond(order: Sequence[ColumnElement[Any]], after: Sequence[Any], descending: bool) -> ColumnElement[bool]:
    """Returns the condition that a row comes after these values in the sort order.

    It writes (a, b) > (x, y) as a > x or (a = x and b > y), which every database understands.
    """
    conditions = []
    for place, (column, value) in enumerate(zip(order, after, strict=True)):
        equal = [each == known for each, known in zip(order[:place], after, strict=False)]
        conditions.append(and_(*equal, column < value if descending else column > value))
    return or_(*conditions)

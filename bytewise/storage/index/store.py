"""Writes the index: adds a range of blocks in one transaction, goes back to a block, and records which network the index is of.

Usually one process writes an index. Two may alternate, for example a running monitor and `bytewise monitor check`. Before each
write, a writer looks at the newest block. If another process wrote it, the writer forgets the facts that it has in memory. If two
writers add the same block, the second write fails, because a block number is unique.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, and_, bindparam, delete, func, insert, inspect, select, update

from bytewise.protocol.errors.actors import ConfigurationError, StoreCorrupt
from bytewise.protocol.units import Digest
from bytewise.storage.engine import read_transaction, write_transaction
from bytewise.storage.index.tables import (
    FACTS,
    INDEX_METADATA,
    BlockRow,
    DecimalText,
    EventRow,
    Fact,
    JsonText,
    MetaRow,
    PoolFact,
)

MAX_CACHED_FACTS = 100_000
"""Most facts in force that the writer keeps in memory. Above this number it forgets all of them."""

Key = tuple[Any, ...]
"""Values of a fact's key columns, in the order of the table."""
Values = dict[str, Any]
"""Values of a fact's other columns by name, without its range of blocks."""


class IndexedBlock(NamedTuple):
    """A block in the index."""

    number: int
    hash: Digest
    parent: Digest
    timestamp: int


class IndexedEvent(NamedTuple):
    """One event of a contract of the network."""

    block: int
    """Number of the block that has the event."""
    place: int
    """Position of the event in its block."""
    transaction: Digest
    contract: str
    """Name of the contract."""
    address: str
    """Address of the contract that emitted the event."""
    name: str
    """Name of the event."""
    subject: str
    """The first argument of the event, as text."""
    arguments: Mapping[str, Any]
    """All arguments by name. Bytes are 0x-hex, and integers from 2^53 on are text."""


class Finality(NamedTuple):
    """Numbers of the newest blocks that the chain node calls safe and finalized."""

    safe: int
    finalized: int


class NetworkName(NamedTuple):
    """The network and rules that an index is made for. A different value of any field means another index."""

    chain_id: int
    book: str
    """Digest of the contracts in the address book, 0x-hex."""
    rules: int
    """Version of the tables, and of the code that computes facts from events."""


class _Current:
    """The version of a fact that is in force, as the writer has it in memory."""

    __slots__ = ("is_stored", "valid_from", "values")

    def __init__(self, values: Values, valid_from: int, is_stored: bool) -> None:
        self.values, self.valid_from, self.is_stored = values, valid_from, is_stored


class _Table:
    """The column names of a table of facts, read once."""

    def __init__(self, table: type[Fact]) -> None:
        primary = [column.name for column in inspect(table).primary_key]
        self.key = [name for name in primary if name != "valid_from"]
        columns = inspect(table).columns
        self.blank = {
            column.name: _blank(column) for column in columns if column.name not in (*self.key, "valid_from", "valid_to")
        }


def _blank(column: Any) -> Any:
    if column.nullable:
        return None
    if isinstance(column.type, JsonText):
        return []
    return 0 if isinstance(column.type, DecimalText) else column.type.python_type()


_TABLES = {table: _Table(table) for table in FACTS}


class FactWriter:
    """Reads and changes the facts of the block that is being written. Handlers of events have no other access to the index."""

    def __init__(self, connection: Connection, cache: dict[type[Fact], dict[Key, _Current | None]]) -> None:
        self._connection = connection
        self._cache = cache
        self._ended: dict[type[Fact], list[dict[str, Any]]] = {}
        self._closed: dict[type[Fact], list[dict[str, Any]]] = {}
        self._touched: dict[type[Fact], set[Key]] = {}
        self.block = 0
        """Number of the block that is being written."""

    def find(self, table: type[Fact], *key: Any) -> Mapping[str, Any] | None:
        """Returns the values of the fact that is in force, or None if there is none."""
        current = self._current(table, key)
        return None if current is None else current.values

    def put(self, table: type[Fact], *key: Any, **changes: Any) -> None:
        """Changes the named columns of a fact from this block on.

        In a new fact, all other columns are zero, False, empty or None.
        """
        current = self._current(table, key)
        values = {**(_TABLES[table].blank if current is None else current.values), **changes}
        if current is not None and current.values == values:
            return
        self._touched.setdefault(table, set()).add(key)
        if current is None:
            self._cache[table][key] = _Current(values, self.block, False)
        elif current.valid_from == self.block:
            current.values = values
        else:
            self._end(table, key, current)
            self._cache[table][key] = _Current(values, self.block, False)

    def amend(self, table: type[Fact], *key: Any, **changes: Any) -> bool:
        """Changes a fact like `put`, but only if a fact with this key is in force.

        Returns whether one is in force. An event about an unknown key therefore changes nothing.
        """
        known = self._current(table, key) is not None
        if known:
            self.put(table, *key, **changes)
        return known

    def add(self, table: type[Fact], *key: Any, **amounts: int) -> None:
        """Adds amounts, which may be negative, to the named columns of a fact.

        A new fact begins at zero, and a sum below zero becomes zero.
        """
        have = self.find(table, *key) or _TABLES[table].blank
        self.put(table, *key, **{name: max(0, have[name] + amount) for name, amount in amounts.items()})

    def flush(self) -> None:
        """Writes all changes to the database, in few statements."""
        for table, keys in self._touched.items():
            opened = [(key, self._cache[table][key]) for key in sorted(keys)]
            fresh = [(key, each) for key, each in opened if each is not None and not each.is_stored]
            names = _TABLES[table].key
            rows = [
                dict(zip(names, key, strict=True)) | each.values | {"valid_from": each.valid_from, "valid_to": None}
                for key, each in fresh
            ]
            self._close(table)
            rows += self._ended.get(table, [])
            if rows:
                self._connection.execute(insert(table), rows)
            for _, each in fresh:
                each.is_stored = True
        self._ended, self._closed, self._touched = {}, {}, {}

    def _close(self, table: type[Fact]) -> None:
        closings = self._closed.get(table, [])
        if not closings:
            return
        columns = inspect(table).columns
        matches = [columns[name] == bindparam(f"k_{name}", type_=columns[name].type) for name in _TABLES[table].key]
        statement = (
            update(INDEX_METADATA.tables[table.__tablename__])
            .where(and_(*matches), columns["valid_from"] == bindparam("k_valid_from"))
            .values(valid_to=bindparam("k_valid_to"))
        )
        self._connection.execute(statement, closings)

    def _end(self, table: type[Fact], key: Key, current: _Current) -> None:
        names = _TABLES[table].key
        if current.is_stored:
            closing = {f"k_{name}": value for name, value in zip(names, key, strict=True)}
            closing |= {"k_valid_from": current.valid_from, "k_valid_to": self.block}
            self._closed.setdefault(table, []).append(closing)
        else:
            row = dict(zip(names, key, strict=True)) | current.values
            row |= {"valid_from": current.valid_from, "valid_to": self.block}
            self._ended.setdefault(table, []).append(row)

    def _current(self, table: type[Fact], key: Key) -> _Current | None:
        known = self._cache.setdefault(table, {})
        if key not in known:
            known[key] = self._load(table, key)
        return known[key]

    def _load(self, table: type[Fact], key: Key) -> _Current | None:
        columns = inspect(table).columns
        matches = [columns[name] == value for name, value in zip(_TABLES[table].key, key, strict=True)]
        query = select(INDEX_METADATA.tables[table.__tablename__]).where(*matches, columns["valid_to"].is_(None))
        row = self._connection.execute(query).mappings().one_or_none()
        if row is None:
            return None
        return _Current({name: row[name] for name in _TABLES[table].blank}, row["valid_from"], True)


class IndexWriter:
    """The index, for the process that writes it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cache: dict[type[Fact], dict[Key, _Current | None]] = {}
        """Facts in force at the end of the block `_written`, by table and key. None means that there is no such fact."""
        self._written: tuple[int, bytes] | None = None

    def claim(self, network: NetworkName) -> None:
        """Makes the tables in an empty database, and records the network and rules of the index.

        Raises `ConfigurationError` if the index is of another network or other rules, or if the database is damaged or has other
        tables. There are no migrations: an index of other rules is made again from the chain (ADR-053).
        """
        try:
            self._claim(network)
        except StoreCorrupt as error:
            raise ConfigurationError(
                "index database", f"{error}: remove it, and start again: it is made from the chain"
            ) from None

    def _claim(self, network: NetworkName) -> None:
        wanted = {"chain_id": str(network.chain_id), "book": network.book, "rules": str(network.rules)}
        with write_transaction(self._engine) as connection:
            _make_tables(connection)
            found = _meta(connection)
            known = {name: found[name] for name in wanted if name in found}
            if not known:
                connection.execute(insert(MetaRow), [{"name": name, "value": value} for name, value in wanted.items()])
            elif known != wanted:
                raise ConfigurationError("index database", _difference(known, wanted))

    def tip(self) -> IndexedBlock | None:
        """Returns the newest indexed block, or None in a new index."""
        return next(iter(self.blocks(1)), None)

    def blocks(self, most: int, below: int | None = None) -> tuple[IndexedBlock, ...]:
        """Returns at most `most` stored blocks, the newest first. If `below` is not None, only blocks with a lower number."""
        query = select(BlockRow.number, BlockRow.hash, BlockRow.parent, BlockRow.timestamp).order_by(BlockRow.number.desc())
        query = query.limit(most) if below is None else query.where(BlockRow.number < below).limit(most)
        with read_transaction(self._engine) as connection:
            return tuple(IndexedBlock(n, Digest(h), Digest(p), t) for n, h, p, t in connection.execute(query))

    def finality(self) -> Finality:
        """Returns the finality that was stored last. Its numbers are zero in a new index."""
        with read_transaction(self._engine) as connection:
            found = _meta(connection)
        return Finality(int(found.get("safe", 0)), int(found.get("finalized", 0)))

    @contextmanager
    def writing(self) -> Iterator["BlockWriter"]:
        """Context manager of one transaction that adds blocks with their events and facts.

        If an error leaves the `with` statement, the transaction stores nothing.
        """
        if sum(map(len, self._cache.values())) > MAX_CACHED_FACTS:
            self._cache = {}
        try:
            with write_transaction(self._engine) as connection:
                if self._written != _newest(connection):
                    self._cache = {}
                facts = FactWriter(connection, self._cache)
                yield BlockWriter(connection, facts)
                facts.flush()
                self._written = _newest(connection)
        except BaseException:
            self._cache = {}
            raise

    def note_check(self, block: int, differences: Sequence[str], record_life: int | None = None) -> None:
        """Stores the result of comparing the index at `block` with the contracts.

        `record_life` is the number of blocks for which a stake record at EigenLayer counts. If it is None, the stored number
        stays.
        """
        noted = {"checked_block": str(block), "differences": "\n".join(differences)}
        with write_transaction(self._engine) as connection:
            _note(connection, noted if record_life is None else noted | {"record_life": str(record_life)})

    def note(self, finality: Finality, head: int, seen_at: int) -> None:
        """Stores the finality and the newest block of the chain node.

        Deletes the blocks below the finalized block that have no events.
        """
        noted = {"safe": finality.safe, "finalized": finality.finalized, "head": head, "seen_at": seen_at}
        with write_transaction(self._engine) as connection:
            _note(connection, {name: str(value) for name, value in noted.items()})
            tip = connection.execute(select(func.max(BlockRow.number))).scalar() or 0
            below = min(finality.finalized, tip)
            connection.execute(delete(BlockRow).where(BlockRow.number < below, BlockRow.events == 0))

    def rollback(self, number: int) -> int:
        """Takes the index back to the end of block `number`. Returns the number of deleted events."""
        self._cache = {}
        with write_transaction(self._engine) as connection:
            gone = connection.execute(delete(EventRow).where(EventRow.block > number)).rowcount
            for table in FACTS:
                connection.execute(delete(table).where(table.valid_from > number))
                connection.execute(update(table).where(table.valid_to > number).values(valid_to=None))
            connection.execute(delete(BlockRow).where(BlockRow.number > number))
        return gone

    def trees(self) -> frozenset[str]:
        """Returns the addresses of the stake trees of all pools that were ever added."""
        with read_transaction(self._engine) as connection:
            return frozenset(connection.execute(select(PoolFact.tree).distinct()).scalars())

    def dump(self) -> bytes:
        """Returns all blocks, events and facts as text in a fixed order.

        Equal indexes have equal texts, whatever their history and database.
        """
        lines = []
        with read_transaction(self._engine) as connection:
            for table in INDEX_METADATA.sorted_tables:
                if table.name == MetaRow.__tablename__:
                    continue
                rows = connection.execute(select(table).order_by(*table.primary_key.columns)).mappings()
                found = [" ".join(f"{name}={_text(value)}" for name, value in row.items()) for row in rows]
                lines += [f"# {table.name}", *sorted(found)]
        return "\n".join(lines).encode()


class BlockWriter:
    """Adds blocks in order, within one transaction."""

    def __init__(self, connection: Connection, facts: FactWriter) -> None:
        self._connection = connection
        self.facts = facts
        """Writer of the facts of the block that was begun last."""

    def add(self, blocks: Sequence[IndexedBlock], events: Sequence[IndexedEvent]) -> None:
        """Adds blocks that follow the newest block, and their events. The caller then writes the facts of each block."""
        count: dict[int, int] = {}
        for each in events:
            count[each.block] = count.get(each.block, 0) + 1
        if set(count) - {each.number for each in blocks}:
            raise StoreCorrupt("index", "an event of a block that is not added")
        rows = [each._asdict() | {"events": count.get(each.number, 0)} for each in blocks]
        if rows:
            self._connection.execute(insert(BlockRow), rows)
        if events:
            self._connection.execute(insert(EventRow), [each._asdict() for each in events])


def _make_tables(connection: Connection) -> None:
    tables = inspect(connection).get_table_names()
    if tables and MetaRow.__tablename__ not in tables:
        raise ConfigurationError("index database", f"has tables of something else ({min(tables)}): name an empty database")
    if not tables:
        INDEX_METADATA.create_all(connection)


def _newest(connection: Connection) -> tuple[int, bytes] | None:
    row = connection.execute(select(BlockRow.number, BlockRow.hash).order_by(BlockRow.number.desc()).limit(1)).first()
    return None if row is None else (row.number, row.hash)


def _meta(connection: Connection) -> dict[str, str]:
    return {name: value for name, value in connection.execute(select(MetaRow.name, MetaRow.value))}


def _note(connection: Connection, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        done = connection.execute(update(MetaRow).where(MetaRow.name == name).values(value=value))
        if not done.rowcount:
            connection.execute(insert(MetaRow).values(name=name, value=value))


def _difference(known: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    if known.get("rules") != wanted["rules"] and all(known.get(name) == wanted[name] for name in ("chain_id", "book")):
        return (
            f"was made by rules {known.get('rules')} of this program, which has rules {wanted['rules']}: name an empty database; "
            "it is made again from the chain"
        )
    return (
        f"is of chain {known.get('chain_id')}, contracts {known.get('book', '')[:10]}…, and the settings are of chain "
        f"{wanted['chain_id']}, contracts {wanted['book'][:10]}…: name the database of this network, or a new one"
    )


def _text(value: Any) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else repr(value)

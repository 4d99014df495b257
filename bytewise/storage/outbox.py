"""The outbox has one row for each intended transaction. Signed bytes and nonce are committed before the first broadcast.

    PLANNED ─▶ SIGNED ─▶ BROADCAST ─▶ MINED ─▶ CONFIRMED ─▶ FINAL
       │          ▲  replace │  ▲ reorg │ │        │ reorg: back to BROADCAST
       │          └──────────┘  └───────┘ └──▶ REVERTED
       └──▶ SUPERSEDED (someone else did it), EXPIRED (too late), REPLACED (its nonce went to another transaction)

After a crash, the sender broadcasts the stored bytes again before it makes other bytes. If a block that had the transaction,
or that used its nonce, leaves the chain, the row goes back to BROADCAST, because its bytes are valid again and every later nonce
waits for them. FINAL and SUPERSEDED rows never go back to BROADCAST. Every write except `Outbox.plan` checks the fencing token of
the nonce lease.
"""

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, insert, or_, select, update

from bytewise.protocol.errors.actors import StoreCorrupt
from bytewise.protocol.units import Address, Blob, Digest
from bytewise.storage.engine import insert_if_new, read_transaction, write_transaction
from bytewise.storage.nonce_lease import NonceLease
from bytewise.storage.tables import OutboxAttemptRow, OutboxRow


class OutboxState(enum.StrEnum):
    """State of a transaction in the outbox."""

    PLANNED = "PLANNED"
    SIGNED = "SIGNED"
    BROADCAST = "BROADCAST"
    MINED = "MINED"
    CONFIRMED = "CONFIRMED"
    FINAL = "FINAL"
    REVERTED = "REVERTED"
    SUPERSEDED = "SUPERSEDED"
    EXPIRED = "EXPIRED"
    REPLACED = "REPLACED"


OPEN = (OutboxState.PLANNED, OutboxState.SIGNED, OutboxState.BROADCAST, OutboxState.MINED)
"""States of rows that the sender still works on."""

_LEAVABLE = (OutboxState.CONFIRMED, OutboxState.REVERTED, OutboxState.EXPIRED, OutboxState.REPLACED)
"""States of ended rows that a reorganisation can take back to BROADCAST, if the row has a nonce."""

_ENDS = frozenset({OutboxState.SUPERSEDED, OutboxState.EXPIRED, OutboxState.REPLACED, OutboxState.REVERTED})
TRANSITIONS: dict[OutboxState, frozenset[OutboxState]] = {
    OutboxState.PLANNED: frozenset({OutboxState.SIGNED}) | _ENDS,
    OutboxState.SIGNED: frozenset({OutboxState.SIGNED, OutboxState.BROADCAST, OutboxState.MINED}) | _ENDS,
    OutboxState.BROADCAST: frozenset({OutboxState.SIGNED, OutboxState.BROADCAST, OutboxState.MINED}) | _ENDS,
    OutboxState.MINED: frozenset(
        {
            OutboxState.BROADCAST,
            OutboxState.MINED,
            OutboxState.CONFIRMED,
            OutboxState.REVERTED,
            OutboxState.EXPIRED,
            OutboxState.REPLACED,
        }
    ),
    OutboxState.CONFIRMED: frozenset({OutboxState.BROADCAST, OutboxState.FINAL}),
    OutboxState.FINAL: frozenset(),
    OutboxState.REVERTED: frozenset({OutboxState.PLANNED, OutboxState.BROADCAST}),
    OutboxState.SUPERSEDED: frozenset({OutboxState.PLANNED}),
    OutboxState.EXPIRED: frozenset({OutboxState.PLANNED, OutboxState.BROADCAST}),
    OutboxState.REPLACED: frozenset({OutboxState.PLANNED, OutboxState.BROADCAST}),
}
"""Every allowed change of state. Only `Outbox.replan` leads back to PLANNED."""


class Intent(NamedTuple):
    """A transaction to send.

    Contract, function, subject and role identify it: a second intent with the same four values has the same row.
    """

    contract: Address
    function: str
    subject: bytes
    role: str
    calldata: bytes
    value_wei: int
    deadline: int
    """Unix seconds of chain time after which the transaction is too late. 0 means that there is no deadline."""
    broadcast_by: int = 0
    """Unix seconds of wall time. Signed bytes that no chain node has by then are not sent any more. 0 means that there is no
    limit."""


class SignedTransaction(NamedTuple):
    """The signed bytes of a transaction, and its hash."""

    raw: Blob
    tx_hash: Digest


class Attempt(NamedTuple):
    """One version of the signed bytes of a row. Versions are numbered from 1; each later version replaces the one before."""

    attempt: int
    nonce: int
    raw: Blob
    tx_hash: Digest
    signed_at: int
    broadcast_at: int | None


class OutboxItem(NamedTuple):
    """One row of the outbox: an intent, its state, and the block that has its transaction."""

    id: int
    intent: Intent
    state: OutboxState
    nonce: int | None
    block_number: int | None
    block_hash: Digest | None
    detail: str
    created_at: int
    updated_at: int


class Outbox:
    """Database store of the transactions of one nonce lease.

    Methods that change a stored row raise `LeaseLost` if this process does not have the lease, and `StoreCorrupt` if the row may
    not go to the new state.
    """

    def __init__(self, lease: NonceLease) -> None:
        self.lease = lease

    def plan(self, intent: Intent) -> OutboxItem:
        """Stores an intent as PLANNED and returns its row.

        If the intent has a row already, returns that row in whatever state it is.
        """
        now = self.lease.clock.now()
        with write_transaction(self.lease.engine) as connection:
            insert_if_new(
                connection, OutboxRow, chain_id=str(self.lease.chain_id), account=self.lease.account, state=OutboxState.PLANNED,
                detail="", created_at=now, updated_at=now, **(intent._asdict() | {"value_wei": str(intent.value_wei)}),
            )  # fmt: skip
            return _item(connection.execute(self._query(*_key(intent))).one())

    def find(self, contract: Address, function: str, subject: bytes, role: str) -> OutboxItem | None:
        """Returns the row of an intent, or None if the intent was never planned."""
        rows = self._items(*_named(contract, function, subject, role))
        return rows[0] if rows else None

    def item(self, item_id: int) -> OutboxItem:
        """Returns the row with this id, which must exist."""
        return self._items(OutboxRow.id == item_id)[0]

    def open_rows(self) -> tuple[OutboxItem, ...]:
        """Returns the rows that the sender still works on.

        Rows with a nonce come first, in order of nonces; the others follow by age.
        """
        found = self._items(OutboxRow.state.in_(OPEN))
        return tuple(sorted(found, key=lambda item: (item.nonce is None, item.nonce or 0, item.id)))

    def leavable_rows(self) -> tuple[OutboxItem, ...]:
        """Returns the ended rows that have a nonce and are not FINAL. The block with such a transaction may still leave the
        chain."""
        return self._items(OutboxRow.state.in_(_LEAVABLE), OutboxRow.nonce.is_not(None))

    def loose(self, chain_nonce: int) -> tuple[Attempt, ...]:
        """Returns earlier signed bytes of rows that were planned again and now have a later nonce or none.

        The later nonce cannot be mined before these bytes are mined, so the sender broadcasts them, too. Returns the newest
        version for each earlier nonce from `chain_nonce` on.
        """
        lease = (OutboxRow.chain_id == str(self.lease.chain_id), OutboxRow.account == self.lease.account)
        left = or_(OutboxRow.nonce.is_(None), OutboxRow.nonce != OutboxAttemptRow.nonce)
        query = select(*OutboxAttemptRow.__table__.columns[1:]).join(OutboxRow, OutboxRow.id == OutboxAttemptRow.outbox_id)
        query = query.where(*lease, OutboxAttemptRow.nonce >= chain_nonce, left).order_by(OutboxAttemptRow.attempt)
        with read_transaction(self.lease.engine) as connection:
            newest = {row.nonce: _attempt(row) for row in connection.execute(query)}
        return tuple(newest[nonce] for nonce in sorted(newest))

    def all(self) -> tuple[OutboxItem, ...]:
        """Returns all rows of this nonce lease, the oldest first."""
        return self._items()

    def attempts(self, item_id: int) -> tuple[Attempt, ...]:
        """Returns all signed versions of a row, the oldest first. Any of them may be the version that is mined."""
        query = (
            select(*OutboxAttemptRow.__table__.columns[1:])
            .where(OutboxAttemptRow.outbox_id == item_id)
            .order_by(OutboxAttemptRow.attempt)
        )
        with read_transaction(self.lease.engine) as connection:
            return tuple(_attempt(row) for row in connection.execute(query))

    def sign(self, item_id: int, chain_nonce: int, make: Callable[[int], SignedTransaction]) -> Attempt:
        """Takes a nonce for a PLANNED row, calls `make(nonce)` and stores the signed bytes, all in one database transaction."""
        with write_transaction(self.lease.engine) as connection:
            self._move(connection, item_id, OutboxState.SIGNED, expected=OutboxState.PLANNED)
            nonce = self.lease.take_nonce_in(connection, chain_nonce)
            connection.execute(update(OutboxRow).where(OutboxRow.id == item_id).values(nonce=nonce))
            return self._store(connection, item_id, nonce, make(nonce))

    def replace(self, item_id: int, make: Callable[[int], SignedTransaction]) -> Attempt:
        """Stores other signed bytes with a higher fee for the same nonce.

        They are broadcast because the earlier bytes were not mined.
        """
        with write_transaction(self.lease.engine) as connection:
            row = self._move(connection, item_id, OutboxState.SIGNED)
            if row.nonce is None:
                raise StoreCorrupt("outbox", f"row {item_id} has no nonce to replace")
            return self._store(connection, item_id, row.nonce, make(row.nonce))

    def broadcast(self, item_id: int, tx_hash: Digest) -> None:
        """Records that the bytes with this hash were sent to a chain node."""
        now = self.lease.clock.now()
        change = update(OutboxAttemptRow).where(OutboxAttemptRow.outbox_id == item_id, OutboxAttemptRow.tx_hash == tx_hash)
        with write_transaction(self.lease.engine) as connection:
            self._move(connection, item_id, OutboxState.BROADCAST)
            if connection.execute(change.values(broadcast_at=now)).rowcount != 1:
                raise StoreCorrupt("outbox", f"row {item_id} never signed {tx_hash.hex()}")

    def mark(
        self,
        item_id: int,
        state: OutboxState,
        *,
        block_number: int | None = None,
        block_hash: Digest | None = None,
        detail: str = "",
    ) -> OutboxItem:
        """Changes the state of a row and returns the row. Raises `StoreCorrupt` if the change is not allowed.

        MINED needs the number and hash of the block.
        """
        if (state is OutboxState.MINED) != (block_hash is not None and block_number is not None) and state in OPEN:
            raise StoreCorrupt("outbox", f"row {item_id}: {state} with block {block_number}")
        values: dict[str, Any] = {"detail": detail[:500]}
        if state in (OutboxState.MINED, OutboxState.REVERTED, OutboxState.BROADCAST):
            values |= {"block_number": block_number, "block_hash": block_hash}
        with write_transaction(self.lease.engine) as connection:
            self._move(connection, item_id, state)
            connection.execute(update(OutboxRow).where(OutboxRow.id == item_id).values(**values))
        return self.item(item_id)

    def replan(self, item_id: int, intent: Intent) -> OutboxItem:
        """Plans an ended, unsuccessful row again, with the calldata, value, deadline and time limit of `intent`.

        The caller limits how often a row is planned again.
        """
        values: dict[str, Any] = {
            "calldata": intent.calldata, "value_wei": str(intent.value_wei), "deadline": intent.deadline,
            "broadcast_by": intent.broadcast_by, "nonce": None, "block_number": None, "block_hash": None,
        }  # fmt: skip
        with write_transaction(self.lease.engine) as connection:
            self._move(connection, item_id, OutboxState.PLANNED)
            connection.execute(update(OutboxRow).where(OutboxRow.id == item_id).values(**values))
        return self.item(item_id)

    def set_times(self, item_id: int, deadline: int, broadcast_by: int) -> OutboxItem:
        """Sets the deadline and the time limit for sending of a row, and returns the row.

        The sender calls it when the same transaction is decided again with other times.
        """
        with write_transaction(self.lease.engine) as connection:
            self.lease.require_in(connection)
            connection.execute(
                update(OutboxRow).where(OutboxRow.id == item_id).values(deadline=deadline, broadcast_by=broadcast_by)
            )
        return self.item(item_id)

    def _move(self, connection: Connection, item_id: int, state: OutboxState, expected: OutboxState | None = None) -> Row[Any]:
        self.lease.require_in(connection)
        row = connection.execute(self._query(OutboxRow.id == item_id).with_for_update()).one()
        if state not in TRANSITIONS[OutboxState(row.state)] or (expected is not None and row.state != expected):
            raise StoreCorrupt("outbox", f"row {item_id} cannot go from {row.state} to {state}")
        change = update(OutboxRow).where(OutboxRow.id == item_id)
        connection.execute(change.values(state=state, updated_at=self.lease.clock.now()))
        return row

    def _store(self, connection: Connection, item_id: int, nonce: int, signed: SignedTransaction) -> Attempt:
        have = (
            select(*OutboxAttemptRow.__table__.columns[1:])
            .where(OutboxAttemptRow.outbox_id == item_id)
            .order_by(OutboxAttemptRow.attempt)
        )
        earlier = [_attempt(row) for row in connection.execute(have)]
        same = [each for each in earlier if each.tx_hash == signed.tx_hash]
        if same:
            return same[0]
        made = Attempt(len(earlier) + 1, nonce, signed.raw, signed.tx_hash, self.lease.clock.now(), None)
        connection.execute(insert(OutboxAttemptRow).values(outbox_id=item_id, **made._asdict()))
        return made

    def _items(self, *conditions: Any) -> tuple[OutboxItem, ...]:
        with read_transaction(self.lease.engine) as connection:
            return tuple(_item(row) for row in connection.execute(self._query(*conditions).order_by(OutboxRow.id)))

    def _query(self, *conditions: Any) -> Any:
        own = (OutboxRow.chain_id == str(self.lease.chain_id), OutboxRow.account == self.lease.account)
        return select(*OutboxRow.__table__.columns).where(*own, *conditions)


def _key(intent: Intent) -> tuple[Any, ...]:
    return _named(intent.contract, intent.function, intent.subject, intent.role)


def _named(contract: str, function: str, subject: bytes, role: str) -> tuple[Any, ...]:
    row = OutboxRow
    return row.contract == contract, row.function == function, row.subject == subject, row.role == role


def _item(row: Row[Any]) -> OutboxItem:
    named = (row.contract, row.function, row.subject, row.role)
    intent = Intent(*named, row.calldata, int(row.value_wei), row.deadline, row.broadcast_by)
    return OutboxItem(
        row.id,
        intent,
        OutboxState(row.state),
        row.nonce,
        row.block_number,
        row.block_hash,
        row.detail,
        row.created_at,
        row.updated_at,
    )


def _attempt(row: Row[Any]) -> Attempt:
    return Attempt(row.attempt, row.nonce, Blob(row.raw), Digest(row.tx_hash), row.signed_at, row.broadcast_at)

"""One snapshot of the index for the views of one answer: its state, the protocol clock, names of accounts, and small
conversions."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from bytewise.protocol.units import hex0x
from bytewise.storage.index.reader import IndexSnapshot, Row, StoredEvent
from bytewise.storage.index.tables import KeyEpochFact, SettingFact
from dashboard.index.money import is_lapsed
from dashboard.index.registry import clock_at, is_paused, wall_time
from dashboard.views.records import Amount, BlockName, EventLine, FinalityState, IndexMeta, Party, Time
from dashboard.views.words import ASSURANCES, event_words

WEI_PER_ETHER = 10**18


class Scene:
    """Snapshot of the index with the other data that the views of one answer share: clock, names and limits."""

    def __init__(self, index: IndexSnapshot, names: Mapping[str, str], now: int, stale_s: int, version: str) -> None:
        """`names` are the chosen names by account. `now` is wall time in Unix seconds. The index is stale if its newest
        block is older than `stale_s` seconds."""
        self.index = index
        self.state = index.state()
        self._names = names
        self._now = now
        self._stale_s = stale_s
        self._version = version
        self._pauses = index.history(SettingFact, "clock")
        self._pause = self._pauses[-1] if self._pauses else None
        self._params: dict[int, Mapping[str, Any]] = {}

    @property
    def clock(self) -> int:
        """Protocol clock at the newest block, in seconds."""
        return clock_at(self._pause, self.state.timestamp)

    @property
    def paused_until(self) -> Time | None:
        """End of the pause that runs at the newest block; None if none runs."""
        if self._pause is None or not is_paused(self._pause, self.state.timestamp):
            return None
        return time_of(self._pause["content"]["until"])

    def meta(self) -> IndexMeta:
        """Returns the state of the index from which the answer is made."""
        state = self.state
        behind_s = max(0, self._now - state.newest_timestamp)
        return IndexMeta(
            chain_id=state.chain_id,
            block=BlockName(number=state.number, hash=hex0x(state.hash), time=time_of(state.timestamp)),
            head=state.head, behind_blocks=max(0, state.head - state.newest), behind_s=behind_s,
            is_stale=behind_s > self._stale_s, safe=state.safe, finalized=state.finalized, checked_block=state.checked_block,
            differences=state.differences, version=self._version,
        )  # fmt: skip

    def deadline(self, protocol_time: int) -> Time | None:
        """Converts a deadline of the protocol clock to wall time. It assumes that no further pause comes. Returns None for
        zero."""
        return time_of(wall_time(self._pauses, protocol_time)) if protocol_time else None

    def is_lapsed(self, stake: Row | None) -> bool:
        """Returns whether an account's record of stake at EigenLayer does not count, because it is too old or because no record
        counts (`IndexState.record_life`). `stake` is the row of the account."""
        return stake is not None and is_lapsed(stake, self.state.record_life, self.state.number)

    def stake_of(self, stake: Row | None) -> int:
        """Returns the stake of an account in wei, or 0 if its record of stake at EigenLayer does not count. `stake` is the row of
        the account, or None."""
        return 0 if stake is None or self.is_lapsed(stake) else int(stake["active"])

    def finality(self, block: int) -> FinalityState:
        """Returns how final a change in this block is."""
        if block <= self.state.finalized:
            return FinalityState.FINALIZED
        return FinalityState.SAFE if block <= self.state.safe else FinalityState.PENDING

    def party(self, account: str) -> Party:
        """Returns an account with its chosen name."""
        return Party(account=account, name=self._names.get(account))

    def somebody(self, account: str | None) -> Party | None:
        """Returns an account with its chosen name, or None if there is no account."""
        return self.party(account) if account else None

    def params(self, version: int) -> Mapping[str, Any]:
        """Returns a version of all parameters, by the contract's names. Returns an empty mapping if the index does not know the
        version."""
        if version not in self._params:
            found = self.index.find(SettingFact, f"params {version}")
            self._params[version] = found["content"] if found else {}
        return self._params[version]

    def assurance(self, epoch: int) -> str:
        """Returns the assurance of a key epoch in words."""
        found = self.index.find(KeyEpochFact, epoch)
        return ASSURANCES.get(found["assurance"], "unknown") if found else "unknown"

    def event(self, event: StoredEvent) -> EventLine:
        """Returns the record of an event."""
        return EventLine(
            id=f"{event.block}.{event.place}.{event.block_hash.hex()[:16]}", block=event.block, place=event.place,
            block_hash=hex0x(event.block_hash), time=time_of(event.timestamp), transaction=hex0x(event.transaction),
            contract=event.contract, address=event.address, name=event.name, words=event_words(event.name, event.arguments),
            arguments=dict(event.arguments),
            finality=self.finality(event.block),
        )  # fmt: skip


def amount(wei: int) -> Amount:
    """Returns an amount of wei as a record, in wei and in ether."""
    whole, part = divmod(wei, WEI_PER_ETHER)
    decimals = f"{part:018d}".rstrip("0")
    return Amount(wei=str(wei), eth=f"{whole}.{decimals}" if decimals else str(whole))


def time_of(unix: int) -> Time:
    """Returns a point in time as a record. After the year 9999 its text is `never`."""
    try:
        return Time(unix=unix, utc=datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    except (ValueError, OverflowError, OSError):
        return Time(unix=unix, utc="never")


def hex_or_none(value: bytes | None) -> str | None:
    """Returns a value as 0x-hex, or None for None."""
    return None if value is None else hex0x(value)


def newest(*rows: Row | None) -> int:
    """Returns the number of the block in which one of these facts changed last. Returns 0 if all are None."""
    return max((row["valid_from"] for row in rows if row is not None), default=0)

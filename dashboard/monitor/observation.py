"""What one pass of the monitor reads: the index, the contracts and the shards' logs, all at one block."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bytewise.protocol.keys.epochs import SignedRelease
from bytewise.protocol.units import Address
from bytewise.storage.index.reader import Row
from bytewise.storage.index.tables import DisputeFact, Fact
from dashboard.index.self_check import differences_of
from dashboard.index.source import StateSource
from dashboard.monitor.findings import InvariantFinding
from dashboard.monitor.settings import InvariantSettings
from dashboard.views.scene import Scene


class ShardLog(NamedTuple):
    """What the monitor knows of one shard's release log of one key epoch."""

    epoch: int
    place: int
    """Of the shard among the holders, from 1."""
    shard: Address
    entries: Sequence[SignedRelease]
    """Every record of the monitor's copy."""
    broken: tuple[str, ...]
    """Faults that signatures or the chain prove."""
    silent: str
    """Why the log is not known to its end; empty if it is."""


class EpochLogs(NamedTuple):
    """The logs of one key epoch."""

    epoch: int
    threshold: int
    """Fewest shards that open an envelope, under any version of the shares."""
    rebuilt: bool
    """Whether one release opens every receipt of the epoch."""
    logs: tuple[ShardLog, ...]
    failure: str
    """Why no log of this epoch could be read; empty otherwise."""


class MoneyParts(NamedTuple):
    """Balance and parts of one contract, in wei."""

    contract: str
    balance: int
    parts: int
    """Sum of what the contract owes, keeps and has burned."""

    @property
    def drift(self) -> int:
        """Balance without the parts. Negative: money is missing. Positive: somebody sent ether that is nobody's."""
        return self.balance - self.parts


class MoneySource(NamedTuple):
    """Balances as the contracts' view says them, and as the block's state root proves them."""

    viewed: tuple[MoneyParts, ...]
    proven: tuple[MoneyParts, ...]
    """Empty if nothing needed a proof, or none was given."""
    failure: str
    """Why money that seems to be missing is not proven; empty otherwise."""


class Observation(NamedTuple):
    """Everything that the checks of one pass read."""

    scene: Scene
    """The index at one block."""
    state: StateSource
    """Views of the contracts at the same block."""
    money: MoneySource
    logs: tuple[EpochLogs, ...]
    limits: InvariantSettings

    @property
    def timestamp(self) -> int:
        """Time of the block, Unix seconds."""
        return self.scene.state.timestamp

    @property
    def is_paused(self) -> bool:
        """Whether the guardian's pause runs: no deadline passes."""
        return self.scene.paused_until is not None

    def recent_disputes(self) -> list[Row]:
        """Disputes that were opened lately."""
        return self.scene.index.between(DisputeFact, "opened_block", self.recent_blocks())

    def recent_blocks(self) -> range:
        """Blocks of the last `recent_s` seconds."""
        return self.scene.index.blocks_of(self.timestamp - self.limits.recent_s, None)

    def times(self, row: Row) -> Mapping[str, Any]:
        """Durations under which a dispute runs, with the contract's names; empty if the index does not know them."""
        times: Mapping[str, Any] = self.scene.params(row["params_version"]).get("times", {})
        return times

    def changed_at(self, table: type[Fact], *key: Any, **same: Any) -> int:
        """Unix second since when a fact has had these values."""
        since = 0
        for version in reversed(self.scene.index.history(table, *key)):
            if any(version[name] != value for name, value in same.items()):
                break
            since = version["valid_from"]
        return self.scene.index.block_times([since]).get(since, self.timestamp)

    def confirm(self, findings: Sequence[InvariantFinding]) -> list[str]:
        """What the contracts say otherwise about the rows that findings name."""
        wanted: dict[type[Fact], dict[tuple[Any, ...], None]] = {}
        for each in findings:
            if each.row is not None:
                wanted.setdefault(each.row[0], {})[each.row[1]] = None
        return [
            line for table, keys in wanted.items() for line in differences_of(self.state, self.scene.index, table, list(keys))
        ]

    def doubts(self, now: int) -> Iterator[str]:
        """Why nothing can be known at this block: it is old, dated ahead, or the index is not what the contracts say."""
        state, limits = self.scene.state, self.limits
        if state.number < 0:
            yield "the index has no block yet"
            return
        if state.head > state.number:
            yield f"the index is {state.head - state.number} blocks behind the node"
        if now - state.timestamp > limits.stale_s:
            yield f"the newest block is {now - state.timestamp} s old: the node lags, or the chain stands still"
        if state.timestamp - now > limits.ahead_s:
            yield f"the newest block is dated {state.timestamp - now} s ahead of this machine's clock"
        if state.differences:
            yield f"the node's events differ from its contracts' views: {'; '.join(state.differences[:3])}"

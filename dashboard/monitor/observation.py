"""The data that one pass of the monitor reads: the index, the contracts and the shards' release logs. All of it is at one
block."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bytewise.protocol.keys.release_log import SignedRelease
from bytewise.protocol.units import Address
from bytewise.storage.index.reader import Row
from bytewise.storage.index.tables import DisputeFact, Fact
from dashboard.index.self_check import StateSource, differences_of
from dashboard.monitor.findings import InvariantFinding
from dashboard.monitor.settings import InvariantSettings
from dashboard.views.scene import Scene


class ShardLog(NamedTuple):
    """One shard's release log of one key epoch, as far as the monitor knows it."""

    epoch: int
    place: int
    """Position of the shard among the holders of the key epoch, from 1."""
    shard: Address
    entries: Sequence[SignedRelease]
    """All records of the monitor's copy of the log."""
    broken: tuple[str, ...]
    """Faults of the shard that signatures or the chain prove."""
    silent: str
    """Reason why the monitor does not know the log up to its end; empty if it does."""


class EpochLogs(NamedTuple):
    """Release logs of all shards of one key epoch."""

    epoch: int
    threshold: int
    """Number of shards that can open an envelope together. If versions of the shares have different thresholds, this is the
    smallest."""
    rebuilt: bool
    """True for a rebuilt epoch, in which a release for one receipt is enough to open every receipt of the epoch."""
    logs: tuple[ShardLog, ...]
    failure: str
    """Reason why no log of this epoch could be read; empty otherwise."""


class MoneyParts(NamedTuple):
    """A contract's balance, and the sum of the money that the contract should hold."""

    contract: str
    balance: int
    parts: int
    """Sum of what the contract owes, keeps and has burned, in wei."""

    @property
    def drift(self) -> int:
        """Balance minus `parts`, in wei. A negative drift means that money is missing. A positive drift means that somebody sent
        ether that the contract owes to nobody."""
        return self.balance - self.parts


class MoneySource(NamedTuple):
    """Money of the contracts, from two sources: the contracts' view reports it, and the block's state root proves it."""

    viewed: tuple[MoneyParts, ...]
    proven: tuple[MoneyParts, ...]
    """Amounts that the state root proves. Empty if no money seemed to be missing, or if the node gave no valid proof."""
    failure: str
    """Reason why the node's proof is missing or wrong although money seems to be missing; empty otherwise."""


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
        """Time of the observed block, in Unix seconds."""
        return self.scene.state.timestamp

    @property
    def is_paused(self) -> bool:
        """True while a pause by the guardian runs, so that no deadline passes."""
        return self.scene.paused_until is not None

    def recent_disputes(self) -> list[Row]:
        """Returns the disputes that were opened in the last `recent_s` seconds."""
        return self.scene.index.between(DisputeFact, "opened_block", self.recent_blocks())

    def recent_blocks(self) -> range:
        """Returns the range of blocks of the last `recent_s` seconds."""
        return self.scene.index.blocks_of(self.timestamp - self.limits.recent_s, None)

    def times(self, row: Row) -> Mapping[str, Any]:
        """Returns the durations that apply to a dispute: seconds by the contract's name of the duration. Returns an empty mapping
        if the index does not know the parameters of the dispute."""
        times: Mapping[str, Any] = self.scene.params(row["params_version"]).get("times", {})
        return times

    def changed_at(self, table: type[Fact], *key: Any, **same: Any) -> int:
        """Returns the Unix second since which a row of the index has had certain values without interruption. `same` maps each
        column to its value."""
        since = 0
        for version in reversed(self.scene.index.history(table, *key)):
            if any(version[name] != value for name, value in same.items()):
                break
            since = version["valid_from"]
        return self.scene.index.block_times([since]).get(since, self.timestamp)

    def confirm(self, findings: Sequence[InvariantFinding]) -> list[str]:
        """Reads from the contracts the index rows that findings name. Returns one line for each difference."""
        wanted: dict[type[Fact], dict[tuple[Any, ...], None]] = {}
        for each in findings:
            if each.row is not None:
                wanted.setdefault(each.row[0], {})[each.row[1]] = None
        return [
            line for table, keys in wanted.items() for line in differences_of(self.state, self.scene.index, table, list(keys))
        ]

    def doubts(self, now: int) -> Iterator[str]:
        """Yields each reason why the monitor can decide nothing at this block. The index may be behind the node, or differ from
        the contracts. The block may be too old, or dated ahead."""
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

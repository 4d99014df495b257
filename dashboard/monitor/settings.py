"""Settings of a monitor: one TOML file. Environment variables `BYTEWISE__SECTION__KEY` override it."""

from dataclasses import dataclass, field
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.sections import SCHEMA_VERSION, ChainSettings, MetricsSettings
from dashboard.settings import IndexSettings

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class InvariantSettings:
    """Section `[invariants]`, optional: after which time something counts as late, and how far back the monitor looks."""

    grace_s: int = 900
    """Seconds that a move may be late. After a deadline somebody may still make the move that is due within this time."""
    recent_s: int = 7 * DAY_S
    """Age in seconds up to which the monitor looks at disputes, audits and batches."""
    silent_s: int = 6 * 3600
    """Seconds without a batch after which an operator that anchored before counts as silent. The limit is longer for an
    operator with long gaps between its batches."""
    stale_s: int = 120
    """Greatest age of the newest block in seconds. If the block is older, every invariant is unknown."""
    ahead_s: int = 30
    """Most seconds by which the time of the newest block may be ahead of this machine's clock. Beyond that, every invariant is
    unknown."""

    def __post_init__(self) -> None:
        for name in ("grace_s", "recent_s", "silent_s", "stale_s", "ahead_s"):
            if getattr(self, name) < 1:
                raise ConfigurationError(name, f"{getattr(self, name)} seconds: at least 1")


@dataclass(frozen=True, slots=True)
class ReleaseLogSettings:
    """Section `[release_logs]`, optional: the monitor's own copies of the shards' release logs."""

    folder: Path
    """Folder of the copies. Do not delete the copies, because only an earlier copy can show that a shard cut off the end of its
    log."""
    timeout_s: float = 10.0
    """Longest wait for one page of a shard's log, in seconds."""


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """Settings of `bytewise monitor run --config FILE`. There is no section `[signer]`, because a monitor holds no key and sends
    nothing."""

    network_file: Path
    """Address book of the network."""
    chain: ChainSettings
    db: IndexSettings
    invariants: InvariantSettings = field(default_factory=InvariantSettings)
    release_logs: ReleaseLogSettings | None = None
    """Copies of the shards' release logs. Without this section, the invariants of release logs are unknown."""
    metrics: MetricsSettings | None = None
    """Where metrics and probes are served. Without this section they are not served."""
    follow: bool = True
    """Whether the monitor writes the index itself. If false, `[db]` is the index of a dashboard, and the monitor only reads
    it."""
    check_s: int = 60
    """Seconds between two checks of all invariants."""
    role: str = "monitor"
    """Kind of process that this file configures."""
    schema_version: int = SCHEMA_VERSION
    """Version of this file's format."""

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise ConfigurationError("schema_version", f"{self.schema_version}: this program reads {SCHEMA_VERSION}")
        if self.role != "monitor":
            raise ConfigurationError("role", f"{self.role[:40]}: this file is not of a monitor")
        if self.check_s < 1:
            raise ConfigurationError("check_s", f"{self.check_s} seconds: at least 1")

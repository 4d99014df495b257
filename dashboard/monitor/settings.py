"""Settings of a monitor: one TOML file. Environment variables `BYTEWISE__SECTION__KEY` override it."""

from dataclasses import dataclass, field
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.listener import MetricsSettings
from bytewise.service.sections import SCHEMA_VERSION, ChainSettings
from dashboard.settings import IndexSettings

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class InvariantSettings:
    """Section `[invariants]`, optional: what counts as late, and how far back the monitor looks."""

    grace_s: int = 900
    """Seconds after a deadline in which somebody may still make the move that is due."""
    recent_s: int = 7 * DAY_S
    """Disputes and audits of so many seconds are looked at for disagreement and absence."""
    silent_s: int = 6 * 3600
    """Seconds without a batch after which an operator that anchored before counts as silent, unless longer gaps are usual."""
    stale_s: int = 120
    """Greatest age of the newest block in seconds: beyond it, nothing is known."""
    ahead_s: int = 30
    """Most seconds by which the newest block may be dated ahead of this machine's clock: beyond it, nothing is known."""

    def __post_init__(self) -> None:
        for name in ("grace_s", "recent_s", "silent_s", "stale_s", "ahead_s"):
            if getattr(self, name) < 1:
                raise ConfigurationError(name, f"{getattr(self, name)} seconds: at least 1")


@dataclass(frozen=True, slots=True)
class ReleaseLogSettings:
    """Section `[release_logs]`, optional: the monitor's own copies of the shards' release logs."""

    folder: Path
    """Where the copies are kept. Keep them: only an earlier copy shows that the end of a log was cut off."""
    timeout_s: float = 10.0
    """One page of a shard, in seconds."""


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """`bytewise monitor run --config FILE`. There is no `[signer]`: a monitor holds no key and sends nothing."""

    network_file: Path
    """Address book of the network."""
    chain: ChainSettings
    db: IndexSettings
    invariants: InvariantSettings = field(default_factory=InvariantSettings)
    release_logs: ReleaseLogSettings | None = None
    """Without the section, the invariants of release logs are unknown."""
    metrics: MetricsSettings | None = None
    """Where metrics and probes are served; without the section, nowhere."""
    follow: bool = True
    """Whether the monitor makes the index itself. False: `[db]` is the index of a dashboard, which is only read."""
    check_s: int = 60
    """Seconds between two checks of all invariants."""
    role: str = "monitor"
    """What this file is for."""
    schema_version: int = SCHEMA_VERSION
    """Version of this file's format."""

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise ConfigurationError("schema_version", f"{self.schema_version}: this program reads {SCHEMA_VERSION}")
        if self.role != "monitor":
            raise ConfigurationError("role", f"{self.role[:40]}: this file is not of a monitor")
        if self.check_s < 1:
            raise ConfigurationError("check_s", f"{self.check_s} seconds: at least 1")

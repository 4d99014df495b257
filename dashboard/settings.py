"""Settings of a dashboard: one TOML file. Environment variables `BYTEWISE__SECTION__KEY` override it."""

from dataclasses import dataclass, field
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import address
from bytewise.service.secret import read_secret
from bytewise.service.sections import SCHEMA_VERSION, ChainSettings, MetricsSettings
from bytewise.service.settings import DatabaseUrl


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Section `[db]`: the database of the index. The index is made from the chain, so its owner can delete it at any time and
    make it again."""

    url: DatabaseUrl | None = None
    """Database of the index: `sqlite:///FILE` or `postgresql+psycopg://…`. No other actor may use this database. Set either
    `url` or `url_file`."""
    url_file: Path | None = None
    """File that contains the URL, for a URL with a password. The file must be readable by its owner only."""
    check_history: bool = False
    """Whether to compare the logs of final blocks, too, with the headers and receipts of these blocks. This reads every header
    since the deployment, and the receipts of many blocks."""
    check_s: int = 3600
    """Seconds between two comparisons of the index with the contracts' views. In a dashboard each reorganisation also starts a
    comparison. A monitor with `follow = false` makes no comparison."""

    def __post_init__(self) -> None:
        if (self.url is None) == (self.url_file is None):
            raise ConfigurationError("database", "set url, or url_file, and not both")
        if self.check_s < 1:
            raise ConfigurationError("check_s", f"{self.check_s} seconds: at least 1")

    @property
    def location(self) -> str:
        """URL of the database. Raises `ConfigurationError` if `url_file` is missing or if other users may read it."""
        if self.url_file is not None:
            return read_secret(self.url_file).reveal().decode().strip()
        return self.url or ""


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Section `[api]`, optional: the pages and the read API."""

    host: str = "127.0.0.1"
    """Address to listen on. All pages and answers are public. TLS is the task of a reverse proxy in front of the dashboard."""
    port: int = 8600
    """TCP port of pages and API."""
    requests_per_minute: int = 300
    """Requests per minute that one address may send on average. The same number is the largest burst. A request beyond the limit
    gets status 429."""
    streams: int = 64
    """Most event streams that may be open at the same time. One address can have at most 4 of them."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses of reverse proxies whose `X-Forwarded-For` names the visitor."""
    stale_s: int = 60
    """Age of the newest block in seconds above which pages say that the index is behind."""

    def __post_init__(self) -> None:
        if self.requests_per_minute < 1 or self.streams < 0:
            raise ConfigurationError("api", "requests_per_minute must be at least 1, and streams at least 0")


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """Settings of `bytewise dashboard run --config FILE`. There is no section `[signer]`, because a dashboard holds no key."""

    network_file: Path
    """Address book of the network."""
    chain: ChainSettings
    db: IndexSettings
    api: ApiSettings = field(default_factory=ApiSettings)
    metrics: MetricsSettings | None = None
    """Where metrics and probes are served. Without this section they are not served."""
    names: tuple[str, ...] = ()
    """Names that pages show beside accounts, each as `ADDRESS NAME`. The dashboard's owner chooses the names, and nobody else
    confirms them."""
    capsules: Path | None = None
    """Folder in which a node keeps evidence capsules (the node's section `[capsules]`). The page of a dispute offers the
    dispute's capsule and says what the capsule shows."""
    release_logs: Path | None = None
    """Folder with copies of the shards' release logs. A monitor or `bytewise key log verify` keeps these copies. The statistics
    count the records in them."""
    role: str = "dashboard"
    """Kind of process that this file configures."""
    schema_version: int = SCHEMA_VERSION
    """Version of this file's format."""

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise ConfigurationError("schema_version", f"{self.schema_version}: this program reads {SCHEMA_VERSION}")
        if self.role != "dashboard":
            raise ConfigurationError("role", f"{self.role[:40]}: this file is not of a dashboard")
        _ = self.account_names

    @property
    def account_names(self) -> dict[str, str]:
        """Chosen names, by account address."""
        pairs = (each.partition(" ") for each in self.names)
        return {address(account): name.strip() for account, _, name in pairs}

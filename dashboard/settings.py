"""Settings of a dashboard: one TOML file. Environment variables `BYTEWISE__SECTION__KEY` override it."""

from dataclasses import dataclass, field
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import address
from bytewise.service.listener import MetricsSettings
from bytewise.service.secret import read_secret
from bytewise.service.sections import SCHEMA_VERSION, ChainSettings
from bytewise.service.settings import DatabaseUrl


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Section `[db]`: the index. It is made from the chain, and may be made again at any time."""

    url: DatabaseUrl | None = None
    """`sqlite:///FILE` or `postgresql+psycopg://…`: a database of its own, which no actor uses. This, or `url_file`."""
    url_file: Path | None = None
    """File with the URL, readable by the owner only: for a URL with a password."""
    check_history: bool = False
    """Whether to compare the logs of final blocks with what the blocks commit to, too. This reads every header since the
    deployment, and the receipts of many blocks."""
    check_s: int = 3600
    """Seconds between two comparisons of the index with the contracts' own views; one more follows each reorganisation."""

    def __post_init__(self) -> None:
        if (self.url is None) == (self.url_file is None):
            raise ConfigurationError("database", "set url, or url_file, and not both")
        if self.check_s < 1:
            raise ConfigurationError("check_s", f"{self.check_s} seconds: at least 1")

    @property
    def location(self) -> str:
        """The URL. `ConfigurationError` if the file is missing or others may read it."""
        if self.url_file is not None:
            return read_secret(self.url_file).reveal().decode().strip()
        return self.url or ""


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Section `[api]`, optional: the pages and the read API."""

    host: str = "127.0.0.1"
    """Address to listen on. Everything here is public; TLS is the reverse proxy's."""
    port: int = 8600
    """TCP port of pages and API."""
    requests_per_minute: int = 300
    """Requests of one address in a minute, in the long run; a burst may have as many at once. Beyond it: 429."""
    streams: int = 64
    """Most event streams at the same time, of which one address has at most 4."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses of reverse proxies whose `X-Forwarded-For` names the visitor."""
    stale_s: int = 60
    """Age of the newest block in seconds at which pages say that they are behind."""

    def __post_init__(self) -> None:
        if self.requests_per_minute < 1 or self.streams < 0:
            raise ConfigurationError("api", "requests_per_minute must be at least 1, and streams at least 0")


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """`bytewise dashboard run --config FILE`. There is no `[signer]`: a dashboard holds no key."""

    network_file: Path
    """Address book of the network."""
    chain: ChainSettings
    db: IndexSettings
    api: ApiSettings = field(default_factory=ApiSettings)
    metrics: MetricsSettings | None = None
    """Where metrics and probes are served; without the section, nowhere."""
    names: tuple[str, ...] = ()
    """Names that pages show beside accounts, each as `ADDRESS NAME`. They are the owner's word, and nobody else's."""
    capsules: Path | None = None
    """Folder in which a node keeps capsules (its section `[capsules]`): pages of disputes offer them and say what they show."""
    release_logs: Path | None = None
    """Folder of copies of the shards' release logs, which a monitor or `bytewise key log verify` keeps: statistics count them."""
    role: str = "dashboard"
    """What this file is for."""
    schema_version: int = SCHEMA_VERSION
    """Version of this file's format."""

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise ConfigurationError("schema_version", f"{self.schema_version}: this program reads {SCHEMA_VERSION}")
        _ = self.account_names

    @property
    def account_names(self) -> dict[str, str]:
        """Names by account."""
        pairs = (each.partition(" ") for each in self.names)
        return {address(account): name.strip() for account, _, name in pairs}

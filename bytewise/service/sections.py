"""Sections of a settings file that several actors have: chain, DA, signer, database."""

from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.secret import read_secret
from bytewise.service.settings import DatabaseUrl, Endpoints, rpc_endpoints

SCHEMA_VERSION = 1
"""Version of the settings files' format."""


@dataclass(frozen=True, slots=True)
class ChainSettings:
    """Section `[chain]`: the nodes of the chain."""

    rpc_url: str = ""
    """JSON-RPC of one chain node. Set this or `rpc_urls`."""
    rpc_urls: tuple[str, ...] = ()
    """JSON-RPC of several nodes, best of different providers. The node acts only on answers that `rpc_quorum` of them agree
    on."""
    rpc_quorum: int = 0
    """How many of `rpc_urls` must agree; 0: more than half."""
    timeout_s: float = 10.0
    """One call, in seconds."""
    poll_s: float = 1.0
    """Pause between two reads of the chain, in seconds."""
    confirmations: int = 2
    """Blocks after which an own transaction counts as confirmed."""

    def __post_init__(self) -> None:
        # Reports an error in these settings at the start.
        _ = self.rpc

    @property
    def rpc(self) -> Endpoints:
        """The chain's endpoints."""
        return rpc_endpoints(self.rpc_url, self.rpc_urls, self.rpc_quorum)


@dataclass(frozen=True, slots=True)
class DaSettings:
    """Section `[da]`: where envelopes and lists are stored."""

    urls: tuple[str, ...]
    """EigenDA proxies or stores of ours, in order of preference."""
    timeout_s: float = 10.0
    """One call, in seconds."""

    def __post_init__(self) -> None:
        if not self.urls:
            raise ConfigurationError("urls", "none: name at least one EigenDA proxy")


@dataclass(frozen=True, slots=True)
class SignerSettings:
    """Section `[signer]`: the account that signs and pays."""

    key_file: Path
    """Account key: a Web3 keystore (version 3), or 32 bytes in hex; readable by the owner only."""
    password_file: Path | None = None
    """Password of the keystore; readable by the owner only."""


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Section `[db]`: the database with everything that must survive a restart."""

    journal_key_file: Path
    """Ed25519 key that signs the journal; made at the first start."""
    url: DatabaseUrl | None = None
    """`sqlite:///FILE` or `postgresql+psycopg://…`: a migrated database that no other node uses. This, or `url_file`."""
    url_file: Path | None = None
    """File with the URL, readable by the owner only: for a URL with a password."""

    def __post_init__(self) -> None:
        if (self.url is None) == (self.url_file is None):
            raise ConfigurationError("database", "set url, or url_file, and not both")

    @property
    def location(self) -> str:
        """The URL. `ConfigurationError` if the file is missing or others may read it."""
        if self.url_file is not None:
            return read_secret(self.url_file).reveal().decode().strip()
        return self.url or ""

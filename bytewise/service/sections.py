"""Sections of a settings file that several actors have: chain, DA, signer, database."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import U256, Address
from bytewise.service.secret import read_secret
from bytewise.service.settings import DatabaseUrl, Endpoints, rpc_endpoints, verify_http_url

SCHEMA_VERSION = 1
"""Version of the settings files' format."""
_REMOTE = ("account", "ca_file", "client_cert_file", "client_key_file")
_LONGEST_S = 5.0
_CEILING_WEI = U256(100 * 10**18)


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
        for each in self.urls:
            verify_http_url("urls", each, "an EigenDA proxy or store")


@dataclass(frozen=True, slots=True)
class SignerSettings:
    """Section `[signer]`: the account that signs and pays. Its key is in a file here, or at a remote signer."""

    key_file: Path | None = None
    """Account key: a Web3 keystore (version 3), or 32 bytes in hex; readable by the owner only. This, or `url`."""
    password_file: Path | None = None
    """Password of the keystore; readable by the owner only."""
    url: str = ""
    """`https://…` of a remote signer with web3signer's REST interface. It needs the next four settings."""
    account: Address | None = None
    """Account whose key the remote signer has."""
    ca_file: Path | None = None
    """Certificate of the remote signer, or of its authority, PEM."""
    client_cert_file: Path | None = None
    """Client certificate that this node shows to the remote signer, PEM."""
    client_key_file: Path | None = None
    """Its private key, PEM, unencrypted; readable by the owner only."""
    timeout_s: float = 3.0
    """One signature by the remote signer with all tries, in seconds; at most 5, because the database waits meanwhile."""
    max_value_wei: U256 = _CEILING_WEI
    """Most wei that one transaction may send; no key signs more, wherever it is."""
    max_fee_wei: int = 500 * 10**9
    """Most wei per gas that a transaction may pay."""

    def __post_init__(self) -> None:
        remote = (self.account, self.ca_file, self.client_cert_file, self.client_key_file)
        if bool(self.url) == (self.key_file is not None):
            raise ConfigurationError("signer", "set key_file, or url, and not both")
        if self.url:
            self._verify_remote()
        elif any(each is not None for each in remote):
            raise ConfigurationError("signer", f"{', '.join(_REMOTE)} belong to url, which is not set")
        if not 0 < self.timeout_s <= _LONGEST_S:
            raise ConfigurationError("timeout_s", f"{self.timeout_s:g}: must be above 0 and at most {_LONGEST_S:g}")
        if self.max_fee_wei <= 0:
            raise ConfigurationError("max_fee_wei", f"{self.max_fee_wei}: must be above 0")

    @property
    def lock_file(self) -> Path:
        """The file that one process uses at a time: the account key, or the client key for the remote signer."""
        found = self.key_file or self.client_key_file
        assert found is not None, "checked above"
        return found

    def _verify_remote(self) -> None:
        missing = [name for name in _REMOTE if getattr(self, name) is None]
        if missing:
            raise ConfigurationError("signer", f"url also needs {', '.join(missing)}")
        if self.password_file is not None:
            raise ConfigurationError("password_file", "belongs to key_file: a remote signer knows its own password")
        try:
            parts = urlsplit(self.url)
            named = parts.scheme == "https" and parts.hostname and parts.port != 0
        except ValueError:
            named = False
        if not named or parts.username is not None or parts.query or parts.fragment:
            raise ConfigurationError("url", "is not https://host:port: a remote signer needs TLS, and a URL holds no secret")


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

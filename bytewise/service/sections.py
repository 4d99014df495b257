"""Sections that the settings files of several actors have: `[chain]`, `[da]`, `[signer]`, `[db]`, `[metrics]`, `[housekeeping]`,
`[backup]`, `[checkpoints]` and `[capsules]`.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import U256, Address
from bytewise.service.secret import read_secret
from bytewise.service.settings import DatabaseUrl, Endpoints, rpc_endpoints, verify_http_url

SCHEMA_VERSION = 1
"""Version of the format of settings files."""
_REMOTE = ("account", "ca_file", "client_cert_file", "client_key_file")
_LONGEST_S = 5.0
_CEILING_WEI = U256(100 * 10**18)


@dataclass(frozen=True, slots=True)
class ChainSettings:
    """Section `[chain]`: the chain nodes that the process uses."""

    rpc_url: str = ""
    """JSON-RPC URL of one chain node. Set this or `rpc_urls`."""
    rpc_urls: tuple[str, ...] = ()
    """JSON-RPC URLs of several chain nodes, best of different providers. The process acts only on answers on which `rpc_quorum`
    of them agree."""
    rpc_quorum: int = 0
    """Number of chain nodes in `rpc_urls` that must agree. 0 means more than half."""
    timeout_s: float = 10.0
    """Longest time of one request to a chain node, in seconds."""
    poll_s: float = 1.0
    """Seconds between two reads of the chain. It has no effect in a monitor, which reads the chain every `check_s` seconds."""
    confirmations: int = 2
    """Number of blocks after which one of the account's transactions counts as confirmed. It has no effect in a dashboard or
    monitor, because they send none."""

    def __post_init__(self) -> None:
        # Reports an error in these settings at the start.
        _ = self.rpc

    @property
    def rpc(self) -> Endpoints:
        """The chain nodes in these settings, and how many of them must agree."""
        return rpc_endpoints(self.rpc_url, self.rpc_urls, self.rpc_quorum)


@dataclass(frozen=True, slots=True)
class DaSettings:
    """Section `[da]`: where envelopes and lists are stored."""

    urls: tuple[str, ...]
    """URLs of EigenDA proxies, or of Bytewise's own DA stores, in order of preference."""
    timeout_s: float = 10.0
    """Longest time of one request to a DA store, in seconds, above 0."""

    def __post_init__(self) -> None:
        if not self.urls:
            raise ConfigurationError("urls", "none: name at least one EigenDA proxy")
        for each in self.urls:
            verify_http_url("urls", each, "an EigenDA proxy or store")
        if not self.timeout_s > 0:
            raise ConfigurationError("timeout_s", f"{self.timeout_s:g}: must be above 0")


@dataclass(frozen=True, slots=True)
class SignerSettings:
    """Section `[signer]`: the account that signs and pays. Its key is in a local file or at a remote signer."""

    key_file: Path | None = None
    """File with the account key: a Web3 keystore (version 3), or 32 bytes in hex. Only the owner may read it. Set this or
    `url`."""
    password_file: Path | None = None
    """File with the password of the keystore. Only the owner may read it."""
    url: str = ""
    """URL `https://…` of a remote signer with web3signer's REST interface. It needs the next four settings."""
    account: Address | None = None
    """Account whose key the remote signer has."""
    ca_file: Path | None = None
    """File with the certificate of the remote signer or of its authority, PEM."""
    client_cert_file: Path | None = None
    """File with the client certificate that this node shows to the remote signer, PEM."""
    client_key_file: Path | None = None
    """File with the private key of the client certificate, PEM, unencrypted. Only the owner may read it."""
    timeout_s: float = 3.0
    """Longest time of one signature by the remote signer, with all tries, in seconds. At most 5, because a write to
    the database waits for the signature."""
    max_value_wei: U256 = _CEILING_WEI
    """Most wei that one transaction may send. The node signs no transaction with more, wherever the key is."""
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
        """The file that only one process uses at a time: the account key, or the client key for the remote signer."""
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
    """File with the Ed25519 key that signs the journal. The node makes it at the first start."""
    url: DatabaseUrl | None = None
    """`sqlite:///FILE` or `postgresql+psycopg://…`: a migrated database that no other node uses. Set this or `url_file`."""
    url_file: Path | None = None
    """File that contains the URL, for a URL with a password. Only the owner may read it. Set this or `url`."""

    def __post_init__(self) -> None:
        if (self.url is None) == (self.url_file is None):
            raise ConfigurationError("database", "set url, or url_file, and not both")

    @property
    def location(self) -> str:
        """The URL of the database. Raises `ConfigurationError` if `url_file` is missing or other users may read it."""
        if self.url_file is not None:
            return read_secret(self.url_file).reveal().decode().strip()
        return self.url or ""


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """Section `[checkpoints]`: where the node stores signed checkpoints of its journal. Give copies to other people. Whoever
    has a copy of a checkpoint can show later whether an entry that the checkpoint covers was changed."""

    folder: Path
    """Folder of the checkpoints. The node makes it if it is missing. A file is named after the number of entries."""
    every_s: int = 3600
    """Seconds between two checkpoints. No checkpoint is made while the journal has no new entry."""
    most: int = 1000
    """Most checkpoints that are stored. The oldest files are deleted first. A checkpoint takes some 5 kB."""

    def __post_init__(self) -> None:
        if self.most < 1 or self.every_s < 1:
            raise ConfigurationError("checkpoints", "most and every_s must be at least 1")


DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class HousekeepingSettings:
    """Section `[housekeeping]`: how long the process keeps records. A record that a dispute, a demand, a penalty or a
    transaction can still need is never deleted, however short these times are. Votes and the journal are kept for ever."""

    every_s: int = 600
    """Seconds between two runs of housekeeping."""
    receipts_days: int = 90
    """Days for which batches, receipts and light audits are kept at least."""
    envelopes_days: int = 0
    """Days for which ciphertext is kept at least. With 0 it is kept only as long as its receipt can be disputed."""
    duties_days: int = 365
    """Days for which ended duties are kept at least."""
    transactions_days: int = 90
    """Days for which ended transactions are kept at least."""

    def __post_init__(self) -> None:
        if self.every_s < 1:
            raise ConfigurationError("every_s", "must be at least 1")
        if min(self.receipts_days, self.envelopes_days, self.duties_days, self.transactions_days) < 0:
            raise ConfigurationError("housekeeping", "days must not be negative")


@dataclass(frozen=True, slots=True)
class BackupSettings:
    """Section `[backup]`: backups that the process makes by itself. Copy the backups to another machine."""

    folder: Path
    """Folder of the backups, best on another disk. The folder must exist. Only the owner may read it, because backups contain
    keys. Without the folder the node runs, but its check `backup_age` fails."""
    every_h: int = 24
    """Hours between two backups."""
    keep: int = 7
    """Number of the newest backups that are kept. Older backups are deleted."""

    def __post_init__(self) -> None:
        if self.every_h < 1 or self.keep < 1:
            raise ConfigurationError("backup", "every_h and keep must be at least 1")


@dataclass(frozen=True, slots=True)
class CapsuleSettings:
    """Section `[capsules]`: where the node stores evidence capsules of disputes that are over."""

    folder: Path
    """Folder of the capsules. The node makes it if it is missing. A file is named after its dispute."""
    most: int = 1000
    """Most capsules of disputes that are stored. Those of the disputes that ended first are deleted. A capsule of a verdict takes
    some 50 kB."""
    every_s: int = 60
    """Seconds between two searches for disputes that are over. Keep it far below the time of 8,191 blocks, because the events of
    votes in older blocks, and so their quotes, cannot be proven."""
    finality: str = "finalized"
    """Block at which the capsule proves the state: finalized, safe or latest."""

    def __post_init__(self) -> None:
        if self.most < 1 or self.every_s < 1:
            raise ConfigurationError("capsules", "most and every_s must be at least 1")
        verify_finality("capsules.finality", self.finality)


def verify_finality(name: str, tag: str) -> None:
    """Raises `ConfigurationError` unless `tag`, the value of the setting or option `name`, is the tag of a block."""
    if tag not in ("finalized", "safe", "latest"):
        raise ConfigurationError(name, f"{tag} is none of finalized, safe, latest")


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Section `[metrics]`: where the process serves `/metrics`, `/livez`, `/readyz` and `/version`. Without this section it does
    not serve them."""

    host: str = "127.0.0.1"
    """Address to listen on. Anybody who can connect to it can read all metrics, so keep it on a private network."""
    port: int = 9464
    """TCP port. With 0 the system chooses a port, and the log line `metrics.served` names it."""

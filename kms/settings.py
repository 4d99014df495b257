"""Settings of a shard and of key ceremonies, in files that `bytewise.service.settings.load_settings` reads."""

from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.assurance import HARDWARE, SIMULATED
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.suites import is_key_epoch
from bytewise.protocol.units import U64, ZERO_ADDRESS, Address, Digest, address
from bytewise.service.sections import MetricsSettings
from bytewise.service.settings import DatabaseUrl, Endpoints, rpc_endpoints
from kms.storage.sealing import LIMIT_S, StorageKeySource


@dataclass(frozen=True, slots=True)
class ApproveSettings:
    """Settings of `bytewise key approve`, which signs an appraisal policy with a governor's key."""

    policy_file: Path
    """File with the policy to approve, as canonical JSON."""
    key_file: Path
    """File with the governor's key: 0x and hex digits, or a keystore with `password_file`."""
    out_file: Path
    """File of the signed policy. The command makes it, or adds a signature to it."""
    before_file: Path | None = None
    """File with the policy before this one, if there is one. With this setting, the command prints the changes before it
    signs."""
    password_file: Path | None = None
    """File with the password of the governor's key, if that is a keystore."""


@dataclass(frozen=True, slots=True)
class CeremonySettings:
    """Settings of a ceremony's coordinator, for `bytewise key dkg`, `reshare` and `repair`."""

    epoch: U64
    """Number of the key epoch. It selects the cipher suite (`bytewise.protocol.suites`)."""
    threshold: int
    """Number of shares that open an envelope after the ceremony. In a repair, it is the threshold of the epoch."""
    quorum: int
    """Fewest receivers that must prove their share. In a repair, it is the fewest helpers that must join."""
    reveal_budget: int
    """Most receivers whose values may become public by false complaints. It must be below the threshold."""
    assurance: str
    """Assurance of the key epoch, `simulated` or `hardware`."""
    phase_s: float
    """Most seconds for which a phase waits for silent shards."""
    network_file: Path
    """Address book of the network."""
    coordinator_key_file: Path
    """File with the key of the coordinator's account, which signs the log."""
    database_url: DatabaseUrl
    """Database of the coordinator. `bytewise key` migrates it. Write no password into it: PostgreSQL's library reads the password
    from `~/.pgpass`."""
    plan_file: Path
    """File of the signed plan. The command writes it before the ceremony begins. If the file exists, the command continues its
    ceremony."""
    out_file: Path
    """File to which the epoch document is written."""
    entries: tuple[Path, ...] = ()
    """Files with the entries of the receivers (`bytewise shard init`), in order of their indices. A refresh or repair has
    none."""
    source_file: Path | None = None
    """File with the epoch document of the shares that are dealt again or repaired."""
    source_version: int = 0
    """Version of these shares: how often the key was dealt again before."""
    repair_index: int = 0
    """Index of the shard that lost its share, in a repair."""
    coordinator_password_file: Path | None = None
    """File with the password of the coordinator's key, if that is a keystore. Without it the command asks for the password."""

    def __post_init__(self) -> None:
        if not 0 < self.phase_s <= MAX_PHASE_S:
            raise ConfigurationError("phase_s", self.phase_s)
        if not is_key_epoch(self.epoch):
            why = f"{self.epoch} is no key epoch: the next one is the newest of `bytewise key list` and 1, `dkg --help` says more"
            raise ConfigurationError("epoch", why)
        if not 0 <= self.source_version < 2**32:
            raise ConfigurationError("source_version", f"{self.source_version}: `bytewise key list` says how often")
        if self.assurance not in (SIMULATED, HARDWARE):
            raise ConfigurationError("assurance", f"{self.assurance}: {SIMULATED} or {HARDWARE}")


MAX_PHASE_S = 7 * 86_400.0
"""Largest allowed `phase_s`: seven days. A longer phase is a mistake."""


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """Settings of `bytewise shard run`."""

    host: str
    """Address to listen on."""
    port: int
    """TCP port."""
    folder: Path
    """Folder of this shard (`bytewise shard init`)."""
    epoch_file: Path
    """File with the public epoch document."""
    policy_file: Path
    """File with the appraisal policy, as canonical JSON. It is signed (`SignedPolicy`) if there are governors, and unsigned
    otherwise."""
    network_file: Path
    """Address book of the network."""
    database_url: DatabaseUrl
    """Database of this shard. The program that starts the shard migrates it. Write no password into it: PostgreSQL's library
    reads the password from `~/.pgpass`."""
    channel_port: int
    """TCP port of the shard's attested channels, at the same address."""
    audits_per_epoch: int
    """Most distinct audits that this shard serves in one epoch. The limit does not apply to dispute seats."""
    production: bool
    """Whether to refuse simulated evidence, policies and epochs, the simulator itself, and blocks that are not final."""
    rpc_url: str = ""
    """JSON-RPC address of one chain node. Set this or `rpc_urls`."""
    rpc_urls: tuple[str, ...] = ()
    """JSON-RPC addresses of several nodes, preferably of different providers. The shard acts only on answers on which
    `rpc_quorum` of them agree."""
    rpc_quorum: int = 0
    """Number of `rpc_urls` that must agree. With 0, it is more than half."""
    evidence: EvidenceType | None = None
    """Kind of evidence that attests the shard to enclaves: `tdx`, `snp` or `simulated`. A shard with an epoch needs it."""
    platform_file: Path | None = None
    """Key file of the simulated platform (evidence `simulated` only)."""
    endorsements: Path | None = None
    """Folder of collateral or certificates that the machine's owner keeps current (evidence `tdx` and `snp`)."""
    insecure_accept_simulated: bool = False
    """Whether evidence `simulated` is accepted. Without this switch it is refused."""
    policy_governors: tuple[Address, ...] = ()
    """Accounts of the governors that sign policies. The list may be empty only on a test chain, if epoch and evidence are
    simulated."""
    policy_threshold: int = 0
    """Number of governors that must sign a policy."""
    coordinator: str = ""
    """Account of the coordinator whose key ceremonies this shard joins. If empty, the shard joins none. A shard without an epoch
    file only takes part in ceremonies."""
    approved_plans: tuple[Digest, ...] = ()
    """Digests of the ceremony plans that may give shares of this shard's key to shards that the chain does not name."""
    refresh_days: int = 180
    """Days after which the shares in force should be dealt again; 0 means never. The shard only reminds, with log event
    `share.refresh_due` and check `share_age` of `bytewise doctor` and `bytewise status`."""
    release_shares: bool = False
    """Whether the shard serves rebuilt epochs (ADR-040). It then gives its share to enclaves."""
    storage_key_file: Path | None = None
    """File with the storage key, which seals the shares. By default it is `storage.key` in the folder."""
    wrap_command: tuple[str, ...] = ()
    """Program and arguments that wrap the storage key (`kms.storage.sealing`). They get the key on stdin and print the wrapped
    key."""
    unwrap_command: tuple[str, ...] = ()
    """Program and arguments that unwrap the storage key. They run at each start."""
    wrap_limit_s: float = LIMIT_S
    """Most seconds that either of the two commands may take."""
    metrics: MetricsSettings | None = None
    """Address at which metrics and probes are served. Without this section they are not served."""
    finality: str = "finalized"
    """Kind of block that decides a release: `finalized` (design section 8), or `latest` on a chain without finality."""

    def __post_init__(self) -> None:
        if self.finality not in ("finalized", "latest"):
            raise ConfigurationError("shard", f"finality {self.finality}")
        if self.production and self.finality != "finalized":
            raise ConfigurationError("shard", f"finality {self.finality} in production")
        if self.refresh_days < 0:
            raise ConfigurationError("refresh_days", f"{self.refresh_days}: 0 or more days")
        if self.production and not self.policy_governors:
            raise ConfigurationError("shard", "no policy_governors in production")
        try:
            address(self.coordinator or ZERO_ADDRESS)
        except MalformedValue:
            raise ConfigurationError(
                "coordinator", f"{self.coordinator[:60]} is no account: give 0x and 40 hex digits, or leave it empty"
            ) from None
        # Reports an error in these settings at the start.
        _ = self.rpc, self.sealing

    @property
    def rpc(self) -> Endpoints:
        """JSON-RPC endpoints of the chain, from `rpc_url` or `rpc_urls`."""
        return rpc_endpoints(self.rpc_url, self.rpc_urls, self.rpc_quorum)

    @property
    def sealing(self) -> StorageKeySource:
        """Place of the storage key, with the commands that wrap and unwrap it."""
        return StorageKeySource(self.storage_key_file, self.wrap_command, self.unwrap_command, self.wrap_limit_s)

"""Settings of a shard and of key ceremonies (files read by `bytewise.service.settings.load_settings`)."""

from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.assurance import HARDWARE, SIMULATED
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.suites import is_key_epoch
from bytewise.protocol.units import U64, ZERO_ADDRESS, Address, Digest, address
from bytewise.service.listener import MetricsSettings
from bytewise.service.settings import DatabaseUrl, Endpoints, rpc_endpoints
from kms.storage.sealing import LIMIT_S, StorageKeySource


@dataclass(frozen=True, slots=True)
class ApproveSettings:
    """Settings of `bytewise key approve`, which signs an appraisal policy with a governor's key."""

    policy_file: Path
    """The policy to approve, canonical JSON."""
    key_file: Path
    """The governor's key, as 0x-hex."""
    out_file: Path
    """The signed policy. The command makes the file, or adds a signature to it."""
    before_file: Path | None = None
    """The policy before it, if there is one: the command prints what changes before it signs."""


@dataclass(frozen=True, slots=True)
class CeremonySettings:
    """Settings of a ceremony's coordinator: `bytewise key dkg`, `reshare` and `repair`."""

    epoch: U64
    """Key epoch. Its number selects the suite (`bytewise.protocol.suites`)."""
    threshold: int
    """Number of shares that open an envelope after the ceremony. In a repair, the threshold of the epoch."""
    quorum: int
    """Fewest receivers that must prove their share. In a repair, fewest helpers that must send their value."""
    reveal_budget: int
    """Most receivers whose values may become public by false complaints; below the threshold."""
    assurance: str
    """`simulated` or `hardware`."""
    phase_s: float
    """Longest time in seconds that a phase waits for silent shards."""
    network_file: Path
    """Address book of the network."""
    coordinator_key_file: Path
    """Key file of the coordinator's account, which signs the log."""
    database_url: DatabaseUrl
    """The coordinator's own database; `bytewise key` migrates it."""
    plan_file: Path
    """The signed plan. It is written before the ceremony begins; if the file exists, the command continues its ceremony."""
    out_file: Path
    """Where the epoch document is written."""
    entries: tuple[Path, ...] = ()
    """Entries of the receivers (`bytewise shard init`), in order of their indices; none in a refresh or repair."""
    source_file: Path | None = None
    """Epoch document of the shares to deal again or to repair."""
    source_version: int = 0
    """Version of these shares: how often they were dealt again before."""
    repair_index: int = 0
    """In a repair, index of the shard that lost its share."""

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
"""A longer phase is a mistake."""


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """Settings of `bytewise shard run`."""

    host: str
    """Address to listen on."""
    port: int
    """TCP port."""
    folder: Path
    """This shard's folder (`bytewise shard init`)."""
    epoch_file: Path
    """Public epoch document."""
    policy_file: Path
    """Appraisal policy, canonical JSON: signed (`SignedPolicy`) where there are governors, unsigned otherwise."""
    network_file: Path
    """Address book of the network."""
    database_url: DatabaseUrl
    """This shard's own database; the starter migrates it."""
    channel_port: int
    """TCP port of its attested channels, at the same address."""
    audits_per_epoch: int
    """Most distinct audits that this shard serves in one epoch. Dispute seats are served without this limit."""
    production: bool
    """Refuses simulated evidence, policies and epochs, the simulator itself, and blocks that are not final."""
    rpc_url: str = ""
    """JSON-RPC of one chain node. Set this or `rpc_urls`."""
    rpc_urls: tuple[str, ...] = ()
    """JSON-RPC of several nodes, best of different providers. The shard acts only on answers that `rpc_quorum` of them agree
    on."""
    rpc_quorum: int = 0
    """How many of `rpc_urls` must agree; 0: more than half."""
    evidence: EvidenceType | None = None
    """How the shard is attested to enclaves; needed once there is an epoch."""
    platform_file: Path | None = None
    """Key file of the simulated platform (evidence `simulated` only)."""
    endorsements: Path | None = None
    """Folder of collateral or certificates that the machine's owner keeps current (evidence `tdx` and `snp`)."""
    insecure_accept_simulated: bool = False
    """Allows evidence `simulated`; without this switch it is refused."""
    policy_governors: tuple[Address, ...] = ()
    """Accounts that sign policies. They may be empty only on a test chain where epoch and evidence are simulated."""
    policy_threshold: int = 0
    """How many of them must sign a policy."""
    coordinator: str = ""
    """Account whose key ceremonies this shard joins; if empty, it joins none. Without an epoch file the shard only takes part in
    ceremonies."""
    approved_plans: tuple[Digest, ...] = ()
    """Digests of the ceremony plans that may give shares of this shard's keys to shards that the chain does not name."""
    refresh_days: int = 180
    """Days after which the shares in force should be dealt again; 0: never. The shard only reminds: log event `share.refresh_due`
    and check `share_age` of `bytewise doctor` and `bytewise status`."""
    release_shares: bool = False
    """Whether the shard serves key epochs whose key enclaves rebuild (ADR-038): it gives them its share."""
    storage_key_file: Path | None = None
    """File with the key that seals its shares; by default `storage.key` in the folder."""
    wrap_command: tuple[str, ...] = ()
    """Program and arguments that wrap that key (`kms.storage.sealing`): the key on stdin, the wrapped key on stdout."""
    unwrap_command: tuple[str, ...] = ()
    """Program and arguments that unwrap it; run once at each start."""
    wrap_limit_s: float = LIMIT_S
    """Longest time in seconds that either of them may take."""
    metrics: MetricsSettings | None = None
    """Where metrics and probes are served. Without this section they are not served."""
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
        """The chain's endpoints."""
        return rpc_endpoints(self.rpc_url, self.rpc_urls, self.rpc_quorum)

    @property
    def sealing(self) -> StorageKeySource:
        """Where the storage key is."""
        return StorageKeySource(self.storage_key_file, self.wrap_command, self.unwrap_command, self.wrap_limit_s)

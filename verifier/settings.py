"""Settings of a duty process: `bytewise verifier run` and `bytewise member run` read the same file format."""

import enum
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from bytewise.protocol.decisions.demands import DemandPolicy
from bytewise.protocol.decisions.disputes import MovePolicy, VotePolicy
from bytewise.protocol.decisions.strategies import BUILT_IN, OBSERVE, WatchPolicy
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import Address
from bytewise.service.capsules import CapsuleSettings
from bytewise.service.checkpoints import CheckpointSettings
from bytewise.service.housekeeping import BackupSettings, HousekeepingSettings
from bytewise.service.listener import MetricsSettings
from bytewise.service.sections import SCHEMA_VERSION, ChainSettings, DaSettings, DatabaseSettings, SignerSettings
from bytewise.service.settings import OtherProcess


class Role(enum.StrEnum):
    """Role of the process."""

    WATCHTOWER = "watchtower"
    """Checks receipts and challenges on posted audits; no stake, no enclave."""
    VERIFIER = "verifier"
    """Checks receipts and runs light audits in its enclave."""
    MEMBER = "member"
    """A verifier that also votes in the disputes for which it is drawn."""


@dataclass(frozen=True, slots=True)
class HintListener:
    """Section `[hint_listener]`: address at which a watchtower receives hints."""

    port: int
    """TCP port."""
    certificate_file: Path
    """TLS certificate, PEM; auditors pin it."""
    tls_key_file: Path
    """Private key of the certificate, PEM, mode 0600."""
    host: str = "127.0.0.1"
    """Address to listen on."""


LONGEST_DEADLINE_S = 5.0
"""Longest deadline of a strategy. A tick waits for it, and other duties wait for the tick."""
_PEER_KEY = re.compile(r"0x[0-9a-f]{64}0x[0-9a-f]{128}")
_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Section `[policy]`: the node's own initiatives."""

    strategy: str = OBSERVE
    """Strategy of a watchtower: `observe` decides as `defend` and sends nothing; `defend` disputes what two drawn auditors
    contradict; `hunt` disputes at the first contradiction; `module:Class` is a strategy of your own. All but `observe` also
    demand withheld data and report equivocation. A verifier's duties do not depend on it."""
    strategy_folder: Path | None = None
    """Folder of the module of your own strategy, unless it is installed."""
    strategy_deadline_s: float = 1.0
    """Seconds of wall clock after which your own strategy is killed and started again if it has not answered an event."""
    dry_run: bool = False
    """Whether a watchtower only logs what it would do, with any strategy, and sends nothing."""
    audits: bool = True
    """Whether a verifier runs and posts the light audits for which it is drawn."""
    challenges: bool = True
    """Whether a watchtower asks its strategy and opens disputes."""
    demands: bool = True
    """Whether a watchtower also demands withheld data. Every other node only ends unanswered demands."""
    fetch_deadline_s: int = 60
    """Seconds of chain time after anchoring after which missing bytes become the finding `Withheld`."""
    audit_margin_s: int = 5
    """Seconds of chain time before the end of the window in which no audit starts any more."""

    def __post_init__(self) -> None:
        if self.strategy not in BUILT_IN and not _CLASS.fullmatch(self.strategy):
            known = ", ".join(BUILT_IN)
            raise ConfigurationError(
                "policy.strategy", f"{self.strategy[:80]!r}: use one of {known}, or module:Class of your own"
            )
        if not 0 < self.strategy_deadline_s <= LONGEST_DEADLINE_S:
            raise ConfigurationError("policy.strategy_deadline_s", f"must be above 0 and at most {LONGEST_DEADLINE_S}")


class ExecutorKind(enum.StrEnum):
    """Where jobs run."""

    LOCAL = "local"
    """In enclaves of this machine."""
    RAY = "ray"
    """In enclaves of this machine, and of a Ray cluster behind the bridge."""


@dataclass(frozen=True, slots=True)
class ExecutorSettings:
    """Section `[executor]`: how the duty process reaches its enclave."""

    socket: Path
    """Job socket of the enclave."""
    next_socket: Path | None = None
    """Job socket of a second enclave beside the first: the next release during an upgrade, or another model."""
    further_sockets: tuple[Path, ...] = ()
    """Job sockets of further enclaves. Each runs jobs at the same time as the first."""
    prepare_timeout_s: float = 30.0
    """Seconds for which the enclave may be busy with another job."""
    kind: ExecutorKind = ExecutorKind.LOCAL
    """`local`, or `ray`: then the cluster also runs jobs. While it is away, the own enclave goes on."""
    bridge_socket: Path | None = None
    """Socket of the bridge (`python -m verifier.cluster`); kind `ray` needs it."""
    cluster_jobs: int = 1
    """Jobs that may run in the cluster at once: the number of its agents."""

    def __post_init__(self) -> None:
        if (self.kind is ExecutorKind.RAY) != (self.bridge_socket is not None):
            raise ConfigurationError("executor.bridge_socket", "kind ray needs it, and kind local has none")
        if not 1 <= self.cluster_jobs <= 1024:
            raise ConfigurationError("executor.cluster_jobs", "must be from 1 to 1024")


@dataclass(frozen=True, slots=True)
class HintSettings:
    """Section `[hints]`: watchtowers to which an auditor sends its findings."""

    urls: tuple[str, ...]
    """Addresses of the watchtowers, each `https://…`."""
    certificate_file: Path
    """File with the certificates of the watchtowers, PEM."""


_UNIX = "unix:"
GOSSIP_OFF = "off"


@dataclass(frozen=True, slots=True)
class GossipSettings:
    """Section `[gossip]`: messages between members, which make verdict certificates, and hints to watchtowers. Everything also
    works without it."""

    process: str = GOSSIP_OFF
    """`off`, or `unix:` and the path of the socket of the gossip process (`python -m gossip`)."""
    bls_key_file: Path | None = None
    """Key of a member for certificates, 32 bytes in hex; made with mode 0600 if it is missing. The member registers it itself. In
    another pool it makes another one in a file beside it, `bls-2.key` beside `bls.key`."""
    peers_file: Path | None = None
    """`peers.json`, which this process writes for the gossip process."""
    identities_folder: Path | None = None
    """Folder of the identities of members, a file each. This process writes its own there; send it to the other members."""
    peer_key: str = ""
    """Public key of the own gossip process, as `python -m gossip --identity ACCOUNT` prints it."""
    peer_proof: str = ""
    """Signature of that key for the own account, printed beside it."""
    addresses: tuple[str, ...] = ()
    """Multiaddresses at which other members reach the own gossip process, for example `/ip4/192.0.2.1/tcp/4001`."""
    python_file: Path | None = None
    """Python of the gossip process's environment. With it `bytewise run` starts that process too."""
    settings_file: Path | None = None
    """`gossip.toml`, the settings with which `bytewise run` starts the gossip process."""
    envelopes_folder: Path | None = None
    """The gossip process's `envelopes_folder`. Through it seats pass each other ciphertext that DA does not give."""
    watchtowers: tuple[Address, ...] = ()
    """Accounts of watchtowers that hear the hints of auditors over gossip. Their identities are taken although they are in no
    pool."""

    def __post_init__(self) -> None:
        if (self.python_file is None) != (self.settings_file is None):
            raise ConfigurationError("gossip", "python_file and settings_file: set both, or neither")
        if self.process == GOSSIP_OFF:
            return
        if not self.process.removeprefix(_UNIX) or not self.process.startswith(_UNIX):
            raise ConfigurationError("gossip.process", f"{self.process[:80]!r}: use {GOSSIP_OFF}, or {_UNIX} and a path")
        if self.peers_file is None or self.identities_folder is None or not _PEER_KEY.fullmatch(self.peer_key + self.peer_proof):
            raise ConfigurationError("gossip", "needs peers_file, identities_folder, peer_key and peer_proof")

    @property
    def socket(self) -> Path | None:
        """Path of the gossip process's socket, or None if gossip is off."""
        return None if self.process == GOSSIP_OFF else Path(self.process.removeprefix(_UNIX))


@dataclass(frozen=True, slots=True)
class AttentionSettings:
    """Section `[attention]`: revealed attention tests that the node scores; `bytewise status` shows its own score."""

    folder: Path
    """Folder of the reveals: a file `….json` each, as `bytewise attention reveal` writes it. Each is verified against the
    chain."""
    every_s: int = 3600
    """Seconds between two looks for new reveals."""

    def __post_init__(self) -> None:
        if self.every_s < 1:
            raise ConfigurationError("attention.every_s", "must be at least 1")


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Settings of one duty process. Times are seconds of wall clock unless they say chain time."""

    role: Role
    """Role of the process."""
    network_file: Path
    """Address book."""
    chain: ChainSettings
    da: DaSettings
    signer: SignerSettings
    db: DatabaseSettings
    schema_version: int = SCHEMA_VERSION
    """Version of this file's format."""
    policy: PolicySettings = field(default_factory=PolicySettings)
    executor: ExecutorSettings | None = None
    """Required for the roles verifier and member."""
    inbox_folder: Path | None = None
    """Folder in which clients' receipts are put: the `receipt.signed` member of an answer, a file `….json` each."""
    hint_listener: HintListener | None = None
    """Where a watchtower receives hints of auditors about the verdict. Without hints it never earns the opener's share."""
    hints: HintSettings | None = None
    """Watchtowers to which a verifier sends the findings of its audits."""
    gossip: GossipSettings = field(default_factory=GossipSettings)
    """Messages between members."""
    moves: MovePolicy = field(default_factory=MovePolicy)
    """Limits for moves that any account may make."""
    votes: VotePolicy = field(default_factory=VotePolicy)
    """Limits for votes of own seats."""
    watch: WatchPolicy = field(default_factory=WatchPolicy)
    """Conditions under which a watchtower risks its bond."""
    demand: DemandPolicy = field(default_factory=DemandPolicy)
    """Conditions under which a watchtower risks the bond of a demand."""
    housekeeping: HousekeepingSettings = field(default_factory=HousekeepingSettings)
    """How long records are kept. A record that a dispute, a demand, a penalty or a transaction can still need is never
    deleted."""
    backup: BackupSettings | None = None
    """Backups that the process makes by itself; without the section, none."""
    attention: AttentionSettings | None = None
    """Revealed attention tests of which `bytewise status` shows the node's score."""
    capsules: CapsuleSettings | None = None
    """Where capsules of disputes that are over are kept. Without this section none are made."""
    checkpoints: CheckpointSettings | None = None
    """Where signed checkpoints of the journal are kept. Without this section none are made."""
    metrics: MetricsSettings | None = None
    """Where metrics and probes are served. Without this section they are not served."""
    enclave: OtherProcess | None = None
    """Section of the node's enclave process, which reads and checks it by itself."""
    collateral: OtherProcess | None = None
    """Section of the process that renews the collateral of the enclave's quotes."""
    ready_file: Path | None = None
    """File that is written after the first complete tick, for the program that started the process."""

    def __post_init__(self) -> None:
        if self.role in (Role.VERIFIER, Role.MEMBER) and self.executor is None:
            raise ConfigurationError("executor", f"role {self.role} needs one: the socket of its enclave")
        if self.schema_version != SCHEMA_VERSION:
            raise ConfigurationError("schema_version", f"{self.schema_version}: this program reads {SCHEMA_VERSION}")

    @property
    def watches(self) -> bool:
        """Whether the process checks every receipt by public records, and has no duties."""
        return self.role is Role.WATCHTOWER

    @property
    def demand_policy(self) -> DemandPolicy:
        """The conditions of section `[demand]`, with budget 0 for a node that makes no demands: any but a watchtower."""
        return self.demand if self.watches and self.policy.demands else replace(self.demand, budget_wei=0)

    @property
    def observes(self) -> bool:
        """Whether the process sends no transaction, for any finding."""
        only_looks = self.policy.dry_run or self.policy.strategy == OBSERVE
        return self.role is Role.WATCHTOWER and only_looks

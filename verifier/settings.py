"""Settings of a duty process. `bytewise verifier run` and `bytewise member run` read the same file format."""

import enum
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from bytewise.protocol.decisions.demands import DemandPolicy
from bytewise.protocol.decisions.disputes import MovePolicy, VotePolicy
from bytewise.protocol.decisions.strategies import BUILT_IN, OBSERVE, WatchPolicy
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import Address
from bytewise.service.sections import (
    SCHEMA_VERSION,
    BackupSettings,
    CapsuleSettings,
    ChainSettings,
    CheckpointSettings,
    DaSettings,
    DatabaseSettings,
    HousekeepingSettings,
    MetricsSettings,
    SignerSettings,
)
from bytewise.service.settings import OtherProcess, paths_of, verify_http_url


class Role(enum.StrEnum):
    """Role of the process."""

    WATCHTOWER = "watchtower"
    """A program without stake and enclave that checks receipts and challenges on posted audits."""
    VERIFIER = "verifier"
    """An account with stake that checks receipts and runs light audits in its enclave."""
    MEMBER = "member"
    """A verifier that also votes in the disputes for which it is drawn."""


@dataclass(frozen=True, slots=True)
class HintListener:
    """Section `[hint_listener]`: address at which a watchtower receives the hints of auditors."""

    port: int
    """TCP port."""
    certificate_file: Path
    """TLS certificate, PEM. Auditors accept only this certificate."""
    tls_key_file: Path
    """Private key of the certificate, PEM, mode 0600."""
    host: str = "127.0.0.1"
    """Address to listen on."""


LONGEST_DEADLINE_S = 5.0
"""Largest allowed `strategy_deadline_s`. A tick waits for the strategy, and other duties wait for the tick."""
_PEER_KEY = re.compile(r"0x[0-9a-f]{64}0x[0-9a-f]{128}")
_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Section `[policy]`: actions that the node takes on its own initiative."""

    strategy: str = OBSERVE
    """Strategy of a watchtower. `observe` decides as `defend` and sends nothing. `defend` disputes a receipt that two drawn
    auditors contradict; `hunt` disputes at the first contradiction; `module:Class` names a strategy of your own. Every strategy
    but `observe` also demands withheld data and reports equivocation. A verifier's duties do not depend on the strategy."""
    strategy_folder: Path | None = None
    """Folder with the module of your own strategy. Leave it out if the module is installed."""
    strategy_deadline_s: float = 1.0
    """Seconds of wall clock for one answer of your own strategy. A strategy that takes longer is killed and started again."""
    dry_run: bool = False
    """Whether a watchtower only logs the actions that it would take. It then sends nothing, with any strategy."""
    audits: bool = True
    """Whether a verifier runs and posts the light audits for which it is drawn."""
    challenges: bool = True
    """Whether a watchtower asks its strategy and opens disputes."""
    demands: bool = True
    """Whether a watchtower also demands withheld data. All other nodes only end unanswered demands."""
    fetch_deadline_s: int = 60
    """Seconds of chain time from anchoring until missing bytes become the finding `Withheld`."""
    audit_margin_s: int = 5
    """Seconds of chain time at the end of the challenge window in which no audit starts."""

    def __post_init__(self) -> None:
        if self.strategy not in BUILT_IN and not _CLASS.fullmatch(self.strategy):
            known = ", ".join(BUILT_IN)
            raise ConfigurationError(
                "policy.strategy", f"{self.strategy[:80]!r}: use one of {known}, or module:Class of your own"
            )
        if not 0 < self.strategy_deadline_s <= LONGEST_DEADLINE_S:
            raise ConfigurationError("policy.strategy_deadline_s", f"must be above 0 and at most {LONGEST_DEADLINE_S}")


class ExecutorKind(enum.StrEnum):
    """Place where jobs run."""

    LOCAL = "local"
    """Jobs run in enclaves of this machine."""
    RAY = "ray"
    """Jobs run in enclaves of this machine and of a Ray cluster behind the bridge."""


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
    """Seconds to wait while the enclave is busy with another job, above 0."""
    kind: ExecutorKind = ExecutorKind.LOCAL
    """`local`, or `ray` to run jobs in a cluster, too. While the cluster is away, the enclaves of this machine go on."""
    bridge_socket: Path | None = None
    """Socket of the bridge (`python -m verifier.cluster`). Kind `ray` needs it."""
    cluster_jobs: int = 1
    """Number of jobs that may run in the cluster at once, which is the number of its agents."""

    def __post_init__(self) -> None:
        if (self.kind is ExecutorKind.RAY) != (self.bridge_socket is not None):
            raise ConfigurationError("executor.bridge_socket", "kind ray needs it, and kind local has none")
        if not 1 <= self.cluster_jobs <= 1024:
            raise ConfigurationError("executor.cluster_jobs", "must be from 1 to 1024")
        if not self.prepare_timeout_s > 0:
            raise ConfigurationError("executor.prepare_timeout_s", f"{self.prepare_timeout_s:g}: must be above 0")


@dataclass(frozen=True, slots=True)
class HintSettings:
    """Section `[hints]`: watchtowers to which an auditor sends its findings as hints."""

    urls: tuple[str, ...]
    """Addresses of the watchtowers, each `https://…`."""
    certificate_file: Path
    """File with the certificates of the watchtowers, PEM."""

    def __post_init__(self) -> None:
        for each in self.urls:
            if urlsplit(verify_http_url("hints.urls", each, "a watchtower")).scheme != "https":
                raise ConfigurationError("hints.urls", f"{each[:80]}: must begin with https://")


_UNIX = "unix:"
GOSSIP_OFF = "off"


@dataclass(frozen=True, slots=True)
class GossipSettings:
    """Section `[gossip]`: messages between members for verdict certificates, and hints to watchtowers. The node also works
    without gossip."""

    process: str = GOSSIP_OFF
    """`off`, or `unix:` and the absolute path of the socket of the gossip process (`python -m gossip`)."""
    bls_key_file: Path | None = None
    """File of a member's BLS key for certificates, 32 bytes in hex. The member makes it with mode 0600 if it is missing, and
    registers the key itself. For another pool it makes a key in a file beside it, for example `bls-2.key` beside `bls.key`."""
    peers_file: Path | None = None
    """Path of `peers.json`, which this process writes for the gossip process."""
    identities_folder: Path | None = None
    """Folder with one identity file for each member. This process writes its own file there; send that file to the other
    members."""
    peer_key: str = ""
    """Public key of this node's gossip process, as `python -m gossip --identity ACCOUNT` prints it."""
    peer_proof: str = ""
    """Signature by `peer_key` over this node's account, which the same command prints."""
    addresses: tuple[str, ...] = ()
    """Multiaddresses at which other members reach this node's gossip process, for example `/ip4/192.0.2.1/tcp/4001`."""
    python_file: Path | None = None
    """Python interpreter of the gossip process's environment. If it is set, `bytewise run` also starts the gossip process."""
    settings_file: Path | None = None
    """Path of `gossip.toml`, the settings with which `bytewise run` starts the gossip process."""
    envelopes_folder: Path | None = None
    """The gossip process's `envelopes_folder`. Seats use it to pass each other ciphertext that DA does not give."""
    watchtowers: tuple[Address, ...] = ()
    """Accounts of watchtowers that receive the hints of auditors over gossip. Their identities are accepted although they are in
    no pool."""

    def __post_init__(self) -> None:
        if (self.python_file is None) != (self.settings_file is None):
            raise ConfigurationError("gossip", "python_file and settings_file: set both, or neither")
        if self.process == GOSSIP_OFF:
            return
        if not self.process.startswith(f"{_UNIX}/"):
            why = f"{self.process[:80]!r}: use {GOSSIP_OFF}, or {_UNIX} and an absolute path"
            raise ConfigurationError("gossip.process", why)
        if self.peers_file is None or self.identities_folder is None or not _PEER_KEY.fullmatch(self.peer_key + self.peer_proof):
            raise ConfigurationError("gossip", "needs peers_file, identities_folder, peer_key and peer_proof")

    @property
    def socket(self) -> Path | None:
        """Path of the gossip process's socket, or None if gossip is off."""
        return None if self.process == GOSSIP_OFF else Path(self.process.removeprefix(_UNIX))


@dataclass(frozen=True, slots=True)
class AttentionSettings:
    """Section `[attention]`: revealed attention tests in which the node is scored. `bytewise status` shows the score."""

    folder: Path
    """Folder with one file `….json` for each reveal, as `bytewise attention reveal` writes it. Each reveal is verified against
    the chain."""
    every_s: int = 3600
    """Seconds between two searches for new reveals."""

    def __post_init__(self) -> None:
        if self.every_s < 1:
            raise ConfigurationError("attention.every_s", "must be at least 1")


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Settings of one duty process. Times are seconds of wall clock unless their description says chain time."""

    role: Role
    """Role of the process: `watchtower`, `verifier` or `member`."""
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
    """Connection to the enclave. The roles verifier and member require it."""
    inbox_folder: Path | None = None
    """Folder for receipts of clients. Each receipt is a file `….json` with the `receipt.signed` member of an answer. Use the
    folder for nothing else: the node deletes every `….json` in it that is older than its other records. The node refuses a folder
    that another setting names, or that contains a file that another setting names."""
    hint_listener: HintListener | None = None
    """Address at which a watchtower receives hints of auditors about the verdict. Without hints it never earns the opener's
    share."""
    hints: HintSettings | None = None
    """Watchtowers to which a verifier sends the findings of its audits."""
    gossip: GossipSettings = field(default_factory=GossipSettings)
    """Connection to the gossip process."""
    moves: MovePolicy = field(default_factory=MovePolicy)
    """Limits for moves that any account may make."""
    votes: VotePolicy = field(default_factory=VotePolicy)
    """Limits for the votes of this account's seats."""
    watch: WatchPolicy = field(default_factory=WatchPolicy)
    """Conditions under which a watchtower risks its bond."""
    demand: DemandPolicy = field(default_factory=DemandPolicy)
    """Conditions under which a watchtower risks the bond of a demand."""
    housekeeping: HousekeepingSettings = field(default_factory=HousekeepingSettings)
    """Times for which records are kept. A record that a dispute, a demand, a penalty or a transaction can still need is never
    deleted."""
    backup: BackupSettings | None = None
    """Backups that the process makes by itself. Without this section it makes none."""
    attention: AttentionSettings | None = None
    """Revealed attention tests in which the node is scored. Without this section it is not scored."""
    capsules: CapsuleSettings | None = None
    """Folder and limits of the evidence capsules of ended disputes. Without this section none are made."""
    checkpoints: CheckpointSettings | None = None
    """Places for signed checkpoints of the journal. Without this section none are made."""
    metrics: MetricsSettings | None = None
    """Address at which metrics and probes are served. Without this section they are not served."""
    enclave: OtherProcess | None = None
    """Section for the node's enclave process. Only that process reads and checks it."""
    collateral: OtherProcess | None = None
    """Section for the process that renews the collateral of the enclave's quotes. Only that process reads it."""
    ready_file: Path | None = None
    """File that the process writes after the first complete tick, to signal the program that started it."""

    def __post_init__(self) -> None:
        if self.role in (Role.VERIFIER, Role.MEMBER) and self.executor is None:
            raise ConfigurationError("executor", f"role {self.role} needs one: the socket of its enclave")
        if self.schema_version != SCHEMA_VERSION:
            raise ConfigurationError("schema_version", f"{self.schema_version}: this program reads {SCHEMA_VERSION}")
        if self.inbox_folder is not None:
            self._verify_inbox(self.inbox_folder.resolve())

    def _verify_inbox(self, folder: Path) -> None:
        for _, each in paths_of(replace(self, inbox_folder=None)):
            if folder in (each.resolve(), each.resolve().parent):
                why = f"also has {each.name} of this node: name a folder of its own, because the node deletes old files in it"
                raise ConfigurationError("inbox_folder", why)

    @property
    def watches(self) -> bool:
        """True for a watchtower, which checks every receipt by public records and has no duties of a seat or auditor."""
        return self.role is Role.WATCHTOWER

    @property
    def demand_policy(self) -> DemandPolicy:
        """Conditions for demands: section `[demand]` for a watchtower that makes demands. For every other node the budget is
        0."""
        return self.demand if self.watches and self.policy.demands else replace(self.demand, budget_wei=0)

    @property
    def observes(self) -> bool:
        """True for a watchtower that sends no transaction, because of `dry_run` or the strategy `observe`."""
        only_looks = self.policy.dry_run or self.policy.strategy == OBSERVE
        return self.role is Role.WATCHTOWER and only_looks

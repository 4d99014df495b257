"""Settings of a duty process: `bytewise verifier run` and `bytewise member run` read the same file format."""

import enum
from dataclasses import dataclass, field
from pathlib import Path

from bytewise.protocol.decisions.audits import WatchPolicy
from bytewise.protocol.decisions.demands import DemandPolicy
from bytewise.protocol.decisions.disputes import MovePolicy, VotePolicy
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.housekeeping import HousekeepingSettings
from bytewise.service.listener import MetricsSettings
from bytewise.service.sections import SCHEMA_VERSION, ChainSettings, DaSettings, DatabaseSettings, SignerSettings
from bytewise.service.settings import OtherProcess


class Role(enum.StrEnum):
    """What the process does."""

    WATCHTOWER = "watchtower"
    """Checks receipts and challenges on posted audits; no stake, no enclave."""
    VERIFIER = "verifier"
    """Checks receipts and runs light audits in its enclave."""
    MEMBER = "member"
    """A verifier that also votes in the disputes for which it is drawn."""
    MONITOR = "monitor"
    """A watchtower that only observes. Its account is a name for its database and never needs money."""


@dataclass(frozen=True, slots=True)
class HintListener:
    """Section `[hint_listener]`: where a watchtower takes hints."""

    port: int
    """Port of its own."""
    certificate_file: Path
    """TLS certificate, PEM; auditors pin it."""
    tls_key_file: Path
    """Its private key, PEM, mode 0600."""
    host: str = "127.0.0.1"
    """Address to listen on."""


class Strategy(enum.StrEnum):
    """What a watchtower does about what it finds."""

    OBSERVE = "observe"
    """It checks and reports in its log and metrics, and sends no transaction."""
    CHALLENGE = "challenge"
    """It also opens disputes, demands what is withheld, and reports equivocation, within the limits of its sections."""


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Section `[policy]`: what the node does by itself."""

    strategy: Strategy = Strategy.OBSERVE
    """What a watchtower does about what it finds; a verifier's duties do not depend on it."""
    audits: bool = True
    """Whether a verifier runs and posts the light audits for which it is drawn."""
    challenges: bool = True
    """Whether a watchtower that challenges opens disputes."""
    demands: bool = True
    """Whether a watchtower that challenges demands what is withheld. Every other node only ends demands that nobody answered."""
    fetch_deadline_s: int = 60
    """Chain time after anchoring when missing bytes become the finding Withheld."""
    audit_margin_s: int = 5
    """Chain time before the end of the window when no audit starts any more."""


@dataclass(frozen=True, slots=True)
class ExecutorSettings:
    """Section `[executor]`: the own enclave, as the duty process reaches it."""

    socket: Path
    """Job socket of the enclave."""
    prepare_timeout_s: float = 30.0
    """How long the enclave may be busy with something else."""
    ticket_ttl_s: int = 120
    """Chain time for which a ticket is valid."""


@dataclass(frozen=True, slots=True)
class HintSettings:
    """Section `[hints]`: watchtowers that an auditor tells what it found."""

    urls: tuple[str, ...]
    """`https://…` each."""
    certificate_file: Path
    """Their certificates, PEM."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """One duty process. Times are seconds of wall clock unless they say chain time."""

    role: Role
    """What it does."""
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
    """Needed by the roles verifier and member."""
    inbox_folder: Path | None = None
    """Folder in which clients' receipts are put: the `receipt.signed` member of an answer, a file `….json` each."""
    hint_listener: HintListener | None = None
    """Where a watchtower hears from auditors what the verdict will say; without it the opener's share is never its own."""
    hints: HintSettings | None = None
    """Whom a verifier tells what its audits found."""
    moves: MovePolicy = field(default_factory=MovePolicy)
    """Moves that anybody may make."""
    votes: VotePolicy = field(default_factory=VotePolicy)
    """Own seats."""
    watch: WatchPolicy = field(default_factory=WatchPolicy)
    """When a watchtower risks its bond."""
    demand: DemandPolicy = field(default_factory=DemandPolicy)
    """When a watchtower risks the bond of a demand."""
    housekeeping: HousekeepingSettings = field(default_factory=HousekeepingSettings)
    """How long records are kept. What a dispute, a demand, a penalty or a transaction can still need is never deleted."""
    metrics: MetricsSettings | None = None
    """Where metrics and probes are served; without the section, nowhere."""
    enclave: OtherProcess | None = None
    """Section of the node's enclave process, which reads and checks it by itself."""
    collateral: OtherProcess | None = None
    """Section of the process that renews the collateral of the enclave's quotes."""
    ready_file: Path | None = None
    """Written after the first complete tick, for whoever started the process."""

    def __post_init__(self) -> None:
        if self.role in (Role.VERIFIER, Role.MEMBER) and self.executor is None:
            raise ConfigurationError("executor", f"role {self.role} needs one: the socket of its enclave")
        if self.schema_version != SCHEMA_VERSION:
            raise ConfigurationError("schema_version", f"{self.schema_version}: this program reads {SCHEMA_VERSION}")

    @property
    def watches(self) -> bool:
        """Whether it judges every receipt by public records, and has no duties."""
        return self.role in (Role.WATCHTOWER, Role.MONITOR)

    @property
    def observes(self) -> bool:
        """Whether it sends nothing, whatever it finds."""
        return self.role is Role.MONITOR or (self.role is Role.WATCHTOWER and self.policy.strategy is Strategy.OBSERVE)

"""Settings of an operator: one TOML file, `BYTEWISE__SECTION__KEY` overrides."""

from dataclasses import dataclass, field
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.listener import MetricsSettings
from bytewise.service.sections import SCHEMA_VERSION, ChainSettings, DaSettings, DatabaseSettings, SignerSettings


@dataclass(frozen=True, slots=True)
class ListenSettings:
    """Section `[listen]`: the HTTPS endpoint."""

    certificate_file: Path
    """TLS certificate, PEM."""
    key_file: Path
    """Its private key, PEM, mode 0600."""
    host: str = "127.0.0.1"
    port: int = 8443


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Section `[model]`: what is served."""

    name: str
    """Name under which clients ask for it."""
    artifact: Path
    """Folder of the converted artifact."""
    environment_file: Path
    """The registered Environment as canonical JSON."""
    threads: int = 1
    """Threads of the engine."""
    device: str = "cpu"
    """Where the engine runs: `cpu` or `cuda`."""
    cache_bytes: int = 0
    """Most memory of the keys and values of one job; 0: half of what the weights leave of the machine's or control group's."""


@dataclass(frozen=True, slots=True)
class AcceptSettings:
    """Section `[accept]`, optional: key epochs that the operator seals to although they promise less than others."""

    simulated: bool = False
    """Whether to seal to a key epoch whose enclaves are simulated; without it such a network is refused (fence 5)."""
    rebuilt: bool = False
    """Whether to seal to a key epoch whose key enclaves rebuild (ADR-038): one that is broken then reads all of the epoch."""


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Section `[limits]`, optional: times and sizes."""

    queue: int = 16
    """Most requests in flight; more are answered 429."""
    answer_timeout_s: float = 600.0
    """How long a client is kept waiting: the official client's own read timeout."""
    retry_memory_s: int = 900
    """How long an answer is remembered for a retry: above the official client's read timeout of 600 s."""
    retry_answers: int = 10_000
    """How many answers are remembered for retries; older ones, to the second, are forgotten first."""
    anchor_within_s: int = 300
    """Promised time from signing to anchoring (`anchorBy`)."""
    request_ttl_s: int = 7200
    """How long a Request may be anchored, beside the longest pause that the guardian may make."""
    max_batch: int = 64
    """Most receipts in a batch; the contract has its own bound."""
    max_body_bytes: int = 1 << 20
    """Largest request body."""

    def __post_init__(self) -> None:
        if self.request_ttl_s < 2 * self.anchor_within_s:
            # A request that expires before its batch is anchored is a defect of the record, and would be slashed.
            raise ConfigurationError("request_ttl_s", "must be at least twice anchor_within_s")
        sizes = (self.queue, self.max_batch, self.max_body_bytes, self.anchor_within_s, self.retry_memory_s, self.retry_answers)
        if min(sizes) < 1:
            raise ConfigurationError("limits", "must be positive")


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """The whole file."""

    network_file: Path
    """Address book: chain id, addresses, deployment block, epochs."""
    gateway_key_file: Path
    """Key that signs requests of clients that have no key of their own (`client=delegated`), as `signer.key_file`."""
    chain: ChainSettings
    da: DaSettings
    signer: SignerSettings
    db: DatabaseSettings
    listen: ListenSettings
    model: ModelSettings
    schema_version: int = SCHEMA_VERSION
    """Version of this file's format."""
    role: str = "operator"
    """Always `operator`: says what the file is for."""
    accept: AcceptSettings = field(default_factory=AcceptSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    metrics: MetricsSettings | None = None
    """Where metrics and probes are served; without the section, nowhere."""

    def __post_init__(self) -> None:
        if self.role != "operator":
            raise ConfigurationError("role", f"{self.role}: this program runs an operator")
        if self.schema_version != SCHEMA_VERSION:
            raise ConfigurationError("schema_version", f"{self.schema_version}: this program reads {SCHEMA_VERSION}")

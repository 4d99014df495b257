"""Settings of an operator, in one TOML file. Environment variables `BYTEWISE__SECTION__KEY` override its values."""

from dataclasses import dataclass, field
from pathlib import Path

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.records.environment import Environment
from bytewise.service.sections import (
    SCHEMA_VERSION,
    BackupSettings,
    ChainSettings,
    CheckpointSettings,
    DaSettings,
    DatabaseSettings,
    HousekeepingSettings,
    MetricsSettings,
    SignerSettings,
)


@dataclass(frozen=True, slots=True)
class ListenSettings:
    """Section `[listen]`: the HTTPS endpoint of the API."""

    certificate_file: Path
    """TLS certificate, PEM."""
    key_file: Path
    """Private key of the certificate, PEM, mode 0600."""
    host: str = "127.0.0.1"
    port: int = 8443


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Section `[model]`: the served model."""

    name: str
    """Name by which clients ask for the model."""
    artifact: Path
    """Folder of the converted artifact."""
    environment_file: Path
    """File with the registered environment, as canonical JSON."""
    threads: int = 1
    """Threads of the engine."""
    device: str = "cpu"
    """Device on which the engine runs: `cpu` or `cuda`."""
    cache_bytes: int = 0
    """Most memory for the keys and values of one job, in bytes. With 0, the engine computes it: the memory of the machine or
    control group, less the weights, divided by two."""


@dataclass(frozen=True, slots=True)
class AcceptSettings:
    """Section `[accept]`, optional: key epochs with weaker guarantees. The operator seals answers to such an epoch only if the
    setting allows it."""

    simulated: bool = False
    """Whether to seal to a key epoch with assurance `simulated`. Without this setting the operator refuses such an epoch."""
    rebuilt: bool = False
    """Whether to seal to a rebuilt epoch (ADR-040). One broken enclave can then read the whole epoch."""


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Section `[limits]`, optional: times and sizes."""

    queue: int = 16
    """Most requests that wait or run. The operator answers further requests with status 429."""
    answer_timeout_s: float = 600.0
    """Seconds that a client waits for its answer, above 0. The default is the read timeout of the official client."""
    retry_memory_s: int = 900
    """Seconds for which the operator remembers an answer for retries. The default is above the official client's read timeout
    of 600 s."""
    retry_answers: int = 10_000
    """Number of answers that the operator remembers for retries. It forgets the oldest first, in steps of one second."""
    anchor_within_s: int = 300
    """Promised seconds from signing a receipt to anchoring it (`anchorBy`). The promise is at most the network's
    `max_anchor_delay`."""
    request_ttl_s: int = 7200
    """Seconds from the creation of a Request in which the operator may anchor its receipt. The operator adds the longest pause
    that the guardian may make."""
    max_batch: int = 64
    """Most receipts in a batch. The contract has a limit too, and the smaller one counts."""
    max_body_bytes: int = 1 << 20
    """Largest request body, in bytes."""

    def __post_init__(self) -> None:
        if self.request_ttl_s < 2 * self.anchor_within_s:
            # A request that expires before its batch is anchored is a defect of the record, for which the operator is slashed.
            raise ConfigurationError("request_ttl_s", "must be at least twice anchor_within_s")
        sizes = (self.queue, self.max_batch, self.max_body_bytes, self.anchor_within_s, self.retry_memory_s, self.retry_answers)
        if min(sizes) < 1 or not self.answer_timeout_s > 0:
            raise ConfigurationError("limits", "must be positive")


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """The whole settings file of an operator."""

    network_file: Path
    """Path of the address book: chain id, addresses, deployment block, key epochs."""
    gateway_key_file: Path
    """File of the key that signs Requests for clients without a key (client mode `delegated`). It has 32 bytes in hex and is no
    keystore. Only the owner may read it."""
    chain: ChainSettings
    da: DaSettings
    signer: SignerSettings
    db: DatabaseSettings
    listen: ListenSettings
    model: ModelSettings
    schema_version: int = SCHEMA_VERSION
    """Version of this file's format."""
    role: str = "operator"
    """Kind of this file, always `operator`."""
    accept: AcceptSettings = field(default_factory=AcceptSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    housekeeping: HousekeepingSettings = field(default_factory=HousekeepingSettings)
    """Times for which the operator keeps records. It never deletes a record that a dispute, a demand, a penalty or a
    transaction can still need."""
    backup: BackupSettings | None = None
    """Backups that the process makes by itself. Without this section the process makes none."""
    checkpoints: CheckpointSettings | None = None
    """Places for signed checkpoints of the journal. Without this section the process makes none."""
    metrics: MetricsSettings | None = None
    """Address at which the process serves metrics and probes. Without this section it serves none."""

    def __post_init__(self) -> None:
        if self.role != "operator":
            raise ConfigurationError("role", f"{self.role}: this program runs an operator")
        if self.schema_version != SCHEMA_VERSION:
            raise ConfigurationError("schema_version", f"{self.schema_version}: this program reads {SCHEMA_VERSION}")


def read_environment(path: Path) -> Environment:
    """Reads the environment from a file. Raises `ConfigurationError` if the file cannot be read or contains no environment."""
    try:
        return decode(Environment, path.read_bytes())
    except OSError as error:
        raise ConfigurationError(path.name, str(error.strerror)) from None
    except Fault as error:
        raise ConfigurationError(path.name, f"is no environment ({error}): name the registered one as canonical JSON") from None

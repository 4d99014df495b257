"""Settings of one enclave process."""

from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.jobs import JOB_LIMIT_S
from bytewise.tee.quoters import verify_attestation


@dataclass(frozen=True, slots=True)
class EnclaveSettings:
    """Settings of an enclave. They name no account key and no chain node, because an enclave signs no transactions and reads no
    chain."""

    artifact: Path
    """Folder of the converted model."""
    socket: Path
    """Path of the job socket. The duty process names it as `executor.socket`."""
    chain_id: int
    """Chain id of the only chain whose jobs this enclave accepts."""
    evidence: EvidenceType
    """Kind of evidence that this machine gives: `tdx`, `snp` or `simulated`."""
    platform_file: Path | None = None
    """Key file of the simulated platform (evidence `simulated` only)."""
    endorsements: Path | None = None
    """Folder of collateral or certificates that the machine's owner keeps current (evidence `tdx` and `snp`)."""
    insecure_accept_simulated: bool = False
    """Whether evidence `simulated` is accepted. Without this switch it is refused."""
    threads: int = 1
    """Threads of the engine."""
    backend: str = ""
    """Integer backend. If empty, the fastest one that passes its known-answer test is used."""
    environment_file: Path | None = None
    """File with this machine's registered environment, as canonical JSON. Only an artifact of profile `pinned-1` needs it."""
    device: str = "cpu"
    """Device on which the engine runs: `cpu` or `cuda`."""
    cache_bytes: int = 0
    """Most bytes for the keys and values of one job. With 0, it is half of the memory that the weights leave free on the machine
    or in its control group."""
    key_timeout_s: float = 10.0
    """Seconds for each step of a request to one key shard, above 0."""
    job_limit_s: int = JOB_LIMIT_S
    """Seconds after which the process of a job is killed. The duty process learns this limit and waits as long."""
    working_bytes: int = 4 * 2**30
    """Bytes of address space that one job's process gets in addition to weights, libraries and `cache_bytes`."""
    rebuild_keys: bool = False
    """Whether to open envelopes of rebuilt epochs (ADR-040), each key in its own process. If not, a seat cannot open such
    envelopes."""
    require_fences: bool = False
    """Whether the enclave refuses to start if a fence (`bytewise.tee.confinement`) cannot be set up. If not, it logs and reports
    the missing fence."""
    client_uid: int = -1
    """User id of the duty process, if the enclave runs as another user. Both must reach the folder of `socket`. With -1, only the
    enclave's user may connect."""
    ready_file: Path | None = None
    """File that the enclave writes once it accepts jobs, to signal the process that started it."""

    def __post_init__(self) -> None:
        verify_attestation(self.evidence, self.platform_file, self.endorsements, self.insecure_accept_simulated, self.chain_id)
        if self.job_limit_s <= 0 or self.working_bytes <= 0 or not self.key_timeout_s > 0:
            raise ConfigurationError("job_limit_s, working_bytes, key_timeout_s", "must be above zero")
        if self.evidence is not EvidenceType.SIMULATED and self.device != "cpu":
            raise ConfigurationError("evidence", f"{self.device} without evidence of its own makes an enclave simulated")

"""Settings of one enclave process."""

from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.jobs import JOB_LIMIT_S
from bytewise.tee.quoters import verify_attestation


@dataclass(frozen=True, slots=True)
class EnclaveSettings:
    """Settings of an enclave. It holds no key of an account and no address of a chain node."""

    artifact: Path
    """Folder of the converted model."""
    socket: Path
    """Job socket, in the actor's own folder."""
    chain_id: int
    """Chain id of the only chain whose jobs this enclave takes."""
    evidence: EvidenceType
    """Kind of evidence of this machine."""
    platform_file: Path | None = None
    """Key file of the simulated platform (evidence `simulated` only)."""
    endorsements: Path | None = None
    """Folder of collateral or certificates that the machine's owner keeps current (evidence `tdx` and `snp`)."""
    insecure_accept_simulated: bool = False
    """Allows evidence `simulated`; without this switch it is refused."""
    threads: int = 1
    """Threads of the engine."""
    backend: str = ""
    """Integer backend; empty: the fastest that passes its known-answer test."""
    environment_file: Path | None = None
    """The registered Environment of this machine, canonical JSON; needed only by an artifact of profile `pinned-1`."""
    device: str = "cpu"
    """Where the engine runs: `cpu` or `cuda`."""
    cache_bytes: int = 0
    """Most bytes for the keys and values of one job; 0: half of the memory of the machine or control group that the weights
    leave."""
    key_timeout_s: float = 10.0
    """Timeout of one call to a key shard, in seconds."""
    job_limit_s: int = JOB_LIMIT_S
    """Seconds after which the process of a job is ended. The duty process learns this limit and waits as long."""
    working_bytes: int = 4 * 2**30
    """Bytes of address space of one job's process in addition to weights, libraries and `cache_bytes`."""
    rebuild_keys: bool = False
    """Whether to open envelopes of key epochs whose key is rebuilt from shares (ADR-038), each in its own process. If not, a seat
    cannot open envelopes of such epochs."""
    require_fences: bool = False
    """Whether the enclave refuses to start if a fence (`bytewise.tee.confinement`) cannot be set up. If not, the missing fence is
    logged and reported."""
    ready_file: Path | None = None
    """File that the enclave writes once it accepts jobs, for the process that started it."""

    def __post_init__(self) -> None:
        verify_attestation(self.evidence, self.platform_file, self.endorsements, self.insecure_accept_simulated, self.chain_id)
        if self.job_limit_s <= 0 or self.working_bytes <= 0:
            raise ConfigurationError("job_limit_s, working_bytes", "must be above zero")
        if self.evidence is not EvidenceType.SIMULATED and self.device != "cpu":
            raise ConfigurationError("evidence", f"{self.device} without evidence of its own makes an enclave simulated")

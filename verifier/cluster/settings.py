"""Settings of the bridge process. The bridge has no key, no connection to a chain node and no database."""

from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import Digest


@dataclass(frozen=True, slots=True)
class BridgeSettings:
    """Settings of one bridge process."""

    socket: Path
    """Socket at which the duty process asks the bridge for agents."""
    address: str
    """`host:port` of the Ray head node, in a private network."""
    models: tuple[Digest, ...]
    """Ids of the models that enclaves of the cluster run."""
    enclave_sockets: str
    """Pattern of the job sockets on each Ray node. The first 8 digits of the model id replace `{model}` in it."""
    agents: int = 1
    """Number of agents for each model, and so of jobs that run at once for it. Each agent needs an enclave."""
    cpus: float = 1.0
    """Processor cores that Ray reserves for each agent and its enclave."""
    gpus: float = 0.0
    """GPUs that Ray reserves for each agent and its enclave."""
    prepare_timeout_s: float = 30.0
    """Seconds that a job may wait for an agent, and that an agent may wait for its enclave."""
    client_uid: int = -1
    """User id of the duty process, if the bridge runs as another user. With -1, only the bridge's user may connect."""
    insecure_without_token: bool = False
    """Whether the bridge starts without `RAY_AUTH_MODE=token`. Without tokens, everybody with access to a port of Ray can run
    code on every machine of the cluster."""

    def __post_init__(self) -> None:
        if not self.models or self.agents < 1 or self.prepare_timeout_s <= 0:
            raise ConfigurationError("models, agents, prepare_timeout_s", "name a model, and at least one agent and second")
        if not self.address.rpartition(":")[2].isdecimal():
            raise ConfigurationError("address", "write host:port of the Ray head node")
        if not self.enclave_sockets.startswith("/"):
            raise ConfigurationError("enclave_sockets", "write an absolute path, for example /run/bytewise/{model}-*.sock")


def resource_of(model_id: bytes) -> str:
    """Returns the name of the Ray resource of a model. A Ray node offers one unit of it for each enclave that it runs."""
    return f"model_{model_id[:4].hex()}"

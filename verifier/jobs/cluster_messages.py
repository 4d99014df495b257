"""Messages between the duty process and the bridge: canonical JSON after a 4-byte length, as on a job socket.

In a conversation the duty process sends `ClaimAgent` and gets `Prepared`. Then it sends `RunJob`, gets `JobResult`, and confirms
it with `ResultTaken`. The bridge passes job and result on without reading them.
"""

from dataclasses import dataclass

from bytewise.protocol.units import Digest


@dataclass(frozen=True, slots=True)
class ClaimAgent:
    """Request of the duty process for an agent, and for a fresh transport key of the agent's enclave."""

    receipt_id: Digest
    """Receipt that the job will be about."""
    model_id: Digest
    """Model that the enclave must run."""


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    """Answer of the bridge that no agent takes the job."""

    problem: str
    """Text that names the problem and the remedy."""
    unsuited: bool
    """Whether the cluster still takes jobs about other models. It does if the bridge does not know this model, or if all agents
    of this model are busy or missing."""


@dataclass(frozen=True, slots=True)
class ResultTaken:
    """Message of the duty process that it accepted the result. Without this message, the bridge prefers another agent for this
    receipt."""

    receipt_id: Digest
    """Receipt that the job was about."""


@dataclass(frozen=True, slots=True)
class AskCluster:
    """Request of the duty process for the state of the cluster, in a conversation of its own."""

    models: bool
    """Whether the answer has a line for each model."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Answer of the bridge about the agents of the cluster."""

    wanted: int
    """Number of agents that the settings of the bridge ask for."""
    ready: int
    """Number of agents whose enclave answers."""
    free: int
    """Number of these agents that have no job."""
    problems: tuple[str, ...]
    """One line for each model that lacks agents. The line names the problem and the remedy."""

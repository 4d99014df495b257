"""Messages between the duty process and the bridge: canonical JSON after a 4-byte length, as on a job socket.

A conversation is `ClaimAgent` → `Prepared`, then `RunJob` → `JobResult` → `ResultTaken`. The bridge passes job and result on
without reading them.
"""

from dataclasses import dataclass

from bytewise.protocol.units import Digest


@dataclass(frozen=True, slots=True)
class ClaimAgent:
    """Asks for an agent, and for a fresh transport key of its enclave."""

    receipt_id: Digest
    """Receipt that the job will be about."""
    model_id: Digest
    """Model that the enclave must run."""


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    """No agent takes the job."""

    problem: str
    """What is missing, and what to do."""
    unsuited: bool
    """Whether the cluster takes other jobs: the model is unknown, or all agents of this model are busy."""


@dataclass(frozen=True, slots=True)
class ResultTaken:
    """Says that the duty process accepted the result. Without it, the bridge prefers another agent for this receipt."""

    receipt_id: Digest
    """Receipt that the job was about."""


@dataclass(frozen=True, slots=True)
class AskCluster:
    """Asks for the state of the cluster, in a conversation of its own."""

    models: bool
    """Whether the answer has a line for each model."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What the cluster can do now."""

    wanted: int
    """Agents that the settings of the bridge ask for."""
    ready: int
    """Agents beside an enclave that answers."""
    free: int
    """Agents without a job."""
    problems: tuple[str, ...]
    """One line for each model that lacks agents, with what to do."""

"""Roles of nodes, and the role that a settings file names."""

import enum
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.settings import read_document


class NodeRole(enum.StrEnum):
    """The role of a node."""

    OPERATOR = "operator"
    VERIFIER = "verifier"
    MEMBER = "member"
    WATCHTOWER = "watchtower"
    SHARD = "shard"
    MONITOR = "monitor"


JUDGES = (NodeRole.VERIFIER, NodeRole.MEMBER)
"""Roles with an enclave."""
GOSSIPERS = (*JUDGES, NodeRole.WATCHTOWER)
"""Roles that a gossip process may serve: those with seats, and the recipient of hints."""


def role_of(config: Path) -> NodeRole:
    """The role that a settings file names. `ConfigurationError` if it names none."""
    role = read_document(config).get("role")
    if role not in list(NodeRole):
        given = "missing; it must be one" if role is None else f"{str(role)[:40]} is none"
        raise ConfigurationError(f"{config.name}: role", f"{given} of {', '.join(NodeRole)}; `bytewise init` writes this file")
    return NodeRole(role)

"""The roles of nodes, and the function that reads a node's role from its settings file."""

import enum
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.settings import read_document


class NodeRole(enum.StrEnum):
    """The role of a node, as the setting `role` names it."""

    OPERATOR = "operator"
    VERIFIER = "verifier"
    MEMBER = "member"
    WATCHTOWER = "watchtower"
    SHARD = "shard"
    MONITOR = "monitor"


JUDGES = (NodeRole.VERIFIER, NodeRole.MEMBER)
"""Roles that have an enclave."""
GOSSIPERS = (*JUDGES, NodeRole.WATCHTOWER)
"""Roles that may have a gossip process: verifiers and members, and the watchtower, which gets their hints."""


def role_of(config: Path) -> NodeRole:
    """Reads the node's role from a settings file. Raises `ConfigurationError` if the file names no known role."""
    role = read_document(config).get("role")
    if role not in list(NodeRole):
        given = "missing; it must be one" if role is None else f"{str(role)[:40]} is none"
        raise ConfigurationError(f"{config.name}: role", f"{given} of {', '.join(NodeRole)}; `bytewise init` writes this file")
    return NodeRole(role)


def verify_role(config: Path, *roles: NodeRole) -> None:
    """Raises `ConfigurationError` if a settings file names the role of another node than `roles`. A file with no role of a node
    passes: it may have the settings of one process alone."""
    role = read_document(config).get("role")
    if role in list(NodeRole) and role not in roles:
        wanted = " or ".join(map(_with_article, roles))
        raise ConfigurationError(config.name, f"is of {_with_article(role)}; this command is for {wanted}")


def _with_article(role: str) -> str:
    return f"an {role}" if role[:1] in "aeiou" else f"a {role}"

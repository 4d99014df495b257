"""The choices of a new node's owner (`bytewise init`)."""

from pathlib import Path
from typing import NamedTuple

from bytewise.service.secret import Secret
from cli.node.roles import NodeRole


class ChosenPassword(NamedTuple):
    """The keystore's password, and how the node gets it at its start."""

    value: Secret
    file: Path | None
    """File with the password; None: the node asks for it."""
    is_new: bool
    """Whether the password is written into the new folder."""


class NodeChoices(NamedTuple):
    """Choices of the node's owner."""

    role: NodeRole
    network_file: Path
    rpc: list[str]
    da: list[str]
    password: ChosenPassword
    key_file: Path | None
    """Key of an existing account; None: a new account."""
    database_url_file: Path | None
    """File with the URL of a PostgreSQL database; None: SQLite in the folder."""
    artifact: Path | None
    environment_file: Path | None
    model_name: str
    evidence: str
    platform_file: Path | None
    host: str
    port: int
    metrics_port: int


class ShardChoices(NamedTuple):
    """Choices for a key shard only."""

    url: str
    channel: str
    coordinator: str
    governors: list[str]
    simulated: bool

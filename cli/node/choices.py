"""What the owner of a new node decides (`bytewise init`)."""

from pathlib import Path
from typing import NamedTuple

from bytewise.service.secret import Secret
from cli.node.roles import NodeRole


class ChosenPassword(NamedTuple):
    """The keystore's password, and how the node gets it at a start."""

    value: Secret
    file: Path | None
    """Where it is; None: nowhere, it is asked for."""
    is_new: bool
    """Whether it is written into the new folder."""


class NodeChoices(NamedTuple):
    """What only the node's owner knows."""

    role: NodeRole
    network_file: Path
    rpc: list[str]
    da: list[str]
    password: ChosenPassword
    key_file: Path | None
    """Key of an account that exists; None: a new one."""
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
    """What only a key shard has."""

    url: str
    channel: str
    coordinator: str
    governors: list[str]
    simulated: bool

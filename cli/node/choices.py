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


class KeyOptions(NamedTuple):
    """The options of `bytewise init` that say where the account's key is."""

    key: Path | None
    """Key of an account that exists; None: a new one."""
    password_file: Path | None
    prompt: bool
    signer_url: str
    """URL of a remote signer; empty: the key is in the folder."""
    account: str
    signer_ca: Path | None
    signer_cert: Path | None
    signer_key: Path | None


class RemoteKey(NamedTuple):
    """A key at a remote signer, and how the node shows itself there."""

    url: str
    account: str
    ca_file: Path
    client_cert_file: Path
    client_key_file: Path


class LocalKey(NamedTuple):
    """A key in a keystore of the new folder."""

    file: Path | None
    """Key of an account that exists; None: a new one."""
    password: ChosenPassword


class NodeChoices(NamedTuple):
    """Choices of the node's owner."""

    role: NodeRole
    network_file: Path
    rpc: list[str]
    da: list[str]
    account: LocalKey | RemoteKey
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

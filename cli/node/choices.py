"""The choices that the owner of a new node makes with the options of `bytewise init`."""

from pathlib import Path
from typing import NamedTuple

from bytewise.service.secret import Secret
from cli.node.roles import NodeRole


class ChosenPassword(NamedTuple):
    """The password of the node's keystore, and where the node reads it when it starts."""

    value: Secret
    file: Path | None
    """File from which the node reads the password. None if the node asks a person for it."""
    is_new: bool
    """True if the password is new and is written to a file in the node's folder."""


class KeyOptions(NamedTuple):
    """The options of `bytewise init` that say where the key of the node's account is."""

    key: Path | None
    """Key file of an existing account. None makes a new account."""
    password_file: Path | None
    prompt: bool
    signer_url: str
    """URL of a remote signer. Empty if the key is in the node's folder."""
    account: str
    signer_ca: Path | None
    signer_cert: Path | None
    signer_key: Path | None


class RemoteKey(NamedTuple):
    """An account whose key is at a remote signer, and the TLS files with which the node connects to it."""

    url: str
    account: str
    ca_file: Path
    client_cert_file: Path
    client_key_file: Path


class LocalKey(NamedTuple):
    """An account whose key is in a keystore in the node's folder."""

    file: Path | None
    """Key file of an existing account. None makes a new account."""
    password: ChosenPassword


class NodeChoices(NamedTuple):
    """All choices for a new node that sends transactions: an operator, verifier, member or watchtower."""

    role: NodeRole
    network_file: Path
    rpc: list[str]
    da: list[str]
    account: LocalKey | RemoteKey
    database_url_file: Path | None
    """File with the URL of a PostgreSQL database. None makes a SQLite database in the node's folder."""
    artifact: Path | None
    environment_file: Path | None
    model_name: str
    evidence: str
    platform_file: Path | None
    host: str
    port: int
    metrics_port: int


class ShardChoices(NamedTuple):
    """The choices that only a new key shard needs."""

    url: str
    channel: str
    coordinator: str
    governors: list[str]
    simulated: bool

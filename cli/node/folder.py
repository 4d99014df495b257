"""Creates the folder of a new node from the choices of its owner, with settings, keys and database, completely or not at all."""

import dataclasses
import enum
import json
import secrets
import shutil
import textwrap
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from eth_account import Account

from bytewise.inference.manifest import MANIFEST_FILE, profile_of
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.records.environment import PROFILE_PINNED_1, Environment
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import Address
from bytewise.service.node_files.certificates import make_certificate
from bytewise.service.secret import Secret, write_secret
from bytewise.service.settings import OtherProcess, field_texts, first_paragraph, load_settings
from bytewise.storage.migrations.migrate import migrate
from bytewise.tee.renewal import CollateralSettings
from bytewise.tee_simulated.authorities import Platform
from chain.client.address_book import read_network
from chain.client.arguments import read_address
from chain.sending.keys import load_signer, save_signer
from cli.node.new_folder import new_folder
from cli.node.roles import JUDGES, NodeRole
from cli.node.shard import ShardFolderChoices, make_folder
from cli.options import SETTINGS
from dashboard.monitor.settings import MonitorSettings
from enclave.settings import EnclaveSettings
from kms.storage.sealing import IN_FOLDER
from serving.settings import OperatorSettings
from verifier.settings import NodeSettings

_WIDTH = 110
"""Most characters in a line of a settings file's comments."""
# Names of files and folders in a node's folder.
NETWORK, KEYSTORE, JOURNAL, DATABASE, SOCKET = "network.json", "account.json", "journal.key", "node.db", "enclave.sock"
CHECKPOINTS, INDEX, RELEASE_LOGS = "checkpoints", "index.db", "release-logs"
GATEWAY, CERTIFICATE, TLS_KEY = "gateway.key", "tls.pem", "tls.key"

_OMITTED = {
    NodeRole.WATCHTOWER: {"executor", "hints", "votes"},
    NodeRole.VERIFIER: {"hint_listener", "watch", "demand", "inbox_folder", "votes"},
    NodeRole.MEMBER: {"hint_listener", "watch", "demand", "inbox_folder"},
}
"""Sections and settings of `NodeSettings` that a role does not use. The role's settings file leaves them out."""

_HEAD = """\
# Settings of a Bytewise {role}, made by `bytewise init`. Every setting is here. A setting that begins with `#` has its default.
# An empty text there means that it is not set: write a value, or leave the `#`.
# Relative paths are beside this file. A secret is never a setting: a setting names its file.
# An environment variable BYTEWISE__SECTION__SETTING wins over this file.

"""


class ChosenPassword(NamedTuple):
    """The password of the node's keystore, and where the node reads it when it starts."""

    value: Secret
    file: Path | None
    """File from which the node reads the password. None if the node asks a person for it."""
    is_new: bool
    """True if the password is new and is written to a file in the node's folder."""


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
    """File of the address book."""
    rpc: list[str]
    """URLs of chain nodes."""
    da: list[str]
    """URLs of EigenDA proxies."""
    account: LocalKey | RemoteKey
    database_url_file: Path | None
    """File with the URL of a PostgreSQL database. None makes a SQLite database in the node's folder."""
    artifact: Path | None
    """Folder of the model's artifact. None for a watchtower."""
    environment_file: Path | None
    """File of the registered environment, for an operator, and for an enclave whose artifact has profile pinned-1."""
    model_name: str
    """Name under which an operator serves the model. Empty for other roles."""
    evidence: str
    """How the enclave of a verifier or member is attested: `tdx`, `snp` or `simulated`."""
    platform_file: Path | None
    """Key file of a simulated platform, for simulated evidence."""
    host: str
    """Address at which an operator listens."""
    port: int
    """Port at which an operator listens."""
    metrics_port: int
    """Port of `/metrics` and `/readyz`."""


class ShardChoices(NamedTuple):
    """The choices for a new key shard, from the options of `bytewise init --role shard`."""

    url: str
    """HTTPS address at which other programs will reach the shard."""
    channel: str
    """`host:port` at which enclaves will reach the shard's attested channels."""
    coordinator: str
    """Account of the coordinator of key ceremonies."""
    governors: list[str]
    """Accounts that approve appraisal policies. More than half of them must approve a policy."""
    simulated: bool
    """True for a shard of a test network, which accepts simulated evidence."""


def make_node_folder(folder: Path, choices: NodeChoices) -> str:
    """Creates the folder of a new node that sends transactions, and returns the node's account.

    Raises `ConfigurationError` with the name of the option if a choice is invalid. Then nothing is created.
    """
    network = read_network(choices.network_file)
    _verify_choices(choices)
    chosen = choices.account
    key = _key(chosen) if isinstance(chosen, LocalKey) else _remote_account(chosen)
    with new_folder(folder) as draft:
        shutil.copyfile(choices.network_file, draft / NETWORK)
        if isinstance(key, LocalSigner) and isinstance(chosen, LocalKey):
            _write_key(draft, key, chosen.password)
        if choices.role is NodeRole.OPERATOR:
            save_signer(draft / GATEWAY, LocalSigner(secrets.token_bytes(32)))
            make_certificate(draft / CERTIFICATE, draft / TLS_KEY, choices.host, "bytewise operator")
        (draft / SETTINGS).write_text(_settings(choices, network.chain_id))
        migrate(_check_settings(draft / SETTINGS, choices.role))
    return key.address if isinstance(key, LocalSigner) else key


def make_shard_folder(folder: Path, network_file: Path, rpc: list[str], shard: ShardChoices) -> str:
    """Creates the folder of a new key shard, and returns the shard's account. `bytewise shard init` has more options."""
    for option, given in (("--url", shard.url), ("--channel", shard.channel), ("--coordinator", shard.coordinator)):
        if not given:
            raise ConfigurationError(option, "missing: a key shard needs it")
    read_network(network_file)
    needed = len(shard.governors) // 2 + 1
    return make_folder(folder, ShardFolderChoices(
        shard.url, shard.channel, shard.coordinator, network_file, rpc, shard.governors, needed, shard.simulated, IN_FOLDER
    ))  # fmt: skip


def make_monitor_folder(
    folder: Path, network_file: Path, rpc: list[str], database_url_file: Path | None, metrics_port: int
) -> str:
    """Creates the folder of a new monitor. A monitor has no account, so the function returns the text `without an account`,
    which the command prints. The monitor makes its index when it starts for the first time."""
    read_network(network_file)
    index = {"url": f"sqlite:///{INDEX}"} if database_url_file is None else {"url_file": database_url_file.absolute()}
    values = {
        "schema_version": 1, "role": NodeRole.MONITOR.value, "network_file": NETWORK, "chain": _chain(rpc), "db": index,
        "release_logs": {"folder": RELEASE_LOGS}, "metrics": {"port": metrics_port},
    }  # fmt: skip
    with new_folder(folder) as draft:
        shutil.copyfile(network_file, draft / NETWORK)
        (draft / SETTINGS).write_text(_HEAD.format(role=NodeRole.MONITOR) + _settings_text(MonitorSettings, values))
        _ = load_settings(MonitorSettings, draft / SETTINGS).db.location
    return "without an account"


def _chain(rpc: list[str]) -> dict[str, Any]:
    return {"rpc_url": rpc[0]} if len(rpc) == 1 else {"rpc_urls": rpc}


def _key(account: LocalKey) -> LocalSigner:
    if account.file is None:
        return LocalSigner(secrets.token_bytes(32))
    is_keystore = account.file.is_file() and account.file.read_bytes().lstrip().startswith(b"{")
    if is_keystore and account.password.is_new:
        raise ConfigurationError("--key", f"{account.file.name} is a keystore: give --password-file or --prompt")
    return load_signer(account.file, account.password.value)


def _write_key(folder: Path, key: LocalSigner, password: ChosenPassword) -> None:
    write_secret(folder / KEYSTORE, _keystore(key, password.value))
    if password.is_new and password.file is not None:
        write_secret(folder / password.file, password.value.reveal())


def _remote_account(account: RemoteKey) -> Address:
    try:
        return read_address(account.account)
    except MalformedValue:
        raise ConfigurationError("--account", f"{account.account[:60]} is none: 0x and 40 hex digits") from None


def _keystore(signer: LocalSigner, password: Secret) -> bytes:
    return json.dumps(Account.encrypt(signer.secret, password.reveal().decode())).encode()


def _verify_choices(choices: NodeChoices) -> None:
    """Raises `ConfigurationError` with the name of the first option that the role needs and lacks, or that is invalid."""
    role = choices.role
    needed: dict[str, object] = {}
    if role in JUDGES or role is NodeRole.OPERATOR:
        needed["--artifact"] = choices.artifact
    if role is NodeRole.OPERATOR:
        needed |= {"--environment": choices.environment_file, "--model-name": choices.model_name}
    if choices.evidence == EvidenceType.SIMULATED.value and role in JUDGES:
        needed["--platform-file"] = choices.platform_file
    for option, given in needed.items():
        if not given:
            raise ConfigurationError(option, f"missing: role {role} needs it")
        if isinstance(given, Path) and not given.exists():
            raise ConfigurationError(option, f"{given} does not exist")
    if choices.artifact is not None and not (choices.artifact / MANIFEST_FILE).is_file():
        raise ConfigurationError("--artifact", f"{choices.artifact} is no artifact: it has no {MANIFEST_FILE}")
    if choices.environment_file is not None:
        _verify_environment(choices.environment_file)
    if choices.platform_file is not None:
        Platform(choices.platform_file)  # raises an error if the file is no platform file
    if role in JUDGES:
        _verify_enclave(choices)


def _verify_enclave(choices: NodeChoices) -> None:
    """Raises `ConfigurationError` for an unknown kind of evidence, and for a file that this kind or the model needs and lacks, or
    does not use."""
    kinds = [each.value for each in EvidenceType]
    if choices.evidence not in kinds:
        raise ConfigurationError("--evidence", f"{choices.evidence[:40]} is none of {', '.join(kinds)}")
    is_pinned = choices.artifact is not None and profile_of(choices.artifact) == PROFILE_PINNED_1
    if is_pinned and choices.environment_file is None:
        raise ConfigurationError("--environment", "missing: an artifact of profile pinned-1 needs it")
    if choices.environment_file is not None and not is_pinned:
        raise ConfigurationError("--environment", f"role {choices.role} uses it only with an artifact of profile pinned-1")
    if choices.platform_file is not None and choices.evidence != EvidenceType.SIMULATED.value:
        raise ConfigurationError("--platform-file", "belongs to --evidence simulated")


def _verify_environment(file: Path) -> None:
    try:
        decode(Environment, file.read_bytes())
    except OSError as error:
        raise ConfigurationError("--environment", f"{file}: {error.strerror}") from None
    except Fault as error:
        raise ConfigurationError("--environment", f"{file} is no environment: {error}") from None


def _settings(choices: NodeChoices, chain_id: int) -> str:
    values = _common(choices)
    head = _HEAD.format(role=choices.role)
    if choices.role is NodeRole.OPERATOR:
        return head + _settings_text(OperatorSettings, values | _operator(choices))
    if choices.role in JUDGES:
        values["executor"] = {"socket": SOCKET}
    text = head + _settings_text(NodeSettings, values, frozenset(_OMITTED[choices.role]))
    if choices.role not in JUDGES:
        return text
    text += _section_text("enclave", EnclaveSettings, _enclave(choices, chain_id))
    return text + _section_text("collateral", CollateralSettings, {}) if choices.evidence == EvidenceType.TDX.value else text


def _common(choices: NodeChoices) -> dict[str, Any]:
    url_file = choices.database_url_file
    database = {"url": f"sqlite:///{DATABASE}"} if url_file is None else {"url_file": url_file.absolute()}
    return {
        "schema_version": 1, "role": choices.role.value, "network_file": NETWORK,
        "chain": _chain(choices.rpc),
        "da": {"urls": choices.da}, "signer": _signer(choices.account),
        "db": {"journal_key_file": JOURNAL, **database}, "metrics": {"port": choices.metrics_port},
        "checkpoints": {"folder": CHECKPOINTS},
    }  # fmt: skip


def _signer(account: LocalKey | RemoteKey) -> dict[str, Any]:
    if isinstance(account, LocalKey):
        return {"key_file": KEYSTORE, "password_file": account.password.file}
    return account._asdict() | {"account": _remote_account(account)}


def _operator(choices: NodeChoices) -> dict[str, Any]:
    return {
        "gateway_key_file": GATEWAY,
        "listen": {"certificate_file": CERTIFICATE, "key_file": TLS_KEY, "host": choices.host, "port": choices.port},
        "model": {"name": choices.model_name, "artifact": _absolute(choices.artifact),
                  "environment_file": _absolute(choices.environment_file)},
    }  # fmt: skip


def _enclave(choices: NodeChoices, chain_id: int) -> dict[str, Any]:
    simulated = choices.evidence == EvidenceType.SIMULATED.value
    return {
        "artifact": _absolute(choices.artifact), "socket": SOCKET, "chain_id": chain_id, "evidence": choices.evidence,
        "platform_file": _absolute(choices.platform_file), "environment_file": _absolute(choices.environment_file),
        "insecure_accept_simulated": True if simulated else None,
        "endorsements": None if simulated else "endorsements",
    }  # fmt: skip


def _absolute(path: Path | None) -> Path | None:
    return None if path is None else path.absolute()


def _check_settings(file: Path, role: NodeRole) -> str:
    """Reads a settings file as the node's processes will read it, so that a defect is found now. Returns the database's URL.
    For a verifier or member it first makes the empty folder `endorsements`, which the settings of an enclave need."""
    if role is NodeRole.OPERATOR:
        return load_settings(OperatorSettings, file).db.location
    if role in JUDGES:
        (file.parent / "endorsements").mkdir(exist_ok=True)
        load_settings(EnclaveSettings, file, "enclave")
    return load_settings(NodeSettings, file).db.location


# --- text of a settings file: each setting has its meaning as a comment, and its value, or its default as a comment ---


def _settings_text(cls: type, values: Mapping[str, Any], omit: frozenset[str] = frozenset()) -> str:
    """Returns the text of a settings file in TOML, for the settings class `cls`.

    `values` has the chosen settings by name, and a mapping for each section. A setting without a chosen value is written as a
    comment with its default. An optional section without chosen values is written as comments. `omit` has the names of sections
    and top-level settings that are left out.
    """
    return "\n".join(_table(cls, values, "", omit)) + "\n"


def _section_text(name: str, cls: type, values: Mapping[str, Any]) -> str:
    """Returns the TOML text of one section that another process of the node reads. `cls` is its settings class."""
    return "\n".join(["", *_comment(first_paragraph(cls)), f"[{name}]", *_table(cls, values, name, frozenset())]) + "\n"


def _table(cls: type, values: Mapping[str, Any], section: str, omit: frozenset[str]) -> Iterator[str]:
    kinds, texts = typing.get_type_hints(cls), field_texts(cls)
    inner: list[tuple[str, type, dataclasses.Field[Any]]] = []
    for field in dataclasses.fields(cast(Any, cls)):
        kind = _section_of(kinds[field.name])
        if field.name in omit or kinds[field.name] is OtherProcess or OtherProcess in typing.get_args(kinds[field.name]):
            continue
        if kind is not None:
            inner.append((field.name, kind, field))
            continue
        yield from _comment(texts.get(field.name, ""))
        given = field.name in values and values[field.name] is not None
        yield f"{field.name} = {_toml(values[field.name])}" if given else f"# {field.name} = {_toml(_default(field))}"
    for name, kind, field in inner:
        yield from _section(f"{section}.{name}" if section else name, kind, field, values.get(name), texts.get(name, ""))


def _section(name: str, cls: type, field: "dataclasses.Field[Any]", values: Mapping[str, Any] | None, text: str) -> Iterator[str]:
    yield ""
    yield from _comment(text or first_paragraph(cls))
    if values is None and field.default is None:
        yield f"# [{name}]"
        yield from (line if line.startswith("#") else f"# {line}" for line in _table(cls, {}, name, frozenset()))
        return
    yield f"[{name}]"
    yield from _table(cls, values or {}, name, frozenset())


def _section_of(kind: Any) -> type | None:
    return next((cast(type, each) for each in (kind, *typing.get_args(kind)) if dataclasses.is_dataclass(each)), None)


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH, break_on_hyphens=False)]


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default is dataclasses.MISSING or field.default is None:
        return ""
    return field.default


def _toml(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, enum.Enum):
        return _toml(value.value)
    # JSON and TOML write strings, numbers and booleans in the same way.
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)

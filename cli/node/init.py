"""`bytewise init`: makes the folder of a new node."""

import getpass
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.secret import Secret, read_secret
from cli.node.roles import JUDGES, NodeRole
from cli.options import DA_URLS, NETWORK_FILE, RPC_URLS, SETTINGS, NetworkOption, RpcOption

if TYPE_CHECKING:
    from cli.node.folder import ChosenPassword, LocalKey, RemoteKey

PASSWORD = "account.password"
"""Name of the file with a new keystore's password in a node's folder."""
_SETTINGS_OF_A_SHARD = frozenset({"--database-url-file", "--metrics-port", "--evidence", "--platform-file", "--host", "--port"})
"""Options that `init` refuses for a shard, but whose settings the shard's settings file has."""
_SHARD, _OPERATOR, _JUDGES = frozenset({NodeRole.SHARD}), frozenset({NodeRole.OPERATOR}), frozenset(JUDGES)
_NODES, _WITH_ACCOUNT = frozenset(NodeRole) - _SHARD, frozenset(NodeRole) - _SHARD - {NodeRole.MONITOR}
USERS = {
    **dict.fromkeys(("--database-url-file", "--metrics-port"), _NODES),
    **dict.fromkeys(("--da", "--key", "--password-file", "--prompt"), _WITH_ACCOUNT),
    **dict.fromkeys(("--signer-url", "--account", "--signer-ca", "--signer-cert", "--signer-key"), _WITH_ACCOUNT),
    **dict.fromkeys(("--artifact", "--environment"), _OPERATOR | _JUDGES),
    **dict.fromkeys(("--evidence", "--platform-file"), _JUDGES),
    **dict.fromkeys(("--model-name", "--host", "--port"), _OPERATOR),
    **dict.fromkeys(("--url", "--channel", "--coordinator", "--governor", "--simulated"), _SHARD),
}  # fmt: skip
"""Roles that use an option, for each option that not every role uses."""
_EVIDENCE, _HOST, _PORT, _METRICS_PORT = "tdx", "127.0.0.1", 8443, 9464
"""Defaults of the options of these names."""

FolderArgument = Annotated[Path | None, typer.Argument(metavar="[FOLDER]", help="A new folder; by default bytewise-ROLE.")]
DaOption = Annotated[list[str], typer.Option("--da", help="URL of an EigenDA proxy; repeat it.")]
KeyOption = Annotated[Path | None, typer.Option("--key", help="Key file of your account, hex or keystore; else a new one.")]
PasswordOption = Annotated[
    Path | None, typer.Option("--password-file", help="File with the keystore's password; it stays where it is.")
]
PromptOption = Annotated[bool, typer.Option("--prompt", help="Ask for the password now and at each start.")]
DatabaseOption = Annotated[
    Path | None, typer.Option("--database-url-file", help="File with a PostgreSQL URL; else SQLite in FOLDER.")
]
ArtifactOption = Annotated[
    Path | None, typer.Option("--artifact", help="Converted model that the node runs (operator, verifier, member).")
]
EnvironmentOption = Annotated[
    Path | None, typer.Option("--environment", help="Registered environment, JSON (operator; with pinned-1 verifier, member).")
]
ModelNameOption = Annotated[str, typer.Option("--model-name", help="Name under which an operator serves the model.")]
EvidenceOption = Annotated[str, typer.Option("--evidence", help="How the enclave is attested: tdx, snp, simulated.")]
PlatformOption = Annotated[
    Path | None, typer.Option("--platform-file", help="Key file of a simulated platform (--evidence simulated).")
]
HostOption = Annotated[str, typer.Option("--host", help="Address on which an operator listens.")]
SignerUrlOption = Annotated[
    str, typer.Option("--signer-url", help="https://… of a remote signer (web3signer's REST) that has the account key.")
]
AccountOption = Annotated[str, typer.Option("--account", help="Account whose key the remote signer has.")]
SignerCaOption = Annotated[
    Path | None, typer.Option("--signer-ca", help="Certificate of the remote signer or its authority, PEM.")
]
SignerCertOption = Annotated[Path | None, typer.Option("--signer-cert", help="Client certificate for the remote signer, PEM.")]
SignerKeyOption = Annotated[Path | None, typer.Option("--signer-key", help="Its private key, PEM; it stays where it is.")]
PortOption = Annotated[int, typer.Option("--port", min=1, max=65535, help="Its port.")]
MetricsPortOption = Annotated[
    int,
    typer.Option("--metrics-port", min=1, max=65535, help="Port of /metrics and /readyz: one for each node of a machine."),
]
UrlOption = Annotated[str, typer.Option("--url", help="Address at which others reach a key shard: https://host:port.")]
ChannelOption = Annotated[str, typer.Option("--channel", help="Where they reach its attested channels: host:port.")]
CoordinatorOption = Annotated[str, typer.Option("--coordinator", help="Account that runs a shard's key ceremonies.")]
GovernorOption = Annotated[list[str] | None, typer.Option("--governor", help="Account that approves a shard's policies.")]
SimulatedOption = Annotated[bool, typer.Option("--simulated", help="A shard of a test network: simulated enclaves count.")]


class KeyOptions(NamedTuple):
    """The options of `bytewise init` that say where the key of the node's account is."""

    key: Path | None
    """Key file of an existing account. None makes a new account."""
    password_file: Path | None
    """File with the keystore's password."""
    prompt: bool
    """True if the command asks a person for the keystore's password."""
    signer_url: str
    """URL of a remote signer. Empty if the key is in the node's folder."""
    account: str
    """Account whose key the remote signer has, 0x-hex."""
    signer_ca: Path | None
    """Certificate of the remote signer, or of its authority."""
    signer_cert: Path | None
    """Client certificate for the remote signer."""
    signer_key: Path | None
    """Private key of the client certificate."""


def init(
    context: typer.Context, role: Annotated[NodeRole, typer.Option("--role", help="What the node does.")],
    folder: FolderArgument = None, network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, da: DaOption = DA_URLS,
    key: KeyOption = None, password: PasswordOption = None, prompt: PromptOption = False, signer_url: SignerUrlOption = "",
    account: AccountOption = "", signer_ca: SignerCaOption = None, signer_cert: SignerCertOption = None,
    signer_key: SignerKeyOption = None, database: DatabaseOption = None,
    artifact: ArtifactOption = None, environment: EnvironmentOption = None, model_name: ModelNameOption = "",
    evidence: EvidenceOption = _EVIDENCE, platform: PlatformOption = None, host: HostOption = _HOST, port: PortOption = _PORT,
    metrics_port: MetricsPortOption = _METRICS_PORT, url: UrlOption = "", channel: ChannelOption = "",
    coordinator: CoordinatorOption = "", governor: GovernorOption = None, simulated: SimulatedOption = False,
) -> None:  # fmt: skip
    """Make the folder of a new node: commented settings, an encrypted account key, a migrated database.

    Nothing is sent. The command prints the next steps. The account key is a Web3 keystore. Its password is in
    FOLDER/account.password, unless you give --password-file or --prompt. Store backups of keystore and password in different
    places. With --signer-url a remote signer has the key. Key shards have other keys (`bytewise shard init --help`).

    Exit codes: 0 made, 64 wrong input (for example, the folder exists). With any other code than 0, nothing was made.

    Example: bytewise init --role watchtower --network network.json --rpc https://node.example
    """
    # Imported here, because the module imports web3, which takes longer than a help page.
    from cli.node.folder import NodeChoices, ShardChoices, make_monitor_folder, make_node_folder, make_shard_folder

    where = (folder or Path(f"bytewise-{role}")).absolute()
    keys = KeyOptions(key, password, prompt, signer_url, account, signer_ca, signer_cert, signer_key)
    _refuse_unused(role, context)
    if role is NodeRole.SHARD:
        made = make_shard_folder(where, network, rpc, ShardChoices(url, channel, coordinator, governor or [], simulated))
    elif role is NodeRole.MONITOR:
        made = make_monitor_folder(where, network, rpc, database, metrics_port)
    else:
        made = make_node_folder(where, NodeChoices(
            role, network, rpc, da, _account(keys), database, artifact, environment, model_name, evidence,
            platform, host, port, metrics_port,
        ))  # fmt: skip
    _print_made(role, made, where)


def _print_made(role: NodeRole, made: str, folder: Path) -> None:
    print(f"{role} {made} in {folder}")
    for number, line in enumerate(_next_steps(role, folder), 1):
        print(f"{number}. {line}")


def _refuse_unused(role: NodeRole, context: typer.Context) -> None:
    """Raises `ConfigurationError` for the first option on the command line that a node of this role does not use."""
    for parameter in context.command.params:
        option, source = parameter.opts[0], context.get_parameter_source(parameter.name or "")
        is_given = source is not None and source.name == "COMMANDLINE"
        if is_given and role not in USERS.get(option, frozenset(NodeRole)):
            hint = f" here: set it in FOLDER/{SETTINGS}" if role is NodeRole.SHARD and option in _SETTINGS_OF_A_SHARD else ""
            raise ConfigurationError(option, f"role {role} does not use it{hint}")


def _account(of: KeyOptions) -> "LocalKey | RemoteKey":
    from cli.node.folder import LocalKey, RemoteKey

    remote = {
        "--account": of.account,
        "--signer-ca": of.signer_ca,
        "--signer-cert": of.signer_cert,
        "--signer-key": of.signer_key,
    }
    if not of.signer_url:
        for option, given in remote.items():
            if given:
                raise ConfigurationError(option, "belongs to --signer-url, which is missing")
        return LocalKey(of.key, _password(of.password_file, of.prompt))
    for option, is_given in (("--key", of.key), ("--password-file", of.password_file), ("--prompt", of.prompt)):
        if is_given:
            raise ConfigurationError(option, "contradicts --signer-url: the remote signer has the key")
    for option, given in remote.items():
        if not given:
            raise ConfigurationError(option, "missing: --signer-url needs it")
        if isinstance(given, Path) and not given.is_file():
            raise ConfigurationError(option, f"{given} is no file")
    assert of.signer_ca and of.signer_cert and of.signer_key, "checked above"
    files = (each.absolute() for each in (of.signer_ca, of.signer_cert, of.signer_key))
    return RemoteKey(of.signer_url, of.account, *files)


def _password(file: Path | None, prompt: bool) -> "ChosenPassword":
    from cli.node.folder import ChosenPassword

    if file is not None and prompt:
        raise ConfigurationError("--prompt", "contradicts --password-file: give one of them")
    if file is not None:
        return ChosenPassword(read_secret(file), file.absolute(), is_new=False)
    if not prompt:
        return ChosenPassword(Secret(secrets.token_hex(24).encode()), Path(PASSWORD), is_new=True)
    if not sys.stdin.isatty():
        raise ConfigurationError("--prompt", "needs a terminal: give --password-file instead")
    first = getpass.getpass("Password of the account key: ")
    if not first or first != getpass.getpass("The same again: "):
        raise ConfigurationError("--prompt", "empty, or not the same twice: nothing was made")
    return ChosenPassword(Secret(first.encode()), None, is_new=False)


def _next_steps(role: NodeRole, folder: Path) -> list[str]:
    config = f"--config {folder / SETTINGS}"
    steps = [f"read the settings, then check everything: bytewise doctor {config}"]
    if role is NodeRole.SHARD:
        steps.append(f"give {folder / 'entry.json'}, which is public, to the coordinator of the key ceremony")
    if role not in (NodeRole.MONITOR, NodeRole.SHARD):
        steps.append("send ether for gas and bonds to the account above")
    if role in JUDGES:
        steps.append(f"stake and join: bytewise verifier register {config} --stake WEI --dry-run")
    if role is NodeRole.OPERATOR:
        steps.append(f"stake and register: bytewise operator register {config} --stake WEI --endpoint URL --dry-run")
    if role is NodeRole.WATCHTOWER:
        steps.append('it observes and sends nothing until you set strategy = "defend" under [policy]')
    return [*steps, f"start it: bytewise run {config}", f"look at it: bytewise status {config}"]

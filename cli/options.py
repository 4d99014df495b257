"""Options, arguments and passwords that many verbs take from the user.

The module imports little, because every help page loads it.
"""

import functools
import getpass
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Concatenate, NamedTuple, get_type_hints

import typer

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Digest, digest, unhex
from bytewise.service.secret import Secret
from cli.output import OutputFormat, OutputOption

NetworkOption = Annotated[Path, typer.Option("--network", help="Address book of the network (network.json).", show_default=True)]
RpcOption = Annotated[
    list[str],
    typer.Option("--rpc", help="URL of a JSON-RPC node of that chain; repeat it, and most must agree.", show_default=True),
]
DaOption = Annotated[
    list[str], typer.Option("--da", help="URL of an EigenDA proxy; repeat it for a second opinion.", show_default=True)
]
ReceiptArgument = Annotated[
    str,
    typer.Argument(metavar="RECEIPT_ID", help="As in the answer's receipt.receipt_id, 0x-hex, or its first digits."),
]
FromOption = Annotated[
    str | None, typer.Option("--from", help="Account that will sign elsewhere, 0x-hex: the call is tried in its name.")
]
KeyOption = Annotated[
    Path | None, typer.Option("--key", help="Or: key file of that account, hex or keystore, readable by you alone.")
]
PasswordFileOption = Annotated[
    Path | None, typer.Option("--password-file", help="Where --key is a keystore: file with its password; else you are asked.")
]
DevnetOption = Annotated[int | None, typer.Option("--devnet-account", min=0, help="Or: this account of anvil.")]
SendOption = Annotated[bool, typer.Option("--send", help="Sign with --key and send; without it nothing is sent.")]
NodeConfigOption = Annotated[Path, typer.Option("--config", help="Settings file of the node (`bytewise init` writes it).")]

SETTINGS = "bytewise.toml"
"""Name of the settings file in a node's folder."""
NETWORK_FILE = Path("network.json")
"""Default of `--network`: the address book in the current folder."""
RPC_URL = "http://127.0.0.1:8545"
RPC_URLS = [RPC_URL]
"""Default of `--rpc`: a chain node on this machine."""
DA_URLS = ["http://127.0.0.1:3100"]
"""Default of `--da`: an EigenDA proxy on this machine."""


class CallOptions(NamedTuple):
    """Options of every verb that calls a contract: the network, the signing account, and whether the call is sent."""

    network: NetworkOption = NETWORK_FILE
    rpc: RpcOption = RPC_URLS
    sender: FromOption = None
    key: KeyOption = None
    password_file: PasswordFileOption = None
    devnet_account: DevnetOption = None
    send: SendOption = False
    output: OutputOption = OutputFormat.TABLE


def with_call_options(verb: Callable[Concatenate[CallOptions, ...], None]) -> Callable[..., None]:
    """Decorator that gives a verb the options of `CallOptions`. The first parameter of `verb` receives them as one `CallOptions`.
    The returned command has the verb's other parameters, and then one parameter for each field of `CallOptions`."""
    hints = get_type_hints(CallOptions, include_extras=True)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    options = [
        inspect.Parameter(name, kind, default=CallOptions._field_defaults[name], annotation=hint) for name, hint in hints.items()
    ]
    own = list(inspect.signature(verb).parameters.values())[1:]

    @functools.wraps(verb)
    def command(**given: Any) -> None:
        verb(CallOptions(**{name: given.pop(name) for name in hints}), **given)

    parameters = [*own, *options]
    command.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


AccountArgument = Annotated[str, typer.Argument(metavar="ACCOUNT", help="Account, 0x-hex, or its first digits.")]


def receipt_argument(text: str) -> Digest:
    """Parses a receipt id that a user typed in full. Raises `ConfigurationError` if the text is no id."""
    return digest_argument("RECEIPT_ID", text)


def digest_argument(name: str, text: str) -> Digest:
    """Parses a digest that a user typed as the argument or option `name`. Raises `ConfigurationError` if the text is no
    digest."""
    try:
        return digest(unhex(text.lower()))
    except MalformedValue:
        raise ConfigurationError(name, "must be 0x and 64 hex digits") from None


def needs_password(key_file: Path | None, password_file: str | Path | None) -> bool:
    """Tells whether a person must type a password: the key file is a keystore, and no file with its password is named. Raises
    `ConfigurationError` if the key file cannot be read."""
    if key_file is None or password_file:
        return False
    try:
        return key_file.is_file() and key_file.read_bytes().lstrip().startswith(b"{")
    except OSError as error:
        raise ConfigurationError(str(key_file), f"{error.strerror}: run this as the user of the key file") from None


def asked_password(
    key_file: Path | None, password_file: str | Path | None, option: str = "signer.password_file"
) -> Secret | None:
    """Asks a person for the password of a keystore. Returns None if no password is needed. Raises `ConfigurationError` if
    the key file cannot be read, or if there is no terminal. The second error names `option`, the setting or option that gives the
    password file."""
    if key_file is None or not needs_password(key_file, password_file):
        return None
    if not sys.stdin.isatty():
        raise ConfigurationError(
            option, f"missing: {key_file.name} is a keystore, and there is no terminal to ask for its password"
        )
    return Secret(getpass.getpass(f"Password of {key_file}: ").encode())

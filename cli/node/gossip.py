"""`bytewise member connect`: sets up the gossip process of a node, which `bytewise run` then starts (ADR-031)."""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.settings import child_environment, load_settings, read_document
from cli.options import SETTINGS, NodeConfigOption

if TYPE_CHECKING:
    from bytewise.protocol.units import Address
    from cli.node.supervisor import Program


MODULES = Path(__file__).resolve().parents[2]
"""The folder that contains the package `gossip`. The Python of the gossip environment searches it last, so that packages of that
environment come first."""
START = "import runpy, sys; sys.path.append(sys.argv.pop(1)); runpy.run_module('gossip', run_name='__main__', alter_sys=True)"
"""Program of the gossip environment's Python. It adds its first argument, a folder, to the search path, and starts `gossip`."""
START_S = 60.0
"""Longest time to wait until the gossip process prints its identity, in seconds."""
_ADDRESS = re.compile(r"/(?:ip4|ip6|dns4|dns6)/[\w.:-]+/tcp/([0-9]{1,5})")
"""A libp2p address over TCP. Its group is the port."""
_HEADER = re.compile(r"^[ \t]*\[[ \t]*gossip[ \t]*\][ \t]*(?:#.*)?$", re.MULTILINE)
"""The line of a settings file that begins the section [gossip]."""
_IDENTITY = re.compile(r'peer_key = "(0x[0-9a-f]{64})"\npeer_proof = "(0x[0-9a-f]{128})"\n?')
"""The identity that the gossip process prints: its public peer key, and the signature of that key for the account."""
_UNREADABLE = "the new settings would not be readable: write a line [gossip], and use names of folders without control characters"

PythonOption = Annotated[Path, typer.Option("--python", help="Python of the environment that `make gossip-venv` made.")]
AddressOption = Annotated[
    list[str], typer.Option("--address", help="Where other members reach you, /ip4/ADDRESS/tcp/PORT; may be repeated.")
]
ListenOption = Annotated[
    str | None, typer.Option("--listen", help="Where the process listens; else port of the first --address, all interfaces.")
]


def connect(
    address: AddressOption, config: NodeConfigOption = Path(SETTINGS),
    python: PythonOption = Path("build/gossip-venv/bin/python"), listen: ListenOption = None,
) -> None:  # fmt: skip
    """Set up gossip: members that reach each other settle a round by one signature.

    A watchtower then gets the hints of auditors, if a member names the watchtower's account in `gossip.watchtowers`.

    The command makes the peer key and gossip.toml in the folder of the node, and writes the section [gossip] of the node's
    settings. Restart the node afterwards. Then `bytewise run` also starts the gossip process.

    Exit codes: 0 set up, 64 wrong input.

    Example: bytewise member connect --address /ip4/192.0.2.1/tcp/4001 --config bytewise-member/bytewise.toml
    """
    account = _account(config)
    ports = [_port("--address", each) for each in address]
    folder, file = config.resolve().parent, config.resolve().parent / "gossip.toml"
    if file.exists() or read_document(config).get("gossip", {}):
        raise ConfigurationError(str(config), f"gossip is set up already: remove {file.name} and the settings in [gossip] first")
    heard = listen or f"/ip4/0.0.0.0/tcp/{ports[0]}"
    _port("--listen", heard)
    settings: dict[str, Any] = {
        "process": f"unix:{folder / 'gossip.sock'}", "peers_file": "peers.json", "identities_folder": "identities",
        "bls_key_file": "bls.key", "envelopes_folder": "envelopes", "addresses": address,
        "python_file": str(python.absolute()), "settings_file": file.name,
    }  # fmt: skip
    _with_gossip(config, settings)  # Raises an error now if the settings cannot be written, before any file is written.
    key, proof = write_process_settings(python, file, heard, account)
    _replace(config, _with_gossip(config, settings | {"peer_key": key, "peer_proof": proof}))
    print(
        f"{file.name} and [gossip] of {config.name} are written. Next:\n"
        f"1. restart the node: bytewise run --config {config}\n"
        f"2. it writes {folder / 'identities'}/{account.lower()}.json: send this file to the other members\n"
        "3. put their files into the same folder"
    )


def gossip_programs(config: Path) -> "list[Program]":
    """Returns the gossip process of a node, as a list with one program. The list is empty if the settings name no gossip
    environment."""
    from cli.node.supervisor import Program
    from verifier.settings import GossipSettings

    if not read_document(config).get("gossip"):
        return []
    settings = load_settings(GossipSettings, config, "gossip")
    if settings.python_file is None or settings.settings_file is None or settings.socket is None:
        return []
    command = process_command(settings.python_file, settings.settings_file)
    return [Program("gossip", command, needs_account=False, dispensable=True)]


def process_command(python: Path, settings_file: Path, *more: str) -> tuple[str, ...]:
    """Returns the command of a gossip process. `python` is the Python of the gossip environment, and `more` has further
    arguments."""
    return (str(python), "-P", "-c", START, str(MODULES), "--config", str(settings_file), *more)


def _account(config: Path) -> "Address":
    from cli.node.roles import GOSSIPERS
    from cli.node.view import NodeView

    node = NodeView(config)
    if node.role not in GOSSIPERS:
        raise ConfigurationError(f"{config.name}: role", f"{node.role} takes no part: only {', '.join(GOSSIPERS)} connect")
    return node.account


def _port(option: str, address: str) -> int:
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[1]) < 65_536:
        raise ConfigurationError(option, f"{address[:80]!r}: write /ip4/192.0.2.1/tcp/4001, or ip6, dns4, dns6 for ip4")
    return int(found[1])


def write_process_settings(python: Path, file: Path, listen: str, account: "Address") -> tuple[str, str]:
    """Writes gossip.toml and makes the peer key. Returns the public peer key and its signature for the account. After an error it
    removes gossip.toml, but not the key."""
    text = (
        "# Settings of the gossip process. Paths are relative to this file.\n"
        'peers_file = "peers.json"\nsocket = "gossip.sock"\nkey_file = "gossip.key"\nenvelopes_folder = "envelopes"\n'
        f"{_toml({'listen': listen})}\n"
    )
    _read_back(file, text)
    _replace(file, text)
    try:
        return _identity(python, file, account)
    except ConfigurationError:
        file.unlink(missing_ok=True)
        raise


def _identity(python: Path, file: Path, account: "Address") -> tuple[str, str]:
    command = process_command(python.absolute(), file, "--identity", account)
    try:
        told = subprocess.run(command, capture_output=True, text=True, env=child_environment(), timeout=START_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        why = "no answer" if isinstance(error, subprocess.TimeoutExpired) else error.strerror
        raise ConfigurationError("--python", f"{python}: {why}; `make gossip-venv` makes the environment") from None
    found = _IDENTITY.fullmatch(told.stdout)
    if found is None:
        last = (told.stderr.strip().splitlines() or ["no identity"])[-1]
        raise ConfigurationError("--python", f"{python}: {last[:200]}; `make gossip-venv` makes the environment")
    return found[1], found[2]


def _with_gossip(config: Path, settings: dict[str, Any]) -> str:
    """Returns the text of the settings file with `settings` added at the beginning of its section [gossip]. Raises
    `ConfigurationError` if the new text would not be read as exactly the old settings and these."""
    text, lines = config.read_text(), _toml(settings)
    found = _HEADER.search(text)
    new = f"{text[: found.end()]}\n{lines}{text[found.end() :]}" if found else f"{text.rstrip()}\n\n[gossip]\n{lines}\n"
    if _read_back(config, new) != read_document(config) | {"gossip": settings}:
        raise ConfigurationError(config.name, _UNREADABLE)
    return new


def _toml(settings: dict[str, Any]) -> str:
    # JSON and TOML write texts and lists of texts in the same way, except escapes of characters above U+FFFF. So none are used.
    return "\n".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in settings.items())


def _read_back(file: Path, text: str) -> dict[str, Any]:
    """Parses the new text of a settings file and returns its content. Raises `ConfigurationError` if it is no valid TOML."""
    try:
        return tomllib.loads(text.encode().decode())
    except ValueError as error:
        raise ConfigurationError(file.name, f"{_UNREADABLE} ({error})") from None


def _replace(path: Path, text: str) -> None:
    from bytewise.service.files import replace_file

    replace_file(path, text.encode())

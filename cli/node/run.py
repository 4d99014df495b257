"""`bytewise run`: runs all processes of a node under one supervisor."""

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bytewise.service.exit_codes import Exit
from bytewise.service.settings import PREFIX, child_environment, read_document, setting_variables
from cli.node.gossip import gossip_programs
from cli.node.roles import GOSSIPERS, NodeRole, role_of
from cli.options import SETTINGS, NodeConfigOption, asked_password

if TYPE_CHECKING:
    from cli.node.supervisor import PasswordPipe, Program


LOOK_S = 60.0
"""Longest time of the checks before the node's processes start, in seconds."""

_PROGRAMS = {
    NodeRole.OPERATOR: ("operator", "serving"),
    NodeRole.VERIFIER: ("node", "verifier"),
    NodeRole.MEMBER: ("node", "committee"),
    NodeRole.WATCHTOWER: ("node", "verifier"),
}
"""Name and Python package of each role's main process. `programs_of` adds shards and monitors."""


def run(config: NodeConfigOption = Path(SETTINGS)) -> None:
    """Run all processes of a node until SIGTERM or Ctrl-C.

    If the settings of a verifier or member have a section [enclave], the command also starts the enclave. If they also have a
    section [collateral], it starts the process that renews the collateral. If `bytewise member connect` set up gossip, it starts
    the gossip process. A process that fails is started again, with growing pauses. Wrong settings, or a refusal that protects the
    account, end the node, and the last log lines give the reason. Each line is JSON, and its member `component` names the process
    that wrote it.

    Exit codes: 0 stopped, 6 refused, 64 wrong settings, 75 a process had to be killed.

    Example: bytewise run --config bytewise-watchtower/bytewise.toml
    """
    from bytewise.service import telemetry
    from bytewise.service.schedule import stop_on_signals
    from cli.node.supervisor import NodeSupervisor

    programs, password = programs_of(config), _password(config)
    telemetry.configure("supervisor")
    stop = stop_on_signals()
    _tell_problems(config, password)
    raise typer.Exit(NodeSupervisor(programs, password).run(stop))


def programs_of(config: Path) -> "list[Program]":
    """Returns the processes of the node that a settings file describes, in the order in which they start."""
    from cli.node.supervisor import Program, python_module

    role, where = role_of(config), ("--config", str(config))
    if role is NodeRole.SHARD:
        return [Program("shard", python_module("kms", "serve", *where), needs_account=False)]
    if role is NodeRole.MONITOR:
        return [Program("monitor", python_module("dashboard.monitor", "run", *where), needs_account=False)]
    name, module = _PROGRAMS[role]
    node = Program(name, python_module(module, *where), needs_account=True)
    document = read_document(config)
    gossip = gossip_programs(config) if role in GOSSIPERS else []
    if "enclave" not in document:
        return [node, *gossip]
    renewal = Program("collateral", python_module("cli", "enclave", "collateral", *where), needs_account=False)
    enclave = Program("enclave", python_module("enclave", *where), needs_account=False)
    return [*([renewal] if "collateral" in document else []), enclave, node, *gossip]


def _tell_problems(config: Path, password: "PasswordPipe | None" = None) -> None:
    """Checks the node and logs the failed checks before its processes start.

    Without this, a node that lacks stake or an enclave would look healthy and do nothing. The checks run in a separate process,
    so that the supervisor does not keep web3 in its memory for months.
    """
    from bytewise.service import telemetry
    from cli.node.supervisor import NoPassword, python_module

    command = python_module("cli", "status", "--config", str(config), "--health", "--output", "json")
    try:
        with (password or NoPassword()).opened() as (files, variable):
            told = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, env=child_environment(setting_variables() | variable),
                pass_fds=files, timeout=LOOK_S, check=False,
            )  # fmt: skip
        if told.returncode == Exit.USAGE:
            sys.stderr.buffer.write(told.stderr)
            raise typer.Exit(Exit.USAGE)
        state = json.loads(told.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        telemetry.log("node.not_checked", do="`bytewise doctor` says what does not answer")
        return
    not_yet = _checks_after_start(config)
    problems = [each for each in state["problems"] if each["name"] not in not_yet]
    for each in problems:
        telemetry.log("node.not_ready", check=each["name"], found=each["value"], must_be=each["threshold"], do=each["advice"])
    if not problems:
        telemetry.log("node.ready", role=state["role"], account=state["account"])


def _checks_after_start(config: Path) -> tuple[str, ...]:
    """Returns the names of the checks that cannot pass before the node runs. The check `enclave` is among them only if the node
    starts the enclave itself."""
    starts_enclave = any(each.name == "enclave" for each in programs_of(config))
    return ("process", "enclave") if starts_enclave else ("process",)


def _password(config: Path) -> "PasswordPipe | None":
    """Asks at the terminal for the keystore's password if neither the settings nor a variable name a file with it. Returns the
    pipe for the node's processes, or None if no password is needed."""
    from cli.node.supervisor import PasswordPipe

    signer, variables = read_document(config).get("signer", {}), setting_variables()
    key, file = (
        variables.get(f"{PREFIX}SIGNER__{name.upper()}") or signer.get(name) for name in ("key_file", "password_file")
    )  # fmt: skip
    found = asked_password(config.parent / str(key or ""), file)
    return None if found is None else PasswordPipe(found.reveal())

"""Verbs that start an actor. Each replaces this process by `python -m …`, so that the actor is measured and hardened without the
command."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path, typer.Option("--config", exists=True, dir_okay=False, help="Settings file, TOML (docs/reference/settings.md).")
]


def run_operator(config: ConfigOption) -> None:
    """Run an operator until SIGTERM.

    It serves an OpenAI-compatible API, signs a receipt for each answer and anchors receipts in batches.

    Example: bytewise operator run --config operator.toml
    """
    _become("serving", config)


def run_verifier(config: ConfigOption) -> None:
    """Run a watchtower, or a verifier that audits, until SIGTERM.

    The setting `role` selects one. A watchtower needs no stake and no enclave.

    Example: bytewise verifier run --config watchtower.toml
    """
    _become("verifier", config)


def run_member(config: ConfigOption) -> None:
    """Run a staked verifier with seats until SIGTERM.

    It audits, and votes in the disputes for which it is drawn; its enclave must run beside it (`bytewise enclave run`).

    Example: bytewise member run --config member.toml
    """
    _become("committee", config)


def run_enclave(config: ConfigOption) -> None:
    """Run the enclave of a verifier until SIGTERM.

    Example: bytewise enclave run --config enclave.toml
    """
    _become("enclave", config)


def run_shard(config: ConfigOption) -> None:
    """Run a key shard until SIGTERM.

    Before its first epoch it only takes part in key ceremonies. `bytewise shard init` makes the settings.

    Example: bytewise shard run --config shard1/bytewise.toml
    """
    _become("kms", config, "serve")


def erase_shares(config: ConfigOption) -> None:
    """Erase every share of the epoch except the one in force.

    The shard must be stopped. The command writes a signed statement, which `bytewise key verify-erasure` counts.

    Example: bytewise shard erase --config shard1/bytewise.toml
    """
    _become("kms", config, "erase")


def wrap_storage_key(config: ConfigOption) -> None:
    """Keep the storage key wrapped by the command that the settings name.

    The setting `wrap_command` names the command. Afterwards no share in the folder opens without that command.

    Example: bytewise shard wrap --config shard1/bytewise.toml
    """
    _become("kms", config, "wrap")


def approve(config: ConfigOption) -> None:
    """Sign an appraisal policy as one of its governors.

    Example: bytewise key approve --config approve.toml
    """
    _become("kms", config, "approve")


def run_da(config: ConfigOption) -> None:
    """Run the data availability store until SIGTERM.

    Example: bytewise da run --config da.toml
    """
    _become("bytewise.da", config, "serve")


def run_dashboard(config: ConfigOption) -> None:
    """Run a dashboard until SIGTERM: an index of events, a read API and pages.

    It holds no key and sends nothing. It makes the index in an empty database, and goes on where it was.

    Example: bytewise dashboard run --config dashboard.toml
    """
    _become("dashboard", config, "run")


def run_monitor(config: ConfigOption) -> None:
    """Run a monitor until SIGTERM: invariants as metrics and log lines.

    It holds no key and sends nothing. `bytewise monitor check` shows the same on the terminal.

    Example: bytewise monitor run --config bytewise-monitor/bytewise.toml
    """
    _become("dashboard.monitor", config, "run")


def _become(module: str, config: Path, *command: str) -> None:
    # -P: Python imports the installed module, not one in the current folder.
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, *command, "--config", str(config)])

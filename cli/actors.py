"""Verbs that start an actor. Each verb replaces this process by `python -m …`, so that the code of the command line is not part
of the process that is measured and hardened."""

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

    The operator serves an OpenAI-compatible API, signs a receipt for each answer and anchors receipts in batches.

    Example: bytewise operator run --config operator.toml
    """
    _become("serving", config)


def run_verifier(config: ConfigOption) -> None:
    """Run a watchtower, or a verifier that audits, until SIGTERM.

    The setting `role` selects which of the two runs. A watchtower needs no stake and no enclave.

    Example: bytewise verifier run --config watchtower.toml
    """
    _become("verifier", config)


def run_member(config: ConfigOption) -> None:
    """Run a staked verifier with seats until SIGTERM.

    The member audits receipts, and votes in the disputes for which it is drawn. Its enclave must run beside it
    (`bytewise enclave run`).

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

    Until it has the document of an epoch, the shard only takes part in key ceremonies. `bytewise shard init` writes the settings.

    Example: bytewise shard run --config shard1/bytewise.toml
    """
    _become("kms", config, "serve")


def erase_shares(config: ConfigOption) -> None:
    """Erase the shares of the epoch that nothing needs any more.

    The command keeps the share in force, unless no dispute can need the epoch's key any more, or the key was dealt to other
    shards: then it erases that share too. A running shard may still have old shares in memory. So stop the shard first if its
    epoch is retired, or if the shard has not taken its new share. The command writes a signed statement, which
    `bytewise key verify-erasure` counts.

    Example: bytewise shard erase --config shard1/bytewise.toml
    """
    _become("kms", config, "erase")


def wrap_storage_key(config: ConfigOption) -> None:
    """Keep the storage key wrapped by the command that the settings name.

    The settings `wrap_command` and `unwrap_command` name the commands. Afterwards no share in the folder opens without
    `unwrap_command`. An older build left the file `signing.key` unsealed: this command seals it, also without `wrap_command`.

    Exit codes: 0 wrapped or sealed, 5 a command of the settings fails, 64 wrong input, or there is nothing to wrap.

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

    The dashboard has no key and sends no transaction. In an empty database it starts a new index. Otherwise it continues the
    index that is there.

    Example: bytewise dashboard run --config dashboard.toml
    """
    _become("dashboard", config, "run")


def run_monitor(config: ConfigOption) -> None:
    """Run a monitor until SIGTERM: invariants as metrics and log lines.

    The monitor has no key and sends no transaction. `bytewise monitor check` shows the same results on the terminal.

    Example: bytewise monitor run --config bytewise-monitor/bytewise.toml
    """
    _become("dashboard.monitor", config, "run")


def _become(module: str, config: Path, *command: str) -> None:
    # With -P, Python imports the installed module and not one in the current folder.
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, *command, "--config", str(config)])

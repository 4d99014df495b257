"""`bytewise status`: shows one screen about a node: its health with reasons, past and next duties, earnings and losses."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bytewise.service.exit_codes import Exit
from cli.attention.score import score_words
from cli.node.roles import NodeRole
from cli.options import SETTINGS, NodeConfigOption
from cli.output import OutputFormat, OutputOption, emit, ether, plain

HealthOption = Annotated[
    bool, typer.Option("--health", help="Only the health and its reasons: the rest asks a node for all blocks of the network.")
]


def status(
    config: NodeConfigOption = Path(SETTINGS), health: HealthOption = False, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Show the state of a node: its health with reasons, past and next duties, seats, earnings and losses.

    The command reads the node's settings and database and asks the chain. The node may be running or not. For a monitor, the
    command shows every invariant instead.

    Exit codes: 0 healthy, 7 not healthy (each reason is printed), 64 the settings or the account cannot be read.

    Example: bytewise status --config bytewise-watchtower/bytewise.toml
    """
    from cli.node.state import monitor_state, node_health, node_state
    from cli.node.view import NodeView  # both modules import web3, which takes longer than a help page

    view = NodeView(config)
    of_node = node_health if health else node_state
    state = monitor_state(view) if view.role is NodeRole.MONITOR else of_node(view)
    emit(output, state, lambda: _print(Console(), state))
    raise typer.Exit(Exit.OK if state["healthy"] else Exit.NOT_READY)


def _print(console: Console, state: Mapping[str, Any]) -> None:
    def say(text: str, style: str = "") -> None:
        console.print(plain(text, style), soft_wrap=True)

    who = f" {state['account']}" if state["account"] else ""
    at = f", block {state['block']}" if state.get("block") else ""
    say(f"{state['role']}{who} on chain {state['chain_id']}{at}", "bold")
    problems: Sequence[Mapping[str, str]] = state["problems"]
    say("healthy" if not problems else "NOT healthy", "bold green" if not problems else "bold red")
    for each in problems:
        say(f"  {each['name']}: {each['value']} (must be: {each['threshold']})", "red")
        say(f"    to do: {each['advice']}")
    say(f"process   {state['process']}")
    if "invariants" in state:
        for each in state["invariants"]:
            say(f"{each['state']:9} {each['invariant']}: {len(each['findings'])} findings {each['reason']}".rstrip())
        return
    if "balance_wei" not in state:
        return
    if state["block"]:
        _print_money(say, state)
    else:
        say("money     unknown: the chain was not read")
    say(f"did       {_counts(state['did'])}")
    say(f"due next  {_due(state['due'])}")
    say(f"attention {_attention(state['attention'], state['role'])}")
    for name, reason in state["attention"]["refused"].items():
        say(f"  {name}: {reason}", "yellow")


def _print_money(say: Callable[[str], None], state: Mapping[str, Any]) -> None:
    say(f"money     balance {ether(state['balance_wei'])}, worst case {ether(state['worst_case_wei'])}, "
        f"credit {ether(state['credit_wei'])}, stake {ether(state['stake_wei'])}")  # fmt: skip
    say(f"earned    {_sums(state['credited_wei'])}")
    say(f"paid      {_sums(state['paid_wei'])}")
    say(f"net       {ether(state['net_wei'])}")
    say(f"seats     {_seats(state['seats'])}")


def _sums(sums: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {ether(wei)}" for name, wei in sorted(sums.items())) or "nothing yet"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing yet"


def _seats(seats: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(f"{each['seats']} in dispute {each['dispute'][:10]}… ({each['phase']})" for each in seats) or "none open"


def _due(due: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(f"{each['kind']} {each['subject'][:10]}… in {each['in_s']} s" for each in due[:5]) or "nothing"


def _attention(found: Mapping[str, Any], role: str) -> str:
    """Returns the node's score in attention tests as one line: as a watchtower, or as an auditor and member."""
    if not found["tests"]:
        return "no test revealed yet"
    words = score_words(found["score"])
    parts = ("as a watchtower:",) if role == NodeRole.WATCHTOWER else ("score", "audits:", "seats:")
    unproven = f"; {found['unproven']} unproven, `bytewise attention score --artifact` runs them" if found["unproven"] else ""
    told = ", ".join(f"{part} {words[part]}" for part in parts)
    return f"{told} (of {found['tests']} tests in {found['ranges']} revealed ranges{unproven})"

"""The public state as tables for people."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from bytewise.protocol.court.commitments import claim_of
from bytewise.protocol.units import digest, hex0x, unhex
from cli.labels import warn
from cli.quotes import HOLDS
from cli.status import short

ETHER = 10**18


def show(state: Mapping[str, Any], console: Console, names: Mapping[str, str]) -> None:
    """Prints receipts, verdicts and money; `names` maps accounts to what the reader calls them."""
    console.print(_receipts(state))
    console.print(_verdicts(state, names))
    console.print(_payments(state))
    console.print(_money(state, names))
    key = f"key epoch {state['key_epoch']}, assurance {state['assurance']}, {state['key_kind']}"
    console.print(key if state["key_epoch"] else "no key epoch is active", style="bold")
    word = "sums to the wei" if state["money_sums"] else "DOES NOT SUM"
    console.print(f"block {state['block']}: all money {word}; burned {ether(state['money']['total_burned'])}", style="bold")
    labels = {state["assurance"], *(each["assurance"] for each in (*state["batches"], *state["disputes"]))}
    for label in sorted(labels):
        warn(console, label)


def ether(wei: str | int) -> str:
    """Wei as ether, exactly, without trailing zeros."""
    whole, rest = divmod(abs(int(wei)), ETHER)
    decimals = f".{rest:018d}".rstrip("0").rstrip(".")
    return f"{'-' if int(wei) < 0 else ''}{whole}{decimals} ETH"


def brief(wei: str | int) -> str:
    """Wei as ether with at most four decimals, cut and marked where there are more; the exact figure is in the JSON."""
    exact = ether(wei).removesuffix(" ETH")
    head, _, decimals = exact.partition(".")
    return exact if len(decimals) <= 4 else f"{head}.{decimals[:4]}…"


def _receipts(state: Mapping[str, Any]) -> Table:
    total = sum(batch["count"] for batch in state["batches"])
    table = Table(title=f"{total} receipts in {len(state['batches'])} batches", title_justify="left")
    for heading in ("receipt", "audits: match", "mismatch", "none", "verdict", "assurance"):
        table.add_column(heading, justify="right" if heading in ("mismatch", "none") else "left")
    for each in state["receipts"]:
        said = each["audits"]
        verdict = each["verdict"] or "accepted by default"
        counts = (str(said["match"]), str(said["mismatch"]), str(said["none"]))
        table.add_row(short(each["receipt"]), *counts, verdict, each["assurance"])
    return table


def seats_for(dispute: Mapping[str, Any]) -> int:
    """Seats that found what stands: what replaces the claim, or else the claim in both fields that its operator signed."""
    claim, replacement = dispute["claim"], dispute["replacement"]
    return sum(
        member["seats"]
        for member in dispute["members"]
        if (member["out_hash"] == replacement if replacement else _claim_of(member) == claim)
    )


def _claim_of(member: Mapping[str, Any]) -> str | None:
    """What a member found, in the form of a receipt's claim."""
    found = member["tokens_hash"], member["out_hash"]
    return None if None in found else hex0x(claim_of(*(digest(unhex(each)) for each in found)))


def _verdicts(state: Mapping[str, Any], names: Mapping[str, str]) -> Table:
    table = Table(title="verdicts", title_justify="left")
    for heading in ("receipt", "verdict", "assurance", "operator", "challenger", "seats for it", "absent", "quotes that hold"):
        table.add_column(heading)
    for each in state["disputes"]:
        equal = seats_for(each)
        quotes = [m["quote"] for m in each["members"] if m["quote"] is not None]
        absent = sum(m["seats"] for m in each["members"] if m["commitments"] == 0)
        table.add_row(
            short(each["receipt"]), each["verdict"], each["assurance"], names.get(each["operator"], short(each["operator"])),
            names.get(each["challenger"], short(each["challenger"])), f"{equal} of {each['seats']}", str(absent),
            f"{quotes.count(HOLDS)} of {len(quotes)}",
        )  # fmt: skip
    return table


def _payments(state: Mapping[str, Any]) -> Table:
    table = Table(title="money of each dispute, in ETH", title_justify="left")
    columns = {
        "bond": "bond_wei", "advanced": "advanced_wei", "slashed": "slashed_wei", "to challenger": "to_challenger_wei",
        "to committee": "to_verifiers_wei", "to operator": "to_operator_wei", "burned": "burned_wei",
    }  # fmt: skip
    for heading in ("receipt", *columns):
        table.add_column(heading)
    for each in state["disputes"]:
        money = each["money"] or {}
        table.add_row(short(each["receipt"]), *(brief(money.get(key, "0")) for key in columns.values()))
    return table


def _money(state: Mapping[str, Any], names: Mapping[str, str]) -> Table:
    table = Table(title="accounts, in ETH", title_justify="left")
    for heading in ("account", "role", "stake", "may withdraw"):
        table.add_column(heading)
    for each in state["accounts"]:
        name = names.get(each["account"], short(each["account"]))
        table.add_row(name, each["role"], brief(each["stake_wei"]), brief(each["credit_wei"]))
    return table

"""`bytewise dispute plan`: computes which balance and how many audits a watchtower needs, so that it can dispute enough
frauds."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import hex0x
from cli.network import print_not_added, read_rows
from cli.options import NETWORK_FILE, RPC_URLS, NetworkOption, RpcOption
from cli.output import OutputFormat, OutputOption, Row, brief, emit, print_entries

if TYPE_CHECKING:
    from bytewise.protocol.economics.coverage import WatchPlan, WatchTerms
    from chain.reads.reader import SnapshotReader

GWEI = 10**9
INTEREST = 0.05
"""Default of `--interest`: the part of the capital that other investments would yield in a year."""
WEI = ("bond", "bonds", "gas", "balance", "capital", "reward")
"""Names of the amounts of a plan that are in wei. The output has them as whole numbers."""


def plan(
    receipts: Annotated[float, typer.Option("--receipts", help="Receipts per day that you watch.")],
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    fraud: Annotated[float, typer.Option("--fraud", help="Share of them that you expect to be false, 0 to 1.")] = 0.001,
    mistakes: Annotated[float, typer.Option("--mistakes", help="Disputes per day that you expect to lose.")] = 0.0,
    mismatches: Annotated[int, typer.Option("--mismatches", help="As `watch.mismatches` of your node.")] = 2,
    coverage: Annotated[float, typer.Option("--coverage", help="Share of the frauds that must be disputed.")] = 0.9,
    ready: Annotated[float, typer.Option("--ready", help="Chance that the balance suffices at any moment.")] = 0.99,
    gas: Annotated[float | None, typer.Option("--gas-gwei", help="Price of gas; by default the node's.")] = None,
    interest: Annotated[float, typer.Option("--interest", help="Yearly yield of other investments.")] = INTEREST,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Plan a watchtower: bonds, balance and audits that a coverage needs.

    The plan is made for each pool of verifiers, from the parameters and stakes in force. It assumes that all auditors are honest
    and post their results. A watchtower without an enclave learns of frauds only from these results.

    Exit codes: 0 planned, 5 the node does not answer, 64 wrong input.

    Example: bytewise dispute plan --receipts 10000 --coverage 0.9
    """
    from bytewise.protocol.economics.coverage import WatchTerms

    try:
        terms = WatchTerms(receipts, fraud, mistakes, mismatches, coverage, ready)
        rows = read_rows(network, rpc, lambda reader: _plans(reader, terms, gas, interest))
    except MalformedValue as error:
        field, bounds = error.values
        if field not in OPTIONS:
            raise
        raise ConfigurationError(OPTIONS[str(field)], bounds) from None
    emit(output, rows, lambda: _print(rows))


OPTIONS = {
    "receipts": "--receipts", "fraud": "--fraud", "mistakes": "--mistakes", "mismatches": "--mismatches", "wanted": "--coverage",
    "ready": "--ready", "gas": "--gas-gwei", "interest": "--interest", "disputes": "--receipts, --fraud, --mistakes",
}  # fmt: skip
"""The option of each value of a plan that can be outside its bounds."""


def _plans(reader: "SnapshotReader", terms: "WatchTerms", gas_gwei: float | None, interest: float) -> list[Row]:
    from bytewise.protocol.court.sortition import seats_in_audit_draw
    from bytewise.protocol.economics.coverage import watch_plan
    from bytewise.protocol.economics.incentives import Prices
    from bytewise_client.network_state import holdings, pools_not_added

    block = reader.head()
    params = reader.params(reader.params_version(block), block)
    price = reader.client.head().base_fee_wei if gas_gwei is None else gas_gwei * GWEI
    if not 0 <= price < 2**128:
        raise MalformedValue("gas", "must not be negative, and must be below 2^128 wei")
    if not 0 <= interest <= 10:
        raise MalformedValue("interest", "must be from 0 to 10")
    rows, missing = [], pools_not_added(reader, block)
    for pool in reader.network.pools:
        members = [each.account for each in reader.verifiers(pool.digest, block) if each.may_audit(pool.digest, block)]
        stakes = [int(holdings(reader, each, block)["stake_wei"]) for each in members]
        seats = [seats_in_audit_draw(stake, params.money.audit_unit, is_member=True) for stake in stakes]
        found = watch_plan(params, seats, Prices(price, 0, interest), terms)
        name = hex0x(pool.digest)
        who = {"pool": name, "added": name not in missing, "verifiers": len(seats), "audit_seats": sum(seats)}
        rows.append(_row(found, terms.wanted) | who)
    return rows


def _row(found: "WatchPlan", wanted: float) -> Row:
    money = {f"{name}_wei": str(int(getattr(found, name))) for name in WEI}
    return {
        "coverage": found.coverage, "wanted": wanted, "rate_bps": found.rate_bps, "needed_rate_bps": found.needed_rate_bps,
        "audits_per_day": found.audits, "needed_audits_per_day": found.needed_audits, "disputes_per_day": found.disputes,
        "locked_s": found.locked_s, "open_at_once": found.open_at_once, **money,
    }  # fmt: skip


def _print(rows: list[Row]) -> None:
    console = Console()
    for row in rows:
        eth = {name: f"{brief(row[f'{name}_wei'])} ETH" for name in WEI}
        print_entries(
            [(f"pool {row['pool']}", {"verifiers": row["verifiers"], "audit seats": row["audit_seats"]})], "pools", console
        )
        for line in (
            f"audits show {row['coverage']:.2%} of the frauds at {row['rate_bps']} of 10,000 per seat, "
            f"{row['audits_per_day']:.0f} audits a day",
            _needed(row),
            f"{row['disputes_per_day']:.2f} disputes a day, each with a bond of {eth['bond']} "
            f"for up to {row['locked_s'] / 3600:.1f} hours",
            f"{row['open_at_once']} open at once: bonds {eth['bonds']}, gas {eth['gas']}; have {eth['balance']}",
            f"a conviction pays {eth['reward']} and returns the bond; the bond would earn {eth['capital']} elsewhere",
        ):
            console.print(f"  {line}", soft_wrap=True)
    print_not_added((row["pool"] for row in rows if not row["added"]), console)


def _needed(row: Row) -> str:
    if row["needed_rate_bps"] is None:
        return f"no audit rate shows {row['wanted']:.1%}: too few verifiers have a whole audit unit of stake"
    if row["coverage"] >= row["wanted"]:
        return f"that is the {row['wanted']:.1%} you want; {row['needed_rate_bps']} of 10,000 would suffice"
    return f"for {row['wanted']:.1%} it takes {row['needed_rate_bps']} of 10,000, {row['needed_audits_per_day']:.0f} audits a day"

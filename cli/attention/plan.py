"""`bytewise attention plan`: computes what attention tests cost, and how long a member that checks nothing can pass them."""

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import hex0x
from cli.attention.fund import RateOption
from cli.network import print_not_added, read_rows
from cli.options import NETWORK_FILE, RPC_URLS, NetworkOption, RpcOption
from cli.output import ETHER, OutputFormat, OutputOption, Row, brief, emit, plain, print_entries

if TYPE_CHECKING:
    from bytewise.protocol.economics.attention import FundTerms
    from chain.reads.reader import SnapshotReader


def plan(
    rate: RateOption,
    per_day: Annotated[float, typer.Option("--per-day", help="Receipts of the fund's operator per day.")],
    stake: Annotated[float, typer.Option("--stake", help="Stake of that operator, in ETH.")],
    checked: Annotated[float, typer.Option("--checked", help="Share of its audits that a lazy member executes.")] = 0.0,
    sure: Annotated[float, typer.Option("--sure", help="Chance with which such a member must have failed.")] = 0.99,
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Plan tests of attention: what a rate costs per day, and how soon a member that checks nothing fails.

    Every test that is noticed becomes a conviction of the fund's operator, whose stake pays the penalty. So the stake limits the
    rate. The plan is made for each pool of verifiers, from the parameters and stakes in force.

    Exit codes: 0 planned, 5 the node does not answer, 64 wrong input.

    Example: bytewise attention plan --rate 0.005 --per-day 1000 --stake 200
    """
    terms = _terms(rate, per_day, stake, checked, sure)
    rows = read_rows(network, rpc, lambda reader: _plans(reader, terms))
    emit(output, rows, lambda: _print(rows))


OPTIONS = {"rate_ppm": "--rate", "per_day": "--per-day", "stake": "--stake", "checked": "--checked", "sure": "--sure"}
"""The option of each field of `FundTerms`."""


def _terms(rate: float, per_day: float, stake: float, checked: float, sure: float) -> "FundTerms":
    """Returns the terms of a plan. `stake` is in ETH. Raises `ConfigurationError`, which names the option, for a value outside
    its bounds."""
    from bytewise.protocol.attention.schedule import RATE_UNIT
    from bytewise.protocol.economics.attention import STAKE_END, FundTerms

    # Only numbers within bounds are converted, because an infinite float, or one that is no number, has no integer.
    ppm, wei = round(rate * RATE_UNIT) if 0 <= rate <= 1 else 0, int(stake * ETHER) if 0 <= stake < STAKE_END else -1
    try:
        return FundTerms(ppm, per_day, wei, checked, sure)
    except MalformedValue as error:
        field, bounds = error.values
        raise ConfigurationError(OPTIONS[str(field)], bounds) from None


def _plans(reader: "SnapshotReader", terms: "FundTerms") -> list[Row]:
    from bytewise.protocol.court.sortition import seats_in_audit_draw
    from bytewise.protocol.economics.attention import fund_plan
    from bytewise_client.network_state import holdings, pools_not_added

    block = reader.head()
    params = reader.params(reader.params_version(block), block)
    rows, missing = [], pools_not_added(reader, block)
    for pool in reader.network.pools:
        accounts = [each.account for each in reader.verifiers(pool.digest, block) if each.may_audit(pool.digest, block)]
        stakes = [int(holdings(reader, each, block)["stake_wei"]) for each in accounts]
        seats = [seats_in_audit_draw(each, params.money.audit_unit, is_member=True) for each in stakes]
        found = fund_plan(params, seats, terms)
        members = [
            {"account": who, **asdict(odds), "days": odds.days if math.isfinite(odds.days) else None}
            for who, odds in zip(accounts, found.members, strict=True)
        ]
        name = hex0x(pool.digest)
        rows.append({
            "pool": name, "added": name not in missing, "tests_per_day": found.tests, "slash_wei": str(found.slash),
            "cost_per_day_wei": str(int(found.cost)), "burned_per_day_wei": str(int(found.burned)),
            "affordable_convictions": found.affordable, "stake_lasts_days": found.lasts,
            "most_rate": found.most_rate_ppm / 1_000_000, "sure": terms.sure, "members": members,
        })  # fmt: skip
    return rows


def _print(rows: list[Row]) -> None:
    console = Console()
    for row in rows:
        console.print(plain(f"pool {row['pool']}", "bold"), soft_wrap=True)
        for line in (
            f"{row['tests_per_day']:.2f} tests a day; each conviction takes {brief(row['slash_wei'])} ETH",
            f"costs {brief(row['cost_per_day_wei'])} ETH a day if all are convicted, of which {brief(row['burned_per_day_wei'])} "
            f"ETH are burned and the rest pays those who noticed, if all seats of the first round convict (if fewer do, more is "
            f"burned)",
            f"the stake bears {row['affordable_convictions']} convictions, {row['stake_lasts_days']:.1f} days; "
            f"the largest rate that lasts a day is {row['most_rate']:.4%}",
        ):
            console.print(plain(f"  {line}"), soft_wrap=True)
        print_entries(((each["account"], _odds(each, row["sure"])) for each in row["members"]), "members", console)
    print_not_added((row["pool"] for row in rows if not row["added"]), console)


def _odds(member: Row, sure: float) -> dict[str, str]:
    days = "never" if member["days"] is None else f"{member['days']:.2f} days"
    return {
        "drawn for": f"{member['drawn']:.1%} of receipts", "tests": f"{member['tests']:.2f} a day",
        "passes a day unseen": f"{member['passes_day']:.2%}", f"failed with {sure:.1%} after": days,
    }  # fmt: skip

"""`bytewise chain show`: reads and prints the state of a deployment."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from bytewise.protocol.units import ZERO_ADDRESS, hex0x
from bytewise.service.exit_codes import Exit
from cli.options import NETWORK_FILE, RPC_URLS, NetworkOption, RpcOption
from cli.output import OutputFormat, OutputOption, emit, ether, plain, print_entries, print_warning

if TYPE_CHECKING:
    from rich.table import Table

    from chain.reads.reader import SnapshotReader
    from chain.reads.restaking import Restaking


# The output of `bytewise chain show`: plain JSON data, or tables for people. Amounts of money are decimal strings, in wei.


def collect(reader: "SnapshotReader") -> dict[str, Any]:
    """Reads the state of a deployment at the newest block, as plain JSON data. The caller must have checked the contracts' code
    before (`verify_code`)."""
    from chain.client.address_book import contracts
    from chain.reads.records import MoneyTotals
    from chain.reads.roles import holders, irregularities

    block, network = reader.head(), reader.network
    snapshot = reader.snapshot(ZERO_ADDRESS, block)
    held = holders(reader, block)
    restaking = reader.restaking(block)
    money = reader.money(block)
    return {
        "chain_id": network.chain_id,
        "block": block,
        "clock": {"timestamp": snapshot.timestamp, "clock": snapshot.clock, "paused": snapshot.paused},
        "contracts": contracts(network),
        "roles": {role: list(accounts) for role, accounts in held.items()},
        "irregular": [*irregularities(network, held), *(restaking.flaws(network.addresses.stake_vault) if restaking else ())],
        "stake": _stake(restaking),
        "long_delay_s": _long_delay_s(reader, block),
        "params_version": snapshot.params_version,
        "pools": [_pool(reader, pool.digest, block) for pool in network.pools],
        "active_epoch": snapshot.active_epoch,
        "assurance": reader.epoch_on_chain(snapshot.active_epoch, block).assurance,
        "policy": {"digest": hex0x(snapshot.policy), "serial": snapshot.policy_serial},
        "batches": snapshot.batch_count,
        "disputes": len(reader.opened(network.deploy_block, block)),
        "price_wei": str(snapshot.price_wei),
        "money": {name: str(getattr(money, name)) for name in MoneyTotals.__dataclass_fields__},
        "money_sums": money.sums,
    }


def _stake(found: "Restaking | None") -> dict[str, Any]:
    """Returns the stake source as plain data. For EigenLayer, the data include for how many blocks a stake record counts
    (`max_age`)."""
    from bytewise.protocol.address_book import StakeSource

    if found is None:
        return {"source": StakeSource.NATIVE.value}
    return {
        "source": StakeSource.EIGENLAYER.value,
        "allocation_manager": found.allocations,
        "strategy": found.strategy,
        "operator_set": f"{found.avs}:{found.set_id}",
        "max_age": found.max_age,
        "horizon": found.horizon,
        "longest_s": found.longest_s,
        "slasher": found.slasher,
        "recipient": found.recipient,
    }


def _long_delay_s(reader: "SnapshotReader", block: int) -> int:
    """Returns the delay of the long timelock in seconds. A voted call that can move stake waits for this delay. If the delay is
    below 64 days, a guardian that pauses the network as often as it may can hold stake for longer than the delay (ADR-047)."""
    from chain.client.rpc import at_number

    where = ("TimelockController", reader.network.addresses.long_timelock)
    return int(reader.client.call(*where, "getMinDelay", block=at_number(block)))


def _pool(reader: "SnapshotReader", digest: Any, block: int) -> dict[str, Any]:
    """Returns a pool as plain data. `added` is False if the curator has not added the pool to the registry."""
    pool = reader.pool(digest, block)
    if pool is None:
        (tree,) = (each.tree for each in reader.network.pools if each.digest == digest)
        return {"pool": hex0x(digest), "added": False, "tree": tree}
    return {
        "pool": hex0x(digest),
        "added": True,
        "verifiers": pool.weighing,
        "units": pool.units,
        "seatable": pool.seatable,
        "stake_epoch": pool.epoch,
        "epoch_ends_in_blocks": pool.epoch_end - block,
        "stopped_s": pool.stopped,
    }


def show(state: Mapping[str, Any], console: Console) -> None:
    """Prints the state of a deployment, as `collect` returns it, for people."""
    from bytewise.protocol.address_book import StakeSource

    clock = state["clock"]
    stands = "stands still" if clock["paused"] else "runs"
    console.print(f"chain {state['chain_id']}, block {state['block']}; the clock {stands} at {clock['clock']}", style="bold")
    console.print(_table("contracts, with the code of the address book", ("contract", "address"), state["contracts"].items()))
    roles = [(role, "\n".join(accounts)) for role, accounts in state["roles"].items()]
    console.print(_table("roles", ("role", "held by"), roles))
    console.print(f"what moves stake waits {state['long_delay_s'] / 86_400:g} days")
    console.print("pools", style="bold")
    pools = ((each["pool"], {k.replace("_", " "): v for k, v in each.items() if k != "pool"}) for each in state["pools"])
    print_entries(pools, "pools", console)
    for each in state["pools"]:
        if not each["added"]:
            call = f"bytewise chain call Registry addPool {each['pool']} {each['tree']}"
            advice = f"the curator adds it, with --key FILE --send: {call}"
            console.print(plain(advice), soft_wrap=True)
    console.print(
        f"parameters version {state['params_version']}, key epoch {state['active_epoch']} ({state['assurance'] or 'none'}), "
        f"{state['batches']} batches, {state['disputes']} disputes, a place costs {ether(state['price_wei'])}"
    )
    stake = state["stake"]
    if stake["source"] == StakeSource.EIGENLAYER.value:
        console.print(
            f"stake is at EigenLayer: set {stake['operator_set']}, strategy {stake['strategy']}; a record counts for "
            f"{stake['max_age']} blocks and can be slashed for {stake['horizon']}"
        )
    else:
        console.print("stake is in a vault of the network's own")
    word = "sums to the wei" if state["money_sums"] else "DOES NOT SUM"
    console.print(f"stake {ether(state['money']['total_stake'])}, all money {word}")
    for line in state["irregular"]:
        console.print(plain(line, "red"))
    print_warning(console, state["assurance"])


def _table(title: str, columns: tuple[str, ...], rows: Any) -> "Table":
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for each in columns:
        table.add_column(each, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def status(network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, output: OutputOption = OutputFormat.TABLE) -> None:
    """Show whether the chain has what the address book says: code, roles, clock, pools, money.

    Exit codes: 0 as in the address book, 2 a role, EigenLayer's operator set or the money is not as it must be, 5 the node does
    not answer, 64 wrong input, or the contracts have other code.
    """
    from bytewise_client.connection import chain_of
    from chain.client.address_book import read_network, verify_code
    from chain.reads.reader import SnapshotReader

    book = read_network(network)
    client = chain_of(rpc, book.chain_id)
    verify_code(client, book)
    state = collect(SnapshotReader(client, book))
    emit(output, state, lambda: show(state, Console()))
    raise typer.Exit(Exit.OK if state["money_sums"] and not state["irregular"] else Exit.MISMATCH)

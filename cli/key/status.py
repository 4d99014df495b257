"""`bytewise key list` and `show`: shows key epochs as the chain has them, and whether each shard answers and serves its epoch."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bytewise.protocol.errors.actors import ShardRefused
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.units import ZERO_ADDRESS, ZERO_DIGEST, Digest
from bytewise.service.exit_codes import Exit
from cli.options import NETWORK_FILE, RPC_URLS, NetworkOption, RpcOption
from cli.output import Fields, OutputFormat, OutputOption, emit, plain, print_entries, print_warning

if TYPE_CHECKING:
    from bytewise.protocol.jobs import ShardRecord
    from bytewise.protocol.keys.epochs import EpochDocument, EpochOnChain, ShardInfo
    from chain.reads.reader import SnapshotReader


_NOTHING = "nothing"

_AWAITS = "serves no epoch yet: its operator puts the epoch's document at its epoch_file, and starts it again"

Ask = Callable[["ShardRecord"], "ShardInfo"]
"""A function that asks a shard for its public information. It raises `Fault` or `Unavailable` if the shard gives none."""


def ask_over_https(timeout_s: float) -> Ask:
    """Returns a function that asks a shard over HTTPS, at `/v1/info`. The function trusts only the certificate that the key epoch
    names for the shard."""
    from bytewise.protocol.encoding import decode
    from bytewise.protocol.keys.epochs import ShardInfo
    from kms.shard_client import ShardClient

    def ask(shard: "ShardRecord") -> "ShardInfo":
        with ShardClient(shard, timeout_s) as client:
            return decode(ShardInfo, client.call("GET", "/v1/info", b""))

    return ask


def collect(reader: "SnapshotReader", ask: Ask, only: int | None = None) -> dict[str, Any]:
    """Reads the key epochs of the address book at the newest block, and asks their shards. Returns plain data.

    `only` is the number of the one epoch to read, or None for all. In the result, `wrong` lists contradictions with the chain,
    and `silent` is the number of shards that did not answer.
    """
    block = reader.head()
    snapshot = reader.snapshot(ZERO_ADDRESS, block)
    final, named = reader.final(), reader.final_policy()
    policy = snapshot.policy if named is None else named
    epochs = [
        _epoch(each, _chains(reader, each.record.epoch, block, final), policy, ask)
        for each in reader.network.epochs
        if only in (None, each.record.epoch)
    ]
    wrong = [line for each in epochs for line in each["wrong"]]
    if snapshot.active_epoch not in (0, *(each.record.epoch for each in reader.network.epochs)):
        wrong.append(f"key epoch {snapshot.active_epoch} of the chain is not in the address book: get the new book")
    silent = [shard["index"] for each in epochs for shard in each["shards"] if shard["says"] == _NOTHING]
    return {"block": block, "active_epoch": snapshot.active_epoch, "epochs": epochs, "wrong": wrong, "silent": len(silent)}


def show(state: Mapping[str, Any], console: Console) -> None:
    """Prints the state of key epochs, as `collect` returns it, for people."""
    console.print(f"block {state['block']}: key epoch {state['active_epoch'] or 'none'} is active", style="bold")
    for epoch in state["epochs"]:
        title = (
            f"key epoch {epoch['epoch']}: {epoch['state']}, shares of version {epoch['version']}, any {epoch['threshold']} open"
        )
        title += f", assurance {epoch['assurance'] or 'none'}, {epoch['kind']}"
        signed = "their holders signed for them" if epoch["confirmed"] else "nobody signed for them"
        console.print(f"{title}; {signed}", style="bold", soft_wrap=True)
        print_entries(map(_entry, epoch["shards"]), "shards", console)
        print_warning(console, epoch["assurance"])
    for line in state["wrong"]:
        console.print(plain(line, "red"), soft_wrap=True)


def _entry(shard: Mapping[str, Any]) -> tuple[str, Fields]:
    return shard["account"], {"shard": shard["index"], "at": shard["url"], "says:": shard["says"]}


def _chains(reader: "SnapshotReader", epoch: int, block: int, final: int | None) -> "tuple[EpochOnChain, ...]":
    """Reads a key epoch at the newest block, and also at the newest final block if there is one."""
    return tuple(reader.epoch_on_chain(epoch, number) for number in (block, final) if number is not None)


def _epoch(document: "EpochDocument", chains: "Sequence[EpochOnChain]", policy: Digest, ask: Ask) -> dict[str, Any]:
    """Returns a key epoch and the answers of its shards as plain data. `chains` has the epoch at the newest block, and then at
    the newest final block."""
    from bytewise.protocol.keys.epochs import EpochState
    from bytewise.protocol.suites import kind_of, suite_of

    record, on_chain = document.record, chains[0]
    # States in which shards must answer.
    served = on_chain.state in (EpochState.ACTIVE, EpochState.DRAINING, EpochState.COMPROMISED)
    shards = [_shard(each, record.epoch, policy, ask, chains if served else ()) for each in record.shards]
    name = f"key epoch {record.epoch}"
    wrong = [f"{name}: shard {each['index']} {each['says']}" for each in shards if each["wrong"]]
    if on_chain.state is EpochState.NONE:
        wrong.append(f"{name} is in the address book and not on the chain")
    elif on_chain.commitments != b"".join(document.commitments):
        wrong.append(f"{name}: the chain means version {on_chain.version}, the address book has other shares: get the new book")
    return {
        "epoch": record.epoch,
        "suite": suite_of(record.epoch),
        "kind": kind_of(record.epoch),
        "state": on_chain.state.name,
        "assurance": on_chain.assurance,
        "version": on_chain.version,
        "confirmed": on_chain.transcript != ZERO_DIGEST,
        "threshold": record.threshold,
        "shards": shards,
        "wrong": wrong,
    }


def _shard(shard: "ShardRecord", epoch: int, policy: Digest, ask: Ask, chains: "Sequence[EpochOnChain]") -> dict[str, Any]:
    answer, wrong = _answer_of(shard, epoch, policy, ask, chains) if chains else ("not asked", False)
    return {"index": shard.index, "account": shard.address, "url": shard.url, "says": answer, "wrong": wrong}


def _answer_of(shard: "ShardRecord", epoch: int, policy: Digest, ask: Ask, chains: "Sequence[EpochOnChain]") -> tuple[str, bool]:
    """Asks a shard. Returns a sentence about the shard's answer, and whether the answer contradicts the chain or its epoch."""
    from kms.shard_client import PAGE_NOT_FOUND

    try:
        info = ask(shard)
    except Unavailable:
        return _NOTHING, False
    except Fault as error:
        # A shard without an epoch does not serve `info`.
        is_idle = isinstance(error, ShardRefused) and error.values[-1] == PAGE_NOT_FOUND
        return _AWAITS if is_idle else f"refuses: {error}", True
    for wrong, answer in (
        ((info.shard, info.index) != (shard.address, shard.index), f"is {info.shard}, shard {info.index}"),
        (info.epoch != epoch, f"serves key epoch {info.epoch}"),
        (info.policy != policy, "has another appraisal policy than the chain's final block"),
    ):
        if wrong:
            return answer, True
    return _share_answer(info, chains)


def _share_answer(info: "ShardInfo", chains: "Sequence[EpochOnChain]") -> tuple[str, bool]:
    """Compares the version of a shard's share with the version on the chain. Returns a sentence, and whether it states a
    contradiction.

    A shard follows the newest final block. The version there may differ from the version at the newest block.
    """
    from bytewise.protocol.digests import keccak256
    from bytewise.protocol.keys.epochs import EpochState

    if info.shares is None:
        return "serves; of an earlier build, it does not say which shares", False
    newest, version = chains[0], "unknown" if info.version is None else info.version
    if info.shares not in [keccak256(each.commitments) for each in chains]:
        why = f"has its share of version {version}, and the chain means version {newest.version}: it opens nothing"
        return why, True
    if info.in_force is False and chains[-1].state is EpochState.NONE:
        return "opens nothing until a final block has the epoch", False
    if not info.in_force:
        reads = "cannot read the chain" if info.in_force is None else "reads of the chain that other shares are meant"
        return f"has its share of version {version}, and {reads}: it answers nobody", True
    if info.shares != keccak256(newest.commitments):
        return f"serves version {version}, until version {newest.version} is final", False
    return "serves", False


def list_epochs(
    network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, output: OutputOption = OutputFormat.TABLE
) -> None:  # fmt: skip
    """List key epochs as the chain has them, with the state of their shards.

    Each shard must answer, serve its epoch, and have the policy of the chain. With `--output jsonl` each epoch is one line.

    Exit codes: 0 all agree, or wait for a final block that has a new epoch, 2 a shard or the address book contradicts the chain,
    5 a shard or the node does not answer, 64 wrong input.

    Example: bytewise key list --network network.json
    """
    state = _collected(network, rpc, None)
    emit(output, state["epochs"] if output is OutputFormat.JSONL else state, lambda: show(state, Console()))
    _exit_by(state)


def show_epoch(
    epoch: Annotated[int, typer.Argument(metavar="EPOCH", min=1, max=2**64 - 1, help="Number of a key epoch.")],
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show one key epoch as the chain has it, with the state of its shards.

    Exit codes: as of `bytewise key list`; 4 the address book has no such epoch.

    Example: bytewise key show 1
    """
    state = _collected(network, rpc, epoch)
    if not state["epochs"]:
        Console(stderr=True).print(
            plain(f"EPOCH: the address book has no key epoch {epoch}; `bytewise key list` shows all", "red")
        )
        raise typer.Exit(Exit.NOT_FOUND)
    emit(output, {**state["epochs"][0], "wrong": state["wrong"]}, lambda: show(state, Console()))
    _exit_by(state)


def _collected(network: Path, rpc: list[str], only: int | None) -> dict[str, Any]:
    from bytewise_client.connection import TIMEOUT_S, chain_of
    from chain.client.address_book import read_network, verify_code
    from chain.reads.reader import SnapshotReader

    book = read_network(network)
    client = chain_of(rpc, book.chain_id)
    return collect(SnapshotReader(client, verify_code(client, book)), ask_over_https(TIMEOUT_S), only)


def _exit_by(state: Mapping[str, Any]) -> None:
    if state["wrong"]:
        raise typer.Exit(Exit.MISMATCH)
    raise typer.Exit(Exit.UNAVAILABLE if state["silent"] else Exit.OK)

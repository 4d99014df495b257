"""Makes a fork pack from a node: stake, parameters, disputes, votes and capsules at one block."""

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bytewise.protocol.address_book import Network
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TooEarly, TryAgain
from bytewise.protocol.units import U64, U256, Address, Digest, address, hex0x
from chain.capsule.maker import Enclosed, disputed_member, make_capsule
from chain.client.access import Chain
from chain.client.artifacts import Log
from chain.client.rpc import at_number, reading_answer
from chain.fork_pack.pack import (
    DISPUTES,
    NETWORK,
    PAGE,
    PARAMETERS,
    STAKE,
    AccountStake,
    PlaceWeight,
    PoolTable,
    StakeTable,
    capsule_name,
    page_of,
    write_pack,
)
from chain.reads.history import CourtHistory
from chain.reads.reader import SnapshotReader


class MadePack(NamedTuple):
    """The bytes of a pack, and the ended disputes of which it has no capsule."""

    data: bytes
    """Bytes of the pack."""
    without_capsule: tuple[Digest, ...]
    """Ids of the ended disputes for which the node could not make a capsule."""


def make_pack(reader: SnapshotReader, network: Network, block: int) -> MadePack:
    """Makes the pack of a block.

    Raises `RpcRefused` or `TryAgain` if the node lacks the block or its state. Raises `TryAgain` if the node's events contradict
    that state, or if the block was replaced meanwhile.
    """
    chain, seen = reader.client, reader.client.block(block)
    stake = stake_table(reader, network, block)
    capsules, missing = _capsules(chain, network, CourtHistory(reader), block)
    files = {
        NETWORK: encode(network), STAKE: encode(stake), PARAMETERS: encode(_parameters(reader, network, block)),
        DISPUTES: encode(_disputes(CourtHistory(reader), network, block)), **capsules,
    }  # fmt: skip
    files[PAGE] = page_of(network, block, seen.hash, stake, len(capsules), missing).encode()
    if chain.block(block).hash != seen.hash:
        raise TryAgain("chain", f"block {block} was replaced meanwhile: run the same command again")
    return MadePack(write_pack(int(network.chain_id), block, seen.hash, files), missing)


def stake_table(reader: SnapshotReader, network: Network, block: int) -> StakeTable:
    """Reads all stake at the end of a block. Weights come from events. Raises `TryAgain` if they contradict the state of the
    contracts."""
    pools = tuple(_pool_table(reader, network, pool.digest, pool.tree, block) for pool in network.pools)
    holders = {each.account for table in pools for each in table.weights}
    events = (("StakeVault", network.addresses.stake_vault, "Deposited", "account"),
              ("Registry", network.addresses.registry, "OperatorRegistered", "operator"))  # fmt: skip
    for contract, at, event, name in events:
        logs = reader.client.logs(contract, at, [event], int(network.deploy_block), block)
        with reading_answer(event):
            holders |= {address(log.values[name].lower()) for log in logs}
    return StakeTable(pools, tuple(_account(reader.client, network, each, block) for each in sorted(holders)))


def _account(chain: Chain, network: Network, account: Address, block: int) -> AccountStake:
    names, at = ("stakeOf", "unbondingOf", "lockedOf", "collateralOf"), network.addresses.stake_vault
    found = [chain.call("StakeVault", at, name, account, block=at_number(block)) for name in names]
    with reading_answer("stake"):
        stake, unbonding, locked, collateral = found
        return AccountStake(account, U256(stake), U256(unbonding["amount"]), U256(locked), U256(collateral))


def _pool_table(reader: SnapshotReader, network: Network, pool: Digest, tree: Address, block: int) -> PoolTable:
    """Reads the stake tree of one pool. Raises `TryAgain` if the weights from events contradict the sums of the tree."""
    state = reader.pool(pool, block)
    logs = reader.client.logs("StakeTree", tree, ["UnitsSet"], int(network.deploy_block), block)
    with reading_answer("UnitsSet"):
        weights = _weights(logs)
    epoch = 0 if state is None else state.epoch
    at = at_number(block)
    unit, most = (reader.client.call("StakeTree", tree, name, block=at) for name in ("UNIT", "MAX_UNITS"))
    table = PoolTable(pool, tree, U64(epoch), U256(unit), U64(most), weights)
    totals = (
        [reader.client.call("StakeTree", tree, "totalAt", each, block=at) for each in (epoch, epoch + 1)] if epoch else [0, 0]
    )
    if [sum(table.units(each)) for each in (epoch, epoch + 1)] != totals:
        raise TryAgain("chain", f"the node's events of stake tree {tree} contradict its state at block {block}")
    return table


def _weights(logs: Sequence[Log]) -> tuple[PlaceWeight, ...]:
    """Returns the newest weight of each place, with the weight that it replaced."""
    found: dict[int, PlaceWeight] = {}
    for log in logs:
        place, since, units = int(log.values["place"]), int(log.values["epoch"]), int(log.values["units"])
        old = found.get(place)
        before = 0 if old is None else old.before if old.since == since else old.units
        found[place] = PlaceWeight(place, address(log.values["account"].lower()), U64(since), U64(units), U64(before))
    return tuple(found[place] for place in sorted(found))


def _parameters(reader: SnapshotReader, network: Network, block: int) -> list[dict[str, Any]]:
    logs = reader.client.logs("Params", network.addresses.params, ["ParamsSet"], int(network.deploy_block), block)
    with reading_answer("ParamsSet"):
        return [
            {
                "version": int(log.values["version"]),
                "block": log.block,
                "params": _plain(reader.params(log.values["version"], block)),
            }
            for log in logs
        ]


def _disputes(history: CourtHistory, network: Network, block: int) -> dict[str, Any]:
    first = int(network.deploy_block)
    return {
        "opened": _plain(history.opened(first, block)), "drawn": _plain(history.drawn(first, block)),
        "commitments": _plain(history.commitments(first, block)),
        "votes": [{"vote": _plain(each.vote), "block": each.block} for each in history.openings(first, block)],
        "certificates": _plain(history.certificates(first, block)), "rounds": _plain(history.rounds(first, block)),
        "ended": _plain(history.endings(first, block)),
    }  # fmt: skip


def _capsules(chain: Chain, network: Network, history: CourtHistory, block: int) -> tuple[dict[str, bytes], tuple[Digest, ...]]:
    """Makes capsules of the disputes that ended. Returns them with the disputes for which the node cannot make one."""
    made, missing = dict[str, bytes](), list[Digest]()
    for each in history.endings(int(network.deploy_block), block):
        dispute = Digest(each.dispute)
        try:
            member = disputed_member(chain, network, dispute)
            if member is None:
                raise TryAgain("chain", "the dispute was opened through another contract")
            made[capsule_name(dispute)] = make_capsule(chain, network, member, Enclosed(with_logs=False), hex(block))
        except (TooEarly, TryAgain):
            missing.append(dispute)
    return made, tuple(missing)


def _plain(value: Any) -> Any:
    """Converts a value to plain JSON data: integers as decimal text, bytes as hex."""
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, bytes):
        return hex0x(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    return [_plain(each) for each in value]

"""Checks that a network's lengths in blocks (stake epochs, seeds) fit its lengths in seconds (windows and phases of disputes).

No contract can make these checks, because it does not know the seconds of a block or the future tree of a pool. The deployer and
voters know both.
"""

from dataclasses import dataclass

from bytewise.protocol.address_book import Network, PoolTree
from bytewise.protocol.court.params import MAX_REARMS, ParamSet, TreeShape
from bytewise.protocol.decisions.snapshot import FINAL_AFTER
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import Address
from chain.client.access import Chain
from chain.client.rpc import at_number
from chain.deployment.plan import Shape

SEED_ATTEMPTS = 1 + MAX_REARMS
"""Number of seed blocks that a round can name."""

MEASURED_BLOCKS = 100
"""Number of blocks over which a block's length is measured."""


DEVELOPMENT_CHAIN_IDS = frozenset({1337, 31337})
"""Chain ids of geth in development mode and of anvil: chains without finality."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """The lengths on which the seeds of one pool depend."""

    tree: TreeShape
    """Shape of the pool's tree."""
    shortest: int
    """Smallest distance in blocks between the current block and a seed block."""
    longest: int
    """Largest distance in blocks between the current block and a seed block."""
    block_s: int
    """Seconds per block."""
    final_s: int
    """Seconds until a block is final."""


def lengths_of(shape: Shape, chain_id: int) -> Lengths:
    """Returns the lengths of a planned deployment."""
    tree = TreeShape(shape.epoch_blocks, shape.lookahead, shape.unit_wei, shape.max_units)
    return Lengths(tree, shape.shortest, shape.longest, shape.block_s, finality_s(chain_id, shape.block_s))


def read_lengths(client: Chain, network: Network, pool: PoolTree, block_s: int) -> Lengths:
    """Reads the lengths of an existing deployment. No contract can change them."""
    block, at = at_number(client.head().number), network.addresses

    def fixed(contract: str, where: Address, name: str) -> int:
        return int(client.call(contract, where, name, block=block))

    tree = TreeShape(*(fixed("StakeTree", pool.tree, name) for name in ("EPOCH_BLOCKS", "LOOKAHEAD", "UNIT", "MAX_UNITS")))
    shortest, longest = (fixed("RandaoSource", at.randao_source, name) for name in ("SHORTEST", "LONGEST"))
    return Lengths(tree, shortest, longest, block_s, finality_s(network.chain_id, block_s))


def measured_block_s(client: Chain) -> int:
    """Measures the average time between the last blocks, in whole seconds."""
    newest = client.head()
    before = max(0, newest.number - MEASURED_BLOCKS)
    blocks, seconds = max(1, newest.number - before), newest.timestamp - client.block(before).timestamp
    return max(1, round(seconds / blocks))


def finality_s(chain_id: int, block_s: int) -> int:
    """Returns the seconds until a block is final, after which shards see it. Returns 0 on a development chain, whose shards
    decide at the newest block."""
    return 0 if chain_id in DEVELOPMENT_CHAIN_IDS else FINAL_AFTER * block_s


def verify_lengths(params: ParamSet, lengths: Lengths) -> None:
    """Checks that the lengths fit each other. Raises `ConfigurationError` if a length is too short. The error names that length
    and its minimum."""
    t = params.times
    _covers("longest", lengths.longest, farthest_seed(lengths), "blocks: some disputes could not name their seed block")
    live = t.max_anchor_delay + t.window + t.cure
    epoch_s = lengths.tree.epoch_blocks * lengths.block_s
    _covers("max_anchor_delay + window + cure", live, epoch_s + 1, "seconds: stake could leave before its last seats answer")
    seeds_s = seed_blocks(lengths) * lengths.block_s
    _covers("seed_time + draw_time", t.seed_time + t.draw_time, seeds_s, "seconds: lost seeds would outlast the static law")
    vote_s = lengths.final_s + t.execution_bound
    _covers("half of commit_time", t.commit_time // 2, vote_s, "seconds: seats would vote NO_KEY before shards see their draw")


def farthest_seed(lengths: Lengths) -> int:
    """Returns the largest distance in blocks between the opening of a dispute, anywhere in an epoch, and its first seed
    block."""
    return max(_seed_of(lengths, here) - here for here in range(lengths.tree.epoch_blocks))


def seed_blocks(lengths: Lengths) -> int:
    """Returns the largest number of blocks that a round can need if all its seeds are lost: from its begin to the end of the
    stake epoch of its last seed."""
    return max(_last_lost(lengths, here) - here for here in range(lengths.tree.epoch_blocks))


def _last_lost(lengths: Lengths, here: int) -> int:
    epoch = lengths.tree.epoch_blocks
    for _ in range(SEED_ATTEMPTS):
        here = (_seed_of(lengths, here) // epoch + 1) * epoch
    return here


def _seed_of(lengths: Lengths, here: int) -> int:
    """Returns the seed block that a round names in block `here` (`Disputes._nameSeed`)."""
    return lengths.tree.seed_block_from(here + lengths.shortest)


def _covers(name: str, have: int, needs: int, what: str) -> None:
    if have < needs:
        raise ConfigurationError(name, f"is {have}, needs {needs} {what}")

"""What lengths in blocks and lengths in seconds owe to each other: the law that no contract can check.

A contract knows neither how long a block takes nor which tree a pool will have; whoever deploys does.
"""

from bytewise.protocol.court.params import MAX_REARMS, ParamSet
from bytewise.protocol.errors import ConfigurationError
from bytewise.protocol.stake_tree import TreeShape
from chain.plan import Shape

SEED_ATTEMPTS = 1 + MAX_REARMS
"""Seed blocks that a round can name."""


def verify_lengths(params: ParamSet, shape: Shape) -> None:
    """`ConfigurationError` names the first length that is too short, with what it must cover."""
    t = params.times
    _covers("longest", shape.longest, farthest_seed(shape), "blocks: some disputes could not name their seed block")
    live = t.max_anchor_delay + t.window + t.cure
    epoch_s = shape.epoch_blocks * shape.block_s
    _covers("max_anchor_delay + window + cure", live, epoch_s + 1, "seconds: stake could leave before its last seats answer")
    seeds_s = seed_blocks(shape) * shape.block_s
    _covers("seed_time + draw_time", t.seed_time + t.draw_time, seeds_s, "seconds: lost seeds would outlast the static law")


def farthest_seed(shape: Shape) -> int:
    """Blocks from a dispute's opening to its first seed block, at most, wherever in an epoch it is opened."""
    return max(_seed_of(shape, here) - here for here in range(shape.epoch_blocks))


def seed_blocks(shape: Shape) -> int:
    """Blocks from a round's beginning until its last seed can be drawn by no more, at most: each was lost with its epoch."""
    return max(_last_lost(shape, here) - here for here in range(shape.epoch_blocks))


def _last_lost(shape: Shape, here: int) -> int:
    for _ in range(SEED_ATTEMPTS):
        here = (_seed_of(shape, here) // shape.epoch_blocks + 1) * shape.epoch_blocks
    return here


def _seed_of(shape: Shape, here: int) -> int:
    """The seed block that a first round names in block `here` (`DisputeDraw._nameSeed`)."""
    tree = TreeShape(shape.epoch_blocks, shape.lookahead, shape.unit_wei, shape.max_units)
    return tree.seed_block_from(here + shape.shortest + shape.join_blocks)


def _covers(name: str, have: int, needs: int, what: str) -> None:
    if have < needs:
        raise ConfigurationError(name, f"is {have}, needs {needs} {what}")

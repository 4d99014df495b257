"""The stake tree: weights by epoch, and draws that later moves of stake cannot change (design section 9)."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.protocol.court.params import CAPACITY, TreeShape
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address, Digest
from tests.fixtures.builders import signer, word
from tests.fixtures.record_strategies import digests
from tests.reference.stake_tree import StakeTree
from tests.vectors import make_stake_tree

PEOPLE = [signer(name).address for name in ("ada", "ben", "cleo", "dan", "eva", "fay", "gus")]
SHAPE = TreeShape(epoch_blocks=10, lookahead_blocks=3, unit_wei=100, max_units=50)
Move = tuple[int, Address, int]
moves = st.lists(st.tuples(st.integers(0, 6), st.sampled_from(PEOPLE), st.integers(0, 6000)), max_size=30)


def grown(history: Sequence[Move], tree: StakeTree, block: int = 0) -> int:
    """Plays moves, each some blocks after the one before; the last block."""
    for blocks, who, stake in history:
        block += blocks
        tree.set_stake(block, who, stake)
    return block


def seed_block(epoch: int) -> int:
    """The first block of an epoch that can be its seed block."""
    return (epoch - 1) * SHAPE.epoch_blocks + SHAPE.lookahead_blocks


def test_committed_vectors_are_what_make_writes() -> None:
    assert make_stake_tree.FILE.read_text() == make_stake_tree.text()


def test_vectors_have_capped_stakes_and_empty_seats() -> None:
    replays = make_stake_tree.replays()
    assert all(replay.draws for replay in replays)
    assert any(int(holder, 16) == 0 for replay in replays for holder in replay.holders)
    holders = {(replay.name, row["place"], row["account"]) for replay in replays for row in replay.steps if row["placed"]}
    assert len(holders) == len({(name, place) for name, place, _ in holders}), "a place changed hands"


@given(moves, moves, digests, st.integers(1, 2))
@settings(max_examples=60)
def test_later_moves_never_change_a_seeded_draw(before: list[Move], after: list[Move], seed: Digest, number: int) -> None:
    tree = StakeTree(SHAPE)
    epoch = SHAPE.epoch(grown([*before, (0, PEOPLE[0], 100)], tree)) + 1
    start = (epoch - 1) * SHAPE.epoch_blocks
    tree.set_stake(start, PEOPLE[1], 0)
    first = tree.draw(seed, seed_block(epoch), word("dispute"), number, PEOPLE[:2], 0, 15)
    grown(after, tree, start)
    assert tree.draw(seed, seed_block(epoch), word("dispute"), number, PEOPLE[:2], 0, 15) == first


@given(moves, st.integers(0, 40))
@settings(max_examples=60)
def test_a_move_counts_from_the_next_epoch_on(history: list[Move], later: int) -> None:
    tree = StakeTree(SHAPE)
    block = grown(history, tree)
    last = {who: stake for _, who, stake in history}
    epoch = SHAPE.epoch(block) + 1
    for who in PEOPLE:
        assert tree.units(who, epoch + later) == SHAPE.units(last.get(who, 0))
    assert sum(units for _, units in tree.weights(epoch)) == sum(SHAPE.units(stake) for stake in last.values())
    assert not any(units for _, units in tree.weights(1)), "the first epoch has no weights"


@given(st.lists(st.integers(1, 50), min_size=7, max_size=7), digests)
@settings(max_examples=10)
def test_seats_are_in_proportion_to_units(units: list[int], seed: Digest) -> None:
    """Chi square of six degrees of freedom; chance passes 60 once in 10^10."""
    tree = StakeTree(SHAPE)
    for who, each in zip(PEOPLE, units, strict=True):
        tree.set_stake(0, who, each * SHAPE.unit_wei + each)
    seats = Counter(tree.draw(seed, seed_block(2), word("d"), 1, (), 0, 700))
    wanted = {who: 700 * each / sum(units) for who, each in zip(PEOPLE, units, strict=True)}
    assert sum((seats[who] - want) ** 2 / want for who, want in wanted.items()) < 60


@given(moves, digests, st.integers(0, 20), st.sets(st.sampled_from(PEOPLE), max_size=6))
@settings(max_examples=60)
def test_parts_sum_to_the_whole_and_no_excluded_account_is_seated(
    history: list[Move], seed: Digest, cut: int, out: set[Address]
) -> None:
    tree = StakeTree(SHAPE)
    epoch = SHAPE.epoch(grown([*history, (0, PEOPLE[6], 100)], tree)) + 1
    whole = tree.draw(seed, seed_block(epoch), word("d"), 1, out, 0, 20)
    parts = [tree.draw(seed, seed_block(epoch), word("d"), 1, out, *part) for part in ((0, cut), (cut, 20 - cut))]
    assert whole == parts[0] + parts[1]
    assert not out & set(whole)


def test_seat_is_empty_if_all_accounts_are_excluded() -> None:
    tree = StakeTree(SHAPE)
    tree.set_stake(0, PEOPLE[0], 500)
    assert tree.draw(word("s"), seed_block(2), word("d"), 1, PEOPLE[:1], 0, 3) == (None, None, None)


def test_account_without_units_keeps_its_place() -> None:
    """Committees are stored as places: a seat that is settled late is charged to who was drawn."""
    tree = StakeTree(SHAPE)
    for block, who, stake in ((0, PEOPLE[0], 500), (10, PEOPLE[0], 0), (30, PEOPLE[1], 300)):
        tree.set_stake(block, who, stake)
    assert (tree.place(PEOPLE[0]), tree.place(PEOPLE[1])) == (0, 1)
    assert [tree.weights(epoch)[0][1] for epoch in (2, 3, 4)] == [5, 0, 0]


def test_tree_has_a_maximum_size() -> None:
    tree = StakeTree(SHAPE)
    for i in range(CAPACITY):
        tree.set_stake(0, Address(f"0x{i:040x}"), 100)
    with pytest.raises(MalformedValue, match="all 16807 places"):
        tree.set_stake(0, PEOPLE[0], 100)
    tree.set_stake(0, PEOPLE[0], 99)
    assert tree.place(PEOPLE[0]) is None


@pytest.mark.parametrize(
    "shape", [(2, 0, 1, 1), (2, 2, 1, 1), (0, 0, 1, 1), (2, 1, 0, 1), (2, 1, 1, 0), (2, 1, 1, (2**32 - 1) // CAPACITY + 1)]
)
def test_a_shape_that_could_overflow_is_refused(shape: tuple[int, int, int, int]) -> None:
    with pytest.raises(MalformedValue, match="tree shape"):
        TreeShape(*shape)


@given(st.integers(0, 10**6))
def test_the_first_blocks_of_an_epoch_are_no_seeds(block: int) -> None:
    if block % 10 < 3:
        with pytest.raises(MalformedValue, match="3 blocks into its epoch"):
            SHAPE.epoch_of_seed(block)
    else:
        assert SHAPE.epoch_of_seed(block) == SHAPE.epoch(block)


def test_impossible_draw_is_refused() -> None:
    tree = StakeTree(SHAPE)
    with pytest.raises(MalformedValue, match="nobody to draw in epoch 1"):
        tree.draw(word("s"), seed_block(1), word("d"), 1, (), 0, 1)
    tree.set_stake(15, PEOPLE[0], 100)
    with pytest.raises(MalformedValue, match="9 accounts, at most 8"):
        tree.draw(word("s"), seed_block(3), word("d"), 1, [*PEOPLE, *PEOPLE[:2]], 0, 1)
    with pytest.raises(MalformedValue, match="4 has no weights yet"):
        tree.weights(4)
    with pytest.raises(MalformedValue, match="14 after 15"):
        tree.set_stake(14, PEOPLE[0], 100)


@given(st.integers(0, 200))
def test_a_named_seed_block_leaves_half_its_epoch_for_the_draw(earliest: int) -> None:
    named = SHAPE.seed_block_from(earliest)
    SHAPE.epoch_of_seed(named)
    last = SHAPE.epoch(named) * SHAPE.epoch_blocks - 1
    assert named >= earliest and last - named >= (SHAPE.epoch_blocks - SHAPE.lookahead_blocks) // 2
    assert named - earliest < SHAPE.epoch_blocks

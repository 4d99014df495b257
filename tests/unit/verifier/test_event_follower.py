"""The progress of a reader of events: a reorganisation of a block that was read starts it again, and nothing else does."""

from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.digests import sha256
from bytewise.protocol.units import Digest
from verifier.watch.chain_events import EventFollower

FIRST = 5


class Branches:
    """Block hashes of a chain that can be replaced from a height on."""

    def __init__(self) -> None:
        self.branch: dict[int, int] = {}

    def reorganise(self, height: int) -> None:
        """Replaces all blocks from this height on."""
        self.branch = {number: self.branch.get(number, 0) + (number >= height) for number in range(100)}

    def head(self) -> int:
        """The highest block."""
        return 99

    def block_hash(self, number: int) -> Digest:
        """Hash of a block of the present branch."""
        return sha256(bytes([number, self.branch.get(number, 0)]))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 90)), max_size=20))
def test_blocks_are_read_once_and_again_after_a_reorganisation(steps: list[tuple[int, int]]) -> None:
    chain, read, head = Branches(), dict[int, Digest](), FIRST
    follower = EventFollower(chain, FIRST, "test")
    for grown, height in steps:
        head += grown
        chain.reorganise(height)
        is_stale = bool(read) and chain.block_hash(max(read)) != read[max(read)]
        assert follower.is_reset() == is_stale
        if is_stale:
            read.clear()
        assert follower.next_block == max(read, default=FIRST - 1) + 1
        if follower.next_block <= head:
            read |= {number: chain.block_hash(number) for number in range(follower.next_block, head + 1)}
            follower.mark_read(head, chain.block_hash(head))


def test_follower_rewinds_to_the_last_block_of_both_branches() -> None:
    chain = Branches()
    follower = EventFollower(chain, FIRST, "test")
    for number in (10, 20, 30, 40):
        follower.mark_read(number, chain.block_hash(number))
    assert not follower.is_rewound()
    chain.reorganise(25)
    assert follower.is_rewound() and follower.next_block == 21
    assert not follower.is_rewound()
    chain.reorganise(1)
    assert follower.is_rewound() and follower.next_block == FIRST


def test_follower_resets_once_for_one_reorganisation() -> None:
    chain = Branches()
    follower = EventFollower(chain, FIRST, "test")
    follower.mark_read(9, chain.block_hash(9))
    chain.reorganise(10)
    assert not follower.is_reset() and follower.next_block == 10
    chain.reorganise(9)
    assert follower.is_reset() and not follower.is_reset() and follower.next_block == FIRST

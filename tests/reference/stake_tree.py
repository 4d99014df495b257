"""Weights of a draw by epoch, and the draw that `StakeTree` makes of them (design section 9; ADR-028).

The contract keeps sums in a tree and two versions of each node. Here is what that must mean: the whole history of every place,
and a draw by cumulated sums. Vectors and forge compare the two.
"""

import bisect
import itertools
from collections.abc import Collection
from dataclasses import dataclass

from bytewise.protocol.court.params import CAPACITY, TreeShape
from bytewise.protocol.digests import keccak256_abi
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address, Digest

MAX_TRIES = 8
"""Draws of one seat before nobody holds it."""

MAX_EXCLUDED = 8
"""Most accounts that one draw leaves out."""


@dataclass(frozen=True, slots=True)
class Weight:
    """What a place weighs from an epoch on, until the next entry of its history."""

    epoch: int
    """First epoch in which it counts."""
    units: int
    """Its units."""
    account: Address
    """Who holds the place."""


NOBODY = Weight(0, 0, Address("0x" + "00" * 20))
"""A place before its first entry."""


class StakeTree:
    """All weights that were ever written, in the order of the chain."""

    def __init__(self, shape: TreeShape) -> None:
        self.shape = shape
        self._histories: list[list[Weight]] = []
        self._places: dict[Address, int] = {}
        self._block = 0

    def set_stake(self, block: int, account: Address, stake_wei: int) -> None:
        """The account's stake from `block` on; it weighs so from the next epoch on. The first units give it a place."""
        self._at(block)
        units = self.shape.units(stake_wei)
        if account not in self._places:
            if units == 0:
                return
            self._places[account] = self._seat()
        self._write(self._places[account], Weight(self.shape.epoch(block) + 1, units, account))

    def place(self, account: Address) -> int | None:
        """The account's place, if it has one."""
        return self._places.get(account)

    def units(self, account: Address, epoch: int) -> int:
        """Units of an account that has a place, as of an epoch; else 0."""
        place = self._places.get(account)
        weight = NOBODY if place is None else self._as_of(place, epoch)
        return weight.units

    def weights(self, epoch: int) -> tuple[tuple[Address, int], ...]:
        """Holder and units of every place as of an epoch that is running or over, or of the next, by place."""
        if epoch > self.shape.epoch(self._block) + 1:
            raise MalformedValue("epoch", f"{epoch} has no weights yet")
        found = [self._as_of(place, epoch) for place in range(len(self._histories))]
        return tuple((weight.account, weight.units) for weight in found)

    def draw(
        self,
        seed: Digest,
        seed_block: int,
        dispute: Digest,
        round_number: int,
        excluded: Collection[Address],
        start: int,
        count: int,
    ) -> tuple[Address | None, ...]:
        """Holders of seats `start` to `start + count - 1` in the seed block's epoch; None where every try fell on an excluded
        account. The contract draws only while that epoch runs.

        `MalformedValue` if the block is no seed block, nobody weighs anything, or more than `MAX_EXCLUDED` are excluded.
        """
        if len(excluded) > MAX_EXCLUDED:
            raise MalformedValue("excluded", f"{len(excluded)} accounts, at most {MAX_EXCLUDED}")
        epoch = self.shape.epoch_of_seed(seed_block)
        weights = self.weights(epoch)
        ends = list(itertools.accumulate(units for _, units in weights))
        if not ends or ends[-1] == 0:
            raise MalformedValue("stakes", f"nobody to draw in epoch {epoch}")
        holders: list[Address | None] = []
        for seat in range(start, start + count):
            points = (_point(seed, dispute, round_number, seat, attempt) % ends[-1] for attempt in range(MAX_TRIES))
            drawn = (weights[bisect.bisect_right(ends, point)][0] for point in points)
            holders.append(next((who for who in drawn if who not in excluded), None))
        return tuple(holders)

    def _at(self, block: int) -> None:
        if block < self._block:
            raise MalformedValue("block", f"{block} after {self._block}")
        self._block = block

    def _seat(self) -> int:
        if len(self._histories) == CAPACITY:
            raise MalformedValue("stake tree", f"all {CAPACITY} places are taken")
        self._histories.append([])
        return len(self._histories) - 1

    def _write(self, place: int, weight: Weight) -> None:
        history = self._histories[place]
        if history and history[-1].epoch == weight.epoch:
            history.pop()
        history.append(weight)

    def _as_of(self, place: int, epoch: int) -> Weight:
        history = self._histories[place]
        known = bisect.bisect_right(history, epoch, key=lambda weight: weight.epoch)
        return history[known - 1] if known else NOBODY


def _point(seed: Digest, dispute: Digest, round_number: int, seat: int, attempt: int) -> int:
    kinds = ("bytes32", "bytes32", "uint16", "uint256", "uint256")
    return int.from_bytes(keccak256_abi(kinds, (seed, dispute, round_number, seat, attempt)))

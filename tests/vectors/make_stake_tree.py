"""Writes stake_tree.json, a history of stakes with draws between: `python -m tests.vectors.make_stake_tree`.

Python draws by cumulated sums over the whole history; `chain/contracts/test/StakeTree.t.sol` replays every step on the contract.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bytewise.protocol.court.params import TreeShape
from bytewise.protocol.units import ZERO_ADDRESS, Address
from tests.reference.stake_tree import StakeTree
from tests.vectors.make import account, columns, render, word

FILE = Path(__file__).parent / "stake_tree.json"
UNIT = 10**15


class Case(NamedTuple):
    """A tree and how lively it is."""

    shape: TreeShape
    accounts: int
    steps: int
    largest: int
    """Stakes are below this, in wei; one in four is zero."""
    excluded: int


CASES = (
    Case(TreeShape(10, 2, UNIT, 1_000), 60, 160, 1_500 * UNIT, 2),
    Case(TreeShape(7, 6, 1, 255_546), 9, 60, 2**96, 3),
    Case(TreeShape(2, 1, 3, 5), 2, 152, 20, 1),
    Case(TreeShape(50, 20, UNIT, 255_546), 300, 260, 200_000 * UNIT, 8),
)


def number(*parts: object) -> int:
    """A reproducible arbitrary integer."""
    return int.from_bytes(word("stake tree", *parts))


class Replay:
    """One case played in Python, as rows of steps and of draws."""

    def __init__(self, case: int) -> None:
        self.name, self.case = case, CASES[case]
        self.tree = StakeTree(self.case.shape)
        self.steps: list[dict[str, Any]] = []
        self.draws: list[dict[str, Any]] = []
        self.excluded: list[Address] = []
        self.holders: list[Address] = []
        self.block = 0
        for step in range(self.case.steps):
            self._step(step)
            if step % 20 == 11:
                self._draw(step)

    def _step(self, step: int) -> None:
        self.block += number(self.name, step, "blocks") % 3
        who = account("staker", self.name, number(self.name, step, "who") % self.case.accounts)
        epoch = self.case.shape.epoch(self.block)
        stake = number(self.name, step, "stake") % self.case.largest * (number(self.name, step, "zero") % 4 != 0)
        self.tree.set_stake(self.block, who, stake)
        place = self.tree.place(who)
        row = {"block": self.block, "account": who, "stake": stake, "placed": place is not None}
        row |= {"place": place or 0, "units": self.tree.units(who, epoch + 1)}
        row |= {"total": sum(units for _, units in self.tree.weights(epoch + 1))}
        self.steps.append({name: render(value) for name, value in row.items()})

    def _draw(self, step: int) -> None:
        epoch = self.case.shape.epoch(self.block)
        if not any(units for _, units in self.tree.weights(epoch)):
            return
        seed, dispute, round_number = word("tree seed", self.name, step), word("tree dispute", step), step % 3 + 1
        start, count = number(step, "from") % 20, number(step, "count") % 32
        first = (epoch - 1) * self.case.shape.epoch_blocks + self.case.shape.lookahead_blocks
        seed_block = first + number(step, "seed block") % (self.case.shape.epoch_blocks - self.case.shape.lookahead_blocks)
        excluded = [account("staker", self.name, i) for i in range(self.case.excluded)]
        drawn = self.tree.draw(seed, seed_block, dispute, round_number, excluded, start, count)
        row = {"after": len(self.steps), "seed": seed, "dispute": dispute, "round": round_number, "seedBlock": seed_block}
        row |= {"from": start, "seats": count, "holderOffset": len(self.holders)}
        self.draws.append({name: render(value) for name, value in row.items()})
        self.holders += [who or ZERO_ADDRESS for who in drawn]
        self.excluded = excluded


def case_of(replay: Replay) -> dict[str, Any]:
    """One case as the file writes it."""
    shape = replay.case.shape
    return {
        "epochBlocks": str(shape.epoch_blocks),
        "lookahead": str(shape.lookahead_blocks),
        "unit": str(shape.unit_wei),
        "maxUnits": str(shape.max_units),
        "steps": columns(replay.steps),
        "draws": columns(replay.draws),
        "excluded": replay.excluded,
        "holders": replay.holders,
    }


def replays() -> Sequence[Replay]:
    """All cases, played."""
    return [Replay(case) for case in range(len(CASES))]


def text() -> str:
    """What the file must hold."""
    file = {f"case{replay.name}": case_of(replay) for replay in replays()} | {"count": str(len(CASES))}
    return json.dumps(file, indent=1, ensure_ascii=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
    sys.stdout.write(f"{FILE.name}\n")

"""A watchtower's demander over a town, and operators that withhold."""

import time
from collections.abc import Callable
from pathlib import Path

from bytewise.protocol.decisions.actions import Action
from bytewise.protocol.decisions.demands import DemandPolicy
from bytewise.protocol.decisions.disputes import MovePolicy
from bytewise.protocol.records.receipt import BatchHeader, SignedReceipt
from bytewise.protocol.units import U64
from tests.unit.verifier.town import NETWORK, PARAMS, Town
from tests.world import ANCHOR, signer
from verifier.demands.demander import Demander, Means
from verifier.watch.receipt_inbox import Given

TOWER, STRANGER = signer("tower").address, signer("stranger").address
BOND = PARAMS.money.demand_bond
POLICY = DemandPolicy(budget_wei=2 * BOND)
MOVES = MovePolicy(turns=10**6)
"""Never our turn: what we do for others we do because it is late."""
PAST_DEADLINE_S, TRY_S = 61, 8


def demander(
    town: Town, policy: DemandPolicy = POLICY, given: Path | None = None, disputes: bool = True, fetches: bool = True,
    monotonic: Callable[[], float] = time.monotonic, moves: MovePolicy = MOVES,
) -> Demander:  # fmt: skip
    """As after a start."""
    folder = None if given is None else Given(given, ANCHOR)
    means = Means(TOWER, policy, moves, disputes, fetches)
    return Demander(town.chain, NETWORK, town.records, town.store, means, folder, monotonic)


def step(town: Town, part: Demander, seconds: int = 1) -> tuple[Action, ...]:
    seen = town.chain.pass_time(seconds)
    town.records.step(seen)
    return part.step(seen)


def steps(town: Town, part: Demander, count: int = 4) -> list[Action]:
    """All that is decided while time passes, and enough tries with it."""
    return [action for _ in range(count) for action in step(town, part, TRY_S)]


def withheld(town: Town, seq: int = 1) -> tuple[BatchHeader, bytes]:
    """A batch whose list is nowhere, past the deadline for fetching it."""
    header = town.anchor(town.signed(seq), first_seq=U64(seq))
    data = town.shelf.blobs.pop(header.locator)
    town.records.step(town.chain.now())
    town.chain.pass_time(PAST_DEADLINE_S)
    return header, data


def closed(town: Town, seq: int = 1) -> SignedReceipt:
    """A receipt in a batch with a good list, whose envelope is nowhere; past the deadline too."""
    signed = town.signed(seq)
    town.anchor(signed)
    del town.shelf.blobs[signed.locator]
    town.records.step(town.chain.now())
    town.chain.pass_time(PAST_DEADLINE_S)
    return signed

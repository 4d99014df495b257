"""A key that moves between sets of real shard processes: all of both are killed at every moment, or some are cut off.

Runs where BYTEWISE_SOAK_KMS is set (`make soak-kms`).
"""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bytewise.protocol.keys.ceremony import CeremonyPlan
from bytewise.service.clock import monotonic_s
from bytewise.service.settings import library_variables
from kms.ceremony.coordinator import seats_by_address
from kms.ceremony.state import CeremonyPhase, CeremonyState
from tests.fixtures.kms.ceremony_runs import numbered, on_chain, run, shares_make_the_key
from tests.fixtures.kms.dkg_fixture import CeremonyShard, coordinator_of, coordinator_over, plan
from tests.fixtures.kms.killed_shards import Network
from tests.fixtures.kms.partitions import PHASES, Cut, losses, run_cut

if not library_variables(("BYTEWISE_SOAK_KMS",)):
    pytest.skip("BYTEWISE_SOAK_KMS is not set", allow_module_level=True)

OLD, ALL = 3, 5


class ReshareNetwork:
    """Five shards, of which the first three have a key that any two open, and the chain says so."""

    def __init__(self, network: Network) -> None:
        self.network, self.shards = network, network.shards
        self.old, self.fresh = self.shards[:OLD], self.shards[OLD:]
        self.made = run(coordinator_of(network.folder, plan(self.old, 2, 3), self.old))
        self.source = on_chain(network.chain, self.made)

    def move(self, receivers: list[CeremonyShard], threshold: int) -> CeremonyPlan:
        """To these, all of whom must prove their share."""
        return plan(receivers, threshold, len(receivers), dealers=numbered(self.old), source=self.source)

    def parties(self, agreed: CeremonyPlan) -> list[CeremonyShard]:
        """Who has a seat."""
        return [each for each in self.shards if each.signer.address in seats_by_address(agreed)]


@pytest.fixture()
def reshare_network(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ReshareNetwork]:
    network = Network(tmp_path, ALL, killed=request.param)
    reshare_network = ReshareNetwork(network)
    try:
        yield reshare_network
    finally:
        network.stop()


@pytest.mark.e2e
@pytest.mark.parametrize("reshare_network", [True], indirect=True)
def test_killed_shards_of_both_sets_of_a_move_have_the_key(reshare_network: ReshareNetwork) -> None:
    to_others = reshare_network.move(reshare_network.fresh, 2)
    to_some_of_them = reshare_network.move([*reshare_network.old[1:], reshare_network.fresh[0]], 3)
    reshare_network.network.start([to_others, to_some_of_them])
    for agreed in (to_others, to_some_of_them):
        parties = reshare_network.parties(agreed)
        moved = reshare_network.network.run_killed(agreed, parties)
        shares_make_the_key(moved, numbered([each for each in parties if each.seat(1).address in receivers(agreed)]))
        shares_make_the_key(reshare_network.made, numbered(reshare_network.old))
    deaths = reshare_network.network.all_deaths
    print(f"killed {len(deaths)} times in moves:", dict(Counter(" ".join(each.split()[:2]) for each in deaths)))
    for kind in ("join", "commit", "deal", "judgement", "confirm", "consent"):
        for when in ("before", "after"):
            assert any(name.startswith(f"{when} commit: INSERT ceremony_own_message {kind}") for name in deaths), (when, kind)


def receivers(agreed: CeremonyPlan) -> set[str]:
    """Accounts of who gets a share."""
    return {seat.address for seat in agreed.receivers}


@pytest.mark.e2e
@pytest.mark.parametrize("reshare_network", [True], indirect=True)
def test_shard_that_loses_its_seed_when_killed_is_found(reshare_network: ReshareNetwork) -> None:
    """Control: one who stores its words but not what they are made of contradicts itself, and nothing is made of it."""
    network, agreed = reshare_network.network, reshare_network.move(reshare_network.fresh, 2)
    network.forgetful = reshare_network.fresh[:1]
    network.start([agreed])
    state = coordinator_over(network.folder, agreed, network.ways(reshare_network.shards)).run(
        30, 0.05, monotonic_s, threading.Event().wait
    )
    assert (state.phase is CeremonyPhase.FAILED and state.result is None) or reshare_network.fresh[
        0
    ].signer.address in state.faults
    shares_make_the_key(reshare_network.made, numbered(reshare_network.old))


@pytest.mark.e2e
@pytest.mark.parametrize("reshare_network", [False], indirect=True)
def test_partitioned_move_between_shard_sets_completes_or_changes_nothing(reshare_network: ReshareNetwork) -> None:
    sets = [*(frozenset({each}) for each in range(1, ALL + 1)), frozenset({1, 2}), frozenset({1, 2, 3}), frozenset({4, 5})]
    cuts, done = list(losses(PHASES, sets)), Counter[str]()
    plans = [reshare_network.move(reshare_network.fresh, 2) for _ in cuts]
    reshare_network.network.start(plans)
    for cut, agreed in zip(cuts, plans, strict=True):
        state = run_cut(reshare_network.network.folder, agreed, reshare_network.network.links, cut)
        moved_or_not(reshare_network, cut, state)
        done[state.phase.name] += 1
    print("moves cut off:", dict(done))


def moved_or_not(reshare_network: ReshareNetwork, cut: Cut, state: CeremonyState) -> None:
    """Asserts that both new shards have the key unless somebody was away who was needed, and that the old shares open always."""
    old, fresh = (len([n for n in cut.shards if (n <= OLD) is both]) for both in (True, False))
    # Two dealers are enough; both receivers must join and prove their share.
    away = {CeremonyPhase.DEALING: old > 1, CeremonyPhase.JUDGING: False}.get(cut.phase, old > 1 or fresh > 0)
    assert not state.faults and (state.phase is CeremonyPhase.FAILED) == away, cut
    if not away:
        shares_make_the_key(state, numbered(reshare_network.fresh))
    shares_make_the_key(reshare_network.made, numbered(reshare_network.old))

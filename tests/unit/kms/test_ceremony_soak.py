"""Ceremonies of real shard processes over HTTPS: killed by SIGKILL at every moment, and cut off in every phase in every way.

Runs where BYTEWISE_SOAK_KMS is set (`make soak-kms`).
"""

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bytewise.crypto.curve import GENERATOR, encode_point
from bytewise.crypto.shares import combine_values
from bytewise.service.clock import monotonic_s
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import library_variables
from kms.ceremony.state import CeremonyPhase, CeremonyState
from kms.storage import keyring
from tests.fixtures.kms.ceremony_runs import numbered, on_chain, shares_make_the_key
from tests.fixtures.kms.dkg_fixture import CeremonyShard, coordinator_over, plan
from tests.fixtures.kms.killed_command import killed
from tests.fixtures.kms.killed_coordinator import dkg
from tests.fixtures.kms.killed_shards import Network, listens
from tests.fixtures.kms.partitions import PHASES, Cut, all_or_nothing, cuts, run_cut
from tests.fixtures.kms.release_network import wait_until

if not library_variables(("BYTEWISE_SOAK_KMS",)):
    pytest.skip("BYTEWISE_SOAK_KMS is not set", allow_module_level=True)

COUNT = 3


@pytest.fixture()
def network(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Network]:
    with Network(tmp_path, COUNT, killed=request.param) as started:
        yield started


@pytest.mark.e2e
@pytest.mark.parametrize("network", [True], indirect=True)
def test_killed_processes_make_refresh_and_repair_a_key(network: Network) -> None:
    shards = network.shards
    made = network.run_killed(plan(shards, 2, 3), shards)
    shares_make_the_key(made, numbered(shards))
    source = on_chain(network.chain, made)
    network.tell()
    renewed = network.run_killed(plan(shards, 2, 3, dealers=numbered(shards), source=source), shards)
    shares_make_the_key(renewed, numbered(shards))
    shares_make_the_key(made, numbered(shards))
    lost = keyring.find_share(shards[0].folder, 3, source.commitments).scalar()
    (shards[0].folder / f"share-3-{made.id.hex()[:16]}.json").unlink()
    helpers = {2: shards[1], 3: shards[2]}
    network.run_killed(plan(helpers.values(), 2, 2, dealers=helpers, source=source, heir=shards[0].seat(1)), shards)
    assert keyring.find_share(shards[0].folder, 3, source.commitments).scalar() == lost
    deaths = network.all_deaths
    kinds = Counter(" ".join(name.split()[:2]).rstrip(":") for name in deaths)
    print(f"killed {len(deaths)} times:", dict(kinds))
    for kind in ("join", "commit", "deal", "judgement", "hand", "confirm", "consent"):
        for when in ("before", "after"):
            assert any(name.startswith(f"{when} commit: INSERT ceremony_own_message {kind}") for name in deaths), (when, kind)
    assert any(name.startswith("before os.link share-") for name in deaths)


@pytest.mark.e2e
@pytest.mark.parametrize("network", [True], indirect=True)
def test_killed_coordinator_and_shards_make_a_key(network: Network) -> None:
    place, shards, deaths = network.folder / "coordinator", network.shards, -1
    place.mkdir()
    words = dkg(place, shards, phase_s=300.0)
    while deaths < (deaths := len(network.deaths())):
        # Who was killed when the end came gets it when the command is given again.
        found = killed(network.folder / "killed", place, "dkg", *words)
        assert found.code == Exit.OK
        wait_until(lambda: all(listens(each.port) for each in shards))
    print(f"killed {len(found.moments)} times was the coordinator, {deaths} times shards")
    document = keyring.load_document(place / "epoch.json")
    for some in itertools.combinations(enumerate(shards, start=1), 2):
        held = {index: each.share(3, document.commitments) for index, each in some}
        assert encode_point(GENERATOR * combine_values(held)) == document.record.public_key
    assert all(not each.ceremonies().running() for each in shards)


@pytest.mark.e2e
@pytest.mark.parametrize("network", [False], indirect=True)
def test_partitioned_processes_make_a_key_or_change_nothing(network: Network) -> None:
    shards, done = network.shards, Counter[str]()
    for cut in cuts(PHASES, COUNT):
        state = run_cut(network.folder, plan(shards, 2, 2), network.links, cut)
        all_or_nothing(cut, state, shards, None)
        done[f"new key {state.phase.name}"] += 1
    made = coordinator_over(network.folder, plan(shards, 2, 3), network.links).run(600, 0.05, monotonic_s, threading.Event().wait)
    source = on_chain(network.chain, made)
    network.tell()
    for cut in cuts(PHASES, COUNT):
        state = run_cut(network.folder, plan(shards, 2, 2, dealers=numbered(shards), source=source), network.links, cut)
        all_or_nothing(cut, state, shards, made)
        done[f"refresh {state.phase.name}"] += 1
    lost, helpers = shards[0].share(3, source.commitments), {2: shards[1], 3: shards[2]}
    for cut in cuts((*PHASES, CeremonyPhase.REPAIRING), COUNT):
        for path in shards[0].folder.glob("share-3-*.json"):
            path.unlink()
        agreed = plan(helpers.values(), 2, 2, dealers=helpers, source=source, heir=shards[0].seat(1))
        state = run_cut(network.folder, agreed, network.links, cut)
        repaired(cut, state, shards[0], lost)
        done[f"repair {state.phase.name}"] += 1
    print("cut off:", dict(done))
    assert sum(done.values()) == (4 + 4 + 5) * 7 * 2


def repaired(cut: Cut, state: CeremonyState, heir: CeremonyShard, lost: int) -> None:
    """Asserts that the heir has its share, unless somebody was away who was needed in that phase."""
    needed = {CeremonyPhase.JOINING: {1, 2, 3}, CeremonyPhase.CONFIRMING: {1}, CeremonyPhase.JUDGING: set[int]()}.get(
        cut.phase, {2, 3}
    )
    assert not state.faults and state.plan.source is not None
    assert (state.phase is CeremonyPhase.FAILED) == bool(needed & cut.shards), cut
    if state.phase is CeremonyPhase.DONE:
        assert heir.share(3, state.plan.source.commitments) == lost

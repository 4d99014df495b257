"""Ceremonies of shards with disks: killed between any two things that become durable, cut off, shown two logs."""

from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.crypto.shares import combine_values
from bytewise.protocol.errors.actors import CeremonyRefused, ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import NotCanonical
from bytewise.protocol.keys.ceremony import CeremonyPlan, SharesSource, sign_plan
from bytewise.protocol.keys.ceremony_log import make_exchange
from bytewise.protocol.keys.epochs import EpochState
from bytewise.protocol.units import Blob
from kms.ceremony.coordinator import epoch_document
from kms.ceremony.state import CeremonyPhase
from kms.storage import keyring
from tests.fixtures.kms.ceremonies import COORDINATOR
from tests.fixtures.kms.ceremony_runs import (
    PHASE_S,
    numbered,
    on_chain,
    run,
    shares_make_the_key,
)
from tests.fixtures.kms.dkg_fixture import CeremonyShard, OneEpoch, Turns, brought, ceremony_shards, coordinator_of, plan


@pytest.fixture()
def pair(tmp_path: Path) -> tuple[list[CeremonyShard], OneEpoch]:
    return ceremony_shards(tmp_path, 2)


def test_participants_and_coordinator_make_refresh_and_repair_a_key(tmp_path: Path) -> None:
    shards, chain = ceremony_shards(tmp_path, 3)
    made = run(coordinator_of(tmp_path, plan(shards, 2, 3), shards))
    shares_make_the_key(made, numbered(shards))
    document = epoch_document(made)
    assert [keyring.open_share(each.folder, document).index for each in shards] == [1, 2, 3]
    source = on_chain(chain, made)
    (shards[0].folder / next(p.name for p in shards[0].folder.glob("share-3-*.json"))).unlink()
    helpers = {2: shards[1], 3: shards[2]}
    mending = plan(helpers.values(), 2, 2, dealers=helpers, source=source, heir=shards[0].seat(1))
    mended = run(coordinator_of(tmp_path, mending, shards))
    assert mended.phase is CeremonyPhase.DONE
    shares_make_the_key(made, numbered(shards))
    renewed = run(coordinator_of(tmp_path, plan(shards, 2, 3, dealers=numbered(shards), source=source), shards))
    shares_make_the_key(renewed, numbered(shards))
    assert renewed.result is not None and renewed.result.public_key == source.commitments[0]
    shares_make_the_key(made, numbered(shards))  # what was in force is still there until it is erased


def test_shard_that_missed_the_end_gets_its_share_from_the_log(tmp_path: Path) -> None:
    shards, _ = ceremony_shards(tmp_path, 3)
    coordinator, turns = coordinator_of(tmp_path, plan(shards, 2, 2), shards), Turns()

    def clock() -> float:
        shards[0].away |= coordinator.state.phase is CeremonyPhase.CONFIRMING
        return turns.clock()

    state = coordinator.run(PHASE_S, 1.0, clock, turns.wait)
    with pytest.raises(ConfigurationError):
        shards[0].share(3, epoch_document(state).commitments)
    shards[0].away = False
    coordinator_of(tmp_path, state.plan, shards).exchange_round()
    shares_make_the_key(state, numbered(shards))


def test_partitioned_quorum_changes_nothing(tmp_path: Path, pair: tuple[list[CeremonyShard], OneEpoch]) -> None:
    shards, chain = pair
    made = run(coordinator_of(tmp_path, plan(shards, 2, 2), shards))
    source = on_chain(chain, made)
    shards[1].away = True
    state = run(coordinator_of(tmp_path, plan(shards, 2, 2, dealers=numbered(shards), source=source), shards))
    assert state.phase is CeremonyPhase.FAILED and state.result is None
    shares_make_the_key(made, numbered(shards))
    assert len(list(shards[0].folder.glob("share-3*.json"))) == 1


def refused_plans(shards: list[CeremonyShard], stranger: CeremonyShard, source: SharesSource) -> dict[str, CeremonyPlan]:
    """Plans that a shard of this epoch must not take part in."""
    same = plan(shards, 2, 2, dealers=numbered(shards), source=source)
    others = [shards[0], stranger]
    seats = tuple(replace(each, certificate="another") for each in same.receivers)
    other_key = SharesSource(0, tuple(reversed(source.commitments)))
    return {
        "another chain": replace(same, chain_id=type(same.chain_id)(1)),
        "another assurance": replace(same, assurance="none"),
        "another coordinator": replace(same, scribe=stranger.signer.address),
        "shares for a stranger": plan(others, 2, 2, dealers=numbered(shards), source=source),
        "a stranger as heir": plan(shards, 2, 2, dealers=numbered(shards), source=source, heir=stranger.seat(3)),
        "another dealer than the chain's": plan(shards, 2, 2, dealers=numbered([shards[0], stranger]), source=source),
        "another key": plan(shards, 2, 2, dealers=numbered(shards), source=other_key),
        "a new key for an epoch that has one": plan(shards, 2, 2),
        "our seat as a dealer with another certificate": replace(same, dealers=seats),
        "our seat as a receiver with another certificate": replace(same, receivers=seats),
    }


def test_plans_forbidden_by_the_chain_or_the_operator_are_refused(
    tmp_path: Path, pair: tuple[list[CeremonyShard], OneEpoch]
) -> None:
    shards, chain = pair
    made = run(coordinator_of(tmp_path, plan(shards, 2, 2), shards))
    source = on_chain(chain, made)
    stranger = ceremony_shards(tmp_path / "stranger", 1, first=9)[0][0]
    plans = refused_plans(shards, stranger, source)
    for what, refused in plans.items():
        signer = stranger.signer if what == "another coordinator" else COORDINATOR
        with pytest.raises(CeremonyRefused):
            shards[0].exchange(make_exchange(signer, sign_plan(signer, refused), 0, (), refused.digest))
    with pytest.raises(Fault):
        unsigned = replace(sign_plan(COORDINATOR, plans["another key"]), signature=Blob(b""))
        shards[0].exchange(make_exchange(COORDINATOR, unsigned, 0, (), unsigned.plan.digest))
    with pytest.raises(NotCanonical):
        shards[0].restart().exchange(bytes(9 * 2**20))
    again = brought(plan(shards, 2, 2, dealers=numbered(shards), source=source))
    in_force = chain.epoch
    for other in (
        {"threshold": 3},
        {"shards": (*in_force.shards, stranger.signer.address)},
        {"state": EpochState.COMPROMISED},
        {"version": 1},
    ):
        chain.epoch = replace(in_force, **other)
        with pytest.raises(CeremonyRefused):
            shards[0].exchange(again)
    chain.epoch = replace(in_force, state=EpochState.RETIRED)
    with pytest.raises(CeremonyRefused):
        shards[0].exchange(brought(plan(shards, 2, 2, dealers=numbered(shards), source=source)))


def test_resharing_to_others_needs_the_operators_permission(tmp_path: Path, pair: tuple[list[CeremonyShard], OneEpoch]) -> None:
    shards, chain = pair
    source = on_chain(chain, run(coordinator_of(tmp_path, plan(shards, 2, 2), shards)))
    fresh, other = ceremony_shards(tmp_path / "fresh", 3, first=11)
    other.epoch = chain.epoch
    moving = plan(fresh, 3, 3, dealers=numbered(shards), source=source)
    for each in (*shards, *fresh):
        each.approved = frozenset({moving.digest})
        each.restart()
    moved = run(coordinator_of(tmp_path, moving, [*shards, *fresh]))
    shares_make_the_key(moved, numbered(fresh))
    assert moved.result is not None and moved.result.public_key == source.commitments[0]


def test_no_share_and_no_seed_is_readable_on_any_disk(tmp_path: Path, pair: tuple[list[CeremonyShard], OneEpoch]) -> None:
    shards, _ = pair
    state = run(coordinator_of(tmp_path, plan(shards, 2, 2), shards))
    assert state.result is not None
    shares = numbered(shards)
    values = {index: each.share(3, state.result.commitments) for index, each in shares.items()}
    secrets = [*values.values(), combine_values(values)]
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in secrets:
        raw = secret.to_bytes(32, "big")
        assert raw not in written and raw.hex().encode() not in written

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
from tests.fixtures.kms.ceremony_runs import MadeKey, made_key, missed_its_end, numbered, run, shares_make_the_key
from tests.fixtures.kms.dkg_fixture import CeremonyShard, brought, ceremony_shards, coordinator_of, plan


@pytest.fixture()
def pair(tmp_path: Path) -> MadeKey:
    return made_key(tmp_path)


def test_participants_and_coordinator_make_refresh_and_repair_a_key(tmp_path: Path) -> None:
    shards, _, made, source = key = made_key(tmp_path, 3)
    shares_make_the_key(made, numbered(shards))
    document = epoch_document(made)
    assert [keyring.open_share(each.folder, document).index for each in shards] == [1, 2, 3]
    next(shards[0].folder.glob("share-3-*.json")).unlink()
    assert run(coordinator_of(tmp_path, key.repair(), shards)).phase is CeremonyPhase.DONE
    shares_make_the_key(made, numbered(shards))
    renewed = run(coordinator_of(tmp_path, key.renewal(3), shards))
    shares_make_the_key(renewed, numbered(shards))
    assert renewed.result is not None and renewed.result.public_key == source.commitments[0]
    shares_make_the_key(made, numbered(shards))  # what was in force is still there until it is erased


def test_shard_that_missed_the_end_gets_its_share_from_the_log(tmp_path: Path) -> None:
    shards, state, bring = missed_its_end(tmp_path)
    with pytest.raises(ConfigurationError):
        shards[0].share(3, epoch_document(state).commitments)
    bring()
    shares_make_the_key(state, numbered(shards))


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


def test_plans_forbidden_by_the_chain_or_the_operator_are_refused(tmp_path: Path, pair: MadeKey) -> None:
    shards, chain, _, source = pair
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
    again = brought(pair.renewal())
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
        shards[0].exchange(brought(pair.renewal()))


def test_resharing_to_others_needs_the_operators_permission(tmp_path: Path, pair: MadeKey) -> None:
    shards, chain, _, source = pair
    fresh, other = ceremony_shards(tmp_path / "fresh", 3, first=11)
    other.epoch = chain.epoch
    moving = plan(fresh, 3, 3, dealers=numbered(shards), source=source)
    for each in (*shards, *fresh):
        each.approved = frozenset({moving.digest})
        each.restart()
    moved = run(coordinator_of(tmp_path, moving, [*shards, *fresh]))
    shares_make_the_key(moved, numbered(fresh))
    assert moved.result is not None and moved.result.public_key == source.commitments[0]


def test_no_share_and_no_seed_is_readable_on_any_disk(tmp_path: Path, pair: MadeKey) -> None:
    values = {index: each.share(3, pair.source.commitments) for index, each in numbered(pair.shards).items()}
    secrets = [*values.values(), combine_values(values)]
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in secrets:
        raw = secret.to_bytes(32, "big")
        assert raw not in written and raw.hex().encode() not in written

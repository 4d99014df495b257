"""Shards and coordinators that die at every moment at which something becomes durable, in every kind of ceremony, and in
erasing."""

import os
from pathlib import Path

import pytest

from bytewise.service.clock import SystemClock
from bytewise.service.secret import Secret
from bytewise.storage.ceremonies import StoredCeremony
from kms.ceremony.erasure import erase_shares
from kms.ceremony.participant import ParticipantKeys
from kms.ceremony.responses import SEED_BYTES, ParticipantSecrets
from kms.ceremony.state import CeremonyPhase, CeremonyState
from tests.fixtures.kms.ceremony_runs import MadeKey, made_key, numbered, run, shares_make_the_key, take_into_force
from tests.fixtures.kms.crash_points import Crash, Fuse
from tests.fixtures.kms.dkg_fixture import ceremony_shards, coordinator_of, plan
from tests.fixtures.kms.dying_shards import died_around, dying, made_a_file
from tests.fixtures.kms.memory_chain import CONTRACTS


def test_shard_crashing_at_any_point_signs_nothing_twice_and_has_its_share(tmp_path: Path) -> None:
    shards, _ = ceremony_shards(tmp_path, 2)
    state = dying(tmp_path, plan(shards, 2, 2), shards, shards[:1])
    shares_make_the_key(state, numbered(shards))
    died_around(shards[0], "join", "commit", "deal", "judgement", "confirm")
    made_a_file(shards[0])


def test_control_shard_that_stores_no_seed_contradicts_itself_on_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_the_file = ParticipantKeys.secrets

    def of_this_life(keys: ParticipantKeys, state: CeremonyState, kept: StoredCeremony) -> ParticipantSecrets:
        seed = vars(keys).setdefault("seed", Secret(os.urandom(SEED_BYTES)))
        return of_the_file(keys, state, kept)._replace(seed=seed)

    monkeypatch.setattr(ParticipantKeys, "secrets", of_this_life)
    shards, _ = ceremony_shards(tmp_path, 2)
    shards[0].fuse = Fuse(lit=True)
    shards[0].restart()
    state = run(coordinator_of(tmp_path, plan(shards, 2, 2), shards), phase_s=600)
    assert state.phase is CeremonyPhase.FAILED and state.result is None


def test_coordinator_crashing_at_every_point_resumes(tmp_path: Path) -> None:
    shards, _ = ceremony_shards(tmp_path, 2)
    agreed, fuse, deaths = plan(shards, 2, 2), Fuse(lit=True), 0
    while True:
        try:
            state = run(coordinator_of(tmp_path, agreed, shards, fuse), phase_s=60)
            break
        except Crash:
            deaths += 1
    assert deaths == len(fuse.burnt) > 20
    shares_make_the_key(state, numbered(shards))


@pytest.fixture()
def made(tmp_path: Path) -> MadeKey:
    return made_key(tmp_path, 3)


def test_shard_crashing_at_any_point_of_refresh_or_erasure_has_one_share(tmp_path: Path, made: MadeKey) -> None:
    shards, chain, before, _ = made
    state = dying(tmp_path, made.renewal(3), shards, shards[:1])
    shares_make_the_key(state, numbered(shards))
    shares_make_the_key(before, numbered(shards))
    died_around(shards[0], "join", "commit", "deal", "judgement", "confirm", "consent")
    made_a_file(shards[0])
    document, who, unended = take_into_force(chain, state), shards[0], plan(shards, 2, 3)
    who.ceremonies().open(coordinator_of(tmp_path, unended, shards).signed, b"sealed seed")
    who.fuse = Fuse(lit=True)
    said = None
    while said is None:
        try:
            said = erase_shares(who.folder, document, CONTRACTS, who.ceremonies(), chain, SystemClock())
        except Crash:
            continue
    who.fuse.lit = False
    assert {each.split()[1] for each in who.fuse.burnt} == {"commit:", "open", "os.remove", "os.rename"}
    assert len(who.fuse.burnt) >= 5 and said.statement.version == 1
    assert len(list(who.folder.glob("share-3*"))) == 1 and who.ceremonies().running() == ()
    shares_make_the_key(state, numbered(shards))


def test_dealers_and_receivers_of_a_resharing_may_crash_at_every_point(tmp_path: Path, made: MadeKey) -> None:
    shards, chain, _, source = made
    fresh, other = ceremony_shards(tmp_path / "fresh", 2, first=11)
    other.epoch = chain.epoch
    moving = plan(fresh, 2, 2, dealers=numbered(shards), source=source)
    for each in (*shards, *fresh):
        each.approved = frozenset({moving.digest})
        each.restart()
    moved = dying(tmp_path, moving, [*shards, *fresh], [shards[0], fresh[0]])
    shares_make_the_key(moved, numbered(fresh))
    died_around(shards[0], "commit", "deal", "consent")
    died_around(fresh[0], "join", "judgement", "confirm")
    made_a_file(fresh[0])


def test_helper_and_receiver_of_a_repair_may_crash_at_every_point(tmp_path: Path, made: MadeKey) -> None:
    shards, _, before, _ = made
    next(shards[0].folder.glob("share-3-*.json")).unlink()
    dying(tmp_path, made.repair(), shards, shards[:2])
    shares_make_the_key(before, numbered(shards))
    died_around(shards[1], "join", "commit", "deal", "judgement", "hand")
    died_around(shards[0], "join", "confirm")
    made_a_file(shards[0])

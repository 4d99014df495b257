"""ML-KEM keys of shards: born in the ceremony that makes the epoch's key, sealed beside the share, gone when the share goes."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bytewise.crypto import hpke
from bytewise.protocol.errors.actors import CeremonyRefused, ConfigurationError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.keys.ceremony_log import KemKey, sign_message
from bytewise.protocol.keys.epochs import EpochState
from bytewise.protocol.suites import hybrid_epoch
from bytewise.protocol.units import U64, Address, Blob
from chain.reads.key_epochs import pinned_epoch
from kms.ceremony.coordinator import epoch_document
from kms.ceremony.responses import kem_seed
from kms.ceremony.state import CeremonyPhase
from kms.storage import keyring
from tests.fixtures.kms.backup_station import Station
from tests.fixtures.kms.ceremonies import CeremonyParties, Party, generated, new_key, plan_for
from tests.fixtures.kms.dkg_fixture import ceremony_shards, plan
from tests.fixtures.kms.dying_shards import died_around, dying, made_a_file
from tests.fixtures.kms.release_network import World

EPOCH = hybrid_epoch(1)
KEY = os.urandom(32)


def test_hybrid_epoch_shards_make_and_sign_their_own_kem_keys() -> None:
    made = new_key(quorum=3, epoch=EPOCH)
    state = made.run()
    assert state.phase is CeremonyPhase.DONE and state.result is not None
    document = epoch_document(state)
    keys = document.record.hybrid
    assert keys is not None
    assert keys.keys == tuple(hpke.kem_key(kem_seed(state, each.member).reveal()) for each in made.parties)
    assert state.result.transcript == keys.digest != keys.transcript
    assert len(state.signatures) == 3


def test_epoch_of_the_old_suite_has_no_kem_keys_and_takes_none_in_its_log() -> None:
    plain = new_key(quorum=3)
    with pytest.raises(CeremonyRefused, match="no seat"):
        plain.post(sign_message(plain.parties[0].signer, plain.state.id, KemKey(hpke.kem_key(os.urandom(64)))))
    assert epoch_document(plain.run()).record.hybrid is None and {each.kind for each in plain.log} & {"kem"} == set()


def without_kem(_town: CeremonyParties, _who: Party, body: object) -> tuple[object, ...]:
    return () if isinstance(body, KemKey) else (body,)


def bad_kem(_town: CeremonyParties, _who: Party, body: object) -> tuple[object, ...]:
    return (KemKey(Blob(b"\xff" * 1184)),) if isinstance(body, KemKey) else (body,)


def two_kems(_town: CeremonyParties, _who: Party, body: object) -> tuple[object, ...]:
    return (body, KemKey(hpke.kem_key(os.urandom(64)))) if isinstance(body, KemKey) else (body,)


@pytest.mark.parametrize(("meddle", "named"), [(without_kem, False), (bad_kem, True), (two_kems, True)])
def test_hybrid_epoch_needs_the_key_of_every_shard(meddle: object, named: bool) -> None:
    made = new_key(epoch=EPOCH)
    made.parties[1].meddle = meddle  # type: ignore[assignment]
    state = made.run()
    assert state.phase is CeremonyPhase.FAILED and "2 ML-KEM keys, 3 needed" in state.reason
    assert (made.parties[1].signer.address in state.faults) == named


def test_hybrid_epoch_is_not_reshared_and_its_size_keeps_blame_unambiguous() -> None:
    held, source = generated(2, 3)
    for heir in (None, plan_for(held, 2, 3).receivers[0]):
        with pytest.raises(CeremonyRefused, match="make a new epoch"):
            plan_for(held[1:] if heir else held, 2, 2, dealers=dict(enumerate(held, 1)), source=source, heir=heir, epoch=EPOCH)
    with pytest.raises(CeremonyRefused, match="needs 3 shards"):
        plan_for(held[:2], 2, 2, epoch=EPOCH)
    with pytest.raises(MalformedValue, match="does not know"):
        plan_for(held, 2, 3, epoch=9 << 32)


def test_shard_crashing_at_any_point_has_share_and_key_of_one_ceremony(tmp_path: Path) -> None:
    shards, _ = ceremony_shards(tmp_path, 3)
    state = dying(tmp_path, plan(shards, 2, 3, epoch=EPOCH), shards, shards[:1])
    died_around(shards[0], "join", "kem", "commit", "deal", "judgement", "confirm")
    made_a_file(shards[0], "kem")
    made_a_file(shards[0])
    document = epoch_document(state)
    assert document.record.hybrid is not None
    for index, each in enumerate(shards, start=1):
        held = keyring.open_share(each.folder, document)
        assert (held.index, hpke.kem_key(held.kem_seed())) == (index, document.record.hybrid.keys[index - 1])
        assert len(list(each.folder.glob("kem-*"))) == 1


def kem_of(station: Station) -> Path:
    """The sealed key of the shard."""
    return station.folder / f"kem-{EPOCH}.sealed"


@pytest.fixture()
def station(tmp_path: Path) -> Station:
    return Station(World(tmp_path, epoch=EPOCH), records=0)


def test_sealed_kem_key_opens_only_for_its_epoch_and_index(station: Station) -> None:
    held = keyring.open_share(station.folder, station.world.document)
    seed, raw = held.kem_seed(), kem_of(station).read_bytes()
    assert seed not in raw and seed.hex() not in repr(held) and kem_of(station).stat().st_mode & 0o777 == 0o600
    key = hpke.kem_key(seed)
    assert keyring.find_kem(station.folder, EPOCH, 1, key).reveal() == seed
    for epoch, index, wanted in ((EPOCH, 2, key), (EPOCH + 1, 1, key), (EPOCH, 1, hpke.kem_key(os.urandom(64)))):
        with pytest.raises(ConfigurationError, match="no ML-KEM-768 key"):
            keyring.find_kem(station.folder, epoch, index, wanted)
    kem_of(station).write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(ConfigurationError):
        keyring.open_share(station.folder, station.world.document)


def test_shard_without_its_kem_key_does_not_serve_and_old_suites_need_none(station: Station, world: World) -> None:
    kem_of(station).unlink()
    with pytest.raises(ConfigurationError, match="no ML-KEM-768 key"):
        station.world.shard(1)
    held = keyring.open_share(world.settings.shards[0].folder, world.document)
    with pytest.raises(ConfigurationError, match="no ML-KEM-768 key"):
        held.kem_seed()


def test_backup_and_restore_include_the_kem_key(station: Station) -> None:
    seed = keyring.open_share(station.folder, station.world.document).kem_seed()
    assert seed not in station.file.read_bytes()
    station.lose()
    done = station.restore()
    assert kem_of(station).name in done.written and done.dropped == ()
    assert keyring.open_share(station.folder, station.world.document).kem_seed() == seed


@pytest.mark.parametrize(
    "gone", [{"state": EpochState.RETIRED}, {"shards": (Address("0x" + "77" * 20),)}], ids=["retired", "held by others now"]
)
def test_restore_leaves_out_superseded_shares_and_their_kem_keys(station: Station, gone: dict[str, Any]) -> None:
    station.chain.epoch = replace(station.chain.epoch, **gone)
    before, superseded = station.lose(), {f"share-{EPOCH}.json", kem_of(station).name}
    assert set(station.restore().dropped) == superseded
    assert station.content().keys() == before.keys() - superseded


def test_end_of_an_epoch_erases_the_kem_key_with_the_share(station: Station) -> None:
    station.chain.epoch = replace(station.chain.epoch, state=EpochState.RETIRED)
    assert station.erase().statement.erased == 1 and not kem_of(station).exists()
    assert not list(station.folder.glob("share-*"))


def test_abandoned_ceremony_is_erased_with_its_kem_key(station: Station) -> None:
    seed = keyring.open_share(station.folder, station.world.document).kem_seed()
    keyring.seal_share(station.folder, EPOCH, 1, 5, "-0a1b")
    keyring.seal_kem(station.folder, EPOCH, 1, os.urandom(64), "-0a1b")
    assert station.erase().statement.erased == 1
    assert sorted(path.name for path in station.folder.glob("kem-*")) == [kem_of(station).name]
    assert keyring.open_share(station.folder, station.world.document).kem_seed() == seed


def test_only_kem_keys_with_signatures_on_the_chain_are_sealed_to(station: Station) -> None:
    """An edited address book, which names an attacker's key, is refused before anything is sealed to it."""
    record = station.world.document.record
    assert record.hybrid is not None
    raw = {
        "state": EpochState.ACTIVE, "assurance": 1, "publicKey": bytes(record.public_key), "threshold": record.threshold,
        "shards": tuple(each.address for each in record.shards), "transcript": bytes(record.hybrid.digest),
    }  # fmt: skip
    assert pinned_epoch(EPOCH, raw, lambda _epoch: record) == record
    stolen = replace(record.hybrid, keys=(hpke.kem_key(os.urandom(64)), *record.hybrid.keys[1:]))
    with pytest.raises(ConfigurationError, match="hybrid keys of key epoch"):
        pinned_epoch(EPOCH, raw, lambda _epoch: replace(record, hybrid=stolen))
    with pytest.raises(ConfigurationError, match="hybrid keys of key epoch"):
        pinned_epoch(EPOCH, {**raw, "transcript": bytes(32)}, lambda _epoch: record)
    plain = replace(record, epoch=U64(1), hybrid=None)
    assert pinned_epoch(1, {**raw, "transcript": bytes(32)}, lambda _epoch: plain) == plain


def test_epoch_record_has_hybrid_keys_exactly_if_its_version_says_so(tmp_path: Path) -> None:
    record = World(tmp_path, epoch=EPOCH).document.record
    keys = record.hybrid
    assert keys is not None
    for wrong in (
        {"hybrid": None},
        {"epoch": U64(1)},
        {"hybrid": replace(keys, keys=keys.keys[:2])},
        {"hybrid": replace(keys, keys=(Blob(b"short"), *keys.keys[1:]))},
        {"threshold": 3},
    ):
        with pytest.raises(MalformedValue, match="key epoch"):
            replace(record, **wrong)

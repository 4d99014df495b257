"""The coordinator's program against shards over HTTPS: a key is made, its log shows it, a wrong certificate is not believed."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import CeremonyFailed, CeremonyRefused, ConfigurationError
from bytewise.protocol.keys.ceremony import CeremonyPurpose, SignedPlan
from bytewise.service.clock import monotonic_s
from kms.ceremony import coordinator
from kms.ceremony.coordinator import epoch_document, finished_ceremony, load_or_make_plan, make_plan, run_ceremony
from kms.ceremony.state import CeremonyPhase
from kms.settings import CeremonySettings
from kms.storage import keyring
from tests.fixtures.kms.ceremonies import COORDINATOR
from tests.fixtures.kms.ceremony_runs import made_key, run
from tests.fixtures.kms.dkg_fixture import CeremonyShard, coordinator_of
from tests.fixtures.kms.served_ceremony import CONTRACTS, served_shards, serving, settings_for, shards
from tests.fixtures.kms.trickling_shard import trickling

__all__ = ["shards"]


def test_key_is_made_over_https_and_shown_by_its_log(tmp_path: Path, shards: list[CeremonyShard]) -> None:
    """And the plan of a refresh follows from the epoch document."""
    settings = settings_for(tmp_path, shards, "new")
    signed = agreed_in(settings)
    with pytest.raises(CeremonyFailed, match="it has not ended and is in phase JOINING: run its command"):
        finished_ceremony(settings)
    with serving(shards):
        state = run_ceremony(settings, signed, COORDINATOR)
        assert state.phase is CeremonyPhase.DONE and sorted(state.partials) == [1, 2]
        assert run_ceremony(settings, signed, COORDINATOR) == state
    document = keyring.load_document(settings.out_file)
    assert finished_ceremony(settings) == state and epoch_document(state) == document
    assert [keyring.open_share(each.folder, document).index for each in shards] == [1, 2]
    assert agreed_in(settings) == signed
    again = replace(settings_for(tmp_path, shards, "again"), source_file=settings.out_file, entries=())
    agreed = agreed_in(again, CeremonyPurpose.RESHARE).plan
    assert agreed.dealers == agreed.receivers and agreed.source is not None and agreed.version == 1
    assert decode(SignedPlan, again.plan_file.read_bytes()).plan == agreed
    for other in (settings, settings_for(tmp_path, shards, "none")):
        with pytest.raises(ConfigurationError):
            agreed_in(other, CeremonyPurpose.RESHARE)


def agreed_in(settings: CeremonySettings, purpose: CeremonyPurpose = CeremonyPurpose.GENERATE) -> SignedPlan:
    return load_or_make_plan(settings, purpose, CONTRACTS, COORDINATOR, os.urandom)


def test_repair_plan_follows_from_the_epoch_document_and_restores_a_share(tmp_path: Path) -> None:
    made, _, state, _ = made_key(tmp_path, 4, 3)
    document, source = epoch_document(state), tmp_path / "epoch.json"
    source.write_bytes(encode(document))
    for heir in (1, 4):
        asked = replace(settings_for(tmp_path, made, "repair"), source_file=source, entries=(), repair_index=heir)
        agreed = make_plan(asked, CeremonyPurpose.REPAIR, CONTRACTS, COORDINATOR.address, os.urandom)
        helpers = [each.address for number, each in enumerate(document.record.shards, start=1) if number != heir]
        assert [each.address for each in agreed.dealers] == [each.address for each in agreed.receivers] == helpers
        assert agreed.repair_target is not None and agreed.repair_target.address == document.record.shards[heir - 1].address
        folder = made[heir - 1].folder
        before = keyring.open_share(folder, document).scalar()
        keyring.erase_all(folder, 3)
        assert run(coordinator_of(tmp_path, agreed, made)).phase is CeremonyPhase.DONE
        assert keyring.open_share(folder, document).scalar() == before
    with pytest.raises(CeremonyRefused):
        make_plan(replace(asked, repair_index=9), CeremonyPurpose.REPAIR, CONTRACTS, COORDINATOR.address, os.urandom)


def test_shard_with_another_certificate_counts_as_unavailable(tmp_path: Path, shards: list[CeremonyShard]) -> None:
    settings = replace(settings_for(tmp_path, shards, "false"), phase_s=0.5)
    signed = agreed_in(settings)
    for name in ("tls.pem", "tls.key"):
        (shards[0].folder / name).write_bytes((shards[1].folder / name).read_bytes())
    with serving(shards):
        state = run_ceremony(settings, signed, COORDINATOR)
    assert state.phase is CeremonyPhase.FAILED and not settings.out_file.exists()
    assert {sender for sender, _ in state.bodies} <= {shards[1].signer.address, COORDINATOR.address}


def test_shard_with_an_endless_answer_is_left_out_after_its_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked first in each turn: what it takes is not taken from the others."""
    monkeypatch.setattr(coordinator, "MAX_EXCHANGE_S", 1.2)
    monkeypatch.setattr(coordinator, "MIN_EXCHANGE_S", 0.6)
    made = served_shards(tmp_path, 3)
    settings = replace(settings_for(tmp_path, made, "slow"), phase_s=2.5)
    signed, begun = agreed_in(settings), monotonic_s()
    with serving(made[1:]), trickling(made[0].folder, made[0].port, "body"):
        state = run_ceremony(settings, signed, COORDINATOR)
    assert state.phase is CeremonyPhase.DONE and sorted(state.partials) == [2, 3]
    assert monotonic_s() - begun < 60

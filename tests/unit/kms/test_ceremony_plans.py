"""Plans of ceremonies and what settings may say beside one that is there; files that a person names."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.errors.actors import CeremonyFailed, ConfigurationError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.keys.ceremony import CeremonyPurpose
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U64
from bytewise.service.settings import DatabaseUrl
from bytewise.storage.migrations.migrate import migrate
from cli.key.ceremony import _plan_facts
from kms.ceremony.coordinator import finished_ceremony, load_or_make_plan, make_plan
from kms.settings import CeremonySettings
from tests.fixtures.kms.ceremonies import COORDINATOR
from tests.fixtures.kms.dkg_fixture import ceremony_shards
from tests.fixtures.kms.release_network import World
from tests.fixtures.kms.served_ceremony import CONTRACTS, settings_for


@pytest.fixture()
def settings(tmp_path: Path) -> CeremonySettings:
    """Of a key of three shards."""
    made, _ = ceremony_shards(tmp_path, 3)
    for port, each in enumerate(made, start=40_000):
        each.port = port
    return settings_for(tmp_path, made, "new")


def _agree(settings: CeremonySettings) -> Any:
    return load_or_make_plan(settings, CeremonyPurpose.GENERATE, CONTRACTS, COORDINATOR, os.urandom)


def test_settings_that_contradict_the_plan_are_refused_and_the_plan_stays(settings: CeremonySettings) -> None:
    signed, before = _agree(settings), settings.plan_file.read_bytes()
    changes: list[tuple[dict[str, Any], str]] = [
        ({"threshold": 3, "quorum": 3}, "threshold, quorum"), ({"quorum": 3}, "quorum"), ({"assurance": "hardware"}, "assurance"),
        ({"entries": settings.entries[::-1]}, "dealers, receivers"),
    ]  # fmt: skip
    for changed, named in changes:
        with pytest.raises(ConfigurationError, match=f"differs from the settings in {named}:"):
            _agree(replace(settings, **changed))
        assert settings.plan_file.read_bytes() == before and _agree(settings) == signed


def test_approval_shows_what_the_plan_makes(settings: CeremonySettings) -> None:
    shown = _plan_facts(_agree(settings).plan)
    assert (shown["opened_by"], shown["quorum"], shown["reveal_budget"], shown["assurance"]) == ("2 of 3", 2, 1, "simulated")
    assert (shown["purpose"], shown["epoch"], shown["repair_target"]) == ("GENERATE", 3, None)
    assert shown["coordinator"] == COORDINATOR.address
    receivers: Any = shown["receivers"]
    assert [(each["index"], each["url"]) for each in receivers] == [(n, receivers[n - 1]["url"]) for n in (1, 2, 3)]
    assert all(each.keys() == {"index", "account", "url", "channel", "certificate_sha256"} for each in receivers)


@pytest.mark.parametrize("name", ["plan_file", "out_file"])
def test_missing_folder_is_named_before_any_work(settings: CeremonySettings, name: str) -> None:
    changes: dict[str, Any] = {name: settings.plan_file.parent / "nowhere" / "file.json"}
    with pytest.raises(ConfigurationError, match=rf"{name}.*nowhere: no such folder"):
        _agree(replace(settings, **changes))
    assert not settings.plan_file.exists()


@pytest.mark.parametrize(
    "changed",
    [
        {"epoch": U64(0)}, {"assurance": "bogus"}, {"phase_s": 0.0}, {"phase_s": 7 * 86_400 + 0.5}, {"phase_s": float("nan")},
        {"source_version": -1}, {"source_version": 2**32},
    ],
)  # fmt: skip
def test_epoch_number_out_of_range_is_refused_in_settings(settings: CeremonySettings, changed: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(changed))):
        replace(settings, **changed)


def test_plan_file_is_bound_to_one_ceremony_and_to_the_epoch_of_its_source(settings: CeremonySettings, tmp_path: Path) -> None:
    _agree(settings)
    for asked, purpose, coordinator in (
        (replace(settings, epoch=U64(4)), CeremonyPurpose.GENERATE, COORDINATOR),
        (settings, CeremonyPurpose.RESHARE, COORDINATOR),
        (settings, CeremonyPurpose.GENERATE, LocalSigner(b"\x78" * 32)),
    ):
        with pytest.raises(ConfigurationError, match="holds the plan of another ceremony: name another plan_file"):
            load_or_make_plan(asked, purpose, CONTRACTS, coordinator, os.urandom)
    document = World(tmp_path).document
    source, renewing = tmp_path / "epoch.json", replace(settings, entries=(), source_file=tmp_path / "epoch.json")
    reshared = CeremonyPurpose.RESHARE, CONTRACTS, COORDINATOR.address, os.urandom
    assert make_plan(replace(renewing, epoch=document.record.epoch), *reshared)
    for path, epoch, words in (
        (source, U64(2), "is of key epoch 1"),
        (None, U64(1), "missing: name the epoch document"),
        (tmp_path / "none.json", U64(1), "No such file"),
        (settings.plan_file, U64(1), "plan"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            make_plan(replace(renewing, source_file=path, epoch=epoch), *reshared)


@pytest.mark.parametrize(("content", "words"), [(None, "No such file"), (b"{}", "entry-1")])
def test_malformed_entry_is_named(settings: CeremonySettings, content: bytes | None, words: str) -> None:
    path = settings.plan_file.parent / "entry-1.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=words):
        _agree(replace(settings, entries=(path, *settings.entries[1:])))


def test_database_of_another_schema_is_named_before_any_work(settings: CeremonySettings, tmp_path: Path) -> None:
    _agree(settings)
    elsewhere = replace(settings, database_url=DatabaseUrl(f"sqlite:///{tmp_path / 'empty.sqlite'}"))
    with pytest.raises(ConfigurationError, match=r"database: sqlite:.*empty\.sqlite has no revision"):
        finished_ceremony(elsewhere)
    migrate(elsewhere.database_url)
    with pytest.raises(CeremonyFailed, match="is in phase JOINING"):
        finished_ceremony(elsewhere)


def test_database_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not open: make the folder of its file"):
        migrate(f"sqlite:///{tmp_path / 'nowhere' / 'kms.sqlite'}")


@pytest.mark.parametrize("threshold", [-1, 0, 4])
def test_epoch_with_a_threshold_above_its_shards_is_refused(tmp_path: Path, threshold: int) -> None:
    """A host that says so had its enclave vote that an envelope does not open, by no word of any shard."""
    epoch = World(tmp_path).document.record
    with pytest.raises(MalformedValue, match=f"asks {threshold} of 3 shards"):
        replace(epoch, threshold=threshold)

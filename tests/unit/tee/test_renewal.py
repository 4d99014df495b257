"""Collateral of quotes is renewed from a service that nobody believes: published quote and collateral of a real trust domain."""

import datetime
import hashlib
import json
import os
from pathlib import Path

import pytest
import typer

from bytewise.protocol.errors.actors import ConfigurationError, EvidenceRefused, TryAgain
from bytewise.protocol.errors.evidence import EvidenceExpired, UntrustedRoot
from bytewise.service.exit_codes import Exit
from bytewise.tee.documents import issued_at, parse_collateral
from bytewise.tee.quoters import ConfigfsQuoter
from bytewise.tee.renewal import NAME, CollateralRenewal, CollateralSettings, renew
from bytewise.tee_simulated.quoter import collateral
from cli.__main__ import main
from cli.node.collateral import _renew_once, _verify_writable
from tests.fixtures.tee.configfs_kernel import Kernel, kernel, service_answer
from tests.fixtures.tee.provisioning_service import provisioning
from tests.fixtures.tee.simulated_platform import Bench
from tests.source import PUBLISHED_VECTORS

__all__ = ["kernel"]

FOLDER = PUBLISHED_VECTORS / "tee"
QUOTE, ANSWERS = (FOLDER / "tdx_quote").read_bytes(), (FOLDER / "tdx_quote_collateral.json").read_bytes()
OTHER = (FOLDER / "tdx_quote_outdated_collateral.json").read_bytes()
COLLATERAL = parse_collateral(ANSWERS)
NOW = issued_at(COLLATERAL) + 60
DAY = 86_400


def test_collateral_of_a_real_platform_is_fetched_verified_and_stored(tmp_path: Path) -> None:
    with provisioning(ANSWERS) as service:
        found = renew(CollateralSettings(service.url), tmp_path, QUOTE, NOW)
    assert found.replaced and 20 * DAY < found.expires_at - NOW < 31 * DAY
    assert parse_collateral((tmp_path / NAME).read_bytes()) == COLLATERAL
    assert [each.name for each in tmp_path.iterdir()] == [NAME], "no draft is left"
    assert any("ca=platform" in each for each in service.asked) and any("fmspc=" in each for each in service.asked)


def test_quote_through_the_kernel_rests_on_the_renewed_file(kernel: type[Kernel], tmp_path: Path) -> None:
    kernel.report = staticmethod(lambda data: QUOTE)
    quoter, folder = ConfigfsQuoter(tmp_path / "endorsements", kernel(tmp_path)), tmp_path / "endorsements"
    folder.mkdir()
    with pytest.raises(ConfigurationError, match=NAME):
        quoter.quote(bytes(64))
    with provisioning(ANSWERS) as service:
        CollateralRenewal(CollateralSettings(service.url), folder, lambda: quoter.raw_quote(bytes(64)), lambda: NOW).look()
    assert quoter.quote(bytes(64))
    quoter.close()


def test_collateral_that_does_not_verify_the_quote_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(ANSWERS)
    with provisioning(ANSWERS) as service:
        true = dict(service.answers)
        for change in (
            {"tcb_info": "{}"}, {"tcb_info_signature": "00" * 64}, {"qe_identity_signature": "11" * 64},
            {"pck_crl": json.loads(ANSWERS)["root_ca_crl"]}, {"root_ca_crl": "00"},
        ):  # fmt: skip
            service.answers = true | change
            with pytest.raises((EvidenceRefused, TryAgain)):
                renew(CollateralSettings(service.url), tmp_path, QUOTE, NOW)
            assert (tmp_path / NAME).read_bytes() == ANSWERS, change


def test_collateral_of_another_platform_or_time_is_refused(tmp_path: Path) -> None:
    with provisioning(OTHER) as service, pytest.raises(EvidenceRefused):
        renew(CollateralSettings(service.url), tmp_path, QUOTE, NOW)
    with provisioning(ANSWERS) as service:
        with pytest.raises(EvidenceExpired):
            renew(CollateralSettings(service.url), tmp_path, QUOTE, NOW + 60 * DAY)
        with pytest.raises(UntrustedRoot):
            renew(CollateralSettings(service.url), tmp_path, QUOTE, NOW, frozenset({"00" * 32}))
        with pytest.raises((UntrustedRoot, TryAgain)):
            renew(CollateralSettings(service.url), tmp_path, b"no quote", NOW)
    assert not (tmp_path / NAME).exists()


def test_service_that_is_away_or_hangs_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(TryAgain, match="collateral service"):
        renew(CollateralSettings("http://127.0.0.1:1"), tmp_path, QUOTE, NOW)
    with provisioning(ANSWERS) as service:
        service.hang.clear()
        with pytest.raises(TryAgain, match=r"no answer in 0\.3 s"):
            renew(CollateralSettings(service.url, timeout_s=0.3), tmp_path, QUOTE, NOW)
        service.hang.set()


def test_file_is_renewed_by_its_age_and_again_after_a_failure(tmp_path: Path) -> None:
    clock = [NOW]
    with provisioning(ANSWERS) as service:
        renewal = CollateralRenewal(CollateralSettings(service.url), tmp_path, lambda: QUOTE, lambda: clock[0])
        renewal.look()
        os.utime(tmp_path / NAME, (NOW, NOW))
        asked = len(service.asked)
        clock[0] = NOW + DAY - 1
        renewal.look()
        assert len(service.asked) == asked, "a fresh file is left alone"
        clock[0], broken = NOW + DAY, dict(service.answers)
        service.answers = broken | {"tcb_info": "{}"}
        for _ in range(2):
            with pytest.raises((EvidenceRefused, TryAgain)):
                renewal.look()
        service.answers = broken
        assert renewal.renew().replaced
        os.utime(tmp_path / NAME, (2 * clock[0], 2 * clock[0]))
        before = len(service.asked)
        renewal.look()
        assert len(service.asked) > before, "a file from the future says nothing about its age"


def test_older_collateral_replaces_only_a_file_that_is_not_good(bench: Bench, tmp_path: Path) -> None:
    """The collateral is a simulated vendor's, because the real one is published for one time only."""
    root, now = bench.policy.rules[0].root, bench.now
    roots = frozenset({hashlib.sha256(root).hexdigest()})

    def issued(ago_s: int) -> bytes:
        start = datetime.datetime.fromtimestamp(now - ago_s, datetime.UTC)
        return service_answer(collateral(bench.platform, start, start + datetime.timedelta(hours=1)), root)

    older, newer = issued(40), issued(20)
    with provisioning(older) as service:
        settings = CollateralSettings(service.url)
        for stored in (newer.replace(b'"tcb_info_signature": "', b'"tcb_info_signature": "00'), b"", b"{}"):
            (tmp_path / NAME).write_bytes(stored)
            assert renew(settings, tmp_path, bench.evidence.quote, now, roots).replaced
        (tmp_path / NAME).write_bytes(newer)
        found = renew(settings, tmp_path, bench.evidence.quote, now, roots)
        assert not found.replaced and found.expires_at > now and (tmp_path / NAME).read_bytes() == newer
        service.answers = json.loads(issued(10))
        assert renew(settings, tmp_path, bench.evidence.quote, now, roots).replaced


@pytest.mark.parametrize("change", [{"service_url": "ftp://x"}, {"service_url": ""}, {"renew_after_s": 0}, {"timeout_s": 0.0}])
def test_impossible_settings_are_named(change: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(change))):
        CollateralSettings(**change)  # type: ignore[arg-type]


def test_command_outside_a_trust_domain_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '[enclave]\nartifact = "a"\nsocket = "s"\nchain_id = 1\nendorsements = "e"\nevidence = "{}"\n'
    config = tmp_path / "enclave.toml"
    for evidence, named in (("tdx", "configfs-tsm"), ("snp", "only tdx")):
        config.write_text(text.format(evidence))
        assert main(["enclave", "collateral", "--once", "--config", str(config)]) == Exit.USAGE
        assert named in capsys.readouterr().err
    config.write_text('role = "watchtower"\nnetwork_file = "network.json"\n')
    assert main(["enclave", "collateral", "--once", "--config", str(config)]) == Exit.USAGE
    assert "enclave.toml: is of a watchtower; this command is for a verifier or a member" in capsys.readouterr().err


def test_command_tells_an_answer_that_does_not_verify_from_a_defect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with provisioning(OTHER) as service, pytest.raises(typer.Exit) as ended:
        _renew_once(CollateralRenewal(CollateralSettings(service.url), tmp_path, lambda: QUOTE, lambda: NOW))
    assert ended.value.exit_code == Exit.MISMATCH
    said = capsys.readouterr().err
    assert "The old file stays" in said and "R-7" in said


def test_folder_without_a_right_to_write_is_named(tmp_path: Path) -> None:
    _verify_writable(tmp_path)
    for folder in (Path("/proc"), tmp_path / "absent"):
        with pytest.raises(ConfigurationError, match=f"endorsements: {folder}: .*name a folder that can be written"):
            _verify_writable(folder)

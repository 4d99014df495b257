"""The certificates beside an SNP report: whose they are, each has its time, and nothing else comes with a report."""

import datetime
from dataclasses import replace

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.evidence import EvidenceExpired, EvidenceFromFuture, EvidenceMalformed, UntrustedRoot
from bytewise.protocol.evidence.appraisal_policy import (
    AppraisalPolicy,
    Coverage,
    EvidenceType,
    GpuUse,
    PlatformKind,
    TrustedMeasurement,
)
from bytewise.protocol.evidence.claims import Evidence
from bytewise.protocol.units import U64, U256, Blob
from bytewise.tee.appraisal import verify_evidence
from bytewise.tee.documents import read_certificate
from bytewise.tee.snp import certificate_time, verify_report
from tests.fixtures.tee.simulated_platform import Bench
from tests.fixtures.tee.snp_rules import amd_measurement, rule
from tests.fixtures.tee.synthetic_amd import CHIP, END, NOW, START, Amd, Guest


@pytest.mark.parametrize("name", ["ASK", "VCEK"])
def test_each_certificate_of_a_chain_has_a_validity_period(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one of the two is valid for longer at both ends."""
    start, end = int(START.timestamp()), int(END.timestamp())
    amd = Amd()
    with monkeypatch.context() as patch:
        patch.setattr("tests.fixtures.tee.synthetic_amd.START", START - datetime.timedelta(days=1))
        patch.setattr("tests.fixtures.tee.synthetic_amd.END", END + datetime.timedelta(days=1))
        if name == "VCEK":
            amd.ask = amd.signed("SEV-Milan", "ARK-Milan", amd.ask_key.public_key(), amd.root, {})
        else:
            chain = amd.certificates()
    if name == "VCEK":
        chain = amd.certificates()
    claims = verify_report(rule(amd), amd.report(), chain, start)
    assert verify_report(rule(amd), amd.report(), chain, end) == claims and claims.expires_at == end
    assert certificate_time(rule(amd), chain) == start
    with pytest.raises(EvidenceFromFuture, match=f"{name} is valid from 2026-01-01"):
        verify_report(rule(amd), amd.report(), chain, start - 1)
    with pytest.raises(EvidenceExpired, match=f"{name} was valid until 2033-01-01"):
        verify_report(rule(amd), amd.report(), chain, end + 1)


def test_a_report_comes_with_certificates_and_without_collateral(bench: Bench) -> None:
    amd = Amd()
    listed = TrustedMeasurement(PlatformKind.SNP, amd_measurement(amd), (Coverage.IMAGE,), "the image", GpuUse.NONE)
    policy = AppraisalPolicy(U64(1), (U256(1),), (rule(amd),), (listed,), False)
    both = Evidence(EvidenceType.SNP, Blob(amd.report()), bench.evidence.collateral, amd.certificates(), Blob(b""))
    for evidence in (both, replace(both, certificates=None), replace(both, certificates=None, collateral=None)):
        with pytest.raises(EvidenceMalformed, match="snp takes certificates and no collateral"):
            verify_evidence(policy, encode(evidence), Guest().report_data, NOW, 1)


def test_chip_id_is_read_bare_and_as_an_octet_string() -> None:
    """Newer certificates have the one, older ones the other."""
    amd = Amd()
    plain = verify_report(rule(amd), amd.report(), amd.certificates(), NOW)
    assert verify_report(rule(amd), amd.report(), amd.certificates(chip=b"\x04\x40" + CHIP), NOW) == plain
    other = CHIP[:-1] + b"\xff"
    liars = (other, b"\x04\x40" + other, b"\x04\x40" + CHIP[:-1], b"\x04\x40" + CHIP + b"\0", b"\x04\x3f" + CHIP[:-1])
    for chip in (*liars, b"\x04\x41" + CHIP + b"\0", b"\x03\x40" + CHIP, CHIP + b"\0", CHIP[:-1], b""):
        with pytest.raises(EvidenceRefused, match="another chip"):
            verify_report(rule(amd), amd.report(), amd.certificates(chip=chip), NOW)


def test_the_pinned_library_loads_certificates_of_serial_0() -> None:
    """AMD gives every chip's certificate the serial number 0, and `cryptography` says that a later release will not load it.

    If this fails the pin was moved to such a release: no SEV-SNP report can be verified with it. Keep the old one, or read the
    certificate of a chip by other means first.
    """
    amd = Amd()
    chain = amd.certificates()
    assert read_certificate(chain.vcek).serial_number == 0
    assert verify_report(rule(amd), amd.report(), chain, NOW).platform_id == CHIP


UNKNOWN_KEY = bytes.fromhex("3015300606042a030405030b000102030405060708090a")
"""SubjectPublicKeyInfo of an algorithm (1.2.3.4.5) that nobody has."""


def test_a_root_key_of_an_unknown_kind_is_named() -> None:
    amd = Amd()
    for root in (UNKNOWN_KEY, b"\x30\x00", b"root"):
        with pytest.raises(UntrustedRoot, match="root key does not parse"):
            verify_report(rule(amd, root=Blob(root)), amd.report(), amd.certificates(), NOW)

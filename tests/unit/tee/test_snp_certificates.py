"""The certificates beside an SNP report: each has its time, and nothing else comes with a report."""

import datetime
from dataclasses import replace

import pytest

from bytewise.protocol.appraisal import AppraisalPolicy, Coverage, EvidenceType, GpuUse, PlatformKind, TrustedMeasurement
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors import EvidenceExpired, EvidenceFromFuture, EvidenceMalformed
from bytewise.protocol.evidence import Evidence
from bytewise.protocol.units import U64, U256, Blob
from bytewise.tee.appraisal import verify_evidence
from bytewise.tee.snp import certificate_time, verify_report
from tests.unit.tee.amd import END, NOW, START, Amd, Guest
from tests.unit.tee.bench import Bench
from tests.unit.tee.test_snp import amd_measurement, rule


@pytest.mark.parametrize("name", ["ASK", "VCEK"])
def test_each_certificate_of_a_chain_has_its_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one of the two is valid for longer at both ends."""
    start, end = int(START.timestamp()), int(END.timestamp())
    amd = Amd()
    with monkeypatch.context() as patch:
        patch.setattr("tests.unit.tee.amd.START", START - datetime.timedelta(days=1))
        patch.setattr("tests.unit.tee.amd.END", END + datetime.timedelta(days=1))
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

"""Evidence of real hardware gives what its makers say: TDX, SGX, SEV-SNP, Nitro, an H100 (read in place, never copied)."""

import json
import os
from dataclasses import fields, replace
from pathlib import Path

import dcap_qvl
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.evidence import (
    EvidenceExpired,
    EvidenceFromFuture,
    EvidenceMalformed,
    EvidenceReplayed,
    TcbRefused,
    UntrustedRoot,
)
from bytewise.protocol.evidence.appraisal_policy import (
    AppraisalPolicy,
    Coverage,
    EvidenceType,
    GpuUse,
    PlatformKind,
    PlatformRule,
    TcbStatus,
    TrustedMeasurement,
)
from bytewise.protocol.evidence.claims import MAX_EVIDENCE_BYTES, Collateral, Evidence, SnpCertificates, signed_part
from bytewise.protocol.units import U64, U256, ZERO_DIGEST, Blob, Digest
from bytewise.tee.appraisal import AppraisalResult, is_vendor_root, verify_evidence
from bytewise.tee.dcap import td_measurement, verify_quote
from bytewise.tee.documents import issued_at, parse_collateral
from bytewise.tee.gpu import verify_gpu
from bytewise.tee.snp import parse_report, verify_report
from bytewise.tee_simulated.quoter import SimulatedStatus
from bytewise.tee_simulated.td_quote import TdBody15
from tests.fixtures.tee.simulated_platform import Bench
from tests.source import PUBLISHED_VECTORS

CHAIN_ID = 1
NONCE = bytes.fromhex("11" * 32)
"""What the H100 of the published claims was asked to sign."""
GPU_TIME = 1_784_207_862
SNP_TIME = 1_790_000_000
SNP_TCB = Blob(bytes([4, 0, 0, 0, 0, 0, 0x17, 0xD5]))
TDX_REPORT_AT, REPORT_SIZE, TDX_15_BODY_AT = 48 + 520, 64, 48 + 6


@pytest.fixture(scope="module")
def folder() -> Path:
    """Where the published evidence lies."""
    return PUBLISHED_VECTORS / "tee"


def quote_of(folder: Path, name: str) -> tuple[bytes, Collateral]:
    return (folder / name).read_bytes(), parse_collateral((folder / f"{name}_collateral.json").read_bytes())


def intel_root(quote: bytes) -> Blob:
    chain = x509.load_pem_x509_certificates(quote[quote.index(b"-----BEGIN") :].rstrip(b"\0"))
    return Blob(chain[-1].public_bytes(serialization.Encoding.DER))


def amd_root() -> Blob:
    pem = (Path(__file__).parents[2] / "vectors" / "amd_ark_milan.pub.pem").read_bytes()
    return Blob(
        serialization.load_pem_public_key(pem).public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def tdx_rule(root: Blob, **changes: object) -> PlatformRule:
    plain = PlatformRule(
        type=EvidenceType.TDX, root=root, statuses=(TcbStatus.UP_TO_DATE,), refused_advisories=(), min_evaluation=17,
        min_tcb=Blob(b""), smt=True, dynamic_platform=True, cached_keys=True, platforms=(), max_age_s=30 * 86_400,
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


def snp_rule(**changes: object) -> PlatformRule:
    plain = PlatformRule(
        type=EvidenceType.SNP, root=amd_root(), statuses=(TcbStatus.UP_TO_DATE,), refused_advisories=(), min_evaluation=0,
        min_tcb=SNP_TCB, smt=True, dynamic_platform=False, cached_keys=False, platforms=(), max_age_s=0,
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


def policy_of(rule: PlatformRule, kind: PlatformKind, measurement: Digest) -> AppraisalPolicy:
    trusted = TrustedMeasurement(kind, ZERO_DIGEST, (Coverage.IMAGE,), "the image", GpuUse.NONE)
    return AppraisalPolicy(U64(1), (U256(CHAIN_ID),), (rule,), (replace(trusted, measurement=measurement),), False)


# --- TDX ---


def test_a_real_trust_domain_is_accepted_end_to_end(folder: Path) -> None:
    quote, collateral = quote_of(folder, "tdx_quote")
    rule, now = tdx_rule(intel_root(quote)), issued_at(collateral) + 60
    claims = verify_quote(rule, quote, collateral, now)
    assert (claims.status, claims.advisories, claims.evaluation, claims.simulated) == (TcbStatus.UP_TO_DATE, (), 17, False)
    report = quote[TDX_REPORT_AT : TDX_REPORT_AT + REPORT_SIZE]
    evidence = encode(Evidence(EvidenceType.TDX, Blob(quote), collateral, None, Blob(b"")))
    assert len(evidence) < MAX_EVIDENCE_BYTES / 2
    accepted: AppraisalResult = verify_evidence(
        policy_of(rule, PlatformKind.TDX, claims.measurement), evidence, report, now, CHAIN_ID
    )
    assert accepted.assurance == "hardware" and accepted.claims == claims


@pytest.mark.parametrize(
    ("offset", "error"), [(-86_400, EvidenceFromFuture), (31 * 86_400, EvidenceExpired), (500 * 86_400, EvidenceExpired)]
)
def test_real_quote_has_a_validity_period(folder: Path, offset: int, error: type[EvidenceRefused]) -> None:
    quote, collateral = quote_of(folder, "tdx_quote")
    with pytest.raises(error):
        verify_quote(tdx_rule(intel_root(quote)), quote, collateral, issued_at(collateral) + offset)


@pytest.mark.parametrize("changes", [{"dynamic_platform": False}, {"cached_keys": False}, {"smt": False}, {"min_evaluation": 18}])
def test_properties_of_the_real_platform_must_be_allowed(folder: Path, changes: dict[str, object]) -> None:
    quote, collateral = quote_of(folder, "tdx_quote")
    with pytest.raises(TcbRefused):
        verify_quote(tdx_rule(intel_root(quote), **changes), quote, collateral, issued_at(collateral) + 60)


def test_a_quote_without_matching_tcb_level_is_refused(folder: Path) -> None:
    quote, collateral = quote_of(folder, "tdx_quote_outdated")
    everything = tuple(each for each in TcbStatus if each is not TcbStatus.REVOKED)
    with pytest.raises(TcbRefused, match="No matching TCB level"):
        verify_quote(tdx_rule(intel_root(quote), statuses=everything), quote, collateral, issued_at(collateral) + 60)


def test_the_body_of_a_real_trust_domain_of_tdx_15_is_read(folder: Path, bench: Bench) -> None:
    """The real quote's platform fits no level of its collateral: what it says is signed again here, by a platform that does."""
    quote, published = quote_of(folder, "tdx_quote_outdated")
    said, real = dcap_qvl.Quote.parse(quote).report, json.loads(published.tcb_info)
    members = {each.name: getattr(said, each.name) for each in fields(TdBody15)}
    body = TdBody15(**members)
    assert quote[48:TDX_15_BODY_AT] == b"\3\0\x88\2\0\0" and quote[TDX_15_BODY_AT:].startswith(body.encoded())
    evidence = bench.quoter.evidence(
        body, SimulatedStatus(tcb_info={name: real[name] for name in ("tdxModule", "tdxModuleIdentities")})
    )
    assert evidence.collateral is not None and signed_part(evidence)[48:] == quote[48 : TDX_15_BODY_AT + 648]
    claims = verify_quote(bench.policy.rules[0], evidence.quote, evidence.collateral, bench.now)
    assert claims.measurement == td_measurement(**members) and claims.report_data == said.report_data
    assert (claims.status, claims.simulated) == (TcbStatus.UP_TO_DATE, False) and any(said.mr_td)


def test_collateral_of_another_technology_or_platform_is_refused(folder: Path) -> None:
    quote, collateral = quote_of(folder, "tdx_quote")
    for other in ("sgx_quote", "tdx_quote_outdated"):
        foreign = quote_of(folder, other)[1]
        with pytest.raises(EvidenceRefused):
            verify_quote(tdx_rule(intel_root(quote)), quote, foreign, issued_at(foreign) + 60)
    assert collateral != foreign


def test_sgx_enclave_with_advisories_is_refused_by_status_then_by_type(folder: Path) -> None:
    quote, collateral = quote_of(folder, "sgx_quote")
    rule, now = tdx_rule(intel_root(quote)), issued_at(collateral) + 60
    with pytest.raises(TcbRefused, match="ConfigurationAndSWHardeningNeeded"):
        verify_quote(rule, quote, collateral, now)
    lenient = replace(rule, statuses=(TcbStatus.CONFIGURATION_AND_SW_HARDENING_NEEDED,))
    with pytest.raises(EvidenceRefused, match="SGX enclave"):
        verify_quote(lenient, quote, collateral, now)
    with pytest.raises(TcbRefused, match="INTEL-SA-00615"):
        verify_quote(replace(lenient, refused_advisories=("INTEL-SA-00615",)), quote, collateral, now)


def test_real_quote_with_an_authority_of_another_key_is_refused(folder: Path) -> None:
    """Control: its own, as published, in the tests above. The other one is Intel's too."""
    quote, collateral = quote_of(folder, "tdx_quote")
    rule, now = tdx_rule(intel_root(quote)), issued_at(collateral) + 60
    for authority in (quote_of(folder, "sgx_quote")[1].pck_ca, collateral.tcb_signer, rule.root):
        with pytest.raises(UntrustedRoot, match="authority of platform keys"):
            verify_quote(rule, quote, replace(collateral, pck_ca=authority), now)


def test_real_evidence_under_a_root_other_than_intels_is_refused(folder: Path) -> None:
    quote, collateral = quote_of(folder, "tdx_quote")
    root = intel_root(quote)
    assert is_vendor_root(EvidenceType.TDX, root) and not is_vendor_root(EvidenceType.SNP, root)
    with pytest.raises(UntrustedRoot):
        verify_quote(tdx_rule(collateral.pck_ca), quote, collateral, issued_at(collateral) + 60)


def test_collateral_service_answers_are_read_strictly(folder: Path) -> None:
    plain = json.loads((folder / "tdx_quote_collateral.json").read_bytes())
    for name in plain:
        for value in (None, 7, "zz"):
            # Texts that are to be signed are not looked into here: a wrong one fails its signature.
            if not (name in ("tcb_info", "qe_identity") and value == "zz"):
                with pytest.raises(EvidenceMalformed):
                    parse_collateral(json.dumps({**plain, name: value}).encode())
    for data in (b"", b"[]", b"{}", b"\xff", b" " * (1 << 21)):
        with pytest.raises(EvidenceMalformed):
            parse_collateral(data)


# --- SEV-SNP ---


def snp(folder: Path) -> tuple[bytes, SnpCertificates]:
    # The publisher wraps the report: four bytes before it, its own log behind.
    report = (folder / "sev_snp_attestation.bin").read_bytes()[4 : 4 + 1184]
    ask, vcek = (
        Blob(x509.load_pem_x509_certificate((folder / name).read_bytes()).public_bytes(serialization.Encoding.DER))
        for name in ("sev_snp_ask.pem", "sev_snp_vcek.pem")
    )
    return report, SnpCertificates(ask, vcek, Blob(b""))


def test_a_real_snp_guest_is_accepted_end_to_end(folder: Path) -> None:
    report, certificates = snp(folder)
    assert x509.load_der_x509_certificate(certificates.vcek).serial_number == 0
    claims = verify_report(snp_rule(), report, certificates, SNP_TIME)
    assert claims.report_data.startswith(b"attest-test-fixture-2026") and claims.status is TcbStatus.UP_TO_DATE
    evidence = encode(Evidence(EvidenceType.SNP, Blob(report), None, certificates, Blob(b"")))
    policy = policy_of(snp_rule(), PlatformKind.SNP, claims.measurement)
    accepted = verify_evidence(policy, evidence, claims.report_data, SNP_TIME, CHAIN_ID)
    assert accepted.assurance == "hardware" and is_vendor_root(EvidenceType.SNP, amd_root())


def test_a_real_snp_guest_below_the_minimal_tcb_is_out_of_date(folder: Path) -> None:
    report, certificates = snp(folder)
    higher = snp_rule(min_tcb=Blob(SNP_TCB[:7] + b"\xd6"))
    claims = verify_report(higher, report, certificates, SNP_TIME)
    assert claims.status is TcbStatus.OUT_OF_DATE
    evidence = encode(Evidence(EvidenceType.SNP, Blob(report), None, certificates, Blob(b"")))
    with pytest.raises(TcbRefused, match="OutOfDate"):
        verify_evidence(policy_of(higher, PlatformKind.SNP, claims.measurement), evidence, claims.report_data, SNP_TIME, CHAIN_ID)


def test_no_signed_byte_of_a_real_report_can_change(folder: Path) -> None:
    report, certificates = snp(folder)
    for place in range(0, 0x2A0, 24):
        changed = bytearray(report)
        changed[place] ^= 1
        with pytest.raises(EvidenceRefused):
            verify_report(snp_rule(), bytes(changed), certificates, SNP_TIME)


def test_real_certificates_swapped_or_out_of_time_are_refused(folder: Path) -> None:
    report, given = snp(folder)
    with pytest.raises(UntrustedRoot):
        verify_report(snp_rule(), report, SnpCertificates(given.vcek, given.ask, Blob(b"")), SNP_TIME)
    with pytest.raises(EvidenceFromFuture):
        verify_report(snp_rule(), report, given, SNP_TIME - 10**8)
    with pytest.raises(EvidenceExpired):
        verify_report(snp_rule(), report, given, SNP_TIME + 10**9)


# --- others ---


def test_a_nitro_document_is_no_evidence_of_any_type(folder: Path) -> None:
    """Nitro has no place in the policy: a genuine document is refused like any other bytes."""
    document = (folder / "nitro_attestation.bin").read_bytes()
    quote, collateral = quote_of(folder, "tdx_quote")
    with pytest.raises(EvidenceMalformed):
        verify_quote(tdx_rule(intel_root(quote)), document, collateral, issued_at(collateral) + 60)
    with pytest.raises(EvidenceMalformed):
        parse_report(document)
    with pytest.raises(EvidenceMalformed):
        verify_evidence(policy_of(snp_rule(), PlatformKind.SNP, ZERO_DIGEST), document, bytes(64), SNP_TIME, CHAIN_ID)


def test_the_claims_of_a_real_h100_are_read_and_judged(folder: Path) -> None:
    document = (folder / "gpu_attestation_h100.json").read_bytes()
    found = verify_gpu(document, NONCE, GPU_TIME)
    assert (found.model, found.driver, found.vbios) == ("GH100 A01 GSP BROM", "580.159.03", "96.00.D9.00.01")
    with pytest.raises(EvidenceReplayed):
        verify_gpu(document, os.urandom(32), GPU_TIME)
    with pytest.raises(EvidenceExpired):
        verify_gpu(document, NONCE, GPU_TIME + 10 * 365 * 86_400)


def test_missing_or_changed_claim_of_a_real_h100_is_refused(folder: Path) -> None:
    plain = json.loads((folder / "gpu_attestation_h100.json").read_bytes())
    judged = {name for name in plain["claims"][0] if name not in UNJUDGED}
    for name in judged:
        for claims in ({**plain["claims"][0], name: "no"}, {k: v for k, v in plain["claims"][0].items() if k != name}):
            with pytest.raises(EvidenceRefused):
                verify_gpu(json.dumps({"claims": [claims]}).encode(), NONCE, GPU_TIME)
    for several in ([], plain["claims"] * 2, [7]):
        with pytest.raises(EvidenceMalformed):
            verify_gpu(json.dumps({"claims": several}).encode(), NONCE, GPU_TIME)


UNJUDGED = {"hwmodel", "oemid", "ueid", "x-nvidia-gpu-driver-version", "x-nvidia-gpu-vbios-version"}
"""What names the device and decides nothing."""

"""Evidence is accepted only if every single thing about it fits; and each fence alone stops the simulator."""

import datetime
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors import ConfigurationError, EvidenceRefused, MalformedValue
from bytewise.protocol.evidence import (
    MAX_EVIDENCE_BYTES,
    MAX_SIMULATED_LIFETIME_S,
    SIMULATED_ROOT_NAME,
    AppraisalPolicy,
    Evidence,
    EvidenceBody,
    EvidenceType,
    ResultQuote,
    ResultStatement,
    TrustedMeasurement,
    TrustRoot,
    evidence_digest,
    result_report_data,
)
from bytewise.protocol.units import U8, U16, U64, U256, ZERO_DIGEST, Address, Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.tee.appraisal import CLOCK_SKEW_S, verify_evidence, verify_result_quote
from bytewise.tee.policy import load_policy
from bytewise.tee_simulated.__main__ import simulated_policy
from bytewise.tee_simulated.quoter import LIFETIME_S, SimulatedQuoter
from bytewise.tee_simulated.root import Platform, issue, load_root, make_root

CHAIN_ID = 31337
REPORT = b"\x42" * 64
ENTRY = "kms.client"
SIMULATED = EvidenceType.SIMULATED


class Bench:
    """A root, a platform, the policy that fits them, and a quoter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_root(folder / "root")
        issue(folder / "root", folder / "platform.key")
        self.platform = Platform(folder / "platform.key")
        self.policy = simulated_policy(folder / "root", CHAIN_ID, 1, ENTRY)
        self.quoter = SimulatedQuoter.of_this_program(folder / "platform.key", ENTRY)
        self.evidence = decode(Evidence, self.quoter.quote(REPORT))
        self.now = int(self.evidence.body.issued_at)

    def signed(self, body: EvidenceBody, platform: Platform | None = None) -> bytes:
        """Evidence over any body, signed by the platform."""
        platform = platform or self.platform
        signature = platform.key.sign(evidence_digest(body), ec.ECDSA(hashes.SHA256()))
        leaf = Blob(platform.certificate.public_bytes(Encoding.DER))
        return encode(Evidence(body, (leaf,), Blob(signature)))

    def appraise(self, evidence: bytes, policy: AppraisalPolicy | None = None, now: int | None = None) -> Evidence:
        """The appraisal under test."""
        return verify_evidence(policy or self.policy, evidence, REPORT, self.now if now is None else now, CHAIN_ID)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("tee"))


def test_genuine_evidence_is_accepted_until_it_expires(bench: Bench) -> None:
    data = encode(bench.evidence)
    assert bench.appraise(data) == bench.evidence
    assert bench.appraise(data, now=bench.now + LIFETIME_S - 1) == bench.evidence
    for now in (bench.now + LIFETIME_S, bench.now + 10_000, bench.now - CLOCK_SKEW_S - 1):
        with pytest.raises(EvidenceRefused):
            bench.appraise(data, now=now)


def test_evidence_outlives_neither_the_policys_age_nor_its_platforms_certificate(bench: Bench) -> None:
    with pytest.raises(EvidenceRefused):
        bench.appraise(encode(bench.evidence), replace(bench.policy, max_age_s=10), bench.now + 11)
    later = bench.now + 5 * 86_400
    body = replace(bench.evidence.body, issued_at=U64(later), expires_at=U64(later + 60))
    with pytest.raises(EvidenceRefused, match="certificate"):
        bench.appraise(bench.signed(body), now=later)


BODY_CHANGES: dict[str, dict[str, object]] = {
    "debug": {"debug": True},
    "measurement": {"measurement": Digest(b"\x01" * 32)},
    "report data": {"report_data": Blob(b"\x43" * 64)},
    "short report data": {"report_data": Blob(b"\x42" * 63)},
    "platform id": {"platform_id": Blob(b"\x01" * 16)},
    "no platform id": {"platform_id": Blob(b"")},
    "type tdx": {"type": EvidenceType.TDX},
    "type snp": {"type": EvidenceType.SNP},
}


@pytest.mark.parametrize("name", BODY_CHANGES)
def test_correctly_signed_evidence_with_one_wrong_field_is_refused(bench: Bench, name: str) -> None:
    body = replace(bench.evidence.body, **BODY_CHANGES[name])  # type: ignore[arg-type]
    with pytest.raises(EvidenceRefused):
        bench.appraise(bench.signed(body))


def test_simulated_evidence_that_lives_long_is_refused(bench: Bench) -> None:
    body = replace(bench.evidence.body, expires_at=U64(bench.now + MAX_SIMULATED_LIFETIME_S + 1))
    with pytest.raises(EvidenceRefused, match="too long"):
        bench.appraise(bench.signed(body))


def test_a_signature_over_another_body_is_refused(bench: Bench) -> None:
    other = replace(bench.evidence.body, expires_at=U64(bench.evidence.body.expires_at - 1))
    for signature in (bench.evidence.signature, Blob(b""), Blob(b"\x30\x00")):
        with pytest.raises(EvidenceRefused):
            bench.appraise(encode(replace(bench.evidence, body=other, signature=signature)))


def test_certificates_that_do_not_parse_or_are_too_many_are_refused(bench: Bench) -> None:
    leaf = bench.evidence.certificates[0]
    for certificates in ((), (leaf, leaf), (Blob(b"\x30\x00"),), (Blob(b""),)):
        with pytest.raises(EvidenceRefused):
            bench.appraise(encode(replace(bench.evidence, certificates=certificates)))


def test_a_policy_of_another_chain_accepts_nothing(bench: Bench) -> None:
    with pytest.raises(EvidenceRefused, match="chain 1337"):
        verify_evidence(bench.policy, encode(bench.evidence), REPORT, bench.now, 1337)


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_random_bytes_are_refused_evidence(data: bytes) -> None:
    with pytest.raises(EvidenceRefused):
        verify_evidence(POLICY, data, REPORT, 0, CHAIN_ID)


POLICY = AppraisalPolicy(
    serial=U64(1), chain_ids=(U256(CHAIN_ID),), allowed_types=(SIMULATED,), roots=(TrustRoot(SIMULATED, Blob(b"\x30\x00")),),
    measurements=(TrustedMeasurement(SIMULATED, ZERO_DIGEST, "nothing"),), max_age_s=1, insecure_accept_simulated=True,
)  # fmt: skip


def test_evidence_above_the_cap_is_refused_before_it_is_parsed(bench: Bench) -> None:
    with pytest.raises(EvidenceRefused, match="bytes"):
        bench.appraise(b" " * (MAX_EVIDENCE_BYTES + 1))


def test_no_byte_of_evidence_can_be_changed(bench: Bench) -> None:
    """Unlike DCAP quotes (research/kms.md 3c), ours have no byte that nobody checks, ECDSA's second form aside."""
    data = encode(bench.evidence)
    for position in range(0, len(data), 7):
        altered = bytearray(data)
        altered[position] ^= 1
        with pytest.raises(EvidenceRefused):
            bench.appraise(bytes(altered))


# --- the fences of research/kms.md section 6, each sufficient alone ---


def hardware_policy(bench: Bench, root: x509.Certificate | None = None) -> AppraisalPolicy:
    """A production policy, as wrong as it can be: it trusts the simulator's own root and measurement for TDX."""
    kind, trusted = EvidenceType.TDX, root or load_root(bench.folder / "root")
    return AppraisalPolicy(
        serial=U64(1), chain_ids=(U256(CHAIN_ID),), allowed_types=(kind,),
        roots=(TrustRoot(kind, Blob(trusted.public_bytes(Encoding.DER))),),
        measurements=(TrustedMeasurement(kind, bench.evidence.body.measurement, "all"),), max_age_s=300,
        insecure_accept_simulated=False,
    )  # fmt: skip


def test_fence_1_another_runs_root_is_refused(bench: Bench, tmp_path: Path) -> None:
    other = Bench(tmp_path)
    with pytest.raises(EvidenceRefused, match="root"):
        bench.appraise(bench.signed(bench.evidence.body, other.platform))


def test_fence_1_a_root_that_is_not_marked_as_simulated_is_no_simulated_root(bench: Bench) -> None:
    """A root by another name, even one that a policy lists, does not make evidence of type simulated."""
    key = ec.generate_private_key(ec.SECP256R1())
    root, leaf_key = certificate("Intel SGX Root CA", key), ec.generate_private_key(ec.SECP256R1())
    assert SIMULATED_ROOT_NAME not in root.subject.rfc4514_string()
    leaf = certificate("simulated platform", key, leaf_key.public_key(), root.subject)
    signature = leaf_key.sign(evidence_digest(bench.evidence.body), ec.ECDSA(hashes.SHA256()))
    data = encode(Evidence(bench.evidence.body, (Blob(leaf.public_bytes(Encoding.DER)),), Blob(signature)))
    listed = replace(bench.policy, roots=(TrustRoot(SIMULATED, Blob(root.public_bytes(Encoding.DER))),))
    with pytest.raises(EvidenceRefused, match="root"):
        bench.appraise(data, listed)


def certificate(
    name: str, signer: ec.EllipticCurvePrivateKey, key: ec.EllipticCurvePublicKey | None = None, issuer: x509.Name | None = None
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.fromtimestamp(SystemClock().now(), datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer or subject)
    builder = builder.public_key(key or signer.public_key()).serial_number(7)
    builder = builder.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(hours=1))
    return builder.sign(signer, hashes.SHA256())


def test_fence_2_the_simulators_type_is_refused_where_hardware_is_required(bench: Bench) -> None:
    with pytest.raises(EvidenceRefused, match="type simulated is not allowed"):
        bench.appraise(encode(bench.evidence), hardware_policy(bench))


def test_fence_2_relabelled_simulated_evidence_is_refused(bench: Bench) -> None:
    """Even under a policy that lists the simulator's root and measurement for TDX."""
    relabelled = bench.signed(replace(bench.evidence.body, type=EvidenceType.TDX))
    with pytest.raises(EvidenceRefused):
        bench.appraise(relabelled, hardware_policy(bench))


FENCE_4: dict[str, Callable[[AppraisalPolicy], dict[str, object]]] = {
    "no root": lambda p: {"roots": ()},
    "no insecure switch": lambda p: {"insecure_accept_simulated": False},
    "no test chain": lambda p: {"chain_ids": (U256(1),)},
    "a test chain and another": lambda p: {"chain_ids": (U256(CHAIN_ID), U256(1))},
    "no chain": lambda p: {"chain_ids": ()},
    "root of another type": lambda p: {"roots": (replace(p.roots[0], type=EvidenceType.TDX),)},
    "simulated and hardware together": lambda p: {
        "allowed_types": (SIMULATED, EvidenceType.TDX),
        "roots": (p.roots[0], replace(p.roots[0], type=EvidenceType.TDX)),
    },
    "a measurement that covers nothing": lambda p: {"measurements": (replace(p.measurements[0], covers=""),)},
    "no measurement": lambda p: {"measurements": ()},
    "no age": lambda p: {"max_age_s": 0},
}


@pytest.mark.parametrize("name", FENCE_4)
def test_fence_4_a_policy_without_one_of_its_conditions_cannot_exist(bench: Bench, name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        replace(bench.policy, **FENCE_4[name](bench.policy))  # type: ignore[arg-type]


def test_fence_4_a_policy_file_with_the_switch_removed_does_not_load(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    data = encode(bench.policy)
    path.write_bytes(data)
    assert load_policy(path, CHAIN_ID, production=False) == bench.policy
    for chain_id, production in ((1337, False), (1, False), (CHAIN_ID, True)):
        with pytest.raises(ConfigurationError):
            load_policy(path, chain_id, production)
    for old, new in ((b":true", b":false"), (b'"serial"', b'"seriql"'), (b"}", b"} ")):
        path.write_bytes(data.replace(old, new))
        with pytest.raises(ConfigurationError):
            load_policy(path, CHAIN_ID, production=False)
    with pytest.raises(ConfigurationError):
        load_policy(tmp_path / "missing.json", CHAIN_ID, production=False)


def test_fence_7_simulated_evidence_is_short_lived_and_names_no_platform(bench: Bench) -> None:
    body = bench.evidence.body
    assert body.expires_at - body.issued_at <= MAX_SIMULATED_LIFETIME_S
    assert body.platform_id == bytes(16) and body.debug is False and body.type is SIMULATED
    root = load_root(bench.folder / "root")
    lifetime = root.not_valid_after_utc - root.not_valid_before_utc
    assert lifetime < datetime.timedelta(days=3)


# --- result quotes ---


def statement(**changes: object) -> ResultStatement:
    plain = ResultStatement(
        U256(CHAIN_ID), Address("0x" + "d1" * 20), Digest(b"\x01" * 32), U16(1), Digest(b"\x02" * 32),
        Address("0x" + "01" * 20), U8(1), U8(0), Digest(b"\x03" * 32), Digest(b"\x04" * 32), Digest(b"\x05" * 32), 1,
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


def quoted(bench: Bench, said: ResultStatement) -> ResultQuote:
    return ResultQuote(said, decode(Evidence, bench.quoter.quote(result_report_data(said))))


def test_a_published_result_quote_is_readable_by_anyone_years_later(bench: Bench) -> None:
    document = quoted(bench, statement())
    read = verify_result_quote(bench.policy, encode(document), CHAIN_ID)
    assert read.statement.verify_passes == 1 and read == document


@pytest.mark.parametrize(
    "changes",
    [
        {"chain_id": U256(1)}, {"contract": Address("0x" + "d2" * 20)}, {"subject": ZERO_DIGEST}, {"round": U16(2)},
        {"receipt_id": ZERO_DIGEST}, {"voter": Address("0x" + "02" * 20)}, {"outcome": U8(2)}, {"code": U8(1)},
        {"tokens_hash": ZERO_DIGEST}, {"trace_root": ZERO_DIGEST}, {"round_digest": ZERO_DIGEST}, {"verify_passes": 2},
    ],
    ids=lambda changes: next(iter(changes)),
)  # fmt: skip
def test_a_result_quote_binds_every_member_of_its_statement(bench: Bench, changes: dict[str, object]) -> None:
    document = replace(quoted(bench, statement()), statement=statement(**changes))
    with pytest.raises(EvidenceRefused):
        verify_result_quote(bench.policy, encode(document), CHAIN_ID)


def test_bytes_that_are_no_result_quote_are_refused(bench: Bench) -> None:
    for data in (b"", b"{}", os.urandom(50), encode(quoted(bench, statement())) + b" "):
        with pytest.raises(EvidenceRefused):
            verify_result_quote(bench.policy, data, CHAIN_ID)


def test_report_data_has_64_bytes(bench: Bench) -> None:
    assert len(result_report_data(statement())) == 64
    for length in (0, 32, 63, 65):
        with pytest.raises(MalformedValue):
            bench.quoter.quote(bytes(length))

"""Evidence is accepted only if every single thing about it fits."""

import os
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors import EvidenceRefused, MalformedValue
from bytewise.protocol.evidence import (
    MAX_EVIDENCE_BYTES,
    MAX_SIMULATED_LIFETIME_S,
    AppraisalPolicy,
    Evidence,
    EvidenceType,
    ResultQuote,
    ResultStatement,
    TrustedMeasurement,
    TrustRoot,
    result_report_data,
)
from bytewise.protocol.units import U8, U16, U64, U256, ZERO_DIGEST, Address, Blob, Digest
from bytewise.tee.appraisal import CLOCK_SKEW_S, verify_evidence, verify_result_quote
from bytewise.tee_simulated.quoter import LIFETIME_S
from tests.unit.tee.bench import CHAIN_ID, REPORT, SIMULATED, Bench


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
    """Unlike DCAP quotes, ours have no byte that nobody checks, ECDSA's second form aside."""
    data = encode(bench.evidence)
    for position in range(0, len(data), 7):
        altered = bytearray(data)
        altered[position] ^= 1
        with pytest.raises(EvidenceRefused):
            bench.appraise(bytes(altered))


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

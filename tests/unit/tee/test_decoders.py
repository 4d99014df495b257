"""Every decoder of attestation that reads bytes from outside: whatever comes is read or refused by name, and nothing else."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.evidence import EvidenceExpired, EvidenceMalformed, TcbRefused
from bytewise.protocol.evidence.appraisal_policy import SignedPolicy
from bytewise.protocol.evidence.claims import Collateral, Evidence, ResultQuote, SnpCertificates
from bytewise.protocol.evidence.policy_updates import PolicyState
from bytewise.protocol.units import Blob
from bytewise.tee import dcap
from bytewise.tee.dcap import refusal, verify_quote
from bytewise.tee.documents import issued_at, parse_collateral, read_object, unix_second
from bytewise.tee.gpu import verify_gpu
from bytewise.tee.snp import certificate_time, verify_report
from tests.fixtures.tee.channel_alterations import Alteration, unknown_curve, unknown_kind_of_key, version_4
from tests.fixtures.tee.gpu_claims import GPU_CLAIMS
from tests.fixtures.tee.simulated_platform import Bench
from tests.fixtures.tee.snp_rules import rule
from tests.fixtures.tee.synthetic_amd import NOW, Amd

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)
raw = st.binary(max_size=400)
MEMBERS = ("pck_crl_issuer_chain", "root_ca_crl", "pck_crl", "tcb_info_issuer_chain", "tcb_info", "tcb_info_signature",
           "qe_identity_issuer_chain", "qe_identity", "qe_identity_signature")  # fmt: skip


@given(raw | anything.map(lambda value: json.dumps(value).encode()))
@settings(deadline=None, max_examples=40)
def test_collateral_answers_decode_or_are_malformed(data: bytes) -> None:
    with pytest.raises(EvidenceMalformed):
        parse_collateral(data)


@given(st.fixed_dictionaries({name: anything | st.just("00") for name in MEMBERS}))
@settings(deadline=None, max_examples=40)
def test_collateral_answers_with_the_right_members_decode_strictly(answer: dict[str, Any]) -> None:
    with pytest.raises(EvidenceMalformed):
        parse_collateral(json.dumps(answer).encode())


@given(raw, anything, st.sampled_from(sorted(GPU_CLAIMS)))
@settings(deadline=None, max_examples=40)
def test_gpu_claims_decode_or_are_malformed(data: bytes, value: Any, name: str) -> None:
    claims = {**GPU_CLAIMS, "eat_nonce": "00" * 32}
    assert verify_gpu(json.dumps({"claims": [claims]}).encode(), bytes(32), 0)
    for document in (data, json.dumps(value).encode(), json.dumps({"claims": value}).encode()):
        with pytest.raises(EvidenceRefused):
            verify_gpu(document, bytes(32), 0)
    changed = json.dumps({"claims": [{**claims, name: value}]}).encode()
    try:
        found = verify_gpu(changed, bytes(32), 0)
    except EvidenceRefused:
        return
    # What is read as before was either unchanged or only names the device.
    assert value == claims[name] or value in dataclasses.astuple(found)


@pytest.mark.parametrize("document", [b'{"a":1.5}', b'{"a":NaN}', b'{"a":[-Infinity]}', b'{"a":1,"a":2}', b'{"a":{"b":1,"b":1}}'])
def test_ambiguous_json_is_not_strict(document: bytes) -> None:
    with pytest.raises(EvidenceMalformed, match="no strict JSON"):
        read_object(document, "a document")


def test_sgx_enclave_and_unknown_status_are_refused_whatever_library_says() -> None:
    with pytest.raises(EvidenceRefused, match="SGX enclave"):
        dcap._claims({"report": {"SgxEnclave": {"mr_enclave": "00" * 32}}})
    with pytest.raises(TcbRefused, match="which this program does not know"):
        dcap._status("Splendid")


CHAIN = "x-nvidia-gpu-driver-rim-cert-chain"
GPU_CHANGES: dict[str, tuple[dict[str, Any], type[EvidenceRefused], str]] = {
    "no model": ({"hwmodel": None}, EvidenceMalformed, "without hwmodel"),
    "no name of the device": ({"ueid": ""}, EvidenceMalformed, "without ueid"),
    "a name without end": ({"ueid": "7" * 101}, EvidenceMalformed, "without ueid"),
    "no driver": ({"x-nvidia-gpu-driver-version": 7}, EvidenceMalformed, "driver-version"),
    "no chain": ({CHAIN: None}, EvidenceMalformed, "without driver-rim-cert-chain"),
    "a chain that is over": ({CHAIN: {"x-nvidia-cert-expiration-date": "1970-01-01T00:00:07Z"}}, EvidenceExpired, "expired"),
    "a chain without an end": ({CHAIN: {"x-nvidia-cert-expiration-date": None}}, EvidenceMalformed, "when it expires"),
    "a revoked chain": ({CHAIN: {"x-nvidia-cert-status": "revoked"}}, EvidenceRefused, "x-nvidia-cert-status"),
    "no word of OCSP": ({CHAIN: {"x-nvidia-cert-ocsp-status": "unknown"}}, EvidenceRefused, "ocsp-status"),
    "a false word of OCSP": ({CHAIN: {"x-nvidia-cert-ocsp-response-valid": False}}, EvidenceRefused, "response-valid"),
    "a reason of revocation": ({CHAIN: {"x-nvidia-cert-revocation-reason": 1}}, EvidenceRefused, "revocation-reason"),
}


@pytest.mark.parametrize("name", GPU_CHANGES)
def test_one_wrong_claim_of_a_gpu_is_refused_by_name(name: str) -> None:
    changes, error, words = GPU_CHANGES[name]
    claims: dict[str, Any] = {**GPU_CLAIMS, "eat_nonce": "00" * 32}
    for member, value in changes.items():
        claims[member] = {**claims[member], **value} if isinstance(value, dict) else value
    with pytest.raises(error, match=words):
        verify_gpu(json.dumps({"claims": [claims]}).encode(), bytes(32), 7)


@pytest.mark.parametrize("name", sorted(set(GPU_CLAIMS) - {"eat_nonce"}))
def test_no_claim_of_a_gpu_may_be_missing(name: str) -> None:
    claims = {each: value for each, value in {**GPU_CLAIMS, "eat_nonce": "00" * 32}.items() if each != name}
    with pytest.raises(EvidenceRefused):
        verify_gpu(json.dumps({"claims": [claims]}).encode(), bytes(32), 0)


@pytest.mark.parametrize("count", [0, 2])
def test_claims_about_another_number_of_gpus_are_refused(count: int) -> None:
    claims = {**GPU_CLAIMS, "eat_nonce": "00" * 32}
    with pytest.raises(EvidenceMalformed, match="exactly one GPU"):
        verify_gpu(json.dumps({"claims": [claims] * count}).encode(), bytes(32), 0)


@given(raw | anything.map(lambda value: json.dumps(value).encode()), st.text(max_size=30))
@settings(deadline=None, max_examples=40)
def test_vendor_json_and_dates_decode_or_are_malformed(data: bytes, text: str) -> None:
    try:
        assert isinstance(read_object(data, "a document"), dict)
    except EvidenceMalformed:
        pass
    try:
        assert isinstance(unix_second(text), int)
    except EvidenceMalformed:
        pass


@pytest.mark.parametrize("document", [b'{"a":"\\ud800"}', b'{"\\udfff":1}', b'{"a":[{"b":"\\ud800x"}]}'])
def test_half_a_surrogate_pair_is_not_strict_json(document: bytes) -> None:
    """Python reads it and cannot write it again: what is made of it fails somewhere else."""
    with pytest.raises(EvidenceMalformed):
        read_object(document, "a document")
    assert read_object(b'{"a":"\\ud83d\\ude00"}', "a document") == {"a": "\U0001f600"}


@pytest.mark.parametrize("text", ["2026-01-01T00:00:00", "2026-01-01T00:00:00+01:00", "2026-01-01", "now", "", "9" * 40])
def test_time_outside_utc_is_malformed(text: str) -> None:
    with pytest.raises(EvidenceMalformed):
        unix_second(text)
    assert unix_second("2026-01-01T00:00:00Z") == unix_second("2026-01-01T00:00:00+00:00") == 1_767_225_600


@given(raw, st.sampled_from([field.name for field in dataclasses.fields(Collateral)]))
@settings(deadline=None, max_examples=40)
def test_quotes_and_collateral_parts_decode_or_are_malformed(bench: Bench, data: bytes, name: str) -> None:
    sound = bench.evidence.collateral
    assert sound is not None
    changed = dataclasses.replace(sound, **{name: Blob(data)})
    rule = bench.policy.rules[0]
    with pytest.raises(EvidenceRefused):
        verify_quote(rule, bench.evidence.quote, changed, bench.now)
    with pytest.raises(EvidenceRefused):
        verify_quote(rule, data, sound, bench.now)
    try:
        assert issued_at(changed) <= issued_at(sound)
    except EvidenceRefused:
        pass


@given(raw | anything.map(lambda value: json.dumps(value, separators=(",", ":"), sort_keys=True).encode()))
@settings(deadline=None, max_examples=40)
def test_attestation_records_decode_or_are_malformed(data: bytes) -> None:
    for kind in (Evidence, ResultQuote, SignedPolicy, PolicyState):
        with pytest.raises(Fault):
            decode(kind, data)


@given(st.text(max_size=300))
def test_any_library_error_is_a_refusal_with_bounded_text(said: str) -> None:
    found = refusal(said)
    assert isinstance(found, EvidenceRefused) and len(str(found)) < 300


@pytest.mark.parametrize("alter", [version_4, unknown_curve, unknown_kind_of_key])
@pytest.mark.parametrize("name", ["pck_ca", "tcb_signer"])
def test_intel_certificate_the_parser_does_not_accept_is_malformed(bench: Bench, alter: Alteration, name: str) -> None:
    sound = bench.evidence.collateral
    assert sound is not None
    odd = alter(getattr(sound, name))
    assert odd != getattr(sound, name)
    with pytest.raises(EvidenceMalformed):
        verify_quote(bench.policy.rules[0], bench.evidence.quote, dataclasses.replace(sound, **{name: Blob(odd)}), bench.now)


def unknown_p384(der: bytes) -> bytes:
    return der.replace(bytes.fromhex("2b81040022"), bytes.fromhex("2b81040077"), 1)


def unknown_rsa(der: bytes) -> bytes:
    return der.replace(bytes.fromhex("2a864886f70d010101"), bytes.fromhex("2a864886f70d010177"), 1)


@pytest.mark.parametrize("alter", [version_4, unknown_p384, unknown_rsa])
def test_amd_certificate_the_parser_does_not_accept_is_malformed(alter: Alteration) -> None:
    """The signer's key is looked at before its own certificate is verified: anybody's bytes come that far."""
    amd = Amd()
    sound = amd.certificates()
    odd = SnpCertificates(Blob(alter(sound.ask)), Blob(alter(sound.vcek)), sound.crl)
    assert odd != sound
    with pytest.raises(EvidenceMalformed):
        verify_report(rule(amd), amd.report(), odd, NOW)
    with pytest.raises(EvidenceMalformed):
        certificate_time(rule(amd), odd)

"""Evidence is accepted only if every single thing about it fits, and each refusal is its own."""

import base64
import datetime
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.evidence import (
    EvidenceExpired,
    EvidenceFromFuture,
    EvidenceMalformed,
    EvidenceReplayed,
    EvidenceTooLarge,
    MeasurementRefused,
    TcbRefused,
)
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy, EvidenceType, TcbStatus
from bytewise.protocol.evidence.claims import (
    MAX_EVIDENCE_BYTES,
    Collateral,
    Evidence,
    SnpCertificates,
    evidence_digest,
    signed_part,
)
from bytewise.protocol.units import Blob
from bytewise.tee import dcap
from bytewise.tee.appraisal import CLOCK_SKEW_S, verify_evidence
from bytewise.tee.dcap import verify_quote
from bytewise.tee_simulated.authorities import ROOT_KEY, Authority, _load_key, load_root, revocation_list
from bytewise.tee_simulated.quoter import LEVEL_AGE_S, LIFETIME_S, SimulatedStatus
from bytewise.tee_simulated.td_quote import TdBody
from tests.fixtures.tee.body_changes import (
    BODY_CHANGES,
    EVERY,
    OLD,
)
from tests.fixtures.tee.simulated_platform import CHAIN_ID, REPORT, Bench

# --- time ---


def test_genuine_evidence_is_accepted_until_it_expires(bench: Bench) -> None:
    data = encode(bench.evidence)
    for now in (bench.now - CLOCK_SKEW_S, bench.now, bench.now + LIFETIME_S - 1):
        assert bench.appraise(data, now=now).program == bench.policy.measurements[0]
    for now in (bench.now + LIFETIME_S, bench.now + 10_000):
        with pytest.raises(EvidenceExpired):
            bench.appraise(data, now=now)
    with pytest.raises(EvidenceFromFuture):
        bench.appraise(data, now=bench.now - CLOCK_SKEW_S - 1)


def test_collateral_older_than_the_rule_allows_has_expired(bench: Bench) -> None:
    data = encode(bench.evidence)
    assert bench.appraise(data, bench.with_rule(max_age_s=10), bench.now + 10)
    with pytest.raises(EvidenceExpired):
        bench.appraise(data, bench.with_rule(max_age_s=10), bench.now + 11)


def test_evidence_expires_with_its_run_root(bench: Bench) -> None:
    later = bench.now + 5 * 86_400
    with pytest.raises(EvidenceExpired):
        bench.appraise(encode(bench.quoter_at(later).evidence(bench.body)), now=later)


def test_collateral_dated_in_the_future_is_refused(bench: Bench) -> None:
    """Fresh collateral beside an old quote: whoever sets the newest part forward is refused, and its signature fails besides."""
    newer = bench.quoter_at(bench.now + 1000).evidence(bench.body)
    mixed = replace(bench.evidence, collateral=newer.collateral)
    with pytest.raises(EvidenceFromFuture):
        bench.appraise(encode(mixed))


def test_platform_key_not_valid_yet_differs_from_one_of_another_root(bench: Bench) -> None:
    later = bench.quoter_at(bench.now + 1000).evidence(bench.body)
    assert bench.evidence.collateral is not None
    with pytest.raises(EvidenceFromFuture, match="a certificate is valid from"):
        verify_quote(bench.policy.rules[0], later.quote, bench.evidence.collateral, bench.now)


def test_a_revoked_authority_of_platform_keys_is_named(bench: Bench) -> None:
    """Control: a list of the root's that names somebody else."""
    root = Authority(load_root(bench.folder / "root"), _load_key((bench.folder / "root" / ROOT_KEY).read_bytes()))
    start, end = (datetime.datetime.fromtimestamp(bench.now + each, datetime.UTC) for each in (0, LIFETIME_S))
    own = bench.platform.pck_ca.certificate.serial_number
    rule, sound = bench.policy.rules[0], bench.evidence.collateral
    assert sound is not None
    assert verify_quote(
        rule, bench.evidence.quote, replace(sound, root_crl=revocation_list(root, start, end, (own + 1,))), bench.now
    )
    with pytest.raises(TcbRefused, match="the authority of platform keys was revoked"):
        verify_quote(rule, bench.evidence.quote, replace(sound, root_crl=revocation_list(root, start, end, (own,))), bench.now)


# --- what the quote says ---


@pytest.mark.parametrize("name", BODY_CHANGES)
def test_signed_quote_with_one_other_register_is_another_program(bench: Bench, name: str) -> None:
    with pytest.raises(MeasurementRefused):
        bench.appraise(bench.signed(replace(bench.body, **BODY_CHANGES[name])))


@pytest.mark.parametrize("attributes", [1, 1 | 1 << 28, 1 << 27, 1 << 4])
def test_debug_and_reserved_attributes_are_refused(bench: Bench, attributes: int) -> None:
    with pytest.raises(EvidenceRefused):
        bench.appraise(bench.signed(replace(bench.body, td_attributes=attributes.to_bytes(8, "little"))))


def test_report_data_for_something_else_is_refused(bench: Bench) -> None:
    with pytest.raises(EvidenceReplayed, match="report data"):
        bench.appraise(bench.signed(replace(bench.body, report_data=b"\x43" * 64)))


def test_expected_bytes_elsewhere_in_the_quote_are_no_binding(bench: Bench) -> None:
    """What is looked for in the bare bytes is asked again of the verified report."""
    elsewhere: TdBody = replace(bench.body, report_data=bytes(64), rt_mr1=REPORT[:48], rt_mr2=REPORT[:48])
    with pytest.raises(EvidenceReplayed, match="report data"):
        bench.appraise(bench.signed(elsewhere))


# --- TCB ---


@pytest.mark.parametrize("status", TcbStatus)
def test_every_status_is_refused_unless_the_rule_names_it(bench: Bench, status: TcbStatus) -> None:
    data = bench.signed(bench.body, SimulatedStatus(status=status))
    others = tuple(each for each in EVERY if each is not status)
    with pytest.raises(TcbRefused):
        bench.appraise(data, bench.with_rule(statuses=others, out_of_date_grace_s=LEVEL_AGE_S))
    if status is TcbStatus.REVOKED or "Relaunch" in status.value:
        # No level says that a domain is to be relaunched: that is found by comparing two (`test_td_bodies`).
        with pytest.raises(TcbRefused):
            bench.appraise(data, bench.with_rule(statuses=EVERY, out_of_date_grace_s=LEVEL_AGE_S))
    else:
        named = bench.with_rule(statuses=(status,), out_of_date_grace_s=LEVEL_AGE_S if status in OLD else None)
        assert bench.appraise(data, named).claims.status is status


def test_a_refused_advisory_is_refused_whatever_the_status(bench: Bench) -> None:
    data = bench.signed(bench.body, SimulatedStatus(advisories=("INTEL-SA-00001", "INTEL-SA-00002")))
    assert bench.appraise(data).claims.advisories == ("INTEL-SA-00001", "INTEL-SA-00002")
    with pytest.raises(TcbRefused):
        bench.appraise(data, bench.with_rule(refused_advisories=("INTEL-SA-00002",)))


def test_an_older_evaluation_than_the_rule_demands_is_refused(bench: Bench) -> None:
    policy = bench.with_rule(min_evaluation=7)
    for evaluation, accepted in ((6, False), (7, True), (8, True)):
        data = bench.signed(bench.body, SimulatedStatus(evaluation=evaluation))
        if accepted:
            assert bench.appraise(data, policy).claims.evaluation == evaluation
        else:
            with pytest.raises(TcbRefused):
                bench.appraise(data, policy)


def test_evidence_accepted_by_the_library_is_judged_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Advisories and evaluation numbers are asked twice: a library that forgets them lets nothing in."""
    data = bench.signed(bench.body, SimulatedStatus(advisories=("INTEL-SA-00001",), evaluation=6))
    policy_of = dcap.quote_policy
    monkeypatch.setattr(
        dcap, "quote_policy", lambda rule, now: policy_of(replace(rule, refused_advisories=(), min_evaluation=1), now)
    )
    assert bench.appraise(data).claims.evaluation == 6
    for changes in ({"refused_advisories": ("INTEL-SA-00001",)}, {"min_evaluation": 7}):
        with pytest.raises(TcbRefused, match=r"advisories .*, evaluation 6"):
            bench.appraise(data, bench.with_rule(**changes))


def test_a_platform_outside_the_list_is_refused(bench: Bench) -> None:
    assert bench.appraise(encode(bench.evidence), bench.with_rule(platforms=(Blob(bytes(16)), Blob(b"\x02" * 16))))
    with pytest.raises(TcbRefused, match="not listed"):
        bench.appraise(encode(bench.evidence), bench.with_rule(platforms=(Blob(b"\x02" * 16),)))


def test_evidence_refused_by_one_rule_may_be_accepted_by_another(bench: Bench) -> None:
    strict = bench.with_rule(min_evaluation=9).rules
    assert bench.appraise(encode(bench.evidence), replace(bench.policy, rules=(*strict, *bench.policy.rules)))


# --- shape ---

WRONG_PARTS: dict[str, Callable[[Evidence], Evidence]] = {
    "no collateral": lambda e: replace(e, collateral=None),
    "certificates of a chip": lambda e: replace(e, certificates=SnpCertificates(Blob(b"a"), Blob(b"b"), Blob(b""))),
    "no quote": lambda e: replace(e, quote=Blob(b"")),
    "half a quote": lambda e: replace(e, quote=Blob(e.quote[:700])),
    "a quote beyond the cap": lambda e: replace(e, quote=Blob(e.quote + bytes(16 * 1024))),
    "half a certificate": lambda e: _collateral(e, "pck_ca", lambda x: x[:80]),
    "half a revocation list": lambda e: _collateral(e, "pck_crl", lambda x: x[:80]),
    "TCB info that is no JSON": lambda e: _collateral(e, "tcb_info", lambda x: b"{"),
    "TCB info that is no object": lambda e: _collateral(e, "tcb_info", lambda x: b"[]"),
    "TCB info with a date that is none": lambda e: _collateral(e, "tcb_info", lambda x: b'{"issueDate":"now"}'),
    "TCB info that names a member twice": lambda e: _collateral(e, "tcb_info", lambda x: x[:-1] + b',"id":"TDX"}'),
    "TCB info nested deeply": lambda e: _collateral(e, "tcb_info", lambda x: b"[" * 5000),
}


def _collateral(evidence: Evidence, name: str, change: Callable[[bytes], bytes]) -> Evidence:
    assert evidence.collateral is not None
    changed: Collateral = replace(evidence.collateral, **{name: Blob(change(getattr(evidence.collateral, name)))})
    return replace(evidence, collateral=changed)


@pytest.mark.parametrize("name", WRONG_PARTS)
def test_evidence_of_another_shape_is_malformed(bench: Bench, name: str) -> None:
    data = encode(WRONG_PARTS[name](bench.evidence))
    with pytest.raises(EvidenceMalformed):
        bench.appraise(data)


def test_evidence_above_the_cap_or_with_too_many_elements_is_not_parsed(bench: Bench) -> None:
    for data in (b" " * (MAX_EVIDENCE_BYTES + 1), b"[" * 2000, b"{}," * 2000):
        with pytest.raises(EvidenceTooLarge):
            bench.appraise(data)
    for data in (encode(bench.evidence)[:-1], b"", b"{}"):
        with pytest.raises(EvidenceMalformed) as refused:
            bench.appraise(data)
        assert type(refused.value) is EvidenceMalformed


def test_a_policy_of_another_chain_accepts_nothing(bench: Bench) -> None:
    with pytest.raises(EvidenceRefused, match="chain 1337"):
        verify_evidence(bench.policy, encode(bench.evidence), REPORT, bench.now, 1337)


@given(st.binary(max_size=300))
@settings(deadline=None, max_examples=60)
def test_random_bytes_are_malformed_evidence(bench_policy: AppraisalPolicy, data: bytes) -> None:
    with pytest.raises(EvidenceMalformed):
        verify_evidence(bench_policy, data, REPORT, 0, CHAIN_ID)


@pytest.fixture(scope="module")
def bench_policy(bench: Bench) -> AppraisalPolicy:
    """The policy alone."""
    return bench.policy


@given(at=st.integers(0, 10_000), value=st.integers(1, 255), data=st.data())
@settings(deadline=None, max_examples=60)
def test_changed_evidence_is_refused_or_means_the_same(bench: Bench, at: int, value: int, data: st.DataObject) -> None:
    """Quotes have bytes that nobody signs; no change of any part may change what is read, or what the evidence is called."""
    name = data.draw(st.sampled_from(["quote", "tcb_info", "qe_identity", "pck_ca", "tcb_signer", "root_crl", "pck_crl"]))

    def flipped(part: bytes) -> bytes:
        place = at % len(part)
        return part[:place] + bytes([part[place] ^ value]) + part[place + 1 :]

    if name == "quote":
        changed = replace(bench.evidence, quote=Blob(flipped(bench.evidence.quote)))
    else:
        changed = _collateral(bench.evidence, name, flipped)
    plain = bench.appraise(encode(bench.evidence))
    try:
        assert bench.appraise(encode(changed)) == plain
    except EvidenceRefused:
        pass


def test_negative_serial_number_of_a_platform_certificate_is_refused(bench: Bench) -> None:
    """No list of revoked certificates can be asked about it, and the library that reads the list raises."""
    pem = re.search(rb"-----BEGIN CERTIFICATE-----\n(.+?)-----END", bench.evidence.quote, re.DOTALL)
    assert pem is not None
    der = bytearray(base64.b64decode(pem[1]))
    serial = der.index(b"\xa0\x03\x02\x01\x02\x02") + 7
    der[serial] |= 0x80
    lines = base64.encodebytes(bytes(der)).replace(b"\n", b"")
    wrapped = b"\n".join(lines[at : at + 64] for at in range(0, len(lines), 64)) + b"\n"
    assert len(wrapped) == len(pem[1])
    changed = replace(bench.evidence, quote=Blob(bench.evidence.quote.replace(pem[1], wrapped)))
    with pytest.raises(EvidenceRefused):
        bench.appraise(encode(changed))


def test_unsigned_bytes_do_not_give_evidence_another_name(bench: Bench) -> None:
    longer = replace(bench.evidence, quote=Blob(bench.evidence.quote + b"junk"))
    assert evidence_digest(longer) == evidence_digest(bench.evidence)
    assert bench.appraise(encode(longer)) == bench.appraise(encode(bench.evidence))
    assert signed_part(bench.evidence) == bench.evidence.quote[:632]


def test_hardware_evidence_is_refused_where_only_the_simulator_is_allowed(bench: Bench) -> None:
    for kind in (EvidenceType.TDX, EvidenceType.SNP):
        with pytest.raises(EvidenceRefused, match=f"type {kind.value} is not allowed"):
            bench.appraise(encode(replace(bench.evidence, type=kind)))

"""Attacks on attestation, each beside its control: the same attack wins once its defence is removed.

`docs/evidence/attacks.md` lists all 30 attacks on keys and enclaves, and where each is tried.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.catalogue import CLASSES
from bytewise.protocol.errors.evidence import (
    EvidenceExpired,
    EvidenceMalformed,
    EvidenceReplayed,
    MeasurementRefused,
    TcbRefused,
    UntrustedRoot,
)
from bytewise.protocol.evidence.appraisal_policy import GpuUse, PlatformRule, TcbStatus
from bytewise.protocol.evidence.claims import (
    MAX_EVIDENCE_BYTES,
    Collateral,
    evidence_digest,
    gpu_nonce,
    quoted_report_data,
    signed_part,
)
from bytewise.protocol.units import Blob
from bytewise.service.clock import ForwardClock
from bytewise.tee.claims import Claims
from bytewise.tee.dcap import verify_quote
from bytewise.tee_simulated.quoter import LEVEL_AGE_S, SimulatedStatus
from bytewise.tee_simulated.td_quote import measurement_of
from tests.fixtures.tee.gpu_claims import GPU_CLAIMS
from tests.fixtures.tee.simulated_platform import REPORT, Bench

# --- 1: replay ---


def test_attack_1_unsigned_bytes_do_not_change_the_evidence_name(bench: Bench) -> None:
    """A channel's evidence is good for its own session alone; in records, too, a copy with junk is no other evidence."""
    plain, quote = bench.appraise(encode(bench.evidence)), bench.evidence.quote
    assert signed_part(bench.evidence) == quote[:632]
    for altered in (quote + b"junk", quote + bytes(70)):
        evidence = replace(bench.evidence, quote=Blob(altered))
        assert evidence_digest(evidence) == plain.evidence_hash and evidence != bench.evidence
        assert bench.appraise(encode(evidence)) == plain


# --- 6: another program, an old platform ---


def test_attack_6_another_program_gets_nothing_until_the_policy_names_it(bench: Bench) -> None:
    other = replace(bench.body, mr_td=b"\x66" * 48)
    data = bench.signed(other)
    with pytest.raises(MeasurementRefused):
        bench.appraise(data)
    trusted = replace(bench.policy.measurements[0], measurement=measurement_of(other.mr_td[:32]))  # type: ignore[arg-type]
    named = replace(bench.policy, measurements=(*bench.policy.measurements, trusted))
    with pytest.raises(MeasurementRefused):
        bench.appraise(data, named)
    exact = replace(bench.body, mr_td=(b"\x66" * 32).ljust(48, b"\0"))
    assert bench.appraise(bench.signed(exact), named).program == trusted


def test_attack_6_control_accepting_every_status_accepts_old_platforms(bench: Bench) -> None:
    """What the library's plain `verify` does for all but one status: our rule is what refuses."""
    data = bench.signed(bench.body, SimulatedStatus(status=TcbStatus.OUT_OF_DATE, advisories=("INTEL-SA-00001",)))
    with pytest.raises(TcbRefused):
        bench.appraise(data)
    everything = tuple(each for each in TcbStatus if each is not TcbStatus.REVOKED)
    lenient = bench.with_rule(statuses=everything, out_of_date_grace_s=LEVEL_AGE_S)
    assert bench.appraise(data, lenient).claims.status is TcbStatus.OUT_OF_DATE


def test_attack_6_control_without_measurement_check_another_program_passes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bench.signed(replace(bench.body, mr_td=b"\x66" * 48))
    with pytest.raises(MeasurementRefused):
        bench.appraise(data)
    monkeypatch.setattr("bytewise.tee.appraisal.trusted_program", lambda policy, *_: policy.measurements[0])
    assert bench.appraise(data).program == bench.policy.measurements[0]


def test_attack_6_control_believing_a_supplied_root_accepts_any_platform(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = Bench(tmp_path)
    data = encode(theirs.evidence)
    with pytest.raises(UntrustedRoot):
        bench.appraise(data, now=theirs.now)

    def believing(rule: PlatformRule, quote: bytes, collateral: Collateral, now: int) -> Claims:
        return verify_quote(replace(rule, root=theirs.policy.rules[0].root), quote, collateral, now)

    monkeypatch.setattr("bytewise.tee.appraisal.verify_quote", believing)
    assert bench.appraise(data, now=theirs.now).program == bench.policy.measurements[0]


def test_attack_6_a_platform_key_that_was_revoked_is_refused(bench: Bench) -> None:
    serial = bench.platform.pck_ca.certificate.serial_number
    # Control: a list that names somebody else's certificate refuses nothing.
    assert bench.appraise(bench.signed(bench.body, SimulatedStatus(revoked=(serial,))))
    evidence = bench.quoter.evidence(bench.body)
    leaf = x509.load_pem_x509_certificates(evidence.quote[evidence.quote.index(b"-----BEGIN") :])[0]
    collateral = bench.quoter.evidence(bench.body, SimulatedStatus(revoked=(leaf.serial_number,))).collateral
    with pytest.raises(TcbRefused, match="platform's key was revoked"):
        bench.appraise(encode(replace(evidence, collateral=collateral)))


# --- 7: old collateral, clocks ---


def test_attack_7_stale_collateral_is_expired_or_of_an_older_evaluation(bench: Bench) -> None:
    """The attacker keeps yesterday's good word. With our clock set back it is believed, unless the policy's number grew."""
    yesterday = bench.now - 86_400
    kept = encode(bench.quoter_at(yesterday).evidence(bench.body, SimulatedStatus(evaluation=4)))
    from_then, grown = bench.with_rule(min_evaluation=4), bench.with_rule(min_evaluation=5)
    with pytest.raises(EvidenceRefused):
        bench.appraise(kept, from_then)
    short = bench.now - 301
    kept = encode(bench.quoter_at(short).evidence(bench.body, SimulatedStatus(evaluation=4)))
    with pytest.raises(EvidenceExpired):
        bench.appraise(kept, from_then)
    assert bench.appraise(kept, from_then, now=short)
    with pytest.raises(TcbRefused):
        bench.appraise(kept, grown, now=short)


class SetClock:
    """A clock that somebody sets."""

    def __init__(self, now: int) -> None:
        self.at = now

    def now(self) -> int:
        return self.at


def test_attack_7_clock_set_back_revives_nothing_and_an_unguarded_one_does(bench: Bench) -> None:
    before = bench.now - 301
    kept, fresh = encode(bench.quoter_at(before).evidence(bench.body)), encode(bench.evidence)
    bare = SetClock(bench.now)
    clock = ForwardClock(bare)
    assert bench.appraise(fresh, now=clock.now())
    bare.at = before
    with pytest.raises(EvidenceExpired):
        bench.appraise(kept, now=clock.now())
    # Control: the same verifier, and the clock as it is.
    assert bench.appraise(kept, now=bare.now())


# --- 23: parser bombs ---


BOMBS = {
    "brackets": b"[" * 60_000,
    "objects": b"{}," * 20_000,
    "a deep list": b'{"a":' + b"[" * 50_000,
    "backslashes": b'{"quote":"' + b"\\\\" * 30_000 + b'"}',
    "beyond the cap": b'{"quote":"0x' + b"00" * MAX_EVIDENCE_BYTES + b'"}',
}


@pytest.mark.parametrize("name", BOMBS)
def test_attack_23_oversized_input_is_refused_before_parsing(bench: Bench, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: the parser is reached by what has the shape of evidence."""
    parsed: list[int] = []
    real = json.loads

    def watched(data: bytes, **given: Any) -> Any:
        parsed.append(len(data))
        return real(data, **given)

    monkeypatch.setattr(json, "loads", watched)
    with pytest.raises(EvidenceMalformed):
        bench.appraise(BOMBS[name])
    assert not parsed
    bench.appraise(encode(bench.evidence))
    assert parsed


def test_attack_23_number_of_any_length_is_not_computed(bench: Bench) -> None:
    """Python refuses to read more than 4,300 digits: reading would take the square of their number."""
    with pytest.raises(EvidenceMalformed):
        bench.appraise(b'{"quote":' + b"9" * 60_000 + b"}")


def test_attack_23_evidence_for_something_else_costs_no_signature(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Genuine quotes are public: whoever sends them by the thousand must not have us verify them. Control: the right one is."""
    verified: list[bytes] = []

    def watched(rule: PlatformRule, quote: bytes, collateral: Collateral, now: int) -> Claims:
        verified.append(quote)
        return verify_quote(rule, quote, collateral, now)

    monkeypatch.setattr("bytewise.tee.appraisal.verify_quote", watched)
    with pytest.raises(EvidenceReplayed, match="report data"):
        bench.appraise(bench.signed(replace(bench.body, report_data=os.urandom(64))))
    assert not verified
    bench.appraise(encode(bench.evidence))
    assert len(verified) == 1


# --- a GPU without evidence ---


def gpu_document(nonce: bytes) -> Blob:
    return Blob(json.dumps({"claims": [{**GPU_CLAIMS, "eat_nonce": nonce.hex()}]}).encode())


def with_gpu(bench: Bench, gpu: Blob, bound: bytes) -> bytes:
    evidence = bench.quoter.evidence(replace(bench.body, report_data=bound))
    return encode(replace(evidence, gpu=gpu))


def test_gpu_claims_count_only_if_bound_by_the_quote_and_signed_for_it(bench: Bench) -> None:
    program = replace(bench.policy.measurements[0], gpu=GpuUse.ATTESTED)
    policy = replace(bench.policy, measurements=(program,))
    gpu = gpu_document(gpu_nonce(REPORT))
    accepted = bench.appraise(with_gpu(bench, gpu, quoted_report_data(REPORT, gpu)), policy)
    assert accepted.gpu is not None and accepted.gpu.model == "GH100"
    # Without claims, or with claims that the quote does not bind, or of a GPU that signed another purpose.
    with pytest.raises(MeasurementRefused, match="without one"):
        bench.appraise(encode(bench.evidence), policy)
    with pytest.raises(EvidenceReplayed, match="report data"):
        bench.appraise(with_gpu(bench, gpu, REPORT), policy)
    borrowed = gpu_document(gpu_nonce(b"\x43" * 64))
    with pytest.raises(EvidenceReplayed):
        bench.appraise(with_gpu(bench, borrowed, quoted_report_data(REPORT, borrowed)), policy)


def test_unexpected_gpu_is_refused_and_a_missing_gpu_is_reported(bench: Bench) -> None:
    gpu = gpu_document(gpu_nonce(REPORT))
    with pytest.raises(MeasurementRefused, match="with one"):
        bench.appraise(with_gpu(bench, gpu, quoted_report_data(REPORT, gpu)))
    plain = bench.appraise(encode(bench.evidence))
    assert plain.gpu is None and plain.program.gpu is GpuUse.UNATTESTED
    assert evidence_digest(replace(bench.evidence, gpu=gpu)) != evidence_digest(bench.evidence)


def test_every_refusal_of_evidence_has_a_rule_of_its_own() -> None:
    kinds = {each for each in CLASSES.values() if issubclass(each, EvidenceRefused)}
    assert len({kind.rule for kind in kinds}) == len(kinds) == 9

"""What a run concludes about a receipt: doubt accuses nobody, and a claim says how far it goes."""

import dataclasses
from typing import Any

import pytest

from bytewise.protocol.jobs import JobResult
from bytewise.protocol.records.environment import PROFILE_EXACT_1
from bytewise.protocol.records.preflight import PointResult, PreflightPoint, PreflightSubject, preflight
from bytewise.protocol.records.statements import AuditOutcome, CannotReason, Outcome
from bytewise.protocol.records.trace import differing_fields
from bytewise.protocol.units import U8, U16, ZERO_DIGEST, Blob, Digest
from tests.fixtures.builders import NOW, word
from tests.fixtures.verifier.verifier_fixture import ME, WORLD
from verifier.audits.auditor import Cause, conclude


def job_result(outcome: Outcome, code: int = 0, tokens: Digest = ZERO_DIGEST, root: Digest = ZERO_DIGEST) -> JobResult:
    return JobResult(word("r"), U16(0), word("r"), ME.address, U8(outcome), U8(code), tokens, root, ZERO_DIGEST, Blob(b"quote"))


def record(**changes: object) -> PreflightSubject:
    signed = WORLD.answered(1)
    header, _ = WORLD.batch((signed,))
    plain = PreflightSubject(signed.receipt, header, WORLD.environment, word("policy"), 600, "simulated", None, False)
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "code", "cause"),
    [
        (Outcome.UNAVAILABLE, 0, Cause.VERIFIER),
        (Outcome.NO_KEY, 0, Cause.VERIFIER),
        (Outcome.CANNOT_EXECUTE, CannotReason.BACKEND, Cause.VERIFIER),
        (Outcome.CANNOT_EXECUTE, CannotReason.MODEL_MISSING, Cause.VERIFIER),
        (Outcome.CANNOT_EXECUTE, CannotReason.PROFILE_UNKNOWN, Cause.ENVIRONMENT),
        (Outcome.CANNOT_EXECUTE, CannotReason.RESOURCES, Cause.VERIFIER),
    ],
)
def test_our_own_doubt_never_becomes_a_mismatch(outcome: Outcome, code: int, cause: Cause) -> None:
    found = conclude(
        job_result(outcome, code), WORLD.answered(1).receipt, preflight(record()), PROFILE_EXACT_1, word("salt"), NOW
    )
    assert (found.cause, found.result.result) == (cause, AuditOutcome.NONE)


def test_difference_is_the_operators_fault_only_with_a_complete_record() -> None:
    executed = job_result(Outcome.EXECUTED, 0, word("t"), word("root"))
    receipt = WORLD.answered(1).receipt
    full, thin = preflight(record()), preflight(record(receipt=dataclasses.replace(receipt, req_hash=ZERO_DIGEST)))
    assert conclude(executed, receipt, full, PROFILE_EXACT_1, word("salt"), NOW).result.result == AuditOutcome.MISMATCH
    assert conclude(executed, receipt, thin, PROFILE_EXACT_1, word("salt"), NOW).cause is Cause.RECORD
    vague = preflight(record(environment=dataclasses.replace(WORLD.environment, libraries=())))
    assert conclude(executed, receipt, vague, PROFILE_EXACT_1, word("salt"), NOW).cause is Cause.OPERATOR
    assert conclude(executed, receipt, vague, "pinned-1", word("salt"), NOW).cause is Cause.RECORD


LIES = {"neither": (), "tokens": ("tokens_hash",), "computation": ("out_hash",), "both": ("tokens_hash", "out_hash")}


@pytest.mark.parametrize("lies", LIES.values(), ids=LIES)
def test_audit_compares_tokens_and_computation_separately(lies: tuple[str, ...]) -> None:
    truth = WORLD.engine.generate(WORLD.request(1))
    executed = job_result(Outcome.EXECUTED, 0, truth.output.tokens_hash, truth.trace_root)
    false: dict[str, Any] = {name: word("a lie", name) for name in lies}
    receipt = dataclasses.replace(WORLD.answered(1).receipt, **false)
    found = conclude(executed, receipt, preflight(record(receipt=receipt)), PROFILE_EXACT_1, word("salt"), NOW)
    named = {"tokens_hash": "tokensHash", "out_hash": "outHash"}
    assert differing_fields(receipt, executed.tokens_hash, executed.trace_root) == tuple(named[name] for name in lies)
    assert found.result.result == (AuditOutcome.MISMATCH if lies else AuditOutcome.MATCH)
    assert found.cause is (Cause.OPERATOR if lies else Cause.NOTHING)


def test_checklist_has_eleven_points_and_names_the_unverified_claim() -> None:
    nobody_looked = preflight(record())
    assert [point for point, _ in nobody_looked.marks] == list(PreflightPoint) and len(PreflightPoint) == 11
    assert dict(nobody_looked.marks)[PreflightPoint.DECODING] is PointResult.UNKNOWN
    assert dict(nobody_looked.marks)[PreflightPoint.APPLICATION] is PointResult.UNKNOWN
    assert "nobody here has replayed" in nobody_looked.claim
    assert dict(nobody_looked.marks)[PreflightPoint.ATTESTED] is PointResult.UNKNOWN
    compared = preflight(record(opened=True, executed=True, attested=True))
    assert compared.failed == () and "byte for byte" in compared.claim
    assert "too thin" in preflight(record(environment=dataclasses.replace(WORLD.environment, driver=""))).claim
    assert dict(preflight(record(environment=None)).marks)[PreflightPoint.RUNTIME] is PointResult.UNKNOWN


def test_evidence_and_policy_are_separate_points() -> None:
    bare = dict(preflight(record(opened=True, executed=True, attested=False)).marks)
    assert (bare[PreflightPoint.ATTESTED], bare[PreflightPoint.POLICY]) == (PointResult.FAIL, PointResult.PASS)
    nameless = dict(preflight(record(opened=True, executed=True, attested=True, policy=ZERO_DIGEST)).marks)
    assert (nameless[PreflightPoint.ATTESTED], nameless[PreflightPoint.POLICY]) == (PointResult.PASS, PointResult.FAIL)
    for attested in (False, None):
        assert "without evidence" in preflight(record(opened=True, executed=True, attested=attested)).claim

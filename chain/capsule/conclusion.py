"""The conclusion of a verified capsule in fixed sentences. The page `capsule.html` has the same sentences."""

from typing import Any, NamedTuple

from bytewise.protocol.assurance import warning
from bytewise.protocol.encoding import to_json
from bytewise.protocol.records.preflight import Preflight, PreflightSubject, preflight
from bytewise.protocol.records.receipt import BatchHeader
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import U32, U64, ZERO_DIGEST, hex0x
from chain.capsule.beacon import header_root
from chain.capsule.facts import Facts, Round
from chain.capsule.report import CapsuleReport, Failure, Group, Result
from chain.capsule.schema import Capsule


class CapsuleConclusion(NamedTuple):
    """The conclusion of a verification in sentences."""

    word: str
    """VALID, INVALID or UNVERIFIABLE."""
    shows: tuple[str, ...]
    """Facts that the capsule shows if the conditions are true; empty if it is INVALID."""
    conditions: tuple[str, ...]
    """Values that a reader must still compare. If the capsule is INVALID, the reason."""
    limits: tuple[str, ...]
    """Facts that the capsule does not show."""


_WORDS = {Result.PASS: "VALID", Result.FAIL: "INVALID", Result.UNVERIFIABLE: "UNVERIFIABLE"}

LIMITS = (
    "It does not show that the answer is true, safe or useful.",
    "It does not repeat the computation: `bytewise verify` does that, with the opening and the model.",
    "It shows the state of one block. What happened later is not in it.",
)
"""Sentences about what no capsule shows."""


def conclude(report: CapsuleReport) -> CapsuleConclusion:
    """Returns the conclusion of a report, in sentences."""
    word, failed = _WORDS[report.result], report.first_failure
    if failed is not None or report.capsule is None or report.facts is None:
        wrong = failed or next((each for each in report.checks if each.result is not Result.PASS), None)
        why = "it was not verified" if wrong is None else f"{wrong.failure}: {wrong.detail}"
        return CapsuleConclusion(word, (), (f"The capsule shows nothing: {why}.",), ())
    shows = [*verdict_sentences(report.capsule, report.facts), _acceptance(report.facts)]
    label = warning(report.facts.assurance)
    if label:
        shows.append(f"Evidence of the machines is {label}.")
    return CapsuleConclusion(
        word, tuple(shows), tuple(_condition(report, each.failure) for each in report.open_conditions), LIMITS
    )


def verdict_sentences(capsule: Capsule, facts: Facts) -> list[str]:
    """Returns sentences about how a dispute about the receipt ended, or that nobody disputed it."""
    decided = next((each for each in facts.rounds if each.number == facts.decided_in), None)
    if decided is not None:
        return [_decided(capsule, facts, decided)]
    if facts.verdict is Verdict.REFUNDED:
        return ["REFUNDED: the guardian ended the dispute; the receipt is void."]
    if facts.verdict is Verdict.DRAW:
        return [f"DRAW: {len(facts.rounds)} committees gave no verdict; the receipt is void."]
    return ["Nobody disputed the receipt up to this block."]


def _decided(capsule: Capsule, facts: Facts, decided: Round) -> str:
    tally, verdict = decided.tally, facts.verdict
    head = f"{verdict.name}: a committee of {decided.seats} seats judged the receipt in round {decided.number};"
    needed = f"{decided.quorum} were needed."
    if verdict is Verdict.UPHELD:
        return f"{head} {tally.equal} found exactly the operator's answer; {needed}"
    if verdict is Verdict.OVERTURNED:
        replaced = hex0x(capsule.claim.replaced_by or ZERO_DIGEST)
        return f"{head} {tally.lead} found one identical other answer, {replaced}; {needed}"
    if verdict is Verdict.INVALID:
        return f"{head} {tally.lead} found the same defect of the record, code {decided.lead[1]}; {needed}"
    if facts.case.is_mixed:
        return f"{head} {tally.unavailable} found no bytes to judge and {tally.lead} one identical fault; {needed}"
    return f"{head} {tally.unavailable} found no bytes to judge; {needed}"


def _acceptance(facts: Facts) -> str:
    if facts.open_reason:
        return f"The receipt is not accepted for good in this block: {facts.open_reason}."
    return "The receipt is accepted for good: its window is over, and nobody can question it any more."


def _condition(report: CapsuleReport, failure: Failure | None) -> str:
    assert report.capsule is not None, "the caller has looked"
    claim, deployment = report.capsule.claim, report.capsule.deployment
    if failure is Failure.DEPLOYMENT_UNKNOWN:
        return f"It holds if you mean the deployment {hex0x(deployment.digest)} on chain {claim.chain_id}."
    if failure is Failure.UNDECLARED:
        return f"It holds if block {claim.block} of chain {claim.chain_id} has the hash {hex0x(claim.block_hash)}."
    if failure is Failure.WITNESS_TOO_FEW:
        return f"Too few of your witnesses signed block {claim.block}, {hex0x(claim.block_hash)}."
    if failure is Failure.FINALITY_CHECKPOINT and report.capsule.finality is not None:
        return f"It holds if the beacon block {hex0x(header_root(report.capsule.finality.checkpoint))} is one that you trust."
    if failure in (Failure.FINALITY_ABSENT, Failure.FINALITY_NETWORK):
        return f"No sync committee shows block {claim.block}, {hex0x(claim.block_hash)}: name its hash or witnesses."
    return "Something that it rests on was not verified."


def report_json(report: CapsuleReport) -> dict[str, Any]:
    """Returns a report as plain JSON data."""
    end, checklist = conclude(report), preflight_of(report)
    return {
        "result": end.word,
        "capsule_sha256": hex0x(report.digest),
        "claim": None if report.capsule is None else to_json(report.capsule.claim),
        "shows": list(end.shows),
        "conditions": list(end.conditions),
        "limits": list(end.limits),
        "checks": [
            {"group": each.group.value, "result": each.result.value, "failure": each.failure and each.failure.value,
             "detail": each.detail}
            for each in report.checks
        ],
        "preflight": None if checklist is None else {
            "points": {point.name.lower(): mark.value for point, mark in checklist.marks}, "claim": checklist.claim,
        },
    }  # fmt: skip


def preflight_of(report: CapsuleReport) -> Preflight | None:
    """Returns the checklist of completeness (design section 11), filled from proven facts. Returns None if the verdict is not
    proven."""
    capsule, facts = report.capsule, report.facts
    if capsule is None or facts is None or not report.passes(Group.VERDICT):
        return None
    receipt, batch = capsule.receipt, facts.batch
    header = BatchHeader(
        batch_id=capsule.membership.batch_id, operator=batch.operator, first_seq=U64(batch.first_seq), count=U32(batch.size),
        root=batch.root, list_hash=ZERO_DIGEST, environment=batch.environment, model_id=batch.model_id,
        key_epoch=U64(batch.key_epoch), locator="", anchored_at=U64(batch.anchored_at), block=U64(batch.block),
    )  # fmt: skip
    executed = facts.verdict in (Verdict.UPHELD, Verdict.OVERTURNED)
    opened = True if executed or capsule.opening is not None else False if facts.verdict is Verdict.INVALID else None
    return preflight(
        PreflightSubject(
            receipt, header, capsule.environment, facts.policy, facts.window_s, facts.assurance, opened, executed,
            report.attested,
        )
    )  # fmt: skip

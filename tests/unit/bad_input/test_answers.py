"""Answers that nobody would compute, under receipts that name them rightly: EXECUTED with the true hashes, never a crash."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.protocol.digests import out_hash
from bytewise.protocol.records import trace
from bytewise.protocol.records.request import Output, Request, output_for
from bytewise.protocol.records.statements import AuditOutcome, Outcome, Verdict
from bytewise.protocol.records.trace import DivergenceClass, Generated
from bytewise.protocol.units import Digest
from tests.fixtures.bad_input.courtroom import GREEDY, STOP, Court, verdict
from tests.fixtures.builders import word
from tests.fixtures.kms.memory_chain import Case

Make = Callable[[Request, Generated], Output]


def tokens(change: Callable[[tuple[int, ...]], tuple[int, ...]], reason: str = "length") -> Make:
    """An answer whose tokens are changed, its counts and blind as they should be."""
    return lambda request, truth: output_for(request, change(truth.output.token_ids), reason)


def members(**changes: object) -> Make:
    """The true answer with other members."""
    return lambda _, truth: replace(truth.output, **changes)  # type: ignore[arg-type]


GARBAGE: dict[str, tuple[Make, DivergenceClass]] = {
    "nonsense within the vocabulary": (tokens(lambda ids: tuple(i * 37 % 256 for i in range(12))), DivergenceClass.TOKEN),
    "tokens of no vocabulary": (tokens(lambda ids: (2**31 - 1,) * 12), DivergenceClass.TOKEN),
    "a hundred thousand tokens": (tokens(lambda ids: (65,) * 100_000), DivergenceClass.TOKEN),
    "true tokens and then a thousand more": (tokens(lambda ids: ids + (65,) * 1000), DivergenceClass.LENGTH),
    "no tokens at all": (tokens(lambda ids: ()), DivergenceClass.LENGTH),
    "an error that was none": (tokens(lambda ids: (), "error"), DivergenceClass.LENGTH),
    "a stop in the middle": (tokens(lambda ids: (*ids[:4], STOP), "stop"), DivergenceClass.TOKEN),
    "tokens after a stop": (tokens(lambda ids: (STOP, *ids[1:])), DivergenceClass.TOKEN),
    "another finish reason": (tokens(lambda ids: ids, "stop"), DivergenceClass.STOP),
    "another prompt length": (members(prompt_tokens=2**40), DivergenceClass.STOP),
    "an answer to another request": (members(req_hash=word("another request")), DivergenceClass.STOP),
    "an answer that is not blinded": (members(blind=Digest(bytes(32))), DivergenceClass.STOP),
}


def filed(court: Court, output: Output, root: Digest | None = None) -> Case:
    """A receipt that names exactly this answer; its trace root is the true one unless given."""
    request, truth = court.honest
    claimed = out_hash(output.tokens_hash, truth.trace_root if root is None else root)
    return court.file(court.people.payload(request, output), court.receipt(request, output, claimed))


def overturned(court: Court, case: Case) -> None:
    """The judgement is the true answer, in one pass, and a committee that says so replaces the claim by it."""
    _, truth = court.honest
    result = court.judge(case)
    assert (result.outcome, result.tokens_hash, result.trace_root) == (
        Outcome.EXECUTED, truth.output.tokens_hash, truth.trace_root,
    )  # fmt: skip
    assert court.stated(result).verify_passes == 1
    assert verdict(case, result) == (Verdict.OVERTURNED, 0, truth.out_hash)
    assert court.audited(case, result).result.result == AuditOutcome.MISMATCH


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_answer_is_overturned_without_a_crash(sitting: Court, name: str) -> None:
    request, truth = sitting.honest
    make, kind = GARBAGE[name]
    output = make(request, truth)
    found = sitting.engine.verify(request, output, out_hash(output.tokens_hash, truth.trace_root))
    assert found.divergence is not None and found.divergence.kind is kind and found.truth == truth
    overturned(sitting, filed(sitting, output))


@pytest.mark.parametrize(("kept", "reason"), [(1, "stop"), (6, "length"), (6, "stop"), (11, "length")])
def test_a_truncated_answer_with_a_matching_prefix_is_overturned(sitting: Court, kept: int, reason: str) -> None:
    """Even one whose trace root is that of a true computation of its tokens."""
    request, truth = sitting.honest
    output = output_for(request, truth.output.token_ids[:kept], reason)
    root = trace.trace_root(truth.leaves[:kept])
    found = sitting.engine.verify(request, output, out_hash(output.tokens_hash, root)).divergence
    assert found is not None and (found.position, found.kind) == (kept, DivergenceClass.LENGTH)
    overturned(sitting, filed(sitting, output, root))


def test_answer_to_a_smaller_limit_does_not_match_the_request(sitting: Court) -> None:
    """The cheapest way to truncate: really run the model, for half the tokens."""
    request, truth = sitting.honest
    half = sitting.engine.generate(replace(request, decode=replace(GREEDY, max_new_tokens=6)))
    output = output_for(request, half.output.token_ids, half.output.finish_reason)
    assert output.token_ids == truth.output.token_ids[:6]
    overturned(sitting, filed(sitting, output, half.trace_root))


@pytest.mark.parametrize("leaf", [0, -1])
def test_true_tokens_under_a_forged_trace_are_overturned(sitting: Court, leaf: int) -> None:
    _, truth = sitting.honest
    leaves = list(truth.leaves)
    leaves[leaf] = word("forged")
    overturned(sitting, filed(sitting, truth.output, trace.trace_root(leaves)))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 263), max_size=30).map(tuple),
    st.sampled_from(["stop", "length", "error"]),
)
def test_every_judge_of_an_answer_reaches_the_same_result(court: Court, ids: tuple[int, ...], reason: str) -> None:
    request, truth = court.honest
    output = output_for(request, ids, reason)
    found = court.engine.verify(request, output, out_hash(output.tokens_hash, truth.trace_root))
    assert found.truth == truth and found.verify_passes == 1
    assert (found.divergence is None) == (output == truth.output)

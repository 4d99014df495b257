"""Every knob of decoding on a real model: its answer is verified by the same one pass, and who ignores it is caught."""

import dataclasses
import json
from typing import Any

import pytest

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.engine import ExactEngine
from bytewise.inference.tokenizer import Tokenizer
from bytewise.protocol.digests import out_hash
from bytewise.protocol.records.request import DecodePolicy, Request, choice_seed, output_for
from bytewise.protocol.records.trace import Divergence, DivergenceClass, Generated, Verification
from bytewise.protocol.units import U64, Decimal
from tests.fixtures.inference.models import policy, request

NEW = 14
WARM = policy(NEW, "1.5")
FIELDS = {"mood": {"enum": ["calm", "glad"]}, "sure": {"type": "boolean"}}
SCHEMA = json.dumps({"type": "object", "properties": FIELDS, "required": ["mood", "sure"], "additionalProperties": False})


def asked(model: Artifact, decode: DecodePolicy, **knobs: Any) -> Request:
    """A request under a policy with some knobs turned."""
    return request(model, b"a question", dataclasses.replace(decode, **knobs), seed=5)


def verified(engine: ExactEngine, wanted: Request, given: Generated) -> Divergence | None:
    """What the verifier says, in one pass."""
    verification = engine.verify(wanted, given.output, given.out_hash)
    assert verification.verify_passes == 1
    return verification.divergence


def claimed(wanted: Request, other: Generated) -> Generated:
    """Another answer's tokens and rows, claimed for a request that asks otherwise."""
    output = other.output
    return Generated(output_for(wanted, output.token_ids, output.finish_reason, output.logprobs), other.leaves)


KNOBS: dict[str, tuple[DecodePolicy, dict[str, Any]]] = {
    "temperature": (policy(NEW), {"temperature": "1.5"}), "top_k": (WARM, {"top_k": 2}), "top_p": (WARM, {"top_p": "0.2"}),
    "min_p": (WARM, {"min_p": "0.6"}), "repetition": (policy(NEW), {"repetition_penalty": "1.7"}),
    "presence": (WARM, {"presence_penalty": "2"}), "frequency": (WARM, {"frequency_penalty": "-2"}),
    "bias": (policy(NEW), {"logit_bias": ((65, Decimal("100")),)}), "grammar": (policy(60), {"grammar": SCHEMA}),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOBS)
def test_sampling_parameter_is_obeyed_and_ignoring_it_is_detected(engine: ExactEngine, model: Artifact, name: str) -> None:
    plain, knob = KNOBS[name]
    without, wanted = asked(model, plain), asked(model, plain, **knob)
    ignored, truth = engine.generate(without), engine.generate(wanted)
    assert verified(engine, wanted, truth) is None
    assert truth.output.token_ids != ignored.output.token_ids
    found = verified(engine, wanted, claimed(wanted, ignored))
    assert found is not None
    first = next(
        i for i, pair in enumerate(zip(truth.output.token_ids, ignored.output.token_ids, strict=False)) if len(set(pair)) > 1
    )
    # The rows are the model's own for these tokens: it is the choice among them that is not the request's.
    assert (found.position, found.kind) == (first, DivergenceClass.SAMPLER)
    assert (found.expected, found.claimed) == (truth.output.token_ids[first], ignored.output.token_ids[first])


LETTERS = tuple((token, Decimal("-100")) for token in (*range(33), *range(127, 264)))
"""Leaves printable ASCII alone, so that a stop string can be made of any tokens."""


@pytest.fixture(scope="module")
def letters(engine: ExactEngine, model: Artifact) -> Generated:
    """A greedy answer in printable ASCII that no stop ends."""
    return engine.generate(asked(model, policy(NEW, stops=()), logit_bias=LETTERS, frequency_penalty=Decimal("2")))


@pytest.mark.parametrize(("first", "length"), [(0, 1), (4, 1), (4, 3), (NEW - 2, 2)])
def test_a_stop_string_ends_the_answer_with_the_token_that_completes_it(
    engine: ExactEngine, model: Artifact, letters: Generated, first: int, length: int
) -> None:
    text = bytes(letters.output.token_ids).decode()
    stop = text[first : first + length]
    end = text.index(stop) + length
    stops = tuple(sorted({stop, "\u2603"}))
    wanted = asked(model, policy(NEW, stops=()), logit_bias=LETTERS, frequency_penalty=Decimal("2"), stop_strings=stops)
    truth = engine.generate(wanted)
    assert (truth.output.token_ids, truth.output.finish_reason) == (letters.output.token_ids[:end], "stop")
    assert verified(engine, wanted, truth) is None
    assert Tokenizer(model).text(truth.output.token_ids, stops) == text[: end - length]
    if end < NEW:
        longer = verified(engine, wanted, claimed(wanted, letters))
        assert longer is not None and (longer.position, longer.kind, longer.expected) == (end, DivergenceClass.LENGTH, None)
    shorter = Generated(output_for(wanted, truth.output.token_ids[: end - 1], "stop"), truth.leaves[: end - 1])
    found = verified(engine, wanted, shorter)
    assert found is not None and (found.position, found.kind) == (end - 1, DivergenceClass.LENGTH)


def test_a_schema_shapes_the_answer_and_ends_it(engine: ExactEngine, model: Artifact) -> None:
    for decode in (policy(60), policy(60, "1.5"), policy(60, stops=())):
        wanted = asked(model, decode, grammar=SCHEMA)
        truth = engine.generate(wanted)
        value = json.loads(Tokenizer(model).text(truth.output.token_ids))
        assert truth.output.finish_reason == "stop" and value["mood"] in ("calm", "glad") and isinstance(value["sure"], bool)
        assert verified(engine, wanted, truth) is None


def test_schema_answer_that_may_end_or_go_on_is_verified_at_its_end(engine: ExactEngine, model: Artifact) -> None:
    digits = asked(model, policy(NEW, "1"), grammar='{"type":"integer","minimum":1}', logit_bias=((257, Decimal("3")),))
    reasons = set()
    for seed in range(6):
        wanted = dataclasses.replace(digits, seed=U64(seed))
        truth = engine.generate(wanted)
        reasons.add(truth.output.finish_reason)
        assert verified(engine, wanted, truth) is None
        assert truth.output.token_ids[-1] == 257 or truth.output.finish_reason == "length"
    assert "stop" in reasons


@pytest.mark.parametrize("grammar", ["{", '{"enum":[]}', '{"multipleOf":999983}'])
def test_a_refused_schema_ends_the_answer_before_its_first_token(engine: ExactEngine, model: Artifact, grammar: str) -> None:
    wanted = asked(model, policy(NEW), grammar=grammar)
    truth = engine.generate(wanted)
    assert (truth.output.token_ids, truth.output.finish_reason) == ((), "error")
    assert verified(engine, wanted, truth) is None
    found = verified(engine, wanted, claimed(wanted, engine.generate(asked(model, policy(NEW)))))
    assert found is not None and (found.position, found.expected) == (0, None)


def test_logprobs_are_part_of_what_is_verified(engine: ExactEngine, model: Artifact) -> None:
    wanted = asked(model, WARM, logprobs=3)
    truth = engine.generate(wanted)
    logprobs = truth.output.logprobs
    assert logprobs is not None and all(len(each.top) == 3 for each in logprobs)
    assert verified(engine, wanted, truth) is None
    changed = dataclasses.replace(logprobs[4], chosen=Decimal("-0.5"))
    lie = dataclasses.replace(truth.output, logprobs=(*logprobs[:4], changed, *logprobs[5:]))
    for output in (lie, dataclasses.replace(truth.output, logprobs=None)):
        verification = engine.verify(wanted, output, out_hash(output.tokens_hash, truth.trace_root))
        assert verification.truth == truth and verification.divergence is not None
        assert verification.divergence.kind is DivergenceClass.STOP


def test_every_choice_of_an_answer_is_an_independent_answer(engine: ExactEngine, model: Artifact) -> None:
    first = asked(model, WARM)
    choices = [dataclasses.replace(first, seed=choice_seed(first.seed, i)) for i in range(3)]
    answers = [engine.generate(choice) for choice in choices]
    assert len({answer.output.token_ids for answer in answers}) == 3
    claims = [(choice, answer.output, answer.out_hash) for choice, answer in zip(choices, answers, strict=True)]
    assert engine.verify_many(claims) == [Verification(answer, None, 1) for answer in answers]
    swapped = verified(engine, choices[1], claimed(choices[1], answers[2]))
    assert swapped is not None and swapped.kind is DivergenceClass.SAMPLER


def test_every_sampling_parameter_uses_only_profile_operations(model: Artifact, engine: ExactEngine) -> None:
    knobs = dict(
        min_p=Decimal("0.01"), repetition_penalty=Decimal("1.2"), presence_penalty=Decimal("0.3"),
        frequency_penalty=Decimal("0.2"), logit_bias=((70, Decimal("2")),), stop_strings=("zz",), logprobs=5,
        grammar='{"type":"string"}',
    )  # fmt: skip
    wanted = asked(model, policy(NEW, "0.9", "0.8", 200), **knobs)
    guarded = ExactEngine(model, backend="float64", guard=True)
    assert guarded.generate(wanted) == engine.generate(wanted)

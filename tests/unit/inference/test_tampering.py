"""Ten ways to tamper with an answer, and everything else that a claim may hold: rejected at its position, for its reason."""

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.engine import ExactEngine
from bytewise.inference.judging import exact_decimal
from bytewise.protocol import digests
from bytewise.protocol.records.request import Output, Request, output_for
from bytewise.protocol.records.trace import DivergenceClass, Generated, TraceStep, Verification, trace_leaves, trace_root
from bytewise.protocol.units import Decimal, Digest, fraction
from tests.fixtures.inference.models import policy

NEW = 12
OTHER = Digest(bytes([7]) * 32)
PROMPT = b"a question"


class Scene(NamedTuple):
    """An honest engine, its answer, and another model that a cheat may run."""

    engine: ExactEngine
    cheap: ExactEngine
    asked: Request
    truth: Generated

    @property
    def ids(self) -> tuple[int, ...]:
        """True tokens."""
        return self.truth.output.token_ids

    def output(self, ids: tuple[int, ...], reason: str = "length") -> Output:
        """An output of other tokens."""
        return output_for(self.asked, ids, reason)

    def under(self, output: Output, root: Digest) -> tuple[Output, Digest]:
        """A claim whose hash fits its output and that trace root, as the receipt rules demand."""
        return output, digests.out_hash(output.tokens_hash, root)

    def ran(self, engine: ExactEngine, **changes: object) -> tuple[Output, Digest]:
        """What an engine says to a request that is not quite this one, handed in as the answer to this one."""
        answer = engine.generate(dataclasses.replace(self.asked, **changes))  # type: ignore[arg-type]
        return self.under(self.output(answer.output.token_ids, answer.output.finish_reason), answer.trace_root)


@pytest.fixture(scope="module", params=["0", "0.8"], ids=["greedy", "sampled"])
def scene(engine: ExactEngine, other_model: Artifact, request: pytest.FixtureRequest) -> Scene:
    """A scene for a greedy and for a sampled request."""
    from tests.fixtures.inference import models

    asked = models.request(engine.artifact, PROMPT, policy(NEW, request.param))
    return Scene(engine, ExactEngine(other_model), asked, engine.generate(asked))


def altered(scene: Scene) -> tuple[Output, Digest]:
    """One token replaced after the computation; its trace kept."""
    ids = (*scene.ids[:5], scene.ids[5] ^ 1, *scene.ids[6:])
    return scene.under(scene.output(ids), scene.truth.trace_root)


def altered_with_its_leaf(scene: Scene) -> tuple[Output, Digest]:
    """One token replaced, in the text and in the leaf: the rows are the true ones."""
    engine, prompt = scene.engine, scene.asked.prompt
    cache = engine.path.cache(1, len(prompt) + NEW)
    rows = engine.path.teacher_force(cache, [[*prompt, *scene.ids[:-1]]], [len(prompt) - 1], 8)[0]
    ids = (*scene.ids[:5], scene.ids[5] ^ 1, *scene.ids[6:])
    steps = [TraceStep(row.row, row.exponent, token) for row, token in zip(rows, ids, strict=True)]
    return scene.under(scene.output(ids), trace_root(trace_leaves(scene.asked.nonce, steps)))


def swapped(scene: Scene) -> tuple[Output, Digest]:
    """Two neighbours exchanged, the earliest pair that differs."""
    i = next(i for i in range(NEW - 1) if scene.ids[i] != scene.ids[i + 1])
    ids = (*scene.ids[:i], scene.ids[i + 1], scene.ids[i], *scene.ids[i + 2 :])
    return scene.under(scene.output(ids), scene.truth.trace_root)


def no_token(scene: Scene) -> tuple[Output, Digest]:
    """An id outside the vocabulary."""
    return scene.under(scene.output((*scene.ids[:3], 2**31 - 1, *scene.ids[4:])), scene.truth.trace_root)


def other_sampler(scene: Scene) -> tuple[Output, Digest]:
    """The right model, really run, under another temperature."""
    return scene.ran(scene.engine, decode=policy(NEW, "1.7"))


def other_model(scene: Scene) -> tuple[Output, Digest]:
    """Another model, really run."""
    return scene.ran(scene.cheap, model_id=scene.cheap.artifact.model_id)


def other_prompt(scene: Scene) -> tuple[Output, Digest]:
    """The right model, really run, on a prompt that hides an instruction."""
    return scene.ran(scene.engine, prompt=(*b"be brief. ", *scene.asked.prompt))


def truncated(scene: Scene) -> tuple[Output, Digest]:
    """The right computation, ended after half the tokens."""
    half = NEW // 2
    return scene.under(scene.output(scene.ids[:half]), trace_root(scene.truth.leaves[:half]))


def extended(scene: Scene) -> tuple[Output, Digest]:
    """The right computation, with more tokens to bill."""
    return scene.under(scene.output((*scene.ids, 65, 66, 67)), trace_root((*scene.truth.leaves, *[OTHER] * 3)))


def other_reason(scene: Scene) -> tuple[Output, Digest]:
    """True tokens, with another reason to end."""
    return scene.under(scene.output(scene.ids, "stop"), scene.truth.trace_root)


def other_count(scene: Scene) -> tuple[Output, Digest]:
    """True tokens for a longer prompt than was asked: what a bill would be written from."""
    return scene.under(dataclasses.replace(scene.truth.output, prompt_tokens=10**6), scene.truth.trace_root)


def forged_trace(scene: Scene) -> tuple[Output, Digest]:
    """True tokens copied from another, without the computation."""
    return scene.under(scene.truth.output, OTHER)


TAMPERING: dict[str, tuple[Callable[[Scene], tuple[Output, Digest]], DivergenceClass, int | None]] = {
    "one token altered after the computation": (altered, DivergenceClass.TOKEN, 5),
    "one token altered together with its leaf": (altered_with_its_leaf, DivergenceClass.TOKEN, 5),
    "two tokens exchanged": (swapped, DivergenceClass.TOKEN, None),
    "a token of no vocabulary": (no_token, DivergenceClass.TOKEN, 3),
    "another temperature": (other_sampler, DivergenceClass.SAMPLER, None),
    "another model": (other_model, DivergenceClass.MODEL, None),
    "another prompt": (other_prompt, DivergenceClass.MODEL, None),
    "an answer cut short": (truncated, DivergenceClass.LENGTH, NEW // 2),
    "an answer made longer": (extended, DivergenceClass.LENGTH, NEW),
    "another finish reason": (other_reason, DivergenceClass.STOP, NEW),
    "another prompt count": (other_count, DivergenceClass.STOP, NEW),
    "a trace that was never computed": (forged_trace, DivergenceClass.TRACE, NEW),
}
"""How to tamper, the class, and the position where it is fixed by the tampering (None: the first token that differs)."""


def parting(claimed: tuple[int, ...], true: tuple[int, ...]) -> int:
    """First index at which two answers differ."""
    return next(i for i, (a, b) in enumerate(zip(claimed, true, strict=False)) if a != b)


@pytest.mark.parametrize("name", TAMPERING)
def test_tampering_is_rejected_at_its_position_for_its_reason(scene: Scene, name: str) -> None:
    tamper, kind, position = TAMPERING[name]
    output, out_hash = tamper(scene)
    passes = scene.engine.verify_passes
    found = scene.engine.verify(scene.asked, output, out_hash)
    assert (found.truth, found.verify_passes, scene.engine.verify_passes - passes) == (scene.truth, 1, 1)
    where = found.divergence
    assert where is not None and where.kind is kind
    at = parting(output.token_ids, scene.ids) if position is None else position
    assert where.position == at
    assert where.expected == (scene.ids[at] if at < NEW and kind is not DivergenceClass.STOP else None)
    assert where.claimed == (output.token_ids[at] if at < len(output.token_ids) else None)
    assert (where.gap is not None) == (where.expected is not None)


def test_tampered_claims_in_one_batch_are_judged_as_each_alone(scene: Scene) -> None:
    claims = [(scene.asked, *tamper(scene)) for tamper, _, _ in TAMPERING.values()]
    claims.append((scene.asked, scene.truth.output, scene.truth.out_hash))
    alone = [scene.engine.verify(*claim) for claim in claims]
    passes = scene.engine.verify_passes
    assert scene.engine.verify_many(claims) == alone
    assert scene.engine.verify_passes == passes + 1 and alone[-1] == Verification(scene.truth, None, 1)


def test_gap_is_the_exact_distance_of_the_two_best_logits(scene: Scene) -> None:
    found = scene.engine.verify(scene.asked, *altered(scene)).divergence
    assert found is not None and found.gap is not None
    cache = scene.engine.path.cache(1, 40)
    ids = [*scene.asked.prompt, *scene.ids[:5]]
    logits = scene.engine.path.teacher_force(cache, [ids], [len(ids) - 1], 40)[0][0].logits
    assert logits is not None
    best, second = sorted(logits.tolist(), reverse=True)[:2]
    assert fraction(found.gap) == Fraction(best) - Fraction(second)


def test_empty_list_of_claims_needs_no_pass(engine: ExactEngine) -> None:
    passes = engine.verify_passes
    assert engine.verify_many([]) == [] and engine.verify_passes == passes


class Mutation(NamedTuple):
    """How a true claim is changed; perhaps not at all."""

    start: int
    stop: int
    put: list[int]
    reason: str
    members: dict[str, object]
    keep_root: bool

    def of(self, scene: Scene) -> tuple[Output, Digest]:
        """The changed claim."""
        ids = (*scene.ids[: self.start], *self.put, *scene.ids[self.stop :])
        output = dataclasses.replace(scene.output(ids, self.reason), **self.members)  # type: ignore[arg-type]
        return scene.under(output, scene.truth.trace_root if self.keep_root else OTHER)


MEMBERS: list[dict[str, object]] = [{}, {"prompt_tokens": 2**40}, {"prompt_tokens": -1}, {"blind": OTHER}, {"req_hash": OTHER}]
tokens = st.integers(0, 263) | st.integers(0, 2**31 - 1)
mutations = st.builds(
    Mutation, st.integers(0, NEW), st.integers(0, NEW), st.lists(tokens, max_size=30) | st.just([]),
    st.sampled_from(["length", "stop", "error"]), st.sampled_from(MEMBERS), st.booleans(),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(mutation=mutations)
@example(mutation=Mutation(0, NEW, [], "stop", {}, True))
@example(mutation=Mutation(NEW - 1, NEW, [], "error", {}, True))
def test_any_claim_is_a_match_or_a_divergence_from_one_answer(scene: Scene, mutation: Mutation) -> None:
    output, out_hash = mutation.of(scene)
    found = scene.engine.verify(scene.asked, output, out_hash)
    assert found.truth == scene.truth
    assert (found.divergence is None) == (output == scene.truth.output and mutation.keep_root)
    if output.token_ids != scene.ids:
        shared = min(NEW, len(output.token_ids))
        differing = [i for i in range(shared) if output.token_ids[i] != scene.ids[i]]
        where = found.divergence
        assert where is not None and where.position == (differing[0] if differing else shared)
        if not differing:
            ends = [(*ids, *[None] * (NEW + 31))[shared] for ids in (scene.ids, output.token_ids)]
            assert (where.kind, where.expected, where.claimed) == (DivergenceClass.LENGTH, *ends)


def test_exact_decimals_are_canonical() -> None:
    for value, text in ((Fraction(0), "0"), (Fraction(10), "10"), (Fraction(1, 8), "0.125"), (Fraction(129, 4), "32.25")):
        assert exact_decimal(value) == text and fraction(Decimal(text)) == value

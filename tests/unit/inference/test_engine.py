"""What the engine says of tampered claims, of claims by other models, and of requests that it cannot run."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.engine import ExactEngine, memory_bounded
from bytewise.inference.exact.matmul import Float64Backend
from bytewise.inference.torch_path import Runner
from bytewise.protocol.errors.actors import CannotExecute
from bytewise.protocol.errors.records import OutsideLimits
from bytewise.protocol.records.request import Output, Request, output_for
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.records.trace import Divergence, DivergenceClass, Generated, Verification
from bytewise.protocol.units import Digest
from tests.fixtures.inference.altered_artifact import altered
from tests.fixtures.inference.models import policy, request

NEW = 12
OTHER_HASH = Digest(bytes([7]) * 32)


class OffByOne(Float64Backend):
    """A processor with a fault."""

    def product(self, values: Tensor, packed: Tensor) -> Tensor:
        """One too many."""
        return super().product(values, packed) + 1.0


@pytest.fixture(scope="module", params=[("0", "1"), ("0.8", "0.9")], ids=["greedy", "sampled"])
def asked(model: Artifact, request: pytest.FixtureRequest) -> Request:
    """A request to the model."""
    from tests.fixtures.inference import models

    return models.request(model, b"a question", policy(NEW, *request.param))


@pytest.fixture(scope="module")
def truth(engine: ExactEngine, asked: Request) -> Generated:
    """Its answer."""
    return engine.generate(asked)


def judged(engine: ExactEngine, asked: Request, truth: Generated, claimed: Output) -> Divergence:
    """The divergence of a false claim; the true answer always comes with it, from one pass."""
    before = engine.verify_passes
    verification = engine.verify(asked, claimed, truth.out_hash)
    assert (verification.truth, verification.verify_passes, engine.verify_passes - before) == (truth, 1, 1)
    assert verification.divergence is not None
    return verification.divergence


def test_answer_that_ends_at_a_stop_token_matches_and_cannot_be_prolonged(engine: ExactEngine, model: Artifact) -> None:
    free = engine.generate(request(model, b"stops", policy(NEW, stops=())))
    stop = free.output.token_ids[5]
    asked = request(model, b"stops", policy(NEW, stops=(stop,)))
    truth = engine.generate(asked)
    end = free.output.token_ids.index(stop) + 1
    assert (truth.output.finish_reason, truth.output.token_ids) == ("stop", free.output.token_ids[:end])
    assert engine.verify(asked, truth.output, truth.out_hash).divergence is None
    found = judged(engine, asked, truth, output_for(asked, free.output.token_ids, "length"))
    assert found.position == end and found.kind is DivergenceClass.LENGTH


def test_divergence_is_confirmed_by_a_second_backend(engine: ExactEngine, asked: Request, truth: Generated) -> None:
    wrong = engine.verify(asked, output_for(asked, truth.output.token_ids[:4], "stop"), truth.out_hash)
    second, passes = engine.second_backend(), engine.verify_passes
    before = second.verify_passes
    assert engine.confirm(asked, wrong) is wrong
    assert second.backend != engine.backend
    assert (second.verify_passes - before, engine.verify_passes - passes) == (1, 0)


def test_seat_whose_backends_disagree_cannot_execute(engine: ExactEngine, asked: Request, truth: Generated) -> None:
    tokens = (*truth.output.token_ids[:4], truth.output.token_ids[4] ^ 1, *truth.output.token_ids[5:])
    hardware_fault = Generated(output_for(asked, tokens, "length"), truth.leaves)
    divergence = Divergence(4, DivergenceClass.TOKEN, tokens[4], truth.output.token_ids[4])
    with pytest.raises(CannotExecute, match="disagree at 4"):
        engine.confirm(asked, Verification(hardware_fault, divergence, 1))


def test_seat_whose_vectors_fail_at_the_confirmation_cannot_execute(model: Artifact, asked: Request, truth: Generated) -> None:
    """A machine that was exact when the engine started, and is not when a conviction hangs on it."""
    engine = ExactEngine(model)
    wrong = engine.verify(asked, output_for(asked, truth.output.token_ids[:4], "stop"), truth.out_hash)
    engine.path = Runner(model, OffByOne())
    with pytest.raises(CannotExecute, match="known answer") as caught:
        engine.confirm(asked, wrong)
    assert caught.value.values[1] is CannotReason.BACKEND


def test_error_other_than_memory_exhaustion_is_unchanged() -> None:
    with pytest.raises(RuntimeError, match="shapes"), memory_bounded():
        raise RuntimeError("shapes do not fit")


def test_match_needs_no_second_backend(model: Artifact, asked: Request, truth: Generated) -> None:
    fresh = ExactEngine(model)
    match = Verification(truth, None, 1)
    assert fresh.confirm(asked, match) is match


def test_seed_changes_the_draw_and_nonce_does_not(engine: ExactEngine, model: Artifact) -> None:
    warm = policy(NEW, "1")
    first, second = (engine.generate(request(model, b"seeds", warm, seed)) for seed in (1, 2))
    assert first.output.token_ids != second.output.token_ids
    renamed = engine.generate(dataclasses.replace(request(model, b"seeds", warm, 1), nonce=OTHER_HASH))
    assert renamed.output.token_ids == first.output.token_ids
    assert renamed.out_hash != first.out_hash and renamed.leaves[0] != first.leaves[0]


def test_request_outside_the_model_is_refused(engine: ExactEngine, model: Artifact) -> None:
    with pytest.raises(OutsideLimits, match="prompt token"):
        engine.generate(request(model, [264], policy(4)))
    with pytest.raises(OutsideLimits, match="context"):
        engine.generate(request(model, [1] * 250, policy(7)))
    assert engine.generate(request(model, [1] * 250, policy(6))).output.completion_tokens == 6
    with pytest.raises(CannotExecute, match="is not loaded"):
        engine.generate(dataclasses.replace(request(model, [1], policy(1)), model_id=OTHER_HASH))


def test_row_that_is_not_finite_ends_the_answer_with_an_error(model: Artifact, tmp_path: Path) -> None:
    broken = altered(model, tmp_path / "artifact", {"norm": torch.full_like(model.tensors["norm"], 3e38)})
    engine, asked = ExactEngine(broken), request(broken, b"overflow", policy(NEW))
    answer = engine.generate(asked)
    assert (answer.output.token_ids, answer.output.finish_reason) == ((), "error")
    assert engine.verify(asked, answer.output, answer.out_hash).divergence is None
    found = judged(engine, asked, answer, output_for(asked, (65, 66), "length"))
    assert found == Divergence(0, DivergenceClass.LENGTH, None, 65)

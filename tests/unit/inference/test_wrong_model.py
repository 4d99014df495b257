"""A model that is wrong in one number: what it takes to be caught, at which token; and arithmetic that breaks its proof."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.engine import ExactEngine
from bytewise.protocol import digests
from bytewise.protocol.errors.actors import NotExact
from bytewise.protocol.records.request import output_for
from bytewise.protocol.records.trace import DivergenceClass, Verification
from tests.fixtures.inference.altered_artifact import altered
from tests.fixtures.inference.models import policy, request

PROMPT = b"is this the model?"
NEW = 10


def one_up(tensor: Tensor, *index: int) -> Tensor:
    """One integer of a tensor changed by one; towards zero where it is the largest."""
    changed = tensor.clone()
    changed[index] += 1 if int(changed[index]) < 127 else -1
    return changed


def turned(tensor: Tensor, row: int) -> Tensor:
    """The largest integer of a row with the other sign."""
    changed = tensor.clone()
    changed[row, int(tensor[row].abs().argmax())] *= -1
    return changed


def doubled(tensor: Tensor, index: int) -> Tensor:
    """One number of a tensor doubled."""
    changed = tensor.clone()
    changed[index] *= 2
    return changed


def judged(engine: ExactEngine, wrong: Artifact, new: int) -> Verification:
    """A wrong model's answer, claimed to be the right one's."""
    asked = request(engine.artifact, PROMPT, policy(new))
    cheat = ExactEngine(wrong)
    lie = cheat.generate(dataclasses.replace(asked, model_id=wrong.model_id))
    cheat.close()
    claimed = output_for(asked, lie.output.token_ids, lie.output.finish_reason)
    return engine.verify(asked, claimed, digests.out_hash(claimed.tokens_hash, lie.trace_root))


FLIPS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "one weight of a query, by one": ("layers.0.q_proj", lambda tensor: one_up(tensor, 3, 5)),
    "one weight of a value, by one": ("layers.0.v_proj", lambda tensor: one_up(tensor, 3, 5)),
    "one weight of the last layer, its sign": ("layers.1.down_proj", lambda tensor: turned(tensor, 7)),
    "one scale of a gate, doubled": ("layers.1.gate_proj.scale", lambda tensor: doubled(tensor, 2)),
    "one weight of the last norm, doubled": ("norm", lambda tensor: doubled(tensor, 9)),
}


@pytest.mark.parametrize("name", FLIPS)
def test_one_wrong_weight_is_detected_at_the_first_token(engine: ExactEngine, name: str, tmp_path: Path) -> None:
    """An answer of one token is enough: where the token is the right one all the same, the trace is not."""
    tensor, change = FLIPS[name]
    wrong = altered(engine.artifact, tmp_path / "wrong", {tensor: change(engine.artifact.tensors[tensor])})
    first = judged(engine, wrong, 1).divergence
    assert first is not None
    assert (first.position, first.kind) in ((0, DivergenceClass.MODEL), (1, DivergenceClass.TRACE))
    longer = judged(engine, wrong, NEW).divergence
    assert longer is not None and longer.kind in (DivergenceClass.MODEL, DivergenceClass.TRACE)


def test_wrong_weight_outside_every_row_and_choice_changes_no_byte(engine: ExactEngine, tmp_path: Path) -> None:
    """The trace holds what enters the head, in 14 bits. Wrong weights of the head itself show once they change a choice."""
    head = engine.artifact.tensors["head"]
    asked = request(engine.artifact, PROMPT, policy(1))
    (token,) = engine.generate(asked).output.token_ids
    loser = altered(engine.artifact, tmp_path / "loser", {"head": one_up(head, (token + 1) % 200, 4)})
    assert judged(engine, loser, 1).divergence is None
    scale = engine.artifact.tensors["head.scale"].clone()
    scale[token] *= -1
    winner = altered(engine.artifact, tmp_path / "winner", {"head.scale": scale})
    found = judged(engine, winner, 1).divergence
    assert found is not None
    # The rows are this model's: all that is wrong is the choice among its logits, and that is what the verifier can show.
    assert (found.position, found.kind, found.expected) == (0, DivergenceClass.SAMPLER, token)


def test_head_row_above_the_proven_bound_is_a_bug(model: Artifact, tmp_path: Path) -> None:
    huge = torch.full_like(model.tensors["norm"], 2.0**62)
    engine = ExactEngine(altered(model, tmp_path / "norm", {"norm": huge}), path="torch", backend="float64")
    asked = request(engine.artifact, PROMPT, policy(2))
    with pytest.raises(NotExact, match=r"head row with E = \d+, proven to be at most"):
        engine.generate(asked)
    with pytest.raises(NotExact, match="head row"):
        engine.verify(asked, output_for(asked, (1, 2), "length"), engine.artifact.model_id)


def test_layer_above_the_proven_bound_is_a_bug_and_named(model: Artifact, tmp_path: Path) -> None:
    huge = torch.full_like(model.tensors["layers.1.down_proj.scale"], 2.0**70)
    wrong = altered(model, tmp_path / "layer", {"layers.1.down_proj.scale": huge})
    with pytest.raises(NotExact, match=r"layer 1 with E = \d+, proven to be at most"):
        ExactEngine(wrong, path="torch", backend="float64")

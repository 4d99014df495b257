"""Vectors of a model: the same on every path of the engine, others for a model with one other weight."""

import dataclasses

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.engine import ExactEngine
from bytewise.inference.known_answers.operations import PROFILE_DIGEST
from bytewise.inference.profiles import vectors_of
from bytewise.protocol.records.model_vectors import KINDS
from bytewise.protocol.units import ZERO_DIGEST


def test_vectors_are_the_same_on_every_path(model: Artifact, engine: ExactEngine) -> None:
    asked: list[str] = []
    found = vectors_of(engine, lambda name, _done, _total: asked.append(name))
    assert asked == list(KINDS) and len(found.answers) == len(set(found.answers)) == len(KINDS)
    assert (found.model_id, found.environment, found.profile_vectors) == (model.model_id, ZERO_DIGEST, PROFILE_DIGEST)
    assert vectors_of(ExactEngine(model, path="torch")).differences(found) == ()


def test_one_other_weight_changes_vectors_by_name(model: Artifact, engine: ExactEngine) -> None:
    name = next(name for name, tensor in model.tensors.items() if tensor.dim() == 2 and "embed" not in name)
    changed = model.tensors[name].clone()
    changed[0, 0] = changed[0, 0] + (1 if changed[0, 0] < 1 else -1)
    other = dataclasses.replace(model, tensors={**model.tensors, name: changed})
    assert other.model_id == model.model_id, "its files would not fit: this is a machine whose memory errs"
    differing = vectors_of(ExactEngine(other)).differences(vectors_of(engine))
    assert differing and all(each.startswith("vector ") and "another computation" in each for each in differing)

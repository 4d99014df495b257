"""The bound of a finished artifact, proven again from its own integers: what conversion did, without the checkpoint."""

from collections.abc import Iterator
from fractions import Fraction

import torch
from torch import Tensor

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.artifact.families import linears, norms
from bytewise.inference.artifact.weights import BLOCK, Rounded
from bytewise.inference.convert.bound import Bounds, LayerReach, Reach
from bytewise.inference.determinism import fixed
from bytewise.protocol.errors import ArtifactMismatch, UnsupportedModel


def verify_bound(artifact: Artifact) -> None:
    """`ArtifactMismatch` unless the manifest's bound is the one that the weights prove.

    Reads every weight, which takes longer than hashing it: loading trusts the bound, `bytewise model check` does not.
    `NotExact` where floats are not those of the profile.
    """
    stated = artifact.manifest.bound
    try:
        with fixed(torch.get_num_threads()):
            proven = bound_of(artifact)
    except UnsupportedModel as error:
        raise ArtifactMismatch(artifact.name, f"bound: {error}") from None
    if proven != stated:
        raise ArtifactMismatch(
            artifact.name, f"the manifest says that no activation's E is above {stated}, the weights say {proven}"
        )


def bound_of(artifact: Artifact) -> int:
    """Largest E that an activation can have; `UnsupportedModel` names an operation that may exceed 2^60."""
    shape, tensors = artifact.manifest.architecture, artifact.tensors
    embedding = Fraction(_largest(tensors["embedding"])) * Fraction(float(tensors.get("embedding_scale", torch.ones(1))))
    turn = max(_largest(tensor) for name, tensor in tensors.items() if name.startswith("rope."))
    bounds = Bounds(shape, embedding, turn, float(tensors["attention_scale"]))
    for index in range(shape.layers):
        reach, prefix = LayerReach(), f"layers.{index}."
        for linear in linears(shape, index):
            reach.linears[linear.name.removeprefix(prefix)] = _reach(artifact, linear.name)
        for norm in norms(shape, index):
            reach.gains[norm.name.removeprefix(prefix)] = _largest(tensors[norm.name])
        bounds.layer(index, reach)
    return bounds.head(_reach(artifact, "head"), _largest(tensors["norm"]))


def _reach(artifact: Artifact, name: str) -> Reach:
    reach, bias = Reach(), artifact.tensors.get(f"{name}.bias")
    for rounded in _rounded(artifact, name):
        reach.add(rounded)
    if bias is not None:
        reach.add_bias(bias)
    return reach


def _rounded(artifact: Artifact, name: str) -> Iterator[Rounded]:
    """The integers of a linear layer, some rows at a time."""
    high, low, scale = (artifact.tensors.get(f"{name}{suffix}") for suffix in ("", ".low", ".scale"))
    assert high is not None and scale is not None, name
    step = max(1, BLOCK // high.shape[1])
    for start in range(0, len(high), step):
        integers = high[start : start + step].to(torch.float32)
        if low is not None:
            integers = integers * 256 + low[start : start + step]
        yield Rounded(integers, scale[start : start + step])


def _largest(tensor: Tensor) -> float:
    step = max(1, BLOCK // max(1, tensor[0].numel()))
    return max(float(tensor[start : start + step].abs().amax()) for start in range(0, len(tensor), step))

"""The C engine's choice of the largest logit: that of the sampler, also among equals, and logits computed again are the same."""

import dataclasses

import pytest
import torch
from torch import Tensor

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.determinism import fixed
from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.known_answers import known_models
from bytewise.inference.native.library import kernels
from bytewise.inference.native.path import NativePath
from bytewise.inference.sampling.sampler import greedy
from bytewise.protocol.errors.actors import CannotExecute

pytestmark = pytest.mark.skipif(not kernels(), reason="no compiler here: the C engine was not built")

PROMPT = [5, 9, 1, 33, 60, 2, 5, 5, 17, 40, 41, 8, 63]


def altered(**tensors: Tensor) -> Artifact:
    """A model in memory (width 24, vocabulary 64) with another head."""
    model = known_models.built_model("bias and window")
    given = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    return dataclasses.replace(model, tensors=dict(model.tensors) | given)


def rows(model: Artifact, kernel: str, threads: int, logits: bool) -> list[HeadRow]:
    """All rows of the prompt in one call, and one more token by itself; each row's logits are looked at before the path ends."""
    with fixed(1):
        path = NativePath(model, kernel=kernel, threads=threads)
        cache = path.cache(1, 16)
        found = path.teacher_force(cache, [PROMPT], [0], 64, logits)[0]
        found.append(path.feed(cache, 7, len(PROMPT), logits))
        found = [dataclasses.replace(row, said=row.logits) for row in found]
        path.close()
    return found


@pytest.mark.parametrize("kernel", kernels())
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("distinct", [64, 16, 1])
def test_first_of_equal_largest_logits_is_chosen(kernel: str, threads: int, distinct: int) -> None:
    plain = known_models.built_model("bias and window")
    head, scale = (plain.tensors[name][:distinct] for name in ("head", "head.scale"))
    repeated = altered(head=head.repeat(64 // distinct, 1), head__scale=scale.repeat(64 // distinct))
    kept, asked = rows(repeated, kernel, threads, True), rows(repeated, kernel, threads, False)
    for one, other in zip(kept, asked, strict=True):
        assert one.logits is not None and other.logits is not None
        assert one.logits.numpy().tobytes() == other.logits.numpy().tobytes()
        assert one.chosen == other.chosen == greedy(one.logits[None])[0]
        assert one.chosen < distinct


@pytest.mark.parametrize("kernel", kernels())
@pytest.mark.parametrize("token", [0, 17, 63])
def test_one_logit_that_is_not_finite_ends_the_answer(kernel: str, token: int) -> None:
    scale = torch.ones(64)
    scale[token] = torch.inf
    for logits in (True, False):
        found = rows(altered(head__scale=scale), kernel, 2, logits)
        assert all(row.best is None and row.logits is None for row in found)


def test_closed_path_cannot_recompute_logits() -> None:
    with fixed(1):
        path = NativePath(known_models.built_model("bias and window"))
        row = path.feed(path.cache(1, 2), 5, 0, False)
        path.close()
    with pytest.raises(CannotExecute, match="closed"):
        assert row.logits is not None

"""The known models: golden rows that Python fractions give too, and what happens to a path that gives others."""

import json
import struct
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.backend_selection import open_path, other_backend
from bytewise.inference.determinism import fixed
from bytewise.inference.exact import elementwise
from bytewise.inference.exact.matmul import BACKENDS, Backend, Float64Backend
from bytewise.inference.known_answers import known_models
from bytewise.inference.known_answers.operations import MODEL_DIGESTS, PROFILE_DIGEST
from bytewise.inference.native.library import kernels
from bytewise.inference.native.path import NativePath, missing_feature
from bytewise.inference.torch_path import Runner
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import CannotExecute, NotExact
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.units import Digest
from tests.reference.engine.files import Files
from tests.reference.engine.model import SecondEngine

FEW = 7
"""Tokens that the second engine runs: more than the windows hold."""


def as_files(model: Artifact) -> Files:
    """The model as the second engine reads it."""

    def numbers(tensor: Tensor) -> list[Any]:
        values = tensor.tolist()
        if tensor.dtype == torch.int8:
            return values
        return [[Fraction(x) for x in row] if isinstance(row, list) else Fraction(row) for row in values]

    shape = json.loads(encode(model.manifest))["architecture"]
    return Files(shape, {name: numbers(tensor) for name, tensor in model.tensors.items()})


@pytest.mark.parametrize("name", known_models.KNOWN_MODELS)
def test_rows_of_a_known_model_equal_those_computed_with_fractions(name: str) -> None:
    model, tokens = known_models.built_model(name), known_models.tokens_of()[:FEW]
    second = SecondEngine(as_files(model))
    with fixed(1):
        runner = Runner(model, Float64Backend())
        rows = runner.teacher_force(runner.cache(1, FEW), [tokens], [0])[0]
    for token, row in zip(tokens, rows, strict=True):
        step = second.step(token)
        integers = struct.pack(f"<{len(step.integers)}h", *step.integers)
        assert known_models.parts_of(row) == (integers, step.exponent, struct.pack(f"<{len(step.logits)}f", *step.logits))


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_golden_rows_hold_on_every_backend(backend: Backend) -> None:
    """Of two models that have two limbs, norms of heads, experts and a router between them."""
    with fixed(1):
        opened = known_models.verify(lambda known: Runner(known, backend), lambda shape: shape.family in ("qwen3", "mixtral"))
    assert opened == 2


def test_torch_path_runs_all_known_models() -> None:
    assert MODEL_DIGESTS.keys() == known_models.KNOWN_MODELS.keys()
    with fixed(1):
        assert Runner(known_models.built_model("softcaps"), Float64Backend()).vectors() == PROFILE_DIGEST


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", kernels())
def test_golden_rows_hold_on_every_kernel(kernel: str, threads: int) -> None:
    known = known_models.built_model("wide scores")
    with fixed(threads):
        path = NativePath(known, kernel=kernel, threads=threads)
        assert path.vectors() == PROFILE_DIGEST
        assert known_models.digest_on(path) == MODEL_DIGESTS["wide scores"]
        path.close()


def test_wide_scores_are_wider_than_exp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is there to make attention weights vanish: without one below exp's range it would show nothing."""
    seen: list[float] = []
    exact = elementwise.exp

    def watched(t: Tensor) -> Tensor:
        seen.append(float(t[t.isfinite()].min()))
        return exact(t)

    monkeypatch.setattr("bytewise.inference.exact.attention.exp", watched)
    with fixed(1):
        known_models.digest_on(Runner(known_models.built_model("wide scores"), Float64Backend()))
    assert min(seen) < -86


needs_native = pytest.mark.skipif(not kernels(), reason="the native engine is not built")


@needs_native
def test_native_path_with_other_rows_is_replaced_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = known_models.built_model("bias and window")
    with fixed(1):
        assert open_path(model, 1).name.startswith("native-")
        monkeypatch.setitem(MODEL_DIGESTS, "wide scores", Digest(bytes(32)))
        assert open_path(model, 1).name.startswith("torch-")
        with pytest.raises(CannotExecute, match="wide scores") as caught:
            open_path(model, 1, "native")
        assert caught.value.values[1] is CannotReason.BACKEND
        with pytest.raises(NotExact, match="wide scores"):
            Runner(model, Float64Backend()).vectors()


@needs_native
def test_second_path_shares_no_product_with_the_first() -> None:
    with fixed(1):
        native = open_path(known_models.built_model("bias and window"), 1)
        product = open_path(known_models.built_model("experts"), 1, backend=f"native-{kernels()[0]}")
        for first in (native, product):
            assert "native" not in other_backend(first, 1)
        plain = Runner(known_models.built_model("experts"), Float64Backend())
        assert f"torch-{other_backend(plain, 1)}" != plain.name


def test_model_without_a_native_path_runs_on_torch_or_is_refused_by_name() -> None:
    model = known_models.built_model("softcaps")
    assert missing_feature(model.manifest.architecture)
    with fixed(1):
        assert open_path(model, 1).name.startswith("torch-")
        with pytest.raises(CannotExecute, match=r"lacks family gemma2|no native kernel"):
            open_path(model, 1, "native")
        for path in ("torch", "cuda"):
            with pytest.raises(CannotExecute, match="a kernel is of the native path"):
                open_path(model, 1, path, kernel="scalar")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("warp", None, None), "no path is called warp"),
        (("auto", "quantum", None), "no backend is called quantum"),
        (("native", None, "sse9"), "no native kernel sse9"),
        (("torch", None, "scalar"), "name one of them"),
        (("native", "float64", None), "name one of them"),
    ],
)
def test_unavailable_backend_is_refused_by_name(arguments: tuple[str, str | None, str | None], said: str) -> None:
    with fixed(1), pytest.raises(CannotExecute, match=said):
        open_path(known_models.built_model("bias and window"), 1, *arguments)

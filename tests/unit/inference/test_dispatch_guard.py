"""Planted operations that the profile bans: each is refused by the guard, by name or by its arguments."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import deterministic

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.determinism import fixed
from bytewise.inference.dispatch_guard import guarded
from bytewise.inference.engine import ExactEngine
from bytewise.inference.exact.matmul import Float64Backend
from bytewise.inference.exact.modules import ExactNorm
from bytewise.inference.torch_path import Runner
from bytewise.protocol.errors.actors import NotExact

x = torch.tensor([[0.5, 1.5, -2.0], [3.0, 4.0, 5.5]])
integer = torch.tensor([[1.0, 2.0], [3.0, 127.0]])

BANNED: dict[str, Callable[[], object]] = {
    "library exp": lambda: x.exp(), "library exp2": lambda: x.exp2(), "sigmoid": lambda: x.sigmoid(),
    "silu": lambda: torch.nn.functional.silu(x), "tanh": lambda: x.tanh(), "softmax": lambda: x.softmax(-1),
    "logarithm": lambda: x.abs().log(), "sine": lambda: x.sin(), "cosine": lambda: x.cos(), "reciprocal root": lambda: x.rsqrt(),
    "power": lambda: x.pow(2), "mean": lambda: x.mean(), "ldexp": lambda: torch.ldexp(x, torch.tensor([1])),
    "float32 root": lambda: x.abs().sqrt(), "division by a number": lambda: x / 3.0,
    "division by a tensor without dimensions": lambda: x / torch.tensor(3.0),
    "fused multiply-add": lambda: torch.add(x, x, alpha=3), "addcmul": lambda: torch.addcmul(x, x, x),
    "linear interpolation": lambda: torch.lerp(x, x, 0.5), "float sum": lambda: x.mul(0.1).sum(-1),
    "float cumulated sum": lambda: x.mul(0.1).cumsum(-1), "float product of fractions": lambda: torch.mm(x, x.t().contiguous()),
    "product above 2^24": lambda: torch.mm(integer * 128.0, integer * 128.0),
    "fused product": lambda: torch.addmm(x, torch.ones(2, 2), torch.ones(2, 3)),
    "bfloat16 product": lambda: torch.mm(integer.bfloat16(), integer.bfloat16()), "argmax": lambda: x.argmax(),
    "random numbers": lambda: torch.randn(3), "multinomial": lambda: torch.multinomial(x.abs(), 1),
}  # fmt: skip


PLACES = ("embedding", "norm", "activation", "linear", "rotary")


def module_at(model: Any, place: str) -> Any:
    """A module of a patched transformers model."""
    layer = model.layers[1]
    return {
        "embedding": model.embed_tokens, "norm": layer.input_layernorm, "activation": layer.mlp.act_fn,
        "linear": layer.self_attn.o_proj, "rotary": model.rotary_emb,
    }[place]  # fmt: skip


@pytest.fixture(scope="module")
def runner(model: Artifact) -> Runner:
    """The torch path of the small model."""
    with fixed(1):
        return Runner(model, Float64Backend())


def forward(runner: Runner) -> None:
    """One prefill and one token of decode."""
    cache = runner.cache(1, 4)
    runner.teacher_force(cache, [[1, 2, 3]], [0], 2)
    runner.feed(cache, 4, 3)


@pytest.mark.parametrize("number", range(len(BANNED)), ids=list(BANNED))
def test_banned_operation_planted_in_a_module_of_the_model_is_refused(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    operation = list(BANNED.values())[number]
    module = module_at(runner._model, PLACES[number % len(PLACES)])
    exact = module.forward

    def planted(*args: Any, **kwargs: Any) -> Any:
        operation()
        return exact(*args, **kwargs)

    monkeypatch.setattr(module, "forward", planted)
    with fixed(1):
        forward(runner)
        with pytest.raises(NotExact), guarded(True):
            forward(runner)


def test_engine_whose_model_has_a_planted_operation_never_gets_ready(model: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = ExactNorm.forward
    monkeypatch.setattr(ExactNorm, "forward", lambda self, x: exact(self, x * x.pow(0)))
    with pytest.raises(NotExact, match="pow"):
        ExactEngine(model, path="torch", backend="float64")


def test_compiling_is_refused() -> None:
    """The library may fuse what it compiles, and the guard would not see it."""
    with pytest.raises(NotExact, match="compile"), guarded(True):
        torch.compile(lambda: x + x)()


@pytest.mark.parametrize("order", [lambda t: t.sort(), lambda t: t.topk(2)], ids=["sort", "topk"])
def test_sort_operations_give_values_and_no_indices(order: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Which of two equals comes first depends on the machine: code that asks fails under the guard."""
    with torch.inference_mode(), guarded(True):
        values, indices = order(x)
        assert values.tolist() == order(x)[0].tolist() and (indices == -1).all()


def test_operations_of_the_profile_pass() -> None:
    with torch.inference_mode(), guarded(True):
        assert torch.mm(integer, integer)[0, 0] == 7
        assert (x / torch.tensor([2.0]))[0, 0] == 0.25
        assert x.to(torch.float64).sqrt()[1, 1] == 2
        assert integer.sum(-1, dtype=torch.float64)[1] == 130


def test_guard_that_is_off_refuses_nothing() -> None:
    with guarded(False):
        x.exp()


def test_uninitialised_memory_is_nan_under_the_guard_and_never_in_a_result() -> None:
    before = deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    with fixed(1):
        with guarded(True):
            unwritten = torch.empty(4096)
        assert unwritten.isnan().all()
        with guarded(False):
            assert not deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    assert deterministic.fill_uninitialized_memory == before  # type: ignore[attr-defined]

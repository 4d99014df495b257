"""Planted operations that the profile bans: each is refused by the guard, by name or by its arguments."""

from collections.abc import Callable

import pytest
import torch

from bytewise.inference.dispatch_guard import guarded
from bytewise.protocol.errors import NotExact

x = torch.tensor([[0.5, 1.5, -2.0], [3.0, 4.0, 5.5]])
integer = torch.tensor([[1.0, 2.0], [3.0, 127.0]])

BANNED: dict[str, Callable[[], object]] = {
    "library exp": lambda: x.exp(),
    "library exp2": lambda: x.exp2(),
    "sigmoid": lambda: x.sigmoid(),
    "silu": lambda: torch.nn.functional.silu(x),
    "tanh": lambda: x.tanh(),
    "softmax": lambda: x.softmax(-1),
    "sine": lambda: x.sin(),
    "reciprocal root": lambda: x.rsqrt(),
    "power": lambda: x.pow(2),
    "mean": lambda: x.mean(),
    "ldexp": lambda: torch.ldexp(x, torch.tensor([1])),
    "float32 root": lambda: x.abs().sqrt(),
    "division by a number": lambda: x / 3.0,
    "division by a tensor without dimensions": lambda: x / torch.tensor(3.0),
    "fused multiply-add": lambda: torch.add(x, x, alpha=3),
    "addcmul": lambda: torch.addcmul(x, x, x),
    "linear interpolation": lambda: torch.lerp(x, x, 0.5),
    "float sum": lambda: x.mul(0.1).sum(-1),
    "float cumulated sum": lambda: x.mul(0.1).cumsum(-1),
    "float product of fractions": lambda: torch.mm(x, x.t().contiguous()),
    "product above 2^24": lambda: torch.mm(integer * 128.0, integer * 128.0),
    "fused product": lambda: torch.addmm(x, torch.ones(2, 2), torch.ones(2, 3)),
    "bfloat16 product": lambda: torch.mm(integer.bfloat16(), integer.bfloat16()),
    "top-k": lambda: x.topk(2),
    "sort": lambda: x.sort(),
    "argmax": lambda: x.argmax(),
    "random numbers": lambda: torch.randn(3),
    "multinomial": lambda: torch.multinomial(x.abs(), 1),
}


@pytest.mark.parametrize("operation", BANNED.values(), ids=BANNED.keys())
def test_banned_operation_is_refused(operation: Callable[[], object]) -> None:
    operation()
    with pytest.raises(NotExact), torch.inference_mode(), guarded(True):
        operation()


def test_operations_of_the_profile_pass() -> None:
    with torch.inference_mode(), guarded(True):
        assert torch.mm(integer, integer)[0, 0] == 7
        assert (x / torch.tensor([2.0]))[0, 0] == 0.25
        assert x.to(torch.float64).sqrt()[1, 1] == 2
        assert integer.sum(-1, dtype=torch.float64)[1] == 130


def test_guard_that_is_off_refuses_nothing() -> None:
    with guarded(False):
        x.exp()

"""Guard that refuses every torch operation outside the profile. It looks at the operation's overload and its arguments (design
section 6).

The guard is on while an engine warms its path up, and in tests. Later it is off unless the engine is opened with `guard`,
because it inspects every operand and makes decoding five to eight times slower.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import deterministic
from torch.utils._python_dispatch import TorchDispatchMode

from bytewise.protocol.errors.actors import NotExact

MOVES = frozenset(
    "_local_scalar_dense _to_copy _unsafe_view alias as_strided cat clone contiguous copy_ detach detach_ embedding expand "
    "flatten.using_ints index.Tensor index_copy_ is_nonzero item "
    "lift_fresh numpy_T permute reshape resolve_conj resolve_neg select.int slice.Tensor "
    "squeeze.dim stack t to.dtype to.dtype_layout transpose.int unbind.int unsqueeze view view.dtype".split()
)
"""Torch operations that move bytes, or that change the type of numbers with one rounding."""

MAKES = frozenset(
    "arange arange.start empty.memory_format fill_.Scalar full ones_like zeros zero_ zeros_like scalar_tensor".split()
)
"""Torch operations that create tensors or fill them with one value."""

SELECTS = frozenset(
    "__and__.Scalar __and__.Tensor __lshift__.Scalar __or__.Tensor __rshift__.Scalar abs all all.dim amax amin any "
    "bitwise_and.Scalar bitwise_and.Tensor bitwise_or.Tensor clamp clamp_ eq.Scalar eq.Tensor floor floor_ ge.Scalar gt.Scalar "
    "gt.Tensor isfinite le.Scalar le.Tensor lt.Scalar neg neg_ nonzero round round_ "
    "where.ScalarOther where.self".split()
)
"""Torch operations that compare, combine bits, change signs or round to integers. They are exact on every machine."""

_MEMORY: Any = deterministic
"""torch's module `deterministic`, with the type Any. The library creates properties of this module that its types do not
declare."""

ORDERS = frozenset("sort topk".split())
"""Torch operations that sort. The sorted values are exact, but the order of equal values depends on the machine. So the guard
replaces every index that they return by -1."""


def _plain(func: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    if kwargs.get("alpha", 1) != 1 or any(isinstance(arg, (int, float)) and arg != 1 for arg in args[2:]):
        raise NotExact(f"{func} with alpha: a fused multiply-add on some processors")


def _division(func: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    divisor = args[1]
    if not isinstance(divisor, Tensor) or divisor.dim() == 0 or divisor.device != args[0].device:
        raise NotExact(f"{func} by a scalar: a product with the reciprocal on some devices")


def _root(func: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    if args[0].dtype != torch.float64:
        raise NotExact(f"{func} of {args[0].dtype}: not correctly rounded on some processors")


def _sum(func: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    kind = kwargs.get("dtype") or args[0].dtype
    if kind.is_floating_point:
        _integers(func, args[0])
        _bound(func, 53 if kind == torch.float64 else 24, float(args[0].abs().to(torch.float64).sum()))


def _product(func: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    left, right = args[0], args[1]
    if left.dtype != right.dtype or left.dtype not in (torch.float32, torch.float64):
        raise NotExact(f"{func} of {left.dtype} and {right.dtype}")
    for operand in (left, right):
        _integers(func, operand)
    if left.numel() and right.numel():
        largest = float(left.abs().amax()) * float(right.abs().amax()) * left.shape[-1]
        _bound(func, 53 if left.dtype == torch.float64 else 24, largest)


def _wide_product(func: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    # Operands of a narrow type with float32 sums: exact, as products of float32 are.
    left, right, sums = args[0], args[1], args[2] if len(args) > 2 else kwargs["out_dtype"]
    if left.dtype != right.dtype or left.dtype != torch.bfloat16 or sums != torch.float32:
        raise NotExact(f"{func} of {left.dtype} and {right.dtype} in {sums}")
    _product(func, (left.to(torch.float32), right.to(torch.float32)), {})


def _integers(func: str, operand: Tensor) -> None:
    if not bool((operand == operand.round()).all()):
        raise NotExact(f"{func} of values that are not integers: its result depends on the order of the sum")


def _bound(func: str, bits: int, largest: float) -> None:
    if largest > 2.0**bits:
        raise NotExact(f"{func} of a sum up to {largest:.3g}, above 2^{bits}")


def _any(func: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    return None


CHECKED: dict[str, Callable[[str, Sequence[Any], dict[str, Any]], None]] = {
    **dict.fromkeys(
        ("add.Tensor", "add_.Tensor", "sub.Tensor", "sub_.Tensor", "add.Scalar", "sub.Scalar", "rsub.Scalar"), _plain
    ),
    **dict.fromkeys(("div.Tensor", "div_.Tensor"), _division),
    **dict.fromkeys(("sqrt", "sqrt_"), _root),
    **dict.fromkeys(("sum", "sum.dim_IntList", "cumsum"), _sum),
    **dict.fromkeys(("mm", "bmm"), _product),
    **dict.fromkeys(("mm.dtype", "bmm.dtype"), _wide_product),
    **dict.fromkeys(("mul.Tensor", "mul_.Tensor", "mul.Scalar", "_int_mm"), _any),
    **dict.fromkeys(MOVES | MAKES | SELECTS | ORDERS, _any),
}
"""Maps the overload of each operation of the profile (without `.default`) to the function that checks its arguments."""


class DispatchGuard(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Torch dispatch mode that raises `NotExact` at the first operation outside the profile."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Without this, the library would load its compiler (70 MiB for the life of the process) only to exclude this class from
        # it. Nothing is compiled under the guard.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Checks one operation, performs it and returns its result. Raises `NotExact` if the operation or its arguments are
        outside the profile."""
        name = str(func).removeprefix("aten.").removesuffix(".default")
        check = CHECKED.get(name)
        if check is None:
            raise NotExact(f"operation {name} is outside the profile")
        check(name, args, kwargs or {})
        result = func(*args, **(kwargs or {}))
        return (result[0], torch.full_like(result[1], -1)) if name in ORDERS else result


def _compile(*args: Any, **kwargs: Any) -> Any:
    raise NotExact("torch.compile: it fuses operations where no guard sees them")


@contextlib.contextmanager
def guarded(on: bool) -> Iterator[None]:
    """Context manager that turns the dispatch guard on if `on` is true. It also turns torch's fill of new memory on or off.

    The fill is part of torch's `use_deterministic_algorithms`. It writes NaN into new memory, which reveals reads of unwritten
    memory. Without the guard the fill is off, because it costs a third of the launches of decoding. With the guard,
    `torch.compile` raises `NotExact`, because it fuses operations where no guard sees them. At the end, the context manager
    restores the previous state.
    """
    filled = _MEMORY.fill_uninitialized_memory
    _MEMORY.fill_uninitialized_memory = on
    compiles, torch.compile = torch.compile, _compile if on else torch.compile
    try:
        with DispatchGuard() if on else contextlib.nullcontext():  # type: ignore[no-untyped-call]
            yield
    finally:
        torch.compile = compiles
        _MEMORY.fill_uninitialized_memory = filled

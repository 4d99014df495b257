"""Attention: windows and caps by position alone, tiles that no byte depends on, contexts of more than 8,192 tokens."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bytewise.inference.determinism import fixed
from bytewise.inference.exact import attention
from bytewise.inference.exact.attention import AttentionRule, attend
from bytewise.inference.exact.cache import CachedTensor, ExactCache
from bytewise.inference.exact.matmul import Float64Backend
from bytewise.inference.exact.modules import ExactRouter
from bytewise.inference.known_answers.operations import integers
from bytewise.inference.torch_path import Runner
from tests.fixtures.inference.tiny import tiny

LENGTH, HEADS, SHARED, WIDTH = 21, 4, 2, 6
LONG = 8208


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The engine's own switches; more threads would only wait for each other here."""
    with fixed(1):
        yield


def numbers(name: str, *shape: int) -> Tensor:
    """Made-up numbers in ±4."""
    return torch.tensor(integers(name, torch.Size(shape).numel(), 4095), dtype=torch.float32).view(shape) / 1024


def stored(keys: Tensor, values: Tensor) -> tuple[CachedTensor, CachedTensor]:
    """A cache that holds them."""
    return ExactCache(1, 1, SHARED, WIDTH, LENGTH).update(keys, values, 0)


def rule(window: int = 0, cap: float | None = None) -> AttentionRule:
    """A layer's rule."""
    return AttentionRule(Float64Backend(), torch.full((1,), 0.0625), window, None if cap is None else torch.full((1,), cap))


QUERY = numbers("query", 1, HEADS, LENGTH, WIDTH)
KEYS, VALUES = numbers("keys", 1, SHARED, LENGTH, WIDTH), numbers("values", 1, SHARED, LENGTH, WIDTH)


@pytest.mark.parametrize("window", [0, 1, 2, 7, LENGTH - 1, LENGTH, 100])
@pytest.mark.parametrize("cap", [None, 2.0])
def test_bytes_do_not_depend_on_tiles(monkeypatch: pytest.MonkeyPatch, window: int, cap: float | None) -> None:
    whole = attend(rule(window, cap), QUERY, *stored(KEYS, VALUES))
    for scores in (1, 3 * HEADS * LENGTH, 8 * HEADS * LENGTH):
        monkeypatch.setattr(attention, "TILE_SCORES", scores)
        assert torch.equal(attend(rule(window, cap), QUERY, *stored(KEYS, VALUES)), whole)


@pytest.mark.parametrize("window", [0, 1, 5])
def test_a_query_sees_its_window_and_nothing_else(window: int) -> None:
    whole = attend(rule(window), QUERY, *stored(KEYS, VALUES))
    for changed in (0, 4, 12, LENGTH - 1):
        values = VALUES.clone()
        values[:, :, changed] += 1
        moved = (attend(rule(window), QUERY, *stored(KEYS, values)) != whole).any(-1).any(1)[0]
        sees = [changed <= position < changed + (window or LENGTH) for position in range(LENGTH)]
        assert moved.tolist() == sees


def test_window_as_long_as_the_context_has_no_effect() -> None:
    assert torch.equal(attend(rule(LENGTH), QUERY, *stored(KEYS, VALUES)), attend(rule(), QUERY, *stored(KEYS, VALUES)))


def test_a_cap_changes_large_scores_only() -> None:
    plain, capped = (attend(rule(0, cap), QUERY, *stored(KEYS, VALUES)) for cap in (None, 2.0))
    assert not torch.equal(plain, capped)
    assert torch.allclose(plain, attend(rule(0, 2.0**20), QUERY, *stored(KEYS, VALUES)), atol=0.05)


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Elements of the largest tensor made."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Performs the operation and looks at its result."""
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.untyped_storage().nbytes() >= result.numel():
            self.elements = max(self.elements, result.numel())
        return result


@pytest.mark.parametrize("variant", ["llama", "mistral"])
def test_long_contexts_are_exact_in_bounded_memory(variant: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"sliding_window": 1000} if variant == "mistral" else {}
    model = tiny(
        variant, tmp_path, max_position_embeddings=LONG, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1,
        hidden_size=8, head_dim=8, **changes,
    )  # fmt: skip
    runner, tokens = Runner(model, Float64Backend()), [abs(n) for n in integers("long", LONG, 255)]
    cache = runner.cache(1, LONG)
    runner.teacher_force(cache, [tokens[: LONG - 8]], [LONG - 9], chunk=1000)
    decoded = [runner.feed(cache, token, LONG - 8 + i) for i, token in enumerate(tokens[LONG - 8 :])]
    with Largest() as largest:  # type: ignore[no-untyped-call]
        whole = runner.teacher_force(runner.cache(1, LONG), [tokens], [LONG - 8], chunk=LONG)[0]
    assert [(row.row, row.exponent) for row in whole] == [(row.row, row.exponent) for row in decoded]
    # All scores at once would be 2^26.
    assert largest.elements <= attention.TILE_SCORES


class _Logits:
    # Stands for the product of a router whose logits are given.
    def __init__(self, logits: list[list[float]]) -> None:
        self._logits = torch.tensor(logits)

    def of_rows(self, _: object) -> Tensor:
        """The given logits."""
        return self._logits


def test_equal_logits_route_to_the_lowest_index() -> None:
    logits = [[1.0, 2.0, 2.0, 0.5], [3.0, 3.0, 3.0, 3.0], [-1.0, 0.0, -0.0, 7.0]]
    router = ExactRouter(_Logits(logits), 2)  # type: ignore[arg-type]
    _, weights, chosen = router(torch.zeros(3, 8))
    assert [[i for i, hit in enumerate(row) if hit] for row in chosen.tolist()] == [[1, 2], [0, 1], [1, 3]]
    assert weights[0].tolist() == [0.0, 0.5, 0.5, 0.0]
    assert weights[1].tolist() == [0.5, 0.5, 0.0, 0.0]
    assert bool(((weights > 0) == chosen).all())

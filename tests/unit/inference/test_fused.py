"""The C engine's operations under the torch path: byte for byte what torch alone gives, alone and in whole models."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bytewise.inference.backend_selection import open_path
from bytewise.inference.determinism import fixed
from bytewise.inference.exact.attention import AttentionRule, attend
from bytewise.inference.exact.cache import ExactCache
from bytewise.inference.exact.elementwise import rms_norm, silu
from bytewise.inference.exact.matmul import Float64Backend, FusedBackend, Weights
from bytewise.inference.exact.modules import StackedLayers
from bytewise.inference.exact.quantise import ACTIVATION_BITS, quantise
from bytewise.inference.known_answers import known_models
from bytewise.inference.manifest import Architecture
from bytewise.inference.native.backend import NativeBackend, NativeHeads
from bytewise.inference.native.library import ThreadPool, kernels
from bytewise.inference.torch_path import Runner
from bytewise.protocol.errors.actors import CannotExecute
from bytewise.protocol.errors.records import OutsideLimits
from tests.fixtures.inference.head_rows import forced, text
from tests.fixtures.inference.tiny import tiny

pytestmark = pytest.mark.skipif(not kernels(), reason="no compiler here: the C engine was not built")

BACKENDS = [NativeBackend(ThreadPool(kernel, threads)) for kernel in kernels() for threads in (1, 3)]
SIZES = ((1, 9, 5), (2, 33, 130), (4, 64, 16), (37, 95, 33))
"""Rows, inputs and outputs."""


@pytest.fixture(params=BACKENDS, ids=[f"{kernel}-{threads}" for kernel in kernels() for threads in (1, 3)])
def fused(request: pytest.FixtureRequest) -> NativeBackend:
    """Every kernel, on one thread and on more than there are processors."""
    found: NativeBackend = request.param
    return found


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    """Those of the engine."""
    with fixed(1):
        yield


def floats(*shape: int, seed: int = 1) -> Tensor:
    """Random floats of many sizes; the first element is of another order."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator) * 2.0 ** torch.randint(-9, 9, shape, generator=generator)
    x.view(-1)[0] = 1e4
    return x


def layer(outputs: int, inputs: int, limbs: int, bias: bool, seed: int) -> Weights:
    """A linear layer with weights of the whole range."""
    generator = torch.Generator().manual_seed(seed)
    high, low = torch.randint(-128, 128, (2, outputs, inputs), dtype=torch.int8, generator=generator)
    scale = torch.rand(outputs, generator=generator) + 0.5
    return Weights(high, low if limbs == 2 else None, scale, floats(outputs, seed=seed) if bias else None)


def same(found: Tensor, right: Tensor) -> bool:
    """Equal shapes and bytes."""
    return found.shape == right.shape and found.contiguous().numpy().tobytes() == right.contiguous().numpy().tobytes()


@pytest.mark.parametrize(("limbs", "bias"), [(1, False), (2, True)])
def test_linear_layers_give_the_bytes_of_torch(fused: NativeBackend, limbs: int, bias: bool) -> None:
    for count, inputs, outputs in SIZES:
        layers = [layer(outputs + more, inputs, limbs, bias, more) for more in range(3)]
        x = floats(count, inputs)
        rows = quantise(x, ACTIVATION_BITS)
        right = StackedLayers(Float64Backend(), layers).of_rows(rows)
        call = fused.linear(layers)
        assert same(call(x), right)
        assert same(call(x.view(1, count, inputs)), right[None])
        # What lies between rows is not read; rows that were quantised before are what they stand for.
        assert same(call(torch.cat((x, torch.full((count, 3), math.nan)), dim=1)[:, :inputs]), right)
        assert same(call(rows.values * rows.scale), right)


def test_norms_and_silu_give_the_bytes_of_torch(fused: NativeBackend) -> None:
    for count, width, more in (*SIZES, (600, 64, 7)):
        x, weight, epsilon = floats(count, width), floats(width, seed=2), torch.tensor([1e-5])
        wide = torch.cat((x, floats(count, more)), dim=1)[:, :width]
        right = rms_norm(x, weight, epsilon, torch.tensor([float(width)], dtype=torch.float64))
        for given in (x, wide, x.view(count, 1, width)):
            assert same(fused.rms_norm(given, weight, float(epsilon)), right.view(given.shape))
            assert same(fused.silu(given), silu(x).view(given.shape))


def test_rows_that_are_not_finite_equal_those_of_torch(fused: NativeBackend) -> None:
    x = floats(3, 40)
    x[0, 3], x[1, 5], x[2] = math.inf, math.nan, 2.0**-120
    layers = [layer(20, 40, 1, True, 1)]
    assert same(fused.linear(layers)(x), StackedLayers(Float64Backend(), layers).of_rows(quantise(x, ACTIVATION_BITS)))


@pytest.mark.parametrize("window", [0, 5])
@pytest.mark.parametrize(("heads", "shared", "width"), [(4, 2, 6), (26, 1, 2), (2, 2, 256)])
def test_attention_gives_the_bytes_of_torch(fused: NativeBackend, heads: int, shared: int, width: int, window: int) -> None:
    shape = shape_of(heads, shared, width)
    mine, right = NativeHeads(fused._pool, shape, 2, 80), ExactCache(1, 2, shared, width, 80)
    rule = AttentionRule(Float64Backend(), torch.tensor([0.25]), window)
    for tokens in (13, 1, 64, 1):
        query, keys, values = (floats(2, n, tokens, width, seed=tokens) for n in (heads, shared, shared))
        fresh, _ = mine.update(keys, values, 0)
        found = fresh.cache.attend(0, window, 0.25, query, keys, values)
        truth = attend(rule, query, *right.update(keys, values, 0))
        assert same(found, truth.transpose(1, 2))
        mine.advance(tokens)
        right.advance(tokens)
    one = mine.select(1)
    one.crop(70)
    right.crop(70)
    query, keys, values = (floats(1, n, 1, width, seed=5) for n in (heads, shared, shared))
    truth = attend(rule, query, *right.select(1).update(keys, values, 0))
    assert same(one.attend(0, window, 0.25, query, keys, values), truth.transpose(1, 2))


def shape_of(heads: int, shared: int, width: int) -> Architecture:
    """An architecture with such heads."""
    known = known_models.KNOWN_MODELS["wide scores"].architecture
    changes = {"heads": heads, "key_value_heads": shared, "head_width": width, "layers": 1}
    return Architecture(**{name: changes.get(name, getattr(known, name)) for name in known.__dataclass_fields__})


def test_golden_models_give_their_rows(fused: NativeBackend) -> None:
    assert known_models.verify(lambda known: Runner(known, fused), lambda _: True) == len(known_models.KNOWN_MODELS)


def test_wrong_operation_in_c_selects_another_backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that only whole models show: the products stay right."""
    exact: Callable[..., Tensor] = NativeBackend.silu
    monkeypatch.setattr(NativeBackend, "silu", lambda self, x: exact(self, x) * (1 + 2.0**-23))
    model = tiny("llama", tmp_path)
    assert "native" not in open_path(model, 1, "torch").name
    with pytest.raises(CannotExecute, match="known model"):
        open_path(model, 1, "torch", BACKENDS[0].name)


@pytest.mark.parametrize("family", ["gemma2", "mixtral"])
def test_families_without_a_path_in_c_use_another_backend(family: str, tmp_path: Path) -> None:
    model, tokens = tiny(family, tmp_path, num_hidden_layers=2), text(family, 40)
    path = Runner(model, BACKENDS[0])
    assert isinstance(path.cache(1, 8), NativeHeads) == (family == "mixtral")
    assert forced(path, tokens, 17) == forced(Runner(model, Float64Backend()), tokens)


def test_backends_of_torch_alone_are_not_fused(fused: NativeBackend) -> None:
    assert isinstance(fused, FusedBackend) and not isinstance(Float64Backend(), FusedBackend)


def test_mismatched_operands_are_refused_before_c_reads_them(fused: NativeBackend) -> None:
    good = layer(4, 16, 1, False, 1)
    for bad in (
        Weights(good.high.to(torch.int16), None, good.scale, None), Weights(good.high.t(), None, good.scale, None),
        Weights(good.high, None, good.scale[1:], None), Weights(good.high, good.high[1:], good.scale, None),
        Weights(good.high, None, good.scale, good.scale.to(torch.float64)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="belong"):
            fused.linear([bad])
    with pytest.raises(ValueError, match="belong"):
        fused.linear([good, layer(4, 8, 1, False, 1)])
    with pytest.raises(ValueError, match="rows of 17"):
        fused.linear([good])(floats(2, 17))
    with pytest.raises(ValueError, match="float64"):
        fused.silu(floats(2, 16).to(torch.float64))
    with pytest.raises(ValueError, match="norm"):
        fused.rms_norm(floats(2, 16), good.scale, 1e-5)
    with pytest.raises(CannotExecute, match="no 9 layers"):
        fused.linear([good] * 9)


def test_cache_reports_its_memory_size(tmp_path: Path) -> None:
    """Widths are padded to 16, capacities to 64; and of a model with softcaps it is the tensors' size."""
    fused = BACKENDS[0]
    mixtral = Runner(tiny("mixtral", tmp_path / "a"), fused)
    assert mixtral.cache_bytes(3, 65) == fused.cache_bytes(mixtral.shape, 3, 65)
    assert fused.cache_bytes(shape_of(4, 2, 6), 3, 65) == 3 * 2 * 128 * (2 * 2 * 16 + 2 * 4)
    gemma = Runner(tiny("gemma2", tmp_path / "b"), fused)
    shape = gemma.shape
    assert gemma.cache_bytes(3, 65) == ExactCache.bytes_of(shape.layers, 3, shape.key_value_heads, shape.head_width, 65)


def test_cache_refuses_tokens_beyond_its_room_and_heads_of_another_model(fused: NativeBackend) -> None:
    cache = NativeHeads(fused._pool, shape_of(4, 2, 6), 1, 5)
    with pytest.raises(OutsideLimits, match="cache"):
        cache.attend(0, 0, 1.0, floats(1, 4, 6, 6), floats(1, 2, 6, 6), floats(1, 2, 6, 6))
    with pytest.raises(ValueError, match="keys"):
        cache.attend(0, 0, 1.0, floats(1, 4, 1, 6), floats(1, 1, 1, 6), floats(1, 1, 1, 6))
    with pytest.raises(CannotExecute, match="arguments"):
        cache.attend(1, 0, 1.0, floats(1, 4, 1, 6), floats(1, 2, 1, 6), floats(1, 2, 1, 6))
    with pytest.raises(CannotExecute, match="memory"):
        NativeHeads(fused._pool, shape_of(4, 2, 6), 1, 2**18)

"""The C engine: its products against Python integers, its models against the torch path, byte for byte."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bytewise.inference.artifact import artifact
from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.convert import checkpoint
from bytewise.inference.convert.convert import ConversionOptions, convert
from bytewise.inference.determinism import fixed
from bytewise.inference.engine import ExactEngine
from bytewise.inference.exact.matmul import Float64Backend
from bytewise.inference.native.backend import product
from bytewise.inference.native.library import ThreadPool, kernels
from bytewise.inference.native.path import NativePath, missing_feature
from bytewise.inference.profiles import verify_artifact
from bytewise.inference.torch_path import Runner
from tests.fixtures.inference.head_rows import forced, text, whole
from tests.fixtures.inference.tiny import VARIANTS, tiny, write_checkpoint

pytestmark = pytest.mark.skipif(not kernels(), reason="no compiler here: the C engine was not built")

NATIVE = ("llama", "llama3", "mistral", "qwen2", "qwen2-window", "qwen3")
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    **{variant: (variant, {}) for variant in NATIVE},
    "many heads on one key head": (
        "llama",
        {"hidden_size": 26, "num_attention_heads": 26, "num_key_value_heads": 1, "head_dim": 2},
    ),
    "widest heads": (
        "llama",
        {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 256, "max_position_embeddings": 200},
    ),
    "sizes that fill no vector": ("qwen3", {"hidden_size": 35, "intermediate_size": 51, "head_dim": 10, "vocab_size": 271}),
}
"""Variants of `tiny`, and shapes at the edges of the kernels."""

LENGTH = 133


@pytest.fixture(params=kernels())
def kernel(request: pytest.FixtureRequest) -> str:
    """Every kernel that this processor can run."""
    name: str = request.param
    return name


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    """Those of the engine."""
    with fixed(1):
        yield


def products(kernel: str, threads: int, values: list[list[int]], weight: list[list[int]]) -> list[list[float]]:
    """Products by the C engine."""
    pool = ThreadPool(kernel, threads)
    try:
        found: list[list[float]] = product(pool, torch.tensor(values), torch.tensor(weight, dtype=torch.int8)).tolist()
        return found
    finally:
        pool.close()


def exact(values: list[list[int]], weight: list[list[int]]) -> list[list[int]]:
    """The same in Python integers."""
    return [[sum(v * w for v, w in zip(row, column, strict=True)) for column in weight] for row in values]


@pytest.mark.parametrize("depth", [1, 8, 17, 31, 33, 1023, 1024, 1025, 8191, 8192, 8193, 16385, 65536])
def test_products_at_the_worst_operands_are_those_of_python(kernel: str, depth: int) -> None:
    largest = 2**14 - 1
    values = [[largest] * depth, [-largest] * depth, [largest if i % 2 else -largest for i in range(depth)]]
    weight = [[-128] * depth, [127] * depth, [-128 if i % 2 else 127 for i in range(depth)]]
    for count in (1, 3, 5) if depth < 10_000 else (1,):
        rows = (values * 2)[:count]
        assert products(kernel, 1, rows, weight) == exact(rows, weight)


@pytest.mark.parametrize("threads", [1, 3])
def test_products_of_any_size_are_those_of_python(kernel: str, threads: int) -> None:
    generator = random.Random(1)
    for rows, outputs, depth in ((1, 1, 9), (1, 130, 40), (2, 67, 33), (4, 16, 64), (7, 33, 95), (13, 15, 47), (25, 131, 18)):
        values = [[generator.randint(-(2**14) + 1, 2**14 - 1) for _ in range(depth)] for _ in range(rows)]
        weight = [[generator.randint(-128, 127) for _ in range(depth)] for _ in range(outputs)]
        assert products(kernel, threads, values, weight) == exact(values, weight)


def model_of(
    folder: Path, variant: str, options: ConversionOptions, dtype: torch.dtype = torch.float32, **changes: Any
) -> Artifact:
    """The converted and loaded artifact of a variant."""
    write_checkpoint(variant, folder / "checkpoint", dtype, **changes)
    convert(folder / "checkpoint", folder / "artifact", options=options)
    return artifact.load(folder / "artifact")


PRECISIONS = {
    "two limbs": ("qwen2", ConversionOptions(16, equalise=False), torch.bfloat16),
    "two limbs in the head": ("llama", ConversionOptions(8, 16, equalise=False), torch.float16),
}
"""Models with weights of 16 bits, and embeddings of half width."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """One artifact per shape and precision."""
    folder, plain = tmp_path_factory.mktemp("native"), ConversionOptions(equalise=False)
    shaped = {name: model_of(folder / name, variant, plain, **changes) for name, (variant, changes) in SHAPES.items()}
    return shaped | {name: model_of(folder / name, *given) for name, given in PRECISIONS.items()}


@pytest.fixture(scope="module")
def truth(models: dict[str, Artifact]) -> dict[str, list[bytes]]:
    """Every position of a text on the torch path in float64: rows, exponents and logits."""
    with fixed(1):
        return {name: forced(Runner(model, Float64Backend()), text(name, LENGTH)) for name, model in models.items()}


@pytest.mark.parametrize("name", [*SHAPES, *PRECISIONS])
def test_every_row_of_a_model_is_that_of_the_torch_path(
    kernel: str, name: str, models: dict[str, Artifact], truth: dict[str, list[bytes]]
) -> None:
    tokens = text(name, LENGTH)
    for threads, chunk in ((1, LENGTH), (2, 29), (3, 50)):
        path = NativePath(models[name], kernel=kernel, threads=threads)
        assert path.name == f"native-{kernel}"
        assert forced(path, tokens, chunk) == truth[name]
        cache = path.cache(1, LENGTH)
        decoded = [path.feed(cache, token, position) for position, token in enumerate(tokens[:40])]
        path.close()
        assert whole(decoded) == truth[name][:40]


@pytest.mark.parametrize("name", ["mistral", "qwen2"])
def test_rows_do_not_depend_on_the_batch(kernel: str, name: str, models: dict[str, Artifact]) -> None:
    path = NativePath(models[name], kernel=kernel, threads=2)
    sequences = [text(f"{name}-{i}", length) for i, length in enumerate((1, 40, 7, 63, 16))]
    alone = [forced(path, sequence) for sequence in sequences]
    cache = path.cache(len(sequences), 80)
    first = path.teacher_force(cache, [sequence[:20] for sequence in sequences], [0] * 5, 11)
    rest = path.teacher_force(cache, [sequence[20:] for sequence in sequences], [0, 3, 0, 0, 0], 23)
    assert [whole(a) + whole(b) for a, b in zip(first, rest, strict=True)] == [
        alone[0], alone[1][:20] + alone[1][23:], *alone[2:],
    ]  # fmt: skip
    one = cache.select(3)
    one.crop(50)
    again = path.teacher_force(one, [sequences[3][50:60]], [0], 4)[0] + [path.feed(one, sequences[3][60], 60)]
    assert whole(again) == alone[3][50:61]
    assert whole(path.teacher_force(cache.select(1), [sequences[0]], [0], 4)[0]) != alone[0]
    path.close()


LONG: dict[str, Any] = {
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "max_position_embeddings": 9000,
}  # fmt: skip


@pytest.mark.parametrize(("chunk", "calls"), [(20, 1), (10, 2), (7, 3), (1, 20)])
def test_a_batch_is_multiplied_together(
    monkeypatch: pytest.MonkeyPatch, chunk: int, calls: int, models: dict[str, Artifact]
) -> None:
    """One forward call has a chunk of every sequence: weights are read once for all of them."""
    path, seen = NativePath(models["llama"]), []
    forward = path.pool.library.native_forward

    def counted(engine: int, cache: int, tokens: int, *arguments: Any) -> Any:
        seen.append(tokens)
        return forward(engine, cache, tokens, *arguments)

    monkeypatch.setattr(path.pool.library, "native_forward", counted)
    path.teacher_force(path.cache(5, 20), [list(range(20))] * 5, [19] * 5, chunk)
    path.close()
    assert len(seen) == calls and sum(seen) == 100


def test_a_long_context_is_that_of_the_torch_path(tmp_path: Path) -> None:
    model = model_of(tmp_path, "qwen3", ConversionOptions(equalise=False), **LONG)
    tokens = text("long", 8250)
    path = NativePath(model, threads=2)
    prefilled, decoded = path.cache(1, len(tokens)), path.cache(1, len(tokens))
    rows = whole(path.teacher_force(prefilled, [tokens], [8180], 256)[0])
    path.teacher_force(decoded, [tokens[:8180]], [8180], 100)
    assert [whole([path.feed(decoded, tokens[i], i)])[0] for i in range(8180, 8250)] == rows
    runner = Runner(model, Float64Backend())
    cache = runner.cache(1, 1100)
    runner.teacher_force(cache, [tokens[:1030]], [1030], 515)
    prefilled.crop(1030)
    late = path.teacher_force(prefilled, [tokens[1030:1100]], [0], 64)[0]
    path.close()
    assert whole(late) == whole(runner.teacher_force(cache, [tokens[1030:1100]], [0], 70)[0])


def test_features_missing_in_the_engine_are_named(tmp_path: Path) -> None:
    found = {}
    for variant in VARIANTS.keys() - set(NATIVE):
        write_checkpoint(variant, tmp_path / variant)
        found[variant] = missing_feature(checkpoint.read(tmp_path / variant).architecture)
    assert found == {"gemma2": "family gemma2", "mixtral": "family mixtral", "qwen3_moe": "family qwen3_moe"}


@pytest.mark.parametrize("variant", ["llama", "gemma2"])
def test_loaded_artifact_knows_whether_its_engine_uses_the_library(variant: str, tmp_path: Path) -> None:
    tiny(variant, tmp_path)
    loaded = verify_artifact(tmp_path / "artifact", None)
    engine = loaded.open()
    assert isinstance(engine, ExactEngine)
    assert engine.path.name.startswith("torch-") == loaded.has_library == (variant == "gemma2")
    engine.close()

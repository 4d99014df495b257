"""The proof that activations stay below 2^60: it holds for what runs, is no vacuous number, and refuses by name."""

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bytewise.inference.artifact import artifact
from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.convert.bound import Magnitude, bound_of, root, verify_bound
from bytewise.inference.convert.convert import ConversionOptions, convert
from bytewise.inference.exact.matmul import Float64Backend
from bytewise.inference.exact.quantise import round_weight
from bytewise.inference.torch_path import Runner
from bytewise.protocol.errors.actors import ArtifactMismatch, UnsupportedModel
from tests.fixtures.inference.altered_artifact import altered
from tests.fixtures.inference.tiny import VARIANTS, tiny, write_checkpoint


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_activation_of_any_family_exceeds_the_bound(variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The artifact alone proves the bound again."""
    model, seen = tiny(variant, tmp_path), list[int]()
    bound = model.manifest.bound
    assert bound_of(model) == bound
    verify_bound(model)
    for module in ("exact.modules", "exact.elementwise", "exact.attention", "exact.cache", "torch_path"):
        watch(monkeypatch, f"bytewise.inference.{module}", seen)
    runner = Runner(model, Float64Backend())
    with torch.inference_mode():
        runner.teacher_force(runner.cache(1, 40), [list(range(40))], [0])
    assert len(seen) > 10 and 64 <= max(seen) <= bound
    # A bound far above what happens would also be one, but would prove nothing about 2^60 for large models.
    assert bound <= max(seen) + 16


def watch(monkeypatch: pytest.MonkeyPatch, module: str, seen: list[int]) -> None:
    """Notes E of every row that the module quantises with the 14-bit quantiser."""
    import importlib

    loaded = importlib.import_module(module)
    quantise = loaded.quantise

    def noting(x: torch.Tensor, bits: int) -> Any:
        rows = quantise(x, bits)
        if bits == 14:
            seen.append(int(rows.exponent.amax()))
        return rows

    monkeypatch.setattr(loaded, "quantise", noting)


@pytest.mark.parametrize(
    ("tensor", "factor", "named"),
    [
        ("model.embed_tokens.weight", 2.0**62, r"embedding in the residual stream"),
        ("model.layers.0.input_layernorm.weight", 2.0**60, r"layers.0.input_layernorm"),
        ("model.layers.1.self_attn.o_proj.weight", 2.0**60, r"layers.1.o_proj"),
        ("model.layers.0.mlp.up_proj.weight", 2.0**60, r"layers.0.up_proj|layers.0.unit"),
        ("model.layers.1.mlp.down_proj.weight", 2.0**57, r"layers.1.down_proj"),
        ("model.layers.1.self_attn.q_proj.weight", 2.0**58, r"layers.1.(q_proj|rotation|scores)"),
        ("model.norm.weight", 2.0**60, r"norm|head"),
        ("lm_head.weight", 2.0**60, r"head"),
    ],
)
def test_model_that_might_exceed_the_bound_is_refused_by_name(tensor: str, factor: float, named: str, tmp_path: Path) -> None:
    write_checkpoint("llama", tmp_path / "checkpoint")
    file = tmp_path / "checkpoint" / "model.safetensors"
    tensors = load_file(file)
    save_file(tensors | {tensor: tensors[tensor] * factor}, file)
    with pytest.raises(UnsupportedModel, match=named) as refused:
        convert(tmp_path / "checkpoint", tmp_path / "artifact", options=ConversionOptions(equalise=False))
    assert "2^60" in str(refused.value)
    assert not (tmp_path / "artifact").exists()


def test_reach_bounds_every_output_of_a_layer() -> None:
    generator = torch.Generator().manual_seed(5)
    rounded = round_weight(torch.randn(24, 48, generator=generator))
    reach = Magnitude()
    reach.add(rounded)
    weight = rounded.integers.to(torch.float64) * rounded.scale.to(torch.float64)[:, None]
    # The worst inputs: signs of a row for the largest value, the row itself for the norm.
    worst = max(float((weight @ row.sign()).abs().max()) for row in weight)
    assert worst * (1 - 1e-9) <= float(reach.of(Fraction(1))) <= worst * 1.2
    directions = weight / weight.norm(dim=1, keepdim=True) * 48**0.5
    worst = float((weight @ directions.t()).abs().max())
    assert worst * (1 - 1e-9) <= float(reach.of_norm(1.0, 48)) <= worst * 1.2


def test_computed_root_is_an_upper_bound() -> None:
    for value in (Fraction(0), Fraction(2), Fraction(1, 3), Fraction(10**40, 7)):
        assert value <= root(value) ** 2 <= (value + 1) * (1 + Fraction(1, 2**30))


def test_bound_of_wide_weights_is_proven_again(tmp_path: Path) -> None:
    write_checkpoint("qwen2", tmp_path / "checkpoint")
    convert(tmp_path / "checkpoint", tmp_path / "wide", options=ConversionOptions(16))
    verify_bound(artifact.load(tmp_path / "wide"))


@pytest.mark.parametrize("lie", [-1, 1])
def test_bound_that_the_weights_do_not_prove_is_refused(lie: int, tmp_path: Path) -> None:
    model = tiny("llama", tmp_path)
    stated = model.manifest.bound + lie
    liar = dataclasses.replace(model, manifest=dataclasses.replace(model.manifest, bound=stated))
    with pytest.raises(ArtifactMismatch, match=f"above {stated}, the weights say {model.manifest.bound}"):
        verify_bound(liar)


def test_weights_that_might_exceed_the_bound_are_refused_by_computation(model: Artifact, tmp_path: Path) -> None:
    huge = altered(model, tmp_path / "artifact", {"norm": torch.full_like(model.tensors["norm"], 2.0**61)})
    with pytest.raises(ArtifactMismatch, match=r"bound: .*norm: activations up to"):
        verify_bound(huge)

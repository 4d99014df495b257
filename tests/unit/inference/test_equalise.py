"""Equalisation: outlier models gain, clean models lose nothing, and what decides is integers."""

from pathlib import Path

import torch

from bytewise.inference.artifact import artifact
from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.convert.convert import ConversionOptions, convert
from bytewise.inference.convert.equalise import choose
from tests.fixtures.inference.models import prompts
from tests.fixtures.inference.outlier_checkpoints import decibels, with_outliers
from tests.fixtures.inference.tiny import tiny

TOKENS = [token for prompt in prompts(6) for token in prompt]


def quality(checkpoint: Path, folder: Path, bits: int) -> tuple[float, float, Artifact]:
    """Decibels of the logits without and with equalisation, and the artifact that has it."""
    found = []
    for equalise in (False, True):
        out = folder / f"{bits}-{equalise}"
        convert(checkpoint, out, options=ConversionOptions(bits, equalise=equalise))
        model = artifact.load(out)
        found.append(decibels(model, checkpoint, TOKENS))
    print(f"{bits} bits: {found[0]:.1f} dB, equalised {found[1]:.1f} dB")
    return found[0], found[1], model


def test_outlier_model_gains_ten_decibels(model: Artifact, tmp_path: Path) -> None:
    checkpoint = with_outliers(model.path.parent / "checkpoint", tmp_path / "outliers", 100.0)
    before, after, made = quality(checkpoint, tmp_path, 8)
    assert after >= before + 10
    record = made.manifest.equalisation
    assert record is not None and any(pair.quarters for pair in record.pairs)


def test_clean_model_does_not_lose_a_tenth_of_a_decibel(model: Artifact, tmp_path: Path) -> None:
    for bits in (8, 16):
        before, after, _ = quality(model.path.parent / "checkpoint", tmp_path, bits)
        assert after >= before - 0.1


def test_equalisation_is_zero_for_equal_channels_and_full_for_outliers() -> None:
    generator = torch.Generator().manual_seed(3)
    inputs, weight = (torch.randn(size, generator=generator) for size in ((64, 32), (48, 32)))
    channel = torch.arange(32)
    assert choose(inputs, [weight], channel, 8).quarters == 0
    size = torch.ones(32)
    size[5] = 4096.0
    choice = choose(inputs * size, [weight / size], channel, 8)
    # rms 4096 against 1: alpha of one moves 2^12, of three quarters 2^9.
    assert choice.quarters in (3, 4) and int(choice.exponents[5]) - 3 * choice.quarters in (-1, 0, 1)
    assert choice.exponents.abs().sum() - choice.exponents[5].abs() <= 4


def test_dead_channels_and_silent_inputs_are_unchanged() -> None:
    channel, weight = torch.arange(8), torch.ones(4, 8)
    assert choose(torch.zeros(3, 8), [weight], channel, 8).quarters == 0
    inputs = torch.tensor([[1.0, 0.0, 2.0**12, 1.0, 1.0, 1.0, 1.0, 1.0]])
    choice = choose(inputs, [weight / torch.tensor([1.0, 1, 2.0**12, 1, 1, 1, 1, 1])], channel, 8)
    assert choice.quarters > 0 and int(choice.exponents[1]) == 0 and int(choice.exponents[2]) > 0


def test_shared_value_heads_are_scaled_once_for_all_heads_that_read_them(model: Artifact, tmp_path: Path) -> None:
    checkpoint = with_outliers(model.path.parent / "checkpoint", tmp_path / "outliers", 100.0)
    convert(checkpoint, tmp_path / "artifact")
    record = artifact.load(tmp_path / "artifact").manifest.equalisation
    assert record is not None
    assert [pair.name for pair in record.pairs][:4] == [
        "layers.0.input_layernorm > layers.0.q_proj, layers.0.k_proj, layers.0.v_proj",
        "layers.0.v_proj > layers.0.o_proj",
        "layers.0.post_attention_layernorm > layers.0.gate_proj, layers.0.up_proj",
        "layers.0.up_proj > layers.0.down_proj",
    ]
    assert record.pairs[-1].name == "norm > head" and len(record.pairs) == 9 and record.skipped == ()


def test_pairs_of_experts_are_skipped_by_name(tmp_path: Path) -> None:
    record = tiny("mixtral", tmp_path / "mixtral").manifest.equalisation
    assert record is not None
    assert record.skipped[:2] == (
        "layers.0.post_attention_layernorm > layers.0.router, layers.0.experts",
        "layers.0.experts.up_proj > layers.0.experts.down_proj",
    )
    assert len(record.pairs) == 5

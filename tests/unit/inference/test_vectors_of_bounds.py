"""The vectors of section 3.6: they have not changed, and an implementation that was written from the text gives each line."""

import dataclasses
import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch

from bytewise.inference.artifact import artifact
from bytewise.inference.artifact.families import FAMILIES
from bytewise.inference.convert.bound import Bounds, LayerMagnitudes, Magnitude
from bytewise.inference.convert.convert import ConversionOptions, convert
from bytewise.inference.manifest import Architecture
from bytewise.protocol.encoding import from_json
from bytewise.protocol.errors.actors import UnsupportedModel
from tests.fixtures.inference.tiny import tiny, write_checkpoint
from tests.reference.engine import bounds, files
from tests.reference.engine.bounds import Linear, Lines, Maxima
from tests.reference.engine.hashes import TEXT
from tests.vectors import make_bounds, make_exact1

GOLDEN: dict[str, Any] = json.loads(make_bounds.FILE.read_text())
MODELS: dict[str, dict[str, Any]] = GOLDEN["models"]


def fraction(text: str) -> Fraction:
    """A hexadecimal number, of as many digits as it has."""
    digits, exponent = text.removeprefix("0x").split("p")
    whole, _, part = digits.partition(".")
    return Fraction(int(whole + part, 16)) * Fraction(2) ** (int(exponent) - 4 * len(part))


def maxima_of(vector: dict[str, Any]) -> Maxima:
    """The maxima of a vector."""
    linears = {name: Linear(*(fraction(each[letter]) for letter in "ASb")) for name, each in vector["linears"].items()}
    norms = {name: fraction(gain) for name, gain in vector["norms"].items()}
    embedding, table, scale = (fraction(vector[name]) for name in ("embedding", "rotary", "attention_scale"))
    return Maxima(embedding, table, scale, linears, norms)


def test_vectors_of_bounds_have_not_changed(tmp_path: Path) -> None:
    assert make_bounds.vectors(tmp_path) == GOLDEN


def test_every_family_has_a_vector_of_the_profiles_model() -> None:
    assert {vector["architecture"]["family"] for vector in MODELS.values()} == FAMILIES.keys()
    families = json.loads(make_exact1.FILE.read_text())["families"]
    assert {name: vector["model_id"] for name, vector in MODELS.items()} == {
        name: families[name]["model_id"] for name in families
    }


@pytest.mark.parametrize("variant", MODELS)
def test_the_second_implementation_gives_every_line_and_the_bound(variant: str) -> None:
    vector = MODELS[variant]
    lines = Lines(vector["architecture"], maxima_of(vector))
    assert [value for _, value in lines.lines] == [fraction(text) for text in vector["lines"]]
    assert lines.bound() == vector["bound"]


def test_bound_lines_have_the_names_of_the_specification() -> None:
    text = TEXT[TEXT.index("### 3.6 ") : TEXT.index("## 4. ")]
    named = re.findall(r"^    .*\bup\(.*\)   +(\S.*)$", text, re.MULTILINE)
    ours = [name for vector in MODELS.values() for name, _ in Lines(vector["architecture"], maxima_of(vector)).lines]
    norms = {"N", "post_attention_layernorm", "pre_feedforward_layernorm"}
    assert set(named) - norms == {name.split(".")[-1] for name in ours} - norms
    assert len(named) == 19


@pytest.mark.parametrize("variant", MODELS)
def test_second_implementation_finds_the_maxima_and_the_bound_of_the_files(variant: str, tmp_path: Path) -> None:
    model = tiny(variant, tmp_path)
    read = files.read(model.path)
    found = bounds.maxima(read)
    assert found == maxima_of(MODELS[variant])
    assert Lines(read.shape, found).bound() == model.manifest.bound


@pytest.mark.parametrize("variant", MODELS)
def test_lines_of_wide_weights_match_the_second_implementation(variant: str, tmp_path: Path) -> None:
    write_checkpoint(variant, tmp_path / "checkpoint", torch.bfloat16, hidden_size=24, rms_norm_eps=1e-3)
    convert(tmp_path / "checkpoint", tmp_path / "wide", options=ConversionOptions(16, 8))
    model = artifact.load(tmp_path / "wide")
    read = files.read(model.path)
    lines = Lines(read.shape, bounds.maxima(read))
    assert [make_bounds.exact(value) for _, value in lines.lines] == make_bounds.vector(model)["lines"]
    assert lines.bound() == model.manifest.bound


def engines_bound(vector: dict[str, Any], maxima: Maxima) -> int:
    """The engine's bound of a model with these maxima."""
    reaches = {name: Magnitude(float(each.a), float(each.s), float(each.b)) for name, each in maxima.linears.items()}
    shape = from_json(Architecture, vector["architecture"])
    proof = Bounds(shape, maxima.embedding, float(maxima.table), float(maxima.attention_scale))
    for index in range(shape.layers):
        prefix = f"layers.{index}."
        linears = {name.removeprefix(prefix): each for name, each in reaches.items() if name.startswith(prefix)}
        gains = {name.removeprefix(prefix): float(each) for name, each in maxima.norms.items() if name.startswith(prefix)}
        proof.layer(index, LayerMagnitudes(linears, gains))
    return proof.head(reaches["head"], float(maxima.norms["norm"]))


@pytest.mark.parametrize("variant", MODELS)
def test_both_implementations_refuse_the_same_models(variant: str) -> None:
    vector, found = MODELS[variant], set[int]()
    plain = maxima_of(vector)
    for power in range(16, 61):
        # Any line may be the largest: another norm has grown each time, and the head's in the end.
        grown = sorted(plain.norms)[power % len(plain.norms)]
        maxima = dataclasses.replace(plain, norms=plain.norms | {grown: plain.norms[grown] * 2**power})
        try:
            bound = Lines(vector["architecture"], maxima).bound()
        except OverflowError:
            with pytest.raises(UnsupportedModel, match=r"exact is up to 2\^60"):
                engines_bound(vector, maxima)
            found.add(0)
        else:
            assert engines_bound(vector, maxima) == bound
            found.add(bound)
    assert 0 in found and len(found) > 8

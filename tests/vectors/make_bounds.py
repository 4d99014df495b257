"""Writes bounds.json, the vectors of section 3.6 of the profile: `python -m tests.vectors.make_bounds`.

Of a tiny model of each family: the maxima of its tensors, every line of the bound of activations, and the bound. Floats are
hexadecimal; a line's result is exact, as `0x<numerator>p-<n>`, which is the numerator times 2^-n.
"""

import json
import sys
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.convert import bound as proof
from bytewise.inference.convert.bound import Bounds, LayerMagnitudes, Magnitude
from bytewise.inference.determinism import fixed
from bytewise.protocol.encoding import to_json
from tests.fixtures.inference.tiny import VARIANTS, tiny

FILE = Path(__file__).parent / "bounds.json"


class Noting(Bounds):
    """The engine's own proof, which also writes down what it is given and each of its lines."""

    def __init__(self, shape: Any, embedding: Fraction, rope_gain: float, attention_scale: float) -> None:
        self.lines: list[str] = []
        self.linears: dict[str, dict[str, str]] = {}
        self.norms: dict[str, str] = {}
        self.given = {"embedding": exact(embedding), "rotary": rope_gain.hex(), "attention_scale": attention_scale.hex()}
        super().__init__(shape, embedding, rope_gain, attention_scale)

    def layer(self, index: int, reach: LayerMagnitudes) -> None:
        """Follows one layer."""
        self.linears |= {f"layers.{index}.{name}": maxima(each) for name, each in reach.linears.items()}
        self.norms |= {f"layers.{index}.{name}": gain.hex() for name, gain in reach.gains.items()}
        super().layer(index, reach)

    def head(self, reach: Magnitude, gain: float) -> int:
        """Follows the head."""
        self.linears["head"], self.norms["norm"] = maxima(reach), gain.hex()
        return super().head(reach, gain)

    def _note(self, where: str, value: Fraction) -> Fraction:
        noted = super()._note(where, value)
        self.lines.append(exact(noted))
        return noted


def maxima(reach: Magnitude) -> dict[str, str]:
    """A, S and b of a linear layer."""
    return {"A": reach.absolute.hex(), "S": reach.square.hex(), "b": reach.bias.hex()}


def exact(value: Fraction) -> str:
    """A fraction whose denominator is a power of two."""
    assert value.denominator.bit_count() == 1
    return f"{value.numerator:#x}p-{value.denominator.bit_length() - 1}"


def vector(model: Artifact) -> dict[str, Any]:
    """What the engine's proof of a model is given, and what it finds."""
    made: list[Noting] = []

    def noting(*given: Any) -> Noting:
        made.append(Noting(*given))
        return made[-1]

    with fixed(1), pytest.MonkeyPatch.context() as patch:
        patch.setattr(proof, "Bounds", noting)
        bound = proof.bound_of(model)
    (bounds,) = made
    return {
        "model_id": model.model_id.hex(), "architecture": to_json(model.manifest.architecture), **bounds.given,
        "linears": bounds.linears, "norms": bounds.norms, "lines": bounds.lines, "bound": bound,
    }  # fmt: skip


def vectors(folder: Path) -> dict[str, Any]:
    """The whole file; models are made in `folder`."""
    made = {"made_by": "tests/vectors/make_bounds.py", "checked_by": "tests/unit/inference/test_vectors_of_bounds.py"}
    return {**made, "models": {variant: vector(tiny(variant, folder / variant)) for variant in VARIANTS}}


def main() -> int:
    """Writes the file."""
    with tempfile.TemporaryDirectory() as folder:
        FILE.write_text(json.dumps(vectors(Path(folder)), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""exact-1.json against the second engine: every primitive that a stranger would start with, in Python fractions."""

import json
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from bytewise.inference.exact import rope
from tests.reference.engine import arithmetic, attention
from tests.reference.engine.arithmetic import quantised

GOLDEN: dict[str, Any] = json.loads((Path(__file__).resolve().parents[2] / "vectors" / "exact-1.json").read_text())


def fractions(bits: list[str]) -> list[Fraction]:
    """Floats from the hexadecimal of their bits."""
    return [Fraction(struct.unpack(">f", bytes.fromhex(text))[0]) for text in bits]


@pytest.mark.parametrize("name", ["exp", "silu", "gelu_tanh", "tanh", "sqrt32"])
def test_elementwise_functions_match_their_vectors(name: str) -> None:
    function = {"exp": arithmetic.exponential, "sqrt32": arithmetic.root}.get(name) or getattr(arithmetic, name)
    assert [function(x) for x in fractions(GOLDEN[name]["input"])] == fractions(GOLDEN[name]["output"])


def test_softcap_matches_its_vectors() -> None:
    case = GOLDEN["softcap"]
    (cap,) = fractions(case["cap"])
    assert [arithmetic.softcap(x, cap) for x in fractions(case["input"])] == fractions(case["output"])


def test_norm_matches_its_vectors() -> None:
    case = GOLDEN["norm"]
    row, weight, (epsilon,) = (fractions(case[name]) for name in ("input", "weight", "epsilon"))
    assert arithmetic.norm(row, weight, epsilon) == fractions(case["output"])


def test_quantiser_matches_its_vectors() -> None:
    for case in GOLDEN["quantiser"]:
        assert quantised(fractions(case["row"]), case["bits"]) == (case["integers"], case["exponent"])


@pytest.mark.parametrize("case", GOLDEN["attention"], ids=lambda case: f"window {case['window']} cap {case['cap']}")
def test_attention_matches_its_vectors(case: dict[str, Any]) -> None:
    (factor,), cap = fractions([case["scale"]]), Fraction(case["cap"])
    query, keys, values = ([quantised(fractions(row), 14) for row in case[name]] for name in ("query", "key", "value"))
    for position, row in enumerate(query):
        seen = slice(max(0, position - case["window"] + 1) if case["window"] else 0, position + 1)
        assert attention.mixed(row, keys[seen], values[seen], factor, cap) == fractions(case["output"][position])


def test_routing_matches_its_vectors() -> None:
    for row in GOLDEN["routing"]["rows"]:
        weights = attention.routed(fractions(row["logits"]), GOLDEN["routing"]["experts_per_token"])
        assert [weights.get(expert, Fraction(0)) for expert in range(5)] == fractions(row["weights"])


def test_rotary_matches_its_vectors() -> None:
    for name, case in GOLDEN["rotary"].items():
        tables = {part: table.tolist() for part, table in rope.factor_tables(case["parameters"], 8, 1024).items()}
        for position, row in case["rows"].items():
            high, low = divmod(int(position), 256)
            pairs = [
                attention.turn(
                    [Fraction(tables[f"high.{part}"][high][i]) for part in ("cos", "sin")],
                    [Fraction(tables[f"low.{part}"][low][i]) for part in ("cos", "sin")],
                )
                for i in range(4)
            ]
            assert [*(cos for cos, _ in pairs), *(sin for _, sin in pairs)] == fractions(row), name

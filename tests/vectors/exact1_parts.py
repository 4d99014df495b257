"""Parts of exact-1.json: every primitive on made-up inputs, and one tiny model of each architecture. Floats are their bits."""

import struct
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bytewise.inference.exact import rope
from bytewise.inference.exact.attention import AttentionRule, attend
from bytewise.inference.exact.cache import ExactCache
from bytewise.inference.exact.elementwise import exp, gelu_tanh, rms_norm, silu, softcap, sqrt32, tanh
from bytewise.inference.exact.matmul import Float64Backend
from bytewise.inference.exact.modules import ExactRouter, SharedProduct
from bytewise.inference.exact.quantise import quantise
from bytewise.inference.known_answers.operations import integers
from bytewise.inference.torch_path import Runner
from bytewise.protocol import digests
from tests.fixtures.inference.tiny import LLAMA3, VARIANTS, YARN, tiny

ROTARY = {
    "default": {"rope_type": "default", "rope_theta": 10000.0},
    "linear": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0},
    "llama3": LLAMA3 | {"rope_theta": 500000.0, "original_max_position_embeddings": 128},
    "yarn": YARN | {"rope_type": "yarn", "rope_theta": 1000000.0},
}
POSITIONS = (0, 1, 255, 256, 1023)
TOKENS = [*b"seven f", 256]
"""What every tiny model reads: more than their windows hold."""


def bits(values: Tensor) -> list[str]:
    """float32 values as the hexadecimal of their bits."""
    return [struct.pack(">f", value).hex() for value in values.flatten().tolist()]


def numbers(name: str, shape: tuple[int, ...], unit: float, limit: int = 4095) -> Tensor:
    """Made-up multiples of a power of two."""
    return torch.tensor(integers(name, torch.Size(shape).numel(), limit), dtype=torch.float32).view(shape) * unit


def elementwise() -> dict[str, Any]:
    """Each function of one variable, the norm, and the quantiser."""
    points = torch.tensor(integers("exp", 40, 2**20), dtype=torch.float32).abs().neg() / torch.full((1,), 12000.0)
    gates = torch.tensor(integers("silu", 40, 2**20), dtype=torch.float32) / torch.full((1,), 50000.0)
    squares, cap = numbers("root", (40,), 2.0**-9, 2**20).abs(), torch.full((1,), 2.5)
    row, weight, epsilon = numbers("norm", (12,), 2.0**-9), numbers("norm-weight", (12,), 2.0**-12), torch.full((1,), 2.0**-17)
    found = {
        name: {"input": bits(given), "output": bits(function(given))}
        for name, function, given in (
            ("exp", exp, points), ("silu", silu, gates), ("gelu_tanh", gelu_tanh, gates), ("tanh", tanh, gates),
            ("sqrt32", sqrt32, squares),
        )
    }  # fmt: skip
    normed = rms_norm(row, weight, epsilon, torch.full((1,), 12.0, dtype=torch.float64))
    return {
        **found,
        "softcap": {"input": bits(gates), "cap": bits(cap), "output": bits(softcap(gates, cap))},
        "norm": {"input": bits(row), "weight": bits(weight), "epsilon": bits(epsilon), "output": bits(normed)},
        "quantiser": [_quantised(*case) for case in ((5, -10, 14), (8, 30, 14), (4, -140, 14), (6, -20, 22))],
    }


def _quantised(width: int, scale: int, magnitude: int) -> dict[str, Any]:
    row = torch.tensor([integers(f"row-{width}-{scale}", width, 2**23)], dtype=torch.float32) * 2.0**scale
    found = quantise(row, magnitude)
    whole = [int(q) for q in found.values[0].tolist()]
    return {"bits": magnitude, "row": bits(row[0]), "exponent": int(found.exponent), "integers": whole}


def rotary() -> dict[str, Any]:
    """Cosines and sines at a few positions, of plain and of scaled frequencies, for heads of width 8."""
    found: dict[str, Any] = {}
    for name, parameters in ROTARY.items():
        cos, sin = rope.rows(rope.factor_tables(parameters, 8, 1024), torch.tensor(POSITIONS))
        rows = {str(position): [*bits(cos[i, :4]), *bits(sin[i, :4])] for i, position in enumerate(POSITIONS)}
        found[name] = {"parameters": parameters, "rows": rows}
    return found


def attention() -> list[dict[str, Any]]:
    """One head of width 6 over 9 positions: plain, with a window, with a softcap, with both."""
    query, keys, values = (numbers(name, (1, 1, 9, 6), 2.0**-10) for name in ("query", "key", "value"))
    cases = []
    for window, cap in ((0, None), (3, None), (0, 2.5), (4, 2.5)):
        rule = AttentionRule(Float64Backend(), torch.full((1,), 0.25), window, None if cap is None else torch.full((1,), cap))
        output = attend(rule, query, *ExactCache(1, 1, 1, 6, 9).update(keys, values, 0))
        cases.append({"window": window, "cap": cap or 0, "output": [bits(row) for row in output[0, 0]]})
    given = {"scale": "3e800000", "width": 6}
    inputs = {name: [bits(row) for row in x[0, 0]] for name, x in (("query", query), ("key", keys), ("value", values))}
    return [given | inputs | case for case in cases]


def routing() -> dict[str, Any]:
    """Logits of six rows over five experts, and the weights of the three chosen."""
    tensors = {
        "router": numbers("router", (5, 8), 1.0, 127).to(torch.int8),
        "router.scale": numbers("router-scale", (5,), 2.0**-20).abs(),
    }  # fmt: skip
    # Two experts with equal weights always tie.
    tensors["router"][3], tensors["router.scale"][3] = tensors["router"][1], tensors["router.scale"][1]
    router = ExactRouter(SharedProduct(Float64Backend(), tensors, ["router"]), 3)
    logits, weights, _ = router(numbers("routed", (6, 8), 2.0**-9))
    rows = [{"logits": bits(row), "weights": bits(share)} for row, share in zip(logits, weights, strict=True)]
    return {"experts_per_token": 3, "rows": rows}


def families(folder: Path) -> dict[str, Any]:
    """Each tiny model: what it is converted to, and its head rows, exponents and logits after each token."""
    found = {}
    for variant in VARIANTS:
        model = tiny(variant, folder / variant)
        runner = Runner(model, Float64Backend())
        rows = runner.teacher_force(runner.cache(1, len(TOKENS)), [TOKENS], [0])[0]
        said = [b"" if row.logits is None else row.logits.numpy().astype("<f4").tobytes() for row in rows]
        found[variant] = {
            "checkpoint": digests.sha256((folder / variant / "checkpoint" / "model.safetensors").read_bytes()).hex(),
            "model_id": model.model_id.hex(), "tokens": TOKENS, "rows": [row.row.hex() for row in rows],
            "exponents": [row.exponent for row in rows], "logits_sha256": [digests.sha256(each).hex() for each in said],
        }  # fmt: skip
    return found

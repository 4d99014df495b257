"""A second implementation of exact-1 in Python integers and fractions alone: slow, plain, sharing no arithmetic with torch."""

from fractions import Fraction

from safetensors.numpy import load

from bytewise.inference.artifact import Artifact
from bytewise.inference.manifest import WEIGHTS_FILE
from bytewise.inference.rounding import nearest_float32

Vector = list[Fraction]
ONE = Fraction(1)

LOG2_E, LN2_HIGH = Fraction(12102203, 2**23), Fraction(355, 512)
LN2_LOW = Fraction(nearest_float32(Fraction(-2121944400546905827679, 10**25)))
FACTORIALS = (5040, 720, 120, 24, 6, 2, 1)


def f32(value: Fraction) -> Fraction:
    """Rounded once to float32."""
    return Fraction(nearest_float32(value))


def quantised(row: Vector, bits: int) -> tuple[list[int], int]:
    """Integers and E."""
    largest, exponent = max(abs(x) for x in row), 64
    while largest >= Fraction(2) ** (exponent - 126):
        exponent += 1
    limit, scale = 2**bits - 1, Fraction(2) ** (exponent - 126 - bits)
    return [max(-limit, min(limit, round(x / scale))) for x in row], exponent


def scale_of(exponent: int, bits: int) -> Fraction:
    """s."""
    return Fraction(2) ** (exponent - 126 - bits)


def exponential(t: Fraction) -> Fraction:
    """exp of the profile for t <= 0."""
    if t < -86:
        return Fraction(0)
    n = round(f32(t * LOG2_E))
    r = f32(f32(t - f32(n * LN2_HIGH)) - f32(n * LN2_LOW))
    value = f32(r * f32(Fraction(1, FACTORIALS[0])))
    for factorial in FACTORIALS[1:]:
        value = f32(f32(value + f32(Fraction(1, factorial))) * r)
    return f32(value + 1) * Fraction(2) ** n


def root(x: Fraction) -> Fraction:
    """float32 root by bisection over its bits."""
    low, high = Fraction(0), max(ONE, x)
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * middle <= x else (low, middle)
    return f32(low)


class Reference:
    """One sequence, token by token."""

    def __init__(self, artifact: Artifact) -> None:
        self.shape = artifact.manifest.architecture
        arrays = load(artifact.content[WEIGHTS_FILE])
        integral = {name: [[int(w) for w in row] for row in a] for name, a in arrays.items() if a.dtype.name == "int8"}
        self.integers: dict[str, list[list[int]]] = integral
        tables = {
            name: [[Fraction(float(v)) for v in row] for row in a]
            for name, a in arrays.items()
            if name not in integral and a.ndim == 2
        }
        self.tables: dict[str, list[Vector]] = tables
        self.vectors: dict[str, Vector] = {n: [Fraction(float(v)) for v in a] for n, a in arrays.items() if a.ndim == 1}
        self.seen: list[list[list[tuple[list[int], int]]]] = [[] for _ in range(2 * self.shape.layers)]

    def step(self, token: int, position: int) -> tuple[list[int], int, Vector]:
        """Head row, its E and the logits after one more token."""
        x = self.tables["embedding"][token]
        for layer in range(self.shape.layers):
            x = self._block(x, f"layers.{layer}.", layer, position)
        integers, exponent = quantised(self._norm(x, "norm"), 14)
        return integers, exponent, self._linear(integers, exponent, "head")

    def _block(self, x: Vector, prefix: str, layer: int, position: int) -> Vector:
        rows = quantised(self._norm(x, prefix + "input_layernorm"), 14)
        query, key, value = (self._linear(*rows, prefix + name) for name in ("q_proj", "k_proj", "v_proj"))
        mixed = self._attend(self._heads(query, position), self._heads(key, position), self._heads(value, None), layer)
        x = self._add(x, self._linear(*quantised(mixed, 14), prefix + "o_proj"))
        rows = quantised(self._norm(x, prefix + "post_attention_layernorm"), 14)
        gate, up = self._linear(*rows, prefix + "gate_proj"), self._linear(*rows, prefix + "up_proj")
        inner = [f32(self._silu(g) * u) for g, u in zip(gate, up, strict=True)]
        return self._add(x, self._linear(*quantised(inner, 14), prefix + "down_proj"))

    def _linear(self, integers: list[int], exponent: int, name: str) -> Vector:
        scale, scales = scale_of(exponent, 14), self.vectors[f"{name}.scale"]
        sums = (sum(a * b for a, b in zip(integers, row, strict=True)) for row in self.integers[name])
        return [f32(f32(f32(Fraction(s)) * scale) * w) for s, w in zip(sums, scales, strict=True)]

    def _norm(self, x: Vector, name: str) -> Vector:
        integers, exponent = quantised(x, 14)
        # The quotient is rounded to float64 first; these widths are powers of two, so that rounding changes nothing.
        mean = f32(Fraction(sum(q * q for q in integers), len(x)))
        variance = f32(f32(mean * f32(scale_of(exponent, 14) ** 2)) + self.vectors["epsilon"][0])
        divisor = root(variance)
        return [f32(f32(v / divisor) * w) for v, w in zip(x, self.vectors[name], strict=True)]

    def _heads(self, x: Vector, position: int | None) -> list[Vector]:
        width = self.shape.head_width
        heads = [x[i : i + width] for i in range(0, len(x), width)]
        return heads if position is None else [self._rotate(head, position) for head in heads]

    def _rotate(self, head: Vector, position: int) -> Vector:
        half, high, low = len(head) // 2, position // 256, position % 256
        turned = list(head)
        for i in range(half):
            hc, hs = (self.tables[f"rope.high.{part}"][high][i] for part in ("cos", "sin"))
            lc, ls = (self.tables[f"rope.low.{part}"][low][i] for part in ("cos", "sin"))
            cos = f32(Fraction(float(hc * lc) - float(hs * ls)))
            sin = f32(Fraction(float(hs * lc) + float(hc * ls)))
            first, second = head[i], head[half + i]
            turned[i] = f32(f32(first * cos) + f32(-second * sin))
            turned[half + i] = f32(f32(second * cos) + f32(first * sin))
        return turned

    def _attend(self, query: list[Vector], key: list[Vector], value: list[Vector], layer: int) -> Vector:
        keys, values = self.seen[2 * layer], self.seen[2 * layer + 1]
        keys.append([quantised(k, 14) for k in key])
        values.append([quantised(v, 14) for v in value])
        group, output = len(query) // len(key), []
        for h, head in enumerate(query):
            shared = h // group
            output += self._head(head, [k[shared] for k in keys], [v[shared] for v in values])
        return output

    def _head(self, query: Vector, keys: list[tuple[list[int], int]], values: list[tuple[list[int], int]]) -> Vector:
        integers, exponent = quantised(query, 14)
        factor = f32(self.vectors["attention_scale"][0] * scale_of(exponent, 14))
        dots = [sum(a * b for a, b in zip(integers, k, strict=True)) for k, _ in keys]
        scores = [f32(f32(f32(Fraction(d)) * factor) * scale_of(e, 14)) for d, (_, e) in zip(dots, keys, strict=True)]
        weights = [exponential(f32(score - max(scores))) for score in scores]
        total = f32(Fraction(sum(round(w * 2**30) for w in weights)))
        shares, top = quantised([w * scale_of(e, 14) for w, (_, e) in zip(weights, values, strict=True)], 22)
        sums = [sum(share * v[i] for share, (v, _) in zip(shares, values, strict=True)) for i in range(len(query))]
        return [f32(f32(Fraction(s)) * scale_of(top, 22) / (total / 2**30)) for s in sums]

    def _silu(self, x: Fraction) -> Fraction:
        e = exponential(-abs(x))
        return f32(x * f32((ONE if x >= 0 else e) / f32(ONE + e)))

    def _add(self, x: Vector, y: Vector) -> Vector:
        return [f32(a + b) for a, b in zip(x, y, strict=True)]

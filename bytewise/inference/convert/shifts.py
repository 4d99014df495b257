"""Powers of two that move size from a producer's channels to its consumers' columns, and cancel exactly."""

from dataclasses import dataclass, field

from torch import Tensor

from bytewise.inference.artifact.weights import power_of_two

MAX_SHIFT = 24
"""Largest exponent: what a float32 weight loses to it, rounding to 8 or 16 bits would not have kept."""


@dataclass(slots=True)
class Shifts:
    """Factors by tensor name; what has none is left as it is."""

    rows: dict[str, Tensor] = field(default_factory=dict)
    """Of producers: float32 2^-k for each output channel, or each element of a norm's weight."""
    columns: dict[str, Tensor] = field(default_factory=dict)
    """Of consumers: float32 2^k for each input channel."""

    def add(self, producer: str, exponents: Tensor, consumers: dict[str, Tensor]) -> None:
        """Divides the producer's channels by 2^k; each consumer multiplies its columns by 2^k, in its own order of channels."""
        self.rows[producer] = power_of_two(-exponents)
        for name, columns in consumers.items():
            self.columns[name] = power_of_two(columns)

    def weight(self, name: str, start: int, block: Tensor) -> Tensor:
        """Rows of a linear layer's weight, from row `start` on."""
        if name in self.columns:
            block = block * self.columns[name]
        if name in self.rows:
            block = block * self.rows[name][start : start + len(block), None]
        return block

    def vector(self, name: str, values: Tensor) -> Tensor:
        """A norm's weight or a bias."""
        return values * self.rows[name] if name in self.rows else values

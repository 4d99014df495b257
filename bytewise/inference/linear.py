"""Linear layers as exact integer products (design section 6)."""

import torch
from torch import Tensor, nn

from bytewise.inference.matmul import Backend
from bytewise.inference.quantise import ACTIVATION_BITS, Rows, quantise

Tensors = dict[str, Tensor]


class SharedProduct:
    """One quantisation and one product for the linear layers that read the same input."""

    def __init__(self, backend: Backend, tensors: Tensors, names: list[str]) -> None:
        self._backend = backend
        self._weight = backend.pack(torch.cat([tensors[name] for name in names]))
        self._scale = torch.cat([tensors[f"{name}.scale"] for name in names])
        biases = [tensors[f"{name}.bias"] for name in names if f"{name}.bias" in tensors]
        self._bias = torch.cat(biases) if biases else None
        self._seen: Tensor | None = None
        self._result = torch.empty(0)

    def of(self, x: Tensor, last: bool) -> Tensor:
        """float32 outputs of all layers for input x; kept until the last of them has asked."""
        if x is not self._seen:
            rows = quantise(x.reshape(-1, x.shape[-1]), ACTIVATION_BITS)
            self._seen, self._result = x, self.of_rows(rows).view(*x.shape[:-1], -1)
        result = self._result
        if last:
            self._seen, self._result = None, torch.empty(0)
        return result

    def of_rows(self, rows: Rows) -> Tensor:
        """float32(exact sum) · s · weight scale + bias, each rounded once."""
        result = self._backend.product(rows.values, self._weight).to(torch.float32).mul_(rows.scale).mul_(self._scale)
        return result if self._bias is None else result.add_(self._bias)


class ExactLinear(nn.Module):
    """Columns of a shared product."""

    def __init__(self, product: SharedProduct, start: int, stop: int, last: bool) -> None:
        super().__init__()
        self._product, self._start, self._stop, self._last = product, start, stop, last

    def forward(self, x: Tensor) -> Tensor:
        """Outputs of this layer."""
        return self._product.of(x, self._last)[..., self._start : self._stop]

"""Exact replacements for the modules of transformers' models, except linear layers and experts (design section 6)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bytewise.inference.exact import rope
from bytewise.inference.exact.elementwise import gelu_tanh, rms_norm, silu, softcap
from bytewise.inference.exact.linear import SharedProduct
from bytewise.inference.exact.matmul import Backend, FusedBackend
from bytewise.inference.exact.quantise import Rows

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"silu": silu, "gelu_tanh": gelu_tanh}
"""Activation functions by their name in the manifest."""


def activation(name: str, backend: Backend) -> Callable[[Tensor], Tensor]:
    """Returns the activation function with this name of the manifest. If the backend computes it in one call, that function is
    used."""
    return backend.silu if name == "silu" and isinstance(backend, FusedBackend) else ACTIVATIONS[name]


class ExactEmbedding(nn.Module):
    """Embedding whose rows keep the checkpoint's type. A row is converted to float32 when it is used, which is exact."""

    def __init__(self, weight: Tensor, scale: Tensor | None) -> None:
        super().__init__()
        self._weight, self._scale = weight, scale

    def forward(self, tokens: Tensor) -> Tensor:
        """Returns the float32 rows [B, T, D] of token ids [B, T], multiplied by the family's scale if it has one."""
        found = self._weight[tokens].to(torch.float32)
        return found if self._scale is None else found.mul_(self._scale)


class ExactNorm(nn.Module):
    """RMSNorm of the profile."""

    def __init__(self, weight: Tensor, epsilon: Tensor, backend: Backend) -> None:
        super().__init__()
        self._weight, self._epsilon = weight, epsilon
        self._fused = (backend, float(epsilon)) if isinstance(backend, FusedBackend) else None
        self._width = torch.full((1,), float(weight.shape[0]), dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the normalised rows."""
        if self._fused is not None:
            backend, epsilon = self._fused
            return backend.rms_norm(x, self._weight, epsilon)
        return rms_norm(x, self._weight, self._epsilon, self._width)


class ExactRotary(nn.Module):
    """Rotary embedding that takes cosines and sines from the artifact's factor tables."""

    def __init__(self, tables: dict[str, Tensor]) -> None:
        super().__init__()
        self._tables = tables

    def forward(self, _: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Returns cosines and sines, [B, T, d] each, for absolute positions [B, T]."""
        return rope.rows(self._tables, position_ids)


class ExactActivation(nn.Module):
    """Activation function of the gated unit."""

    def __init__(self, name: str, backend: Backend) -> None:
        super().__init__()
        self._function = activation(name, backend)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the activation of each element."""
        return self._function(x)


class Head:
    """Output head, which turns rows of the final norm into logits."""

    def __init__(self, product: SharedProduct, cap: Tensor | None) -> None:
        self._product, self._cap = product, cap

    def of_rows(self, rows: Rows) -> Tensor:
        """Returns float32 logits [M, V] for quantised rows, with the soft cap of the model if it has one."""
        logits = self._product.of_rows(rows)
        return logits if self._cap is None else softcap(logits, self._cap)

"""Exact replacements for modules of transformers' models, without linear layers and experts (design section 6)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bytewise.inference.exact import rope
from bytewise.inference.exact.elementwise import gelu_tanh, rms_norm, silu, softcap
from bytewise.inference.exact.linear import SharedProduct
from bytewise.inference.exact.matmul import Backend, FusedBackend
from bytewise.inference.exact.quantise import Rows

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"silu": silu, "gelu_tanh": gelu_tanh}
"""Activations by the manifest's name."""


def activation(name: str, backend: Backend) -> Callable[[Tensor], Tensor]:
    """The activation with the manifest's name, in one call where the backend has it."""
    return backend.silu if name == "silu" and isinstance(backend, FusedBackend) else ACTIVATIONS[name]


class ExactEmbedding(nn.Module):
    """Rows of the embedding, kept in the checkpoint's dtype and widened when used, which is exact."""

    def __init__(self, weight: Tensor, scale: Tensor | None) -> None:
        super().__init__()
        self._weight, self._scale = weight, scale

    def forward(self, tokens: Tensor) -> Tensor:
        """float32 rows [B, T, D] of token ids [B, T], scaled where the family does so."""
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
        """Normalised rows."""
        if self._fused is not None:
            backend, epsilon = self._fused
            return backend.rms_norm(x, self._weight, epsilon)
        return rms_norm(x, self._weight, self._epsilon, self._width)


class ExactRotary(nn.Module):
    """Cosines and sines from the artifact's factor tables."""

    def __init__(self, tables: dict[str, Tensor]) -> None:
        super().__init__()
        self._tables = tables

    def forward(self, _: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [B, T, d] of absolute positions [B, T]."""
        return rope.rows(self._tables, position_ids)


class ExactActivation(nn.Module):
    """The activation of the gated unit."""

    def __init__(self, name: str, backend: Backend) -> None:
        super().__init__()
        self._function = activation(name, backend)

    def forward(self, x: Tensor) -> Tensor:
        """The activation of each element."""
        return self._function(x)


class Head:
    """The output head: rows of the final norm to logits."""

    def __init__(self, product: SharedProduct, cap: Tensor | None) -> None:
        self._product, self._cap = product, cap

    def of_rows(self, rows: Rows) -> Tensor:
        """float32 logits [M, V] of quantised rows, soft-capped where the model has a cap."""
        logits = self._product.of_rows(rows)
        return logits if self._cap is None else softcap(logits, self._cap)

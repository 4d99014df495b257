"""Exact replacements for the modules of transformers' models (design section 6)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from bytewise.inference.exact import rope
from bytewise.inference.exact.attention import DENOMINATOR_ONE
from bytewise.inference.exact.elementwise import exp, gelu_tanh, rms_norm, silu, softcap
from bytewise.inference.exact.matmul import Backend, FusedBackend, Weights
from bytewise.inference.exact.quantise import ACTIVATION_BITS, Rows, quantise

# Linear layers as exact integer products.

Tensors = dict[str, Tensor]

LIMB = 256.0
"""Factor of the high limb. A 16-bit weight is 256 · high + low, with low from -128 to 127."""


class StackedLayers:
    """Stack of linear layers. One product of any backend computes all of them.

    All have weights of one precision: 8 bits, or 16 bits in two int8 limbs. Either all have biases, or none has.
    """

    def __init__(self, backend: Backend, layers: Sequence[Weights]) -> None:
        self._backend = backend
        self._high = backend.pack(torch.cat([layer.high for layer in layers]))
        low, bias = ([layer.low for layer in layers if layer.low is not None], [x.bias for x in layers if x.bias is not None])
        self._low = backend.pack(torch.cat(low)) if low else None
        self._scale = torch.cat([layer.scale for layer in layers])
        self._bias = torch.cat(bias) if bias else None

    def of_rows(self, rows: Rows) -> Tensor:
        """Returns float32(exact sum) · row scale · weight scale + bias for quantised rows. Each operation rounds once."""
        result = self._sums(rows.values).to(torch.float32).mul_(rows.scale).mul_(self._scale)
        return result if self._bias is None else result.add_(self._bias)

    def _sums(self, values: Tensor) -> Tensor:
        sums = self._backend.product(values, self._high)
        if self._low is None:
            return sums
        # |q| < 2^14, |w| < 2^15, at most 2^16 of them: below 2^45, and so is each part, so that float64 adds exactly.
        return sums.mul_(LIMB).add_(self._backend.product(values, self._low))


class SharedProduct:
    """Linear layers with the same input. They share one quantisation and one product."""

    def __init__(self, backend: Backend, tensors: Tensors, names: list[str]) -> None:
        layers = [_weights(tensors, name) for name in names]
        self._fused: Callable[[Tensor], Tensor] | None = None
        if isinstance(backend, FusedBackend):
            self._fused = backend.linear(layers)
        else:
            self._stacked = StackedLayers(backend, layers)
        self._seen: Tensor | None = None
        self._result = torch.empty(0)

    def of(self, x: Tensor, last: bool) -> Tensor:
        """Returns the float32 outputs of all layers for the input x. The first layer that asks causes the computation. A call
        with `last` drops the outputs."""
        if x is not self._seen:
            self._seen, self._result = x, self._of_floats(x)
        result = self._result
        if last:
            self._seen, self._result = None, torch.empty(0)
        return result

    def of_rows(self, rows: Rows) -> Tensor:
        """Returns the outputs [M, N] of all layers for rows [M, K] that are already quantised."""
        # Pass floats whose quantisation gives the same integers and the same scale.
        return self._stacked.of_rows(rows) if self._fused is None else self._fused(rows.values * rows.scale)

    def _of_floats(self, x: Tensor) -> Tensor:
        if self._fused is not None:
            return self._fused(x)
        rows = quantise(x.reshape(-1, x.shape[-1]), ACTIVATION_BITS)
        return self._stacked.of_rows(rows).view(*x.shape[:-1], -1)


class ExactLinear(nn.Module):
    """One linear layer. It takes its columns from a product that several layers share."""

    def __init__(self, product: SharedProduct, start: int, stop: int, last: bool) -> None:
        super().__init__()
        self._product, self._start, self._stop, self._last = product, start, stop, last

    def forward(self, x: Tensor) -> Tensor:
        """Returns the outputs of this layer."""
        return self._product.of(x, self._last)[..., self._start : self._stop]


def _weights(tensors: Tensors, name: str) -> Weights:
    return Weights(tensors[name], tensors.get(f"{name}.low"), tensors[f"{name}.scale"], tensors.get(f"{name}.bias"))


# Embedding, norms, rotary embedding, activation and output head.

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"silu": silu, "gelu_tanh": gelu_tanh}
"""Activation functions by their name in the manifest."""


def activation(name: str, backend: Backend) -> Callable[[Tensor], Tensor]:
    """Returns the activation function with this name of the manifest. If the backend computes the function in one call, returns
    the backend's version."""
    return backend.silu if name == "silu" and isinstance(backend, FusedBackend) else ACTIVATIONS[name]


class ExactEmbedding(nn.Module):
    """Embedding whose rows keep the checkpoint's type. It converts a row to float32 when the row is used. The conversion is
    exact."""

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


# Mixture of experts: exact routing; each chosen expert is an exact gated unit, added in ascending index (design section 6).

Activation = Callable[[Tensor], Tensor]


class ExactRouter(nn.Module):
    """Router of a mixture of experts. It chooses the experts with the largest logits. Among equal logits the lower index wins."""

    def __init__(self, product: SharedProduct, chosen: int) -> None:
        super().__init__()
        self._product, self._count = product, chosen

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns three tensors for rows [M, D]: the logits [M, E], the weights [M, E] and the choice, bool [M, E]. The weight
        of an expert that was not chosen is 0."""
        logits = self._product.of_rows(quantise(x, ACTIVATION_BITS))
        chosen = _rank(logits) < self._count
        shifted = logits - logits.amax(-1, keepdim=True)
        e = exp(torch.where(chosen, shifted, -torch.inf))
        total = (e * DENOMINATOR_ONE).round_().sum(-1, keepdim=True, dtype=torch.float64).to(torch.float32)
        return logits, e / (total * (1 / DENOMINATOR_ONE)), chosen


def _rank(logits: Tensor) -> Tensor:
    """Returns for each logit the number of logits of its row that come before it. Larger logits come before it, and equal
    logits with a lower index."""
    index = torch.arange(logits.shape[-1])
    own, other = logits[..., :, None], logits[..., None, :]
    before = (other > own) | ((other == own) & (index[:, None] > index[None, :]))
    return before.sum(-1)


class ExactExperts(nn.Module):
    """Experts of one layer of a mixture-of-experts model."""

    def __init__(self, experts: list[tuple[SharedProduct, SharedProduct]], activation: Activation) -> None:
        """Takes one pair of products for each expert. The first product computes its gate and up projections, the second its
        down projection."""
        super().__init__()
        self._experts, self._activation = experts, activation

    def forward(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Returns Σ weight · expert(x) over the chosen experts of each row. The sum starts from 0, and experts are added by
        ascending index."""
        rows, result = quantise(x, ACTIVATION_BITS), torch.zeros_like(x)
        for expert, column in enumerate(chosen.t().tolist()):
            picked = [row for row, hit in enumerate(column) if hit]
            if picked:
                index = torch.tensor(picked)
                part = Rows(rows.values[index], rows.scale[index], ACTIVATION_BITS)
                scaled = self._unit(expert, part).mul_(weights[index, expert : expert + 1])
                result.index_copy_(0, index, result[index].add_(scaled))
        return result

    def _unit(self, expert: int, rows: Rows) -> Tensor:
        gate_up, down = self._experts[expert]
        both = gate_up.of_rows(rows)
        half = both.shape[-1] // 2
        return down.of_rows(quantise(self._activation(both[:, :half]).mul_(both[:, half:]), ACTIVATION_BITS))

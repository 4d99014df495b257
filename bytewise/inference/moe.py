"""Mixture of experts: exact routing, each chosen expert an exact gated unit, added in ascending index (design section 6)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bytewise.inference.exact.attention import DENOMINATOR_ONE
from bytewise.inference.exact.elementwise import exp
from bytewise.inference.exact.linear import SharedProduct
from bytewise.inference.exact.quantise import ACTIVATION_BITS, Rows, quantise

Activation = Callable[[Tensor], Tensor]


class ExactRouter(nn.Module):
    """Chooses experts by (logit, lowest index)."""

    def __init__(self, product: SharedProduct, chosen: int) -> None:
        super().__init__()
        self._product, self._count = product, chosen

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits [M, E], weights [M, E] (0 where not chosen) and choice, bool [M, E], of rows [M, D]."""
        logits = self._product.of_rows(quantise(x, ACTIVATION_BITS))
        chosen = _rank(logits) < self._count
        shifted = logits - logits.amax(-1, keepdim=True)
        e = exp(torch.where(chosen, shifted, -torch.inf))
        total = (e * DENOMINATOR_ONE).round_().sum(-1, keepdim=True, dtype=torch.float64).to(torch.float32)
        return logits, e / (total * (1 / DENOMINATOR_ONE)), chosen


def _rank(logits: Tensor) -> Tensor:
    """For each logit of a row, how many come before it: larger ones, and equal ones of a lower index."""
    index = torch.arange(logits.shape[-1])
    own, other = logits[..., :, None], logits[..., None, :]
    before = (other > own) | ((other == own) & (index[:, None] > index[None, :]))
    return before.sum(-1)


class ExactExperts(nn.Module):
    """The experts of one layer."""

    def __init__(self, experts: list[tuple[SharedProduct, SharedProduct]], activation: Activation) -> None:
        """Each expert is the product of its gate and up projections, and that of its down projection."""
        super().__init__()
        self._experts, self._activation = experts, activation

    def forward(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Σ weight · expert(x) over the chosen experts of each row, in ascending index, from 0 on."""
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

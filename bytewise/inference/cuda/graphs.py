"""Decoding in fixed shapes: every step is the same sequence of kernels over the same memory, so that CUDA can replay it.

Sums of integers have no order, and a slot without a token weighs exactly nothing: the bytes are those of `Runner.feed`.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.exact.cache import ExactCache, Stored
from bytewise.inference.exact.quantise import ACTIVATION_BITS, Rows, quantise
from bytewise.inference.manifest import Architecture
from bytewise.inference.runner import head_rows

BUCKET = 256
"""Attention reads this many slots at a time: one graph for each multiple that was needed."""

WARM_UP_RUNS = 3
"""Before a capture, on a stream of its own, as the library asks for."""


def can_be_static(shape: Architecture) -> bool:
    """Whether a step has one shape: sliding windows cut the keys by position, experts are chosen by value."""
    return not shape.windows and not shape.experts


class StaticCache(ExactCache):
    """Keys and values of one sequence in memory that does not move; which slots are filled is a tensor."""

    def __init__(self, shape: Architecture, slots: int) -> None:
        super().__init__(shape.layers, 1, shape.key_value_heads, shape.head_width, slots)
        self.at = torch.zeros(1, dtype=torch.int64)
        self._order = torch.arange(slots)

    def load(self, source: ExactCache) -> None:
        """Takes over all tokens of another cache of one sequence."""
        count = source.length
        self._values.zero_()
        self._scale.zero_()
        self._values[..., :count, :] = source._values[..., :count, :]
        self._scale[..., :count] = source._scale[..., :count]

    def store_newest(self, target: ExactCache) -> None:
        """Appends the token of the last step to the other cache."""
        slot = target.length
        target._values[..., slot, :] = self._values[..., slot, :]
        target._scale[..., slot] = self._scale[..., slot]
        target.advance(1)

    def advance(self, count: int) -> None:
        """Nothing: where the next token goes is in `at`."""

    def _store(self, kind: int, layer: int, rows: Rows) -> Stored:
        values, scale = self._values[kind, layer], self._scale[kind, layer]
        values.index_copy_(2, self.at, rows.values.to(values.dtype))
        scale.index_copy_(3, self.at, rows.scale.transpose(2, 3))
        return Stored(values, scale, self._order <= self.at)


@dataclass(frozen=True, slots=True)
class Network:
    """What a step computes."""

    shape: Architecture
    """Of the model."""
    hidden: Callable[[ExactCache, Tensor, Tensor], Tensor]
    """Final norm's output [1, 1, D] of tokens and positions [1, 1]; fills the cache."""
    logits: Callable[[Rows], Tensor]
    """Logits [1, V] of the quantised row."""


class Step:
    """One decoding step in a fixed shape: inputs and outputs are tensors that stay where they are."""

    def __init__(self, network: Network, slots: int, captured: bool) -> None:
        self.cache = StaticCache(network.shape, slots)
        self.slots = slots
        self._network, self._captured, self._token = network, captured, torch.zeros((1, 1), dtype=torch.int64)
        self._graph: Any = None
        self._compute()

    def run(self, token: int, position: int) -> tuple[Rows, Tensor]:
        """Quantised row and logits after a token at a position; both are overwritten by the next step."""
        self._token.fill_(token)
        self.cache.at.fill_(position)
        if self._captured and self._graph is None and _get_current_dispatch_mode() is None:
            # Not under the guard: it looks at values, and a capture cannot wait for them.
            self._graph = self._capture()
        if self._graph is None:
            self._compute()
        else:
            self._graph.replay()
        return self._rows, self._logits

    def _compute(self) -> None:
        hidden = self._network.hidden(self.cache, self._token, self.cache.at[None])
        self._rows = quantise(hidden[0], ACTIVATION_BITS)
        self._logits = self._network.logits(self._rows)

    def _capture(self) -> Any:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_RUNS):
                self._compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._compute()
        return graph


class StaticDecoder:
    """Feeds tokens through fixed shapes, for one sequence after another."""

    def __init__(self, network: Network, captured: bool, bucket: int = BUCKET) -> None:
        """`captured` makes a CUDA graph of each step."""
        self._network, self._captured, self._bucket = network, captured, bucket
        self._steps: dict[int, Step] = {}
        self._held: tuple[weakref.ref[ExactCache], int, int] | None = None
        """Whose tokens a step's memory holds, how many, and in which step."""

    def feed(self, cache: ExactCache, token: int) -> HeadRow:
        """One more token at the end of a cache of one sequence."""
        position = cache.length
        step = self._step(-(-(position + 1) // self._bucket) * self._bucket)
        if not self._holds(cache, step):
            step.cache.load(cache)
        rows, logits = step.run(token, position)
        step.cache.store_newest(cache)
        self._held = (weakref.ref(cache), cache.length, step.slots)
        return head_rows(rows, logits)[0]

    def forget(self) -> None:
        """Somebody else has written to the caches: the next token takes over all of its cache again."""
        self._held = None

    def _step(self, slots: int) -> Step:
        if slots not in self._steps:
            self._steps[slots] = Step(self._network, slots, self._captured)
        return self._steps[slots]

    def _holds(self, cache: ExactCache, step: Step) -> bool:
        return self._held is not None and (self._held[0](), *self._held[1:]) == (cache, cache.length, step.slots)

"""Interface of a path: one way, torch or native, to run an artifact's model. All paths give the same bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from torch import Tensor

from bytewise.inference.sampling.sampler import greedy
from bytewise.protocol.units import Digest


@dataclass(frozen=True, slots=True)
class HeadRow:
    """Input and output of the output head at one position."""

    row: bytes
    """Integers of Q(x, 14) of the final norm's output, int16 little-endian."""
    exponent: int
    """Exponent field E of the row."""
    said: Tensor | Callable[[], Tensor] | None
    """The logits, or a function that computes them. None if the row or a logit is not finite: the answer ends here."""
    chosen: int | None = None
    """Token of the largest logit (the lowest id among equals), if the path has looked for it."""

    @property
    def logits(self) -> Tensor | None:
        """float32 [V], or None if the answer ends here. It may cost a product with the whole head."""
        return self.said() if callable(self.said) else self.said

    @property
    def best(self) -> int | None:
        """Token of the largest logit (the lowest id among equals); None if the answer ends here."""
        if self.chosen is not None or self.logits is None:
            return self.chosen
        return greedy(self.logits[None])[0]


class PathCache(Protocol):
    """Keys and values of the tokens so far, of one sequence or of a ragged batch."""

    capacity: int
    """Number of tokens for which each sequence has room."""

    def crop(self, length: int) -> None:
        """Drops the tokens from `length` on. Only for a cache of one sequence."""
        ...

    def select(self, sequence: int) -> Self:
        """The cache of one sequence of the batch. It shares memory with the batch."""
        ...


AnyCache = TypeVar("AnyCache", bound=PathCache)


class Path(Protocol[AnyCache]):
    """A loaded model that turns tokens into head rows."""

    name: str
    """Name recorded with results: the backend of the torch path, or the kernel of the native one."""
    own_threads: bool
    """Whether threads of its own do the work. The tensor library then gets one thread: after an operation its idle threads spin
    for a millisecond on cores that the others need."""
    chunk: int
    """Suitable number of tokens per forward call. Fewer would read the weights too often; more would only take memory."""

    def cache(self, batch: int, capacity: int) -> AnyCache:
        """An empty cache with room for `capacity` tokens of each sequence."""
        ...

    def cache_bytes(self, batch: int, capacity: int) -> int:
        """Size in bytes of the cache that `cache` would make."""
        ...

    def memory(self) -> int:
        """Bytes of the memory in which caches are."""
        ...

    def feed(self, cache: AnyCache, token: int, position: int, logits: bool = True) -> HeadRow:
        """Decode: feeds one more token of one sequence, at the end of its cache. `logits` is as for `teacher_force`."""
        ...

    def teacher_force(
        self, cache: AnyCache, sequences: Sequence[Sequence[int]], keep: Sequence[int], chunk: int, logits: bool = True
    ) -> list[list[HeadRow]]:
        """Prefill: appends each sequence to its cache, and returns its head rows from index `keep[i]` of the appended tokens
        on.

        The engine calls it in pieces, so that the logits of few positions are in memory at a time; a sequence continues where
        its cache ends. Sequences of a batch grow in step; one that has ended gets no more tokens, then or later. `chunk` is the
        most tokens of each sequence in one forward call. Without `logits` a path need not keep them; a row computes its logits
        again if they are asked for.
        """
        ...

    def vectors(self) -> Digest:
        """Runs the known answers and the profile's golden vectors on this path; `NotExact` names what differs."""
        ...

    def close(self) -> None:
        """Frees threads and memory. Do not use the path afterwards."""
        ...

"""Interface of a path. A path is one way to run an artifact's model, for example with torch or with the C engine. All paths
give the same bytes."""

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
    """Row for the trace. In `exact-1` it is the final norm's output, quantised to integers by Q(x, 14), as int16 little-endian.
    In `pinned-1` it is the SHA-256 of the logits."""
    exponent: int
    """Exponent field E of the row in `exact-1`. It is 0 in `pinned-1`."""
    said: Tensor | Callable[[], Tensor] | None
    """The logits, or a function that computes them. None if the row or a logit is not finite. The answer ends at such a row."""
    chosen: int | None = None
    """Token of the largest logit (the lowest id among equals). None if the path has not looked for it."""

    @property
    def logits(self) -> Tensor | None:
        """Logits of the row, float32 [V]. None if the answer ends at this row. Reading them can cost a product with the whole
        head."""
        return self.said() if callable(self.said) else self.said

    @property
    def best(self) -> int | None:
        """Token of the largest logit (the lowest id among equals). None if the answer ends at this row."""
        if self.chosen is not None or self.logits is None:
            return self.chosen
        return greedy(self.logits[None])[0]


class PathCache(Protocol):
    """Keys and values of the tokens so far. The cache is of one sequence, or of a batch of sequences with different lengths."""

    capacity: int
    """Number of tokens for which each sequence has room."""

    def crop(self, length: int) -> None:
        """Drops the tokens from index `length` on. Call it only for a cache of one sequence."""
        ...

    def select(self, sequence: int) -> Self:
        """Returns the cache of one sequence of the batch. It shares memory with the batch."""
        ...


AnyCache = TypeVar("AnyCache", bound=PathCache)


class Path(Protocol[AnyCache]):
    """A loaded model that turns tokens into head rows."""

    name: str
    """Name that is recorded with results. It contains the backend of the torch path, or the kernel of the native path."""
    own_threads: bool
    """Whether the path computes on its own threads. Then the tensor library gets only one thread. Its idle threads spin for a
    millisecond after an operation, on cores that the path's threads need."""
    chunk: int
    """Suitable number of tokens per forward call. With fewer tokens the path reads the weights too often. More tokens only take
    memory."""

    def cache(self, batch: int, capacity: int) -> AnyCache:
        """Returns an empty cache with room for `capacity` tokens of each of `batch` sequences."""
        ...

    def cache_bytes(self, batch: int, capacity: int) -> int:
        """Returns the size in bytes of the cache that `cache` would make."""
        ...

    def memory(self) -> int:
        """Returns the size in bytes of the memory in which caches are allocated."""
        ...

    def feed(self, cache: AnyCache, token: int, position: int, logits: bool = True) -> HeadRow:
        """Decodes one step: feeds one more token of one sequence at the end of its cache, and returns the head row. `logits` is
        as for `teacher_force`."""
        ...

    def teacher_force(
        self, cache: AnyCache, sequences: Sequence[Sequence[int]], keep: Sequence[int], chunk: int, logits: bool = True
    ) -> list[list[HeadRow]]:
        """Appends each sequence to its cache, and returns the head rows of the appended tokens, for sequence `i` from index
        `keep[i]` on.

        The engine calls this method in pieces, so that the logits of only few positions are in memory at a time. A sequence
        continues where its cache ends. Sequences of a batch grow in step. After the end of a sequence, no call appends tokens
        to it. `chunk` is the most tokens of each sequence in one forward call. If `logits` is false, a path need not keep
        logits. A row then computes its logits when they are read.
        """
        ...

    def vectors(self) -> Digest:
        """Runs the known-answer tests and the known models on this path, and the profile's golden vectors if the path uses torch.
        Returns the digest of these vectors. Raises `NotExact`, which names the difference."""
        ...

    def close(self) -> None:
        """Frees threads and memory. Do not use the path afterwards."""
        ...

"""What the engine needs of a path: one way, torch or native, to run the model of an artifact, with the same bytes."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from bytewise.inference.runner import HeadRow


class PathCache(Protocol):
    """Keys and values of the tokens seen so far, of one sequence or a ragged batch."""

    def crop(self, length: int) -> None:
        """Forgets the tokens from `length` on."""
        ...

    def select(self, sequence: int) -> "PathCache":
        """The cache of one sequence of the batch, sharing memory."""
        ...


AnyCache = TypeVar("AnyCache", bound=PathCache)


class Path(Protocol[AnyCache]):
    """A loaded model that turns tokens into head rows."""

    name: str
    """Recorded with results: the backend of the torch path, or the kernel of the native one."""

    def cache(self, batch: int, capacity: int) -> AnyCache:
        """An empty cache with room for `capacity` tokens of each sequence."""
        ...

    def feed(self, cache: AnyCache, token: int, position: int) -> HeadRow:
        """Decode: one more token of one sequence."""
        ...

    def teacher_force(
        self, cache: AnyCache, sequences: Sequence[Sequence[int]], keep: Sequence[int], chunk: int
    ) -> list[list[HeadRow]]:
        """Prefill: head rows of each sequence from position `keep[i]` on."""
        ...

"""Reuse of a cached prefix: an answer whose prompt begins as the last conversation did starts from its keys and values.

No byte depends on it: a row in the cache never changes, and it is a function of the tokens up to its own. Time does: who
sends prompts can learn from it how the last conversation began, so it is off unless all who send trust each other.
"""

from collections.abc import Callable, Sequence
from typing import Generic

from bytewise.inference.engine_paths import AnyCache

ROOM = 1024
"""Caches are this much larger than needed, so that a conversation can go on in them."""


class Prefix(Generic[AnyCache]):
    """The cache of the newest conversation, and the tokens in it."""

    def __init__(self, make: Callable[[int], AnyCache], longest: int) -> None:
        """`make` gives an empty cache of a capacity; `longest` bounds what is added to it."""
        self._make, self._longest = make, longest
        self._kept: tuple[AnyCache, list[int]] | None = None

    def take(self, prompt: Sequence[int], capacity: int) -> tuple[AnyCache, int]:
        """A cache of at least that capacity, and how many tokens of the prompt are in it; never all of them."""
        kept, self._kept = self._kept, None
        if kept is None or kept[0].capacity < capacity:
            # The old one is given back before the new one is made: there is never room for two.
            del kept
            return self._make(max(capacity, min(capacity + ROOM, self._longest))), 0
        cache, tokens = kept
        pairs = zip(tokens, prompt[:-1], strict=False)
        shared = next((i for i, (old, new) in enumerate(pairs) if old != new), min(len(tokens), len(prompt) - 1))
        cache.crop(shared)
        return cache, shared

    def put(self, cache: AnyCache, tokens: Sequence[int]) -> None:
        """Keeps a cache that holds exactly these tokens, instead of the one before."""
        self._kept = (cache, list(tokens))

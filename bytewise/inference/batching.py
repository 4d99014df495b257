"""Which claims are judged in one pass: as many as fit into memory."""

from collections.abc import Callable, Iterator, Sequence


def batches(order: Sequence[int], size: Callable[[int], int], fits: Callable[[int, int], bool]) -> Iterator[Sequence[int]]:
    """Cuts claims, ascending by their tokens `size`, into runs of which `fits(claims, tokens of the longest)`.

    A claim that does not even fit alone is a run of its own: what becomes of it is for others to say.
    """
    start = 0
    for stop, claim in enumerate(order):
        if stop > start and not fits(stop + 1 - start, size(claim)):
            yield order[start:stop]
            start = stop
    if start < len(order):
        yield order[start:]

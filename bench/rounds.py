"""Comparable measurements: the engines do the same work in turn, round after round, so that noise affects all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping

PAUSE_SECONDS = 0.2
"""Between two engines: threads of the last one may still spin, waiting for work."""

Samples = dict[str, list[float]]
"""Seconds of each engine, one entry a round."""


def interleaved(works: Mapping[str, Callable[[], float]], rounds: int, progress: Callable[[str], None]) -> Samples:
    """Seconds that each work reports, `rounds` times, in the order A B A B. What needs a warm-up had it before."""
    samples: Samples = {name: [] for name in works}
    for turn in range(rounds):
        for name, work in works.items():
            progress(f"{name}, round {turn + 1} of {rounds}")
            time.sleep(PAUSE_SECONDS)
            samples[name].append(work())
    return samples


def times_faster(samples: Samples, ours: str, theirs: str) -> float:
    """How many times faster `ours` was: the median of the ratios of each round, larger than 1 where we are ahead."""
    return statistics.median(slow / fast for slow, fast in zip(samples[theirs], samples[ours], strict=True))


def less(longer: Samples, shorter: Samples) -> Samples:
    """Seconds of the longer work without the shorter one, round by round: decoding without prefill."""
    return {name: [a - b for a, b in zip(longer[name], shorter[name], strict=True)] for name in longer}


def medians(samples: Samples) -> dict[str, float]:
    """Median seconds of each engine."""
    return {name: statistics.median(seconds) for name, seconds in samples.items()}

"""Takes comparable measurements: engines do the same work in turn, round after round, so that noise affects all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping

PAUSE_SECONDS = 0.2
"""Pause between two engines in seconds, because threads of the last engine may still spin and wait for work."""

Samples = dict[str, list[float]]
"""Seconds of each engine, with one entry for each round."""


def interleaved(works: Mapping[str, Callable[[], float]], rounds: int, progress: Callable[[str], None]) -> Samples:
    """Runs the works in the order A B A B, `rounds` times, and returns the seconds that each reports. A work that needs a warm-up
    must have had it before."""
    samples: Samples = {name: [] for name in works}
    for turn in range(rounds):
        for name, work in works.items():
            progress(f"{name}, round {turn + 1} of {rounds}")
            time.sleep(PAUSE_SECONDS)
            samples[name].append(work())
    return samples


def times_faster(samples: Samples, ours: str, theirs: str) -> float:
    """Returns how many times faster `ours` was than `theirs`: the median of the ratios of all rounds, above 1 if ours was
    faster."""
    return statistics.median(slow / fast for slow, fast in zip(samples[theirs], samples[ours], strict=True))


def less(longer: Samples, shorter: Samples) -> Samples:
    """Returns the seconds of the longer work minus those of the shorter work, round by round. An example is decoding without
    prefill."""
    return {name: [a - b for a, b in zip(longer[name], shorter[name], strict=True)] for name in longer}


def medians(samples: Samples) -> dict[str, float]:
    """Returns the median seconds of each engine."""
    return {name: statistics.median(seconds) for name, seconds in samples.items()}

"""Measures memory, descriptors, threads and database size of every process over time, and judges whether they stay flat."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

WARM_UP_S = 1_200.0
"""First seconds of a process's life, which no slope includes. Caches fill, and the free memory that glibc keeps for its threads
grows until then, by up to 10 MiB (`docs/evidence/soak.md`)."""
SHORTEST_S = 1_200.0
"""Shortest time after the warm-up over which a slope is judged, in seconds. The second half of a run of two hours is longer than
both, and no process ends in it."""
MEMORY_BYTES_PER_HOUR = 24 * 2**20
"""Largest slope of resident memory. It is above the noise of a run of half an hour. A run of 72 hours could be judged by 1 MiB an
hour."""
MORE_DESCRIPTORS = 8
"""Most descriptors, and most threads, by which the last third of a life may exceed the first third."""
IN_MEMORY = ("chain",)
"""Processes whose memory is a database: the development chain keeps all blocks and many copies of its state. Their memory is
judged by receipts, as databases are."""
LEAST_RECEIPTS = 50
"""Fewest receipts in a third of a run for which a database's growth is judged."""
GROWTH = 1.5
"""Largest ratio of a database's bytes per receipt in the last third of a run to those in the second third."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures of one process at one moment."""

    t: float
    """Seconds since the start of the run."""
    name: str
    """Name of the actor."""
    pid: int
    """Process id."""
    rss: int
    """Resident memory in bytes."""
    descriptors: int
    """Number of open file descriptors."""
    threads: int
    """Number of threads."""


def sample(t: float, pids: Mapping[str, int]) -> list[Sample]:
    """Returns a sample of every process. Leaves out processes that end meanwhile."""
    found = []
    for name, pid in pids.items():
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                found.append(Sample(t, name, pid, process.memory_info().rss, process.num_fds(), process.num_threads()))
        except psutil.Error:
            continue
    return found


def slope(points: Iterable[tuple[float, float]]) -> float:
    """Returns the least-squares slope of the points; 0 for fewer than two points."""
    known = list(points)
    if len(known) < 2:
        return 0.0
    middle_x, middle_y = (sum(values) / len(known) for values in zip(*known, strict=True))
    spread = sum((x - middle_x) ** 2 for x, _ in known)
    return sum((x - middle_x) * (y - middle_y) for x, y in known) / spread if spread else 0.0


@dataclass(frozen=True, slots=True)
class Life:
    """Figures of the life of one process after its warm-up."""

    name: str
    seconds: float
    rss_mib: float
    """Resident memory at the end, in MiB."""
    rss_mib_per_hour: float
    more_descriptors: int
    """Most descriptors in the last third of the life minus the most in the first third."""
    more_threads: int

    def wrong(self) -> list[str]:
        """Returns a sentence for each bound that the process breaks."""
        said = []
        if self.name not in IN_MEMORY and self.rss_mib_per_hour * 2**20 > MEMORY_BYTES_PER_HOUR:
            said.append(f"{self.name}: memory grows by {self.rss_mib_per_hour:.1f} MiB an hour over {self.seconds:.0f} s")
        for what, more in (("descriptors", self.more_descriptors), ("threads", self.more_threads)):
            if more > MORE_DESCRIPTORS:
                said.append(f"{self.name}: {more} more {what} at the end of {self.seconds:.0f} s")
        return said


def lives(samples: Iterable[Sample]) -> list[Life]:
    """Returns the figures of every life that is long enough to be judged."""
    by_life: dict[tuple[str, int], list[Sample]] = {}
    for each in samples:
        by_life.setdefault((each.name, each.pid), []).append(each)
    found = []
    for (name, _), life in by_life.items():
        kept = [each for each in life if each.t - life[0].t >= WARM_UP_S]
        if not kept or kept[-1].t - kept[0].t < SHORTEST_S:
            continue
        third = max(1, len(kept) // 3)
        first, last = kept[:third], kept[-third:]
        found.append(Life(
            name, round(kept[-1].t - kept[0].t), round(kept[-1].rss / 2**20, 1),
            round(slope((each.t, each.rss) for each in kept) * 3600 / 2**20, 2),
            max(each.descriptors for each in last) - max(each.descriptors for each in first),
            max(each.threads for each in last) - max(each.threads for each in first),
        ))  # fmt: skip
    return found


def unwatched(samples: Iterable[Sample], found: Iterable[Life]) -> list[str]:
    """Returns a sentence for each process at the end of a run of which no life was judged. If the second half of the run is too
    short for a judgement, there is none."""
    known = list(samples)
    if not known or known[-1].t / 2 < WARM_UP_S + SHORTEST_S:
        return []
    last, judged = known[-1].t, {each.name for each in found}
    return [f"{each.name}: no life was long enough to be judged" for each in known if each.t == last and each.name not in judged]


def growth(sizes: Mapping[str, list[tuple[int, int]]]) -> dict[str, float]:
    """Returns for each database the bytes per receipt in the last third of the run over those in the second third. `sizes` are
    (receipts, bytes) in the order of time."""
    found = {}
    for name, points in sizes.items():
        third = len(points) // 3
        if third < 2:
            continue
        a, b, c = points[third], points[2 * third], points[-1]
        before, after = (y[1] - x[1] for x, y in ((a, b), (b, c)))
        receipts_before, receipts_after = b[0] - a[0], c[0] - b[0]
        if min(receipts_before, receipts_after) >= LEAST_RECEIPTS and before > 0:
            found[name] = round((after / receipts_after) / (before / receipts_before), 2)
    return found


def database_bytes(folder: Path) -> int:
    """Returns the bytes of an actor's SQLite database. The write-ahead log is left out, because it has a few MiB whatever
    happens."""
    path = folder / "actor.db"
    return path.stat().st_size if path.exists() else 0


def as_rows(found: Iterable[Life]) -> list[dict[str, Any]]:
    """Converts lives to rows of the report."""
    return [asdict(each) for each in found]

"""Measures memory, descriptors, threads and database size of every process over time, and judges whether they stay flat."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

WARM_UP_S = 300.0
"""First seconds of a process's life. No figure includes them, because the process then loads its model."""
SHORTEST_S = 600.0
"""Least seconds of a life after the warm-up with which it is judged."""
SETTLED_S = 1_200.0
"""First seconds of a life that the slope of memory leaves out. Until then caches fill, and the free memory that glibc keeps for
its threads grows by up to 10 MiB (`docs/evidence/soak.md`). The slope is judged only over at least as many further seconds."""
START_S = 60.0
"""Seconds after a fault that ended a process within which the process surely runs again."""
MEMORY_BYTES_PER_HOUR = 24 * 2**20
"""Largest allowed slope of resident memory. It is also the largest allowed growth in each begun hour after the warm-up. The limit
is above the noise of a run of half an hour. A run of 72 hours could be judged by 1 MiB an hour."""
MORE_DESCRIPTORS = 8
"""Most descriptors, and most threads, by which the last third of a life may exceed the first third."""
IN_MEMORY = ("chain",)
"""Processes whose memory is a database: the development chain keeps all blocks and many copies of its state. Their memory is
judged by receipts, as databases are."""
PASSING = ("challenger",)
"""Processes that start and end again and again in a run, like second instances of a key. Their memory is not judged."""
LEAST_RECEIPTS = 50
"""Least receipts in each of the last two thirds of a run. With fewer, the growth of a database is not judged."""
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
    """Returns a sample of every process. Processes that have just ended are left out."""
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
    grown_mib: float
    """Resident memory at the end minus that after the warm-up, in MiB."""
    rss_mib_per_hour: float | None
    """Slope of the memory after `SETTLED_S`. None if the life was too short."""
    more_descriptors: int
    """Most descriptors in the last third of the life minus the most in the first third."""
    more_threads: int

    def wrong(self) -> list[str]:
        """Returns a sentence for each bound that the process breaks."""
        said = []
        steep, most = (self.rss_mib_per_hour or 0.0) * 2**20, MEMORY_BYTES_PER_HOUR * math.ceil(self.seconds / 3600)
        if self.name not in IN_MEMORY and steep > MEMORY_BYTES_PER_HOUR:
            said.append(f"{self.name}: memory grows by {self.rss_mib_per_hour:.1f} MiB an hour over {self.seconds:.0f} s")
        elif self.name not in IN_MEMORY and self.grown_mib * 2**20 > most:
            said.append(f"{self.name}: memory has grown by {self.grown_mib:.1f} MiB in {self.seconds:.0f} s")
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
            round((kept[-1].rss - kept[0].rss) / 2**20, 1), _settled_slope(life),
            max(each.descriptors for each in last) - max(each.descriptors for each in first),
            max(each.threads for each in last) - max(each.threads for each in first),
        ))  # fmt: skip
    return found


def _settled_slope(life: list[Sample]) -> float | None:
    settled = [each for each in life if each.t - life[0].t >= SETTLED_S]
    if not settled or settled[-1].t - settled[0].t < SETTLED_S:
        return None
    return round(slope((each.t, each.rss) for each in settled) * 3600 / 2**20, 2)


def unwatched(samples: Iterable[Sample], calm_from: float) -> list[str]:
    """Returns a sentence for each process whose last life was too short for a slope of its memory. `calm_from` is the second of
    the run after which no fault ended a process. Returns nothing if the rest of the run was too short for any slope."""
    by_name: dict[str, list[Sample]] = {}
    for each in samples:
        by_name.setdefault(each.name, []).append(each)
    if max((each[-1].t for each in by_name.values()), default=0.0) - calm_from < 2 * SETTLED_S + START_S:
        return []
    last = {name: [each for each in seen if each.pid == seen[-1].pid] for name, seen in by_name.items() if not _is_passing(name)}
    return [f"{name}: its last life was too short to be judged" for name, life in last.items() if _settled_slope(life) is None]


def _is_passing(name: str) -> bool:
    return name in PASSING or name.endswith("-second")


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
        # Resident memory may shrink before it grows, and a small growth means nothing.
        is_judged = after > MEMORY_BYTES_PER_HOUR if name in IN_MEMORY else before > 0
        if min(receipts_before, receipts_after) >= LEAST_RECEIPTS and is_judged:
            found[name] = round((after / receipts_after) / (max(before, 1) / receipts_before), 2)
    return found


def database_bytes(folder: Path) -> int:
    """Returns the bytes of an actor's SQLite database. The write-ahead log is left out, because it always has a few MiB."""
    path = folder / "actor.db"
    return path.stat().st_size if path.exists() else 0


def as_rows(found: Iterable[Life]) -> list[dict[str, Any]]:
    """Converts lives to rows of the report."""
    return [asdict(each) for each in found]

"""Metrics and a readiness check of the free space in the file system that holds the data of a process."""

import math
import shutil
from pathlib import Path

from bytewise.service import metrics
from bytewise.service.readiness import Check, ReadinessRegistry

MIN_FREE_BYTES = 512 * 2**20
"""Free bytes below which a node is not ready. They hold a day of a busy archive and SQLite's write-ahead log."""


def watch_disk(readiness: ReadinessRegistry, folder: Path) -> None:
    """Adds the readiness check `disk`, and sets the metrics of the file system that holds the process's data."""
    metrics.DISK_FREE.labels(path="data").set_function(lambda: _usage(folder)[0])
    metrics.DISK_SIZE.labels(path="data").set_function(lambda: _usage(folder)[1])
    readiness.add("disk", lambda: disk_check(folder))


def disk_check(folder: Path) -> Check:
    """Returns a check that fails if the file system of a folder has too little free space, or if the folder cannot be read."""
    free, _ = _usage(folder)
    if math.isnan(free):
        return Check(
            "disk", False, f"{folder} cannot be read", "a readable folder", "Look whether the disk is mounted, then start again."
        )
    do = "Free space or move the data: a full disk stops every duty."
    return Check("disk", free >= MIN_FREE_BYTES, f"{int(free) >> 20} MiB free", f"at least {MIN_FREE_BYTES >> 20} MiB", do)


def _usage(folder: Path) -> tuple[float, float]:
    """Returns the free and the total bytes of the folder's file system.

    Returns NaN for both if the folder is missing, because an error in one metric must not hide the others.
    """
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return math.nan, math.nan
    return usage.free, usage.total

"""Free space of the file system that holds the data of a process: metrics and a readiness check."""

import math
import shutil
from pathlib import Path

from bytewise.service import metrics
from bytewise.service.readiness import Check, ReadinessRegistry

MIN_FREE_BYTES = 512 * 2**20
"""Free space below which a node is not ready: a day of a busy archive, and room for SQLite's write-ahead log."""


def watch_disk(readiness: ReadinessRegistry, folder: Path) -> None:
    """Adds the check `disk`, and the metrics of the file system that holds the process's data."""
    metrics.DISK_FREE.labels(path="data").set_function(lambda: _usage(folder)[0])
    metrics.DISK_SIZE.labels(path="data").set_function(lambda: _usage(folder)[1])
    readiness.add("disk", lambda: disk_check(folder))


def disk_check(folder: Path) -> Check:
    """Whether the file system that holds a folder has room."""
    free, _ = _usage(folder)
    if math.isnan(free):
        return Check(
            "disk", False, f"{folder} cannot be read", "a readable folder", "Look whether the disk is mounted, then start again."
        )
    do = "Free space or move the data: a full disk stops every duty."
    return Check("disk", free >= MIN_FREE_BYTES, f"{int(free) >> 20} MiB free", f"at least {MIN_FREE_BYTES >> 20} MiB", do)


def _usage(folder: Path) -> tuple[float, float]:
    """Free and all bytes of the folder's file system; NaN where it is gone: one metric must not hide the others."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return math.nan, math.nan
    return usage.free, usage.total

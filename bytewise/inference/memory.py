"""How much memory caches may take: compared before they are allocated, because a system that promises too much kills later."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def of_machine() -> int:
    """Bytes of memory that this process can have at most: the machine's, or less where a control group bounds it."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_bounds(MEMBERSHIP, CGROUPS)])


def allowance(total: int, weights: int) -> int:
    """Bytes that caches may take unless a setting says otherwise: half of what the weights leave of a memory."""
    return max(total - weights, 0) // 2


def _bounds(membership: Path, root: Path) -> Iterator[int]:
    """Memory limits of every control group that holds this process, version 1 or 2, and of those around it."""
    for line in _text(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        folder, file = (root / "memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
        inner = PurePosixPath(path.lstrip("/"))
        for group in (inner, *inner.parents):
            found = _text(folder / group / file).strip()
            if found.isdigit():
                yield int(found)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        # Another system, or a group that is not to be seen from here: nothing is bounded by it as far as we can know.
        return ""

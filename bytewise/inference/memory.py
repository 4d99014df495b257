"""Memory limits of caches. The engine checks them before it allocates, because an overcommitted system kills the process
later."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def of_machine() -> int:
    """Returns the largest number of bytes that this process can have. It is the machine's memory, or a smaller limit of its
    control groups."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_bounds(MEMBERSHIP, CGROUPS)])


def allowance(total: int, weights: int) -> int:
    """Returns the number of bytes that caches may take by default. It is half of the memory that the weights leave."""
    return max(total - weights, 0) // 2


def _bounds(membership: Path, root: Path) -> Iterator[int]:
    """Yields the memory limit of every control group (version 1 or 2) that contains this process."""
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
        # Another system, or a group that is not visible here. No limit is known.
        return ""

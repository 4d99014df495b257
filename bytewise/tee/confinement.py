"""Fences that a process sets up around itself: no network, no dumps, no debugger, no swap, bounded resources.

Each function reports whether its fence holds. None of them replaces isolation by hardware: they bound what a defect in this
program, or another process of the same user, can do. Linux only; the kernel is asked wherever it can confirm the fence.
"""

import contextlib
import ctypes
import errno
import os
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from bytewise.tee import seccomp

_PR_SET_PDEATHSIG, _PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 1, 3, 4
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
SWAPS, INTERFACES, SIZES = Path("/proc/swaps"), Path("/proc/self/net/dev"), Path("/proc/self/statm")
"""Swap areas, network interfaces and memory of this process, as the kernel lists them."""
_SETGROUPS, _GID_MAP, _UID_MAP = Path("/proc/self/setgroups"), Path("/proc/self/gid_map"), Path("/proc/self/uid_map")
_LOOPBACK = "lo"
_FINE = "fine"


class Fence(NamedTuple):
    """One fence of this process."""

    name: str
    """Its name."""
    missing: str
    """Why it does not hold; empty if it holds."""


def deny_inspection() -> Fence:
    """No core dump, and no other process of this user attaches or reads memory, arguments, environment or open files.

    Processes that this one starts have no core dump either. They stay open to their user until they call this, too.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    library = c_library()
    if not hasattr(library, "prctl"):
        return Fence("unseen", "no prctl: this system is not Linux")
    library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    return Fence("unseen", "" if library.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 else "the process can be dumped")


def isolate_network() -> Fence:
    """A separate, empty network namespace for this thread and all that it starts from now on.

    Call it before there are other threads, and before `deny_inspection`.
    """
    problem = _unshared()
    try:
        others = [] if problem else [name for name in _interfaces() if name != _LOOPBACK]
    except OSError as error:
        return Fence("no_network", type(error).__name__)
    return Fence("no_network", problem or (f"there is {others[0]}" if others else ""))


def filter_calls(*, forks: bool, writes: bool = True, ends: Sequence[int] = ()) -> Fence:
    """The system-call filter of `bytewise.tee.seccomp`, with its parameters."""
    return Fence("no_sockets", seccomp.install_filter(forks=forks, writes=writes, ends=ends))


def avoid_swap() -> Fence:
    """Memory never reaches a disk: there is no swap, or all memory of this process, present and future, is locked; not its
    children's."""
    with contextlib.suppress(OSError):
        if len(SWAPS.read_text().splitlines()) <= 1:
            return Fence("no_swap", "")
    return Fence("no_swap", _locked())


def lock_memory() -> Fence:
    """Memory never reaches a disk, whatever swap is added later: all memory of this process is locked; not its children's.

    Call it after `limit_resources`: a limit of locked memory allows it only if the limit of addresses is within it.
    """
    return Fence("locked", _locked())


def limit_resources(*, memory_bytes: int, cpu_s: int, files: int) -> Fence:
    """Permanent limits of address space beyond the present one, of processor time and of open files."""
    try:
        mapped = int(SIZES.read_text().split()[0]) * resource.getpagesize()
        wanted = ((resource.RLIMIT_AS, mapped + memory_bytes), (resource.RLIMIT_CPU, cpu_s), (resource.RLIMIT_NOFILE, files))
        for which, most in wanted:
            hard = resource.getrlimit(which)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (most, most))
    except (OSError, ValueError) as error:
        return Fence("bounded", type(error).__name__)
    return Fence("bounded", "")


def die_with_parent(parent: int, signal_number: int) -> None:
    """Makes the kernel send this process a signal when process `parent`, which started it, ends; at once if it has ended."""
    c_library().prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal_number)


def _locked() -> str:
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
    enough = hard == resource.RLIM_INFINITY or resource.RLIM_INFINITY != addresses <= hard
    # Under a lower limit, locking may succeed now and memory be refused in the middle of a job. With the soft limit at zero, the
    # kernel locks only for processes with the capability, which no limit binds then.
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard if enough else 0, hard))
    # Pages are locked when they are used: most mapped memory is never touched.
    holds = c_library().mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) == 0
    problem = f"mlockall: {_error()}" if enough else f"locked memory is limited to {hard} bytes"
    if not (holds and enough):
        # A process that locked within the limit needs it, because later mappings count, too.
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))
    return "" if holds else problem


def _unshared() -> str:
    if c_library().unshare(_CLONE_NEWNET) == 0:
        return ""
    # A process without the privilege may still be allowed to in its own user namespace, where it is the same user. A namespace
    # without its maps belongs to nobody, and there is no way back, so a child tries first.
    reading, writing = os.pipe()
    with open(reading, "rb") as answer:
        pid = os.fork()
        if pid == 0:
            _try_out(writing)
        os.close(writing)
        problem = answer.read().decode()
        os.waitpid(pid, 0)
    if problem != _FINE:
        return problem or "unshare: no answer"
    return _into_user_namespace()


def _try_out(writing: int) -> NoReturn:
    try:
        os.write(writing, (_into_user_namespace() or _FINE).encode())
    finally:
        os._exit(0)


def _into_user_namespace() -> str:
    user, group = os.getuid(), os.getgid()
    if c_library().unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return f"unshare: {_error()}"
    for path, text in ((_SETGROUPS, "deny"), (_GID_MAP, f"{group} {group} 1"), (_UID_MAP, f"{user} {user} 1")):
        try:
            path.write_text(text)
        except OSError as error:
            return f"{path.name}: {errno.errorcode.get(error.errno or 0, '?')}"
    return ""


def _interfaces() -> list[str]:
    return [line.split(":")[0].strip() for line in INTERFACES.read_text().splitlines() if ":" in line]


def c_library() -> ctypes.CDLL:
    """The C library of this process, which keeps the error of its last call."""
    return ctypes.CDLL(None, use_errno=True)


def _error() -> str:
    return errno.errorcode.get(ctypes.get_errno(), "?")

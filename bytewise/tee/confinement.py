"""Fences that a process sets up around itself: no network, no dumps, no debugger, no swap, bounded resources.

Most functions set up one fence and report whether it holds. Fences do not replace isolation by hardware. They limit the harm
that a defect in this program, or another process of the same user, can do. They work on Linux only. If the kernel can confirm a
fence, the function asks the kernel.
"""

import contextlib
import ctypes
import errno
import os
import platform
import resource
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from bytewise.service import telemetry

# A Linux system-call filter for programs that get every connection from outside: no new socket, no other program, no access to
# other processes.

_NO_NEW_PRIVS, _SET_MODE_FILTER, _TSYNC = 38, 1, 1
_LOAD, _JUMP_EQUAL, _JUMP_SET, _JUMP_ABOVE, _AND, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x54, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT, _THIRD_ARGUMENT_AT = 0, 4, 16, 24, 32
_AUDIT_ARCH_X86_64, _X32 = 0xC000003E, 0x40000000
_CLONE_THREAD, _CLONE_NEW_ANY = 0x10000, 0x7E020000
_SOCKET_TYPE_MASK = 0xF
_INSTRUCTION = struct.Struct("HBBI")

CALLS = {
    # connections, and other ways to files and sockets; `io_uring` would open sockets without the filter
    "socket": 41, "connect": 42, "bind": 49, "listen": 50, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "name_to_handle_at": 303, "open_by_handle_at": 304, "fanotify_init": 300,
    # other programs and processes
    "execve": 59, "execveat": 322, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "process_madvise": 440,
    "process_mrelease": 448, "pidfd_getfd": 438, "pidfd_send_signal": 424, "kcmp": 312, "move_pages": 279, "migrate_pages": 256,
    "perf_event_open": 298, "bpf": 321, "userfaultfd": 323, "keyctl": 250, "add_key": 248, "request_key": 249,
    # namespaces and mounts
    "setns": 308, "unshare": 272, "chroot": 161, "pivot_root": 155, "mount": 165, "umount2": 166, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
    # the machine
    "init_module": 175, "finit_module": 313, "delete_module": 176, "kexec_load": 246, "kexec_file_load": 320, "reboot": 169,
    "swapon": 167, "swapoff": 168, "acct": 163, "syslog": 103, "iopl": 172, "ioperm": 173,
}  # fmt: skip
"""System calls that the filter refuses to every confined program. The values are their numbers on x86-64."""

FORKS = {"fork": 57, "vfork": 58}
"""System calls that the filter also refuses to a program that may not fork. The filter allows such a program `clone` only to make
a thread."""

SIGNALS = {"tgkill": 234, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "prlimit64": 302}
"""System calls by which a program that may not fork can signal only itself. The first argument must be the program's own process
id, or 0. The filter also allows `kill` for the program itself and for the processes that the program may end."""

CHANGES = {
    "creat": 85, "mknod": 133, "mknodat": 259, "mkdir": 83, "mkdirat": 258, "rmdir": 84, "unlink": 87, "unlinkat": 263,
    "rename": 82, "renameat": 264, "renameat2": 316, "link": 86, "linkat": 265, "symlink": 88, "symlinkat": 266, "truncate": 76,
    "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452, "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260,
    "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190,
    "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "setxattrat": 463, "removexattrat": 466, "file_setattr": 469,
    # objects that processes share by name or number without a file
    "mq_open": 240, "mq_unlink": 241, "msgget": 68, "msgsnd": 69, "msgrcv": 70, "msgctl": 71, "semget": 64, "semop": 65,
    "semtimedop": 220, "semctl": 66, "shmget": 29, "shmat": 30, "shmctl": 31,
}  # fmt: skip
"""System calls that the filter also refuses to a program that may write only to files that are already open. The filter allows
such a program `open` and `openat` only for reading."""

_SECCOMP, _CLONE, _CLONE3, _SOCKETPAIR, _OPEN, _OPENAT, _OPENAT2, _KILL_CALL, _TKILL = 317, 56, 435, 53, 2, 257, 437, 62, 200
_FCNTL, _IOCTL = 72, 16
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _FIOSETOWN, _SIOCSPGRP = 8, 10, 15, 0x8901, 0x8902
_NOT_FOR_READING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def install_filter(*, forks: bool, writes: bool = True, ends: Sequence[int] = ()) -> str:
    """Installs the system-call filter on all threads. Returns an empty text, or the reason why the filter could not be installed.

    If `forks` is false, the process cannot start another process. It can signal only itself and, with `kill`, the processes whose
    ids are in `ends`. The filter does not check which signal it sends. If `writes` is false, the process can open files for
    reading only.
    """
    if platform.machine() != "x86_64":
        return f"no filter for {platform.machine()}"
    program = b"".join(_program(forks, writes, ends))
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(program)
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // _INSTRUCTION.size, ctypes.addressof(buffer)))
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return f"no_new_privs: {errno.errorcode.get(ctypes.get_errno(), '?')}"
    result = libc.syscall(_SECCOMP, _SET_MODE_FILTER, _TSYNC, head)
    if result != 0:
        return f"seccomp: {errno.errorcode.get(ctypes.get_errno(), '?')}" if result < 0 else "seccomp: a thread stays outside"
    return ""


def _program(forks: bool, writes: bool, ends: Sequence[int]) -> list[bytes]:
    calls = list(CALLS.values()) + ([] if forks else list(FORKS.values()))
    return [
        _op(_LOAD, _ARCHITECTURE_AT),
        _op(_JUMP_EQUAL, _AUDIT_ARCH_X86_64, 1, 0),
        _op(_RETURN, _KILL),  # another architecture's numbers mean other calls
        _op(_LOAD, _NUMBER_AT),
        _op(_JUMP_ABOVE, _X32, 0, 1),
        _op(_RETURN, _KILL),
        # A filter cannot see the flags of `clone3`. If the call does not exist, the C library uses `clone`.
        *_any_of([_CLONE3], [_op(_RETURN, _ERRNO | errno.ENOSYS)]),
        *_any_of([_CLONE], _no_namespaces() if forks else _threads_only()),
        *_any_of([_SOCKETPAIR], _streams_only()),
        *_any_of(calls, [_refuse()]),
        *([] if forks else _itself_only(ends)),
        *([] if writes else _reading_only()),
        _op(_RETURN, _ALLOW),
    ]


def _itself_only(ends: Sequence[int]) -> list[bytes]:
    own = os.getpid()
    return [
        *_any_of([_KILL_CALL], _one_of(_FIRST_ARGUMENT_AT, [own, *ends])),
        *_any_of(list(SIGNALS.values()), _one_of(_FIRST_ARGUMENT_AT, [own, 0])),
        *_any_of([_TKILL], [_refuse()]),  # can name a thread of any process; the C library has not used it for a long time
        # A ready descriptor can be made to signal any process.
        *_any_of([_FCNTL], _none_of(_SECOND_ARGUMENT_AT, [_F_SETOWN, _F_SETSIG, _F_SETOWN_EX])),
        *_any_of([_IOCTL], _none_of(_SECOND_ARGUMENT_AT, [_FIOSETOWN, _SIOCSPGRP])),
    ]


def _reading_only() -> list[bytes]:
    return [
        *_any_of([_OPEN], _for_reading(_SECOND_ARGUMENT_AT)),
        *_any_of([_OPENAT], _for_reading(_THIRD_ARGUMENT_AT)),
        *_any_of([_OPENAT2], [_op(_RETURN, _ERRNO | errno.ENOSYS)]),  # refused like `clone3`
        *_any_of(list(CHANGES.values()), [_refuse()]),
    ]


def _any_of(calls: Sequence[int], then: list[bytes]) -> list[bytes]:
    return [each for call in calls for each in (_op(_JUMP_EQUAL, call, 0, len(then)), *then)]


def _threads_only() -> list[bytes]:
    return [_op(_LOAD, _FIRST_ARGUMENT_AT), _op(_JUMP_SET, _CLONE_THREAD, 1, 0), _refuse(), _op(_RETURN, _ALLOW)]


def _no_namespaces() -> list[bytes]:
    return [_op(_LOAD, _FIRST_ARGUMENT_AT), _op(_JUMP_SET, _CLONE_NEW_ANY, 0, 1), _refuse(), _op(_RETURN, _ALLOW)]


def _streams_only() -> list[bytes]:
    # Either end of a pair of datagram sockets can send to any path.
    return [
        _op(_LOAD, _SECOND_ARGUMENT_AT), _op(_AND, _SOCKET_TYPE_MASK), _op(_JUMP_EQUAL, socket.SOCK_STREAM, 1, 0), _refuse(),
        _op(_RETURN, _ALLOW),
    ]  # fmt: skip


def _for_reading(flags_at: int) -> list[bytes]:
    return [_op(_LOAD, flags_at), _op(_JUMP_SET, _NOT_FOR_READING, 0, 1), _refuse(), _op(_RETURN, _ALLOW)]


def _one_of(argument_at: int, values: Sequence[int]) -> list[bytes]:
    return [*_jumps(argument_at, values), _refuse(), _op(_RETURN, _ALLOW)]


def _none_of(argument_at: int, values: Sequence[int]) -> list[bytes]:
    return [*_jumps(argument_at, values), _op(_RETURN, _ALLOW), _refuse()]


def _jumps(argument_at: int, values: Sequence[int]) -> list[bytes]:
    # Skips one instruction if the low half of the argument is one of the values. The kernel reads only the low half of these
    # arguments.
    return [_op(_LOAD, argument_at), *(_op(_JUMP_EQUAL, value, len(values) - i, 0) for i, value in enumerate(values))]


def _refuse() -> bytes:
    return _op(_RETURN, _ERRNO | errno.EPERM)


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, if_true, if_false, value)


_PR_SET_PDEATHSIG, _PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 1, 3, 4
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
SWAPS, INTERFACES, SIZES = Path("/proc/swaps"), Path("/proc/self/net/dev"), Path("/proc/self/statm")
"""Files in which the kernel lists swap areas, network interfaces and the memory of this process."""
_SETGROUPS, _GID_MAP, _UID_MAP = Path("/proc/self/setgroups"), Path("/proc/self/gid_map"), Path("/proc/self/uid_map")
_LOOPBACK = "lo"
_FINE = "fine"


class Fence(NamedTuple):
    """Name and state of one fence of this process."""

    name: str
    """Name of the fence."""
    missing: str
    """Reason why the fence does not hold; empty if it holds."""


def deny_inspection() -> Fence:
    """Disables core dumps of this process, and keeps other processes of this user from reading its memory, arguments,
    environment and open files.

    It also keeps a debugger from attaching. Child processes have no core dumps either, and a forked process is as protected as
    this one. If a child process starts another program, other processes of the user can read it until it calls this function,
    too.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    library = c_library()
    if not hasattr(library, "prctl"):
        return Fence("unseen", "no prctl: this system is not Linux")
    library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    return Fence("unseen", "" if library.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 else "the process can be dumped")


def harden_process() -> None:
    """Protects this process before it reads a secret, by `deny_inspection` (ADR-041). If the system cannot protect the process,
    this function logs the reason, and the process continues."""
    fence = deny_inspection()
    if fence.missing:
        telemetry.log("process.hardening_failed", missing=fence.missing)


def isolate_network() -> Fence:
    """Moves this thread, and all threads and processes that it starts from now on, into an empty network namespace.

    Call this function before other threads exist, and before `deny_inspection`.
    """
    problem = _unshared()
    try:
        others = [] if problem else [name for name in _interfaces() if name != _LOOPBACK]
    except OSError as error:
        return Fence("no_network", type(error).__name__)
    return Fence("no_network", problem or (f"there is {others[0]}" if others else ""))


def filter_calls(*, forks: bool, writes: bool = True, ends: Sequence[int] = ()) -> Fence:
    """Installs the system-call filter with `install_filter`, and reports it as a fence."""
    return Fence("no_sockets", install_filter(forks=forks, writes=writes, ends=ends))


def avoid_swap() -> Fence:
    """Makes sure that memory never reaches a disk. If the machine has swap, the function locks all present and future memory of
    this process. The lock does not include child processes."""
    with contextlib.suppress(OSError):
        if len(SWAPS.read_text().splitlines()) <= 1:
            return Fence("no_swap", "")
    return Fence("no_swap", _locked())


def lock_memory() -> Fence:
    """Locks all memory of this process, so that it never reaches a disk even if swap is added later. The lock does not include
    child processes.

    Call this function after `limit_resources`. If the system limits locked memory, a process without the capability to exceed
    that limit can lock its memory only if its limit of address space is not larger.
    """
    return Fence("locked", _locked())


def limit_resources(*, memory_bytes: int, cpu_s: int, files: int) -> Fence:
    """Limits the address space that this process may still add, its processor time and its open files. The limits cannot be
    raised again."""
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
    """Makes the kernel send this process a signal when its parent process `parent` ends. If the parent has already ended, the
    process signals itself at once."""
    c_library().prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal_number)


def _locked() -> str:
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
    enough = hard == resource.RLIM_INFINITY or resource.RLIM_INFINITY != addresses <= hard
    # With a lower limit, locking may succeed now and an allocation fail in the middle of a job. If the soft limit is zero, the
    # kernel locks only for processes with the capability, to which no limit applies.
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
    # A process without the privilege may still do this in its own user namespace, as the same user. A process cannot leave a
    # namespace, and one whose user maps could not be written is useless, so a child process tries first.
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
    """Returns the C library of this process, loaded so that `ctypes.get_errno` returns the error number of the last call."""
    return ctypes.CDLL(None, use_errno=True)


def _error() -> str:
    return errno.errorcode.get(ctypes.get_errno(), "?")

"""A Linux system-call filter for programs that get every connection from outside: no new socket, no other program, no access to
other processes.

A program that may not fork can signal only itself. A program that may not write changes no file. A refused call returns EPERM, so
that a library that only tries continues without it. Reading files is allowed, because a filter sees no paths. The filter is a few
instructions of classic BPF (seccomp(2)). It covers every thread and child of the process and is permanent. x86-64 only; elsewhere
`install_filter` says that there is none.
"""

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Sequence

_NO_NEW_PRIVS, _SET_MODE_FILTER, _TSYNC = 38, 1, 1
_LOAD, _JUMP_EQUAL, _JUMP_SET, _JUMP_ABOVE, _AND, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x54, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT, _THIRD_ARGUMENT_AT = 0, 4, 16, 24, 32
_AUDIT_ARCH_X86_64, _X32 = 0xC000003E, 0x40000000
_CLONE_THREAD, _CLONE_NEW_ANY = 0x10000, 0x7E020000
_SOCKET_TYPE_MASK = 0xF
_INSTRUCTION = struct.Struct("HBBI")

CALLS = {
    # connections, and other ways to files and sockets; `io_uring` would open sockets unseen by the filter
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
"""Calls refused to a confined program, by their numbers on x86-64."""

FORKS = {"fork": 57, "vfork": 58}
"""Also refused to a program that may not fork; of `clone` everything that makes no thread."""

SIGNALS = {"tgkill": 234, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "prlimit64": 302}
"""Allowed to such a program for itself only: the first argument is its own process id, or 0. `kill` is also allowed for the
processes that it may end."""

CHANGES = {
    "creat": 85, "mknod": 133, "mknodat": 259, "mkdir": 83, "mkdirat": 258, "rmdir": 84, "unlink": 87, "unlinkat": 263,
    "rename": 82, "renameat": 264, "renameat2": 316, "link": 86, "linkat": 265, "symlink": 88, "symlinkat": 266, "truncate": 76,
    "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452, "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260,
    "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190,
    "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "setxattrat": 463, "removexattrat": 466, "file_setattr": 469,
    # what processes share by name or number without a file
    "mq_open": 240, "mq_unlink": 241, "msgget": 68, "msgsnd": 69, "msgrcv": 70, "msgctl": 71, "semget": 64, "semop": 65,
    "semtimedop": 220, "semctl": 66, "shmget": 29, "shmat": 30, "shmctl": 31,
}  # fmt: skip
"""Refused to a program that writes only what it has open; of `open` and `openat` everything that is not for reading alone."""

_SECCOMP, _CLONE, _CLONE3, _SOCKETPAIR, _OPEN, _OPENAT, _OPENAT2, _KILL_CALL, _TKILL = 317, 56, 435, 53, 2, 257, 437, 62, 200
_FCNTL, _IOCTL = 72, 16
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _FIOSETOWN, _SIOCSPGRP = 8, 10, 15, 0x8901, 0x8902
_NOT_FOR_READING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def install_filter(*, forks: bool, writes: bool = True, ends: Sequence[int] = ()) -> str:
    """Installs the filter on all threads; returns why it failed, or an empty text.

    Without `forks` the process starts no other, and signals only itself and, to end them, the processes `ends`. Without `writes`
    it opens files for reading only.
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
        # A filter cannot see its flags; the C library falls back to clone when the call does not exist.
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
        *_any_of([_TKILL], [_refuse()]),  # names a thread of anybody; the C library has not used it for long
        # A ready descriptor can be made to signal any process.
        *_any_of([_FCNTL], _none_of(_SECOND_ARGUMENT_AT, [_F_SETOWN, _F_SETSIG, _F_SETOWN_EX])),
        *_any_of([_IOCTL], _none_of(_SECOND_ARGUMENT_AT, [_FIOSETOWN, _SIOCSPGRP])),
    ]


def _reading_only() -> list[bytes]:
    return [
        *_any_of([_OPEN], _for_reading(_SECOND_ARGUMENT_AT)),
        *_any_of([_OPENAT], _for_reading(_THIRD_ARGUMENT_AT)),
        *_any_of([_OPENAT2], [_op(_RETURN, _ERRNO | errno.ENOSYS)]),  # as clone3
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
    # Jumps over one instruction where the low half of the argument, which is all that the kernel reads of these, is one of the
    # values.
    return [_op(_LOAD, argument_at), *(_op(_JUMP_EQUAL, value, len(values) - i, 0) for i, value in enumerate(values))]


def _refuse() -> bytes:
    return _op(_RETURN, _ERRNO | errno.EPERM)


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, if_true, if_false, value)

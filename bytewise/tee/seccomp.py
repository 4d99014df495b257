"""A Linux system-call filter for programs that are handed every connection they need: no new socket, no other program, no look
into another process. What is refused gives EPERM, so that a library which merely tries goes on without.

The filter is a few instructions of classic BPF (seccomp(2)); it covers every thread and child of the process and cannot be taken
back. x86-64 only: elsewhere it is said that there is none.
"""

import ctypes
import errno
import platform
import socket
import struct
from collections.abc import Sequence

_NO_NEW_PRIVS, _SET_MODE_FILTER, _TSYNC = 38, 1, 1
_LOAD, _JUMP_EQUAL, _JUMP_SET, _JUMP_ABOVE, _AND, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x54, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT = 0, 4, 16, 24
_AUDIT_ARCH_X86_64, _X32 = 0xC000003E, 0x40000000
_CLONE_THREAD, _CLONE_NEW_ANY = 0x10000, 0x7E020000
_SOCKET_TYPE_MASK = 0xF
_INSTRUCTION = struct.Struct("HBBI")

CALLS = {
    # connections, and what reaches files and sockets by other ways; `io_uring` would open sockets unseen by the filter
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
"""Refused to a confined program, by their numbers on x86-64."""

FORKS = {"fork": 57, "vfork": 58}
"""Refused, too, to a program that may not multiply; of `clone` what makes no thread."""

_SECCOMP, _CLONE, _CLONE3, _SOCKETPAIR = 317, 56, 435, 53


def confine(*, forks: bool) -> str:
    """Puts the filter on all threads; why it could not be, or an empty text. Without `forks` the process stays alone, too."""
    if platform.machine() != "x86_64":
        return f"no filter for {platform.machine()}"
    program = b"".join(_program(forks))
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(program)
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // _INSTRUCTION.size, ctypes.addressof(buffer)))
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return f"no_new_privs: {errno.errorcode.get(ctypes.get_errno(), '?')}"
    result = libc.syscall(_SECCOMP, _SET_MODE_FILTER, _TSYNC, head)
    if result != 0:
        return f"seccomp: {errno.errorcode.get(ctypes.get_errno(), '?')}" if result < 0 else "seccomp: a thread stays outside"
    return ""


def _program(forks: bool) -> list[bytes]:
    calls = list(CALLS.values()) + ([] if forks else list(FORKS.values()))
    return [
        _op(_LOAD, _ARCHITECTURE_AT),
        _op(_JUMP_EQUAL, _AUDIT_ARCH_X86_64, 1, 0),
        _op(_RETURN, _KILL),  # another architecture's numbers mean other calls
        _op(_LOAD, _NUMBER_AT),
        _op(_JUMP_ABOVE, _X32, 0, 1),
        _op(_RETURN, _KILL),
        # Its flags are out of a filter's sight; the C library falls back to clone when it is told that there is none.
        *_any_of([_CLONE3], [_op(_RETURN, _ERRNO | errno.ENOSYS)]),
        *_any_of([_CLONE], _no_namespaces() if forks else _threads_only()),
        *_any_of([_SOCKETPAIR], _streams_only()),
        *_any_of(calls, [_refuse()]),
        _op(_RETURN, _ALLOW),
    ]


def _any_of(calls: Sequence[int], then: list[bytes]) -> list[bytes]:
    return [each for call in calls for each in (_op(_JUMP_EQUAL, call, 0, len(then)), *then)]


def _threads_only() -> list[bytes]:
    return [_op(_LOAD, _FIRST_ARGUMENT_AT), _op(_JUMP_SET, _CLONE_THREAD, 1, 0), _refuse(), _op(_RETURN, _ALLOW)]


def _no_namespaces() -> list[bytes]:
    return [_op(_LOAD, _FIRST_ARGUMENT_AT), _op(_JUMP_SET, _CLONE_NEW_ANY, 0, 1), _refuse(), _op(_RETURN, _ALLOW)]


def _streams_only() -> list[bytes]:
    # Either end of a pair of datagram sockets can send to any path, whoever listens there.
    return [
        _op(_LOAD, _SECOND_ARGUMENT_AT), _op(_AND, _SOCKET_TYPE_MASK), _op(_JUMP_EQUAL, socket.SOCK_STREAM, 1, 0), _refuse(),
        _op(_RETURN, _ALLOW),
    ]  # fmt: skip


def _refuse() -> bytes:
    return _op(_RETURN, _ERRNO | errno.EPERM)


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, if_true, if_false, value)

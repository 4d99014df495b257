"""The system-call filter: what it is for is refused, in whichever way it is tried, and what was handed in goes on."""

import errno
import os
from pathlib import Path

import pytest

from tests.fixtures.tee.fenced_process import said

TRIES = """
ours, theirs = socket.socketpair()
pipe = socket.socket(socket.AF_UNIX)
print(json.dumps({
    "internet": tried(lambda: socket.socket()), "unix": tried(lambda: socket.socket(socket.AF_UNIX)),
    "netlink": tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
    "connect": tried(lambda: pipe.connect("/nowhere")), "bind": tried(lambda: pipe.bind("")),
    "program": tried(lambda: subprocess.run(["true"], timeout=30)), "fork": tried(forked), "thread": tried(thread),
    "socketpair": tried(lambda: (ours.sendall(b"x"), theirs.recv(1))),
    "io_uring": system(425, 1, 0), "ptrace": system(101, 3, os.getppid(), 0, 0),
    "read": system(310, os.getpid(), 0, 0, 0, 0, 0),
}))
"""
REFUSED, GONE = "PermissionError", os.strerror(1)


@pytest.mark.e2e
@pytest.mark.parametrize("forks", [True, False])
def test_without_sockets_none_is_opened_and_an_inherited_one_works(forks: bool) -> None:
    seen = said(
        f"made = socket.socket(socket.AF_UNIX)\nassert filter_calls(forks={forks}) == ('no_sockets', '')\n"
        + TRIES.replace("pipe = socket.socket(socket.AF_UNIX)", "pipe = made")
    )
    refused = {"internet", "unix", "netlink", "connect", "bind", "program"}
    assert {name for name, result in seen.items() if result == REFUSED} == refused | (set() if forks else {"fork"})
    assert (seen["io_uring"], seen["ptrace"], seen["read"]) == (GONE, GONE, GONE)
    assert (seen["thread"], seen["socketpair"]) == ("done", "done")


@pytest.mark.e2e
def test_without_the_fence_every_call_succeeds() -> None:
    seen = said(TRIES)
    # The path is wrong and nothing is being traced: what matters is that it is not refused as such.
    assert {seen[name] for name in ("internet", "unix", "netlink", "program", "fork", "thread", "socketpair")} == {"done"}
    assert seen["connect"] == "FileNotFoundError" and GONE not in (seen["read"], seen["ptrace"])


SOCKETPAIRS = """
def pair(family, kind):
    for each in socket.socketpair(family, kind):
        each.close()
UNIX = socket.AF_UNIX
print(json.dumps([tried(lambda: pair(UNIX, kind)) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET)]))
"""


@pytest.mark.e2e
def test_without_sockets_only_stream_pairs_can_be_made() -> None:
    assert said(SOCKETPAIRS) == ["done"] * 3, "the control"
    assert said("assert filter_calls(forks=True).missing == ''" + SOCKETPAIRS) == ["done", REFUSED, REFUSED]


CALLED = """
from bytewise.tee.confinement import {table} as table
def answer(number):
    ctypes.set_errno(0)
    libc.syscall(number, -1, -1, -1, -1, -1, -1)
    return ctypes.get_errno()
print(json.dumps([name for name in {names!r}.split() if name not in table or answer(table[name]) != 1]))
"""
REACHING = """
socket connect bind listen io_uring_setup io_uring_enter io_uring_register name_to_handle_at open_by_handle_at fanotify_init
execve execveat ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd pidfd_send_signal kcmp
move_pages migrate_pages perf_event_open bpf userfaultfd keyctl add_key request_key
setns unshare chroot pivot_root mount umount2 open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr
init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct syslog iopl ioperm
"""
CHANGING = """
creat mknod mknodat mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat truncate
chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat
setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr setxattrat removexattrat file_setattr
mq_open mq_unlink msgget msgsnd msgrcv msgctl semget semop semtimedop semctl shmget shmat shmctl
"""


BY_TABLE = {
    "CALLS": ("forks=True", REACHING),
    "CHANGES": ("forks=True, writes=False", CHANGING),
    "FORKS": ("forks=False", "fork vfork"),
}
"""Calls that could get a socket back, that change or share files, and that fork: the fence that refuses them, and their names."""


@pytest.mark.e2e
@pytest.mark.parametrize("table", BY_TABLE)
def test_every_call_of_a_table_is_refused_where_its_fence_stands(table: str) -> None:
    """Each call by its name here, too: one that is no more in the table would be missed by nobody else."""
    fence, names = BY_TABLE[table]
    assert said(f"assert filter_calls({fence}).missing == ''" + CALLED.format(table=table, names=names)) == []


CLONED = """
def cloned(flags):
    pid = libc.syscall(56, flags | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    if pid > 0:
        os.waitpid(pid, 0)
    return pid > 0
print(json.dumps([cloned(0), cloned(0x10000000)]))
"""


@pytest.mark.e2e
def test_process_that_may_fork_gets_no_new_namespace() -> None:
    assert said("assert filter_calls(forks=True).missing == ''" + CLONED) == [True, False]


FILES = """
from pathlib import Path
os.chdir({folder!r})
Path("there").write_text("other's")
ours, theirs = socket.socketpair()
fence = {fence}
def opened(flags):
    os.close(os.open("there", flags))
others = {{
    "read": tried(lambda: opened(os.O_RDONLY)), "stream": tried(lambda: ours.sendall(b"x")),
    "anonymous": tried(lambda: mmap.mmap(-1, 2**20)), "openat2": libc.syscall(437, -1, 0, 0, 0) and ctypes.get_errno(),
}}
print(json.dumps([others, {{
    "write": tried(lambda: opened(os.O_WRONLY)), "both": tried(lambda: opened(os.O_RDWR)),
    "create": tried(lambda: opened(os.O_CREAT)), "empty": tried(lambda: opened(os.O_TRUNC)),
    "append": tried(lambda: opened(os.O_WRONLY | os.O_APPEND)), "fifo": tried(lambda: os.mkfifo("pipe")),
    "folder": tried(lambda: os.mkdir("folder")), "symlink": tried(lambda: os.symlink("what is read", "link")),
    "link": tried(lambda: os.link("there", "again")), "mode": tried(lambda: os.chmod("there", 0o777)),
    "time": tried(lambda: os.utime("there", (1, 1))), "cut": tried(lambda: os.truncate("there", 3)),
    "rename": tried(lambda: os.rename("there", "here")), "remove": tried(lambda: os.unlink("here")),
    "shared memory": tried(lambda: mapped(29, 0, 4096, 0o1600)), "queue": tried(lambda: mapped(68, 0, 0o1600)),
}}]))
"""
MAPPED = """
def mapped(number, *arguments):
    made = libc.syscall(number, *arguments)
    if made < 0:
        raise OSError(ctypes.get_errno(), "")
    libc.syscall({29: 31, 68: 71}[number], made, 0, 0)
"""


@pytest.mark.e2e
def test_without_writes_files_are_read_and_nothing_is_written(tmp_path: Path) -> None:
    code = MAPPED + FILES.format(folder=str(tmp_path), fence="filter_calls(forks=False, writes=False).missing == ''")
    others, changes = said(code)
    assert set(changes.values()) == {REFUSED}
    assert (others.pop("openat2"), set(others.values())) == (errno.ENOSYS, {"done"})
    assert [each.name for each in tmp_path.iterdir()] == ["there"] and (tmp_path / "there").read_text() == "other's"
    (tmp_path / "there").unlink()
    _, changes = said(MAPPED + FILES.format(folder=str(tmp_path), fence="None"))
    assert set(changes.values()) == {"done"}, "without the fence all of it works (control)"


SIGNALLED = """
def child():
    pid = os.fork()
    if pid == 0:
        signal.pause()
    return pid
mine, its = child(), child()
ours, theirs = socket.socketpair()
fence = {fence}
FIELDS = struct.pack("iiii", 0, 0, -1, 0) + bytes(112)
print(json.dumps([{{
    "kill": tried(lambda: os.kill(its, 0)), "group": tried(lambda: os.kill(0, 0)), "all": tried(lambda: os.kill(-1, 0)),
    "thread": system(200, its, 0), "of group": system(234, its, its, 0), "queue": system(129, its, 0, FIELDS),
    "queue of thread": system(297, its, its, 0, FIELDS), "limits": tried(lambda: resource.prlimit(its, resource.RLIMIT_CPU)),
    "owner": tried(lambda: fcntl.fcntl(ours, fcntl.F_SETOWN, its)), "signal": tried(lambda: fcntl.fcntl(ours, 10, 9)),
    "owner by ioctl": tried(lambda: fcntl.ioctl(ours, 0x8901, struct.pack("i", its))),
    "owner, extended": tried(lambda: fcntl.fcntl(ours, 15, struct.pack("ii", 1, its))),
    "group by ioctl": tried(lambda: fcntl.ioctl(ours, 0x8902, struct.pack("i", its))),
}}, [tried(lambda: os.kill(mine, 0)), tried(lambda: os.kill(os.getpid(), 0)), tried(lambda: signal.raise_signal(signal.SIGCONT)),
    tried(lambda: signal.pthread_kill(threading.get_ident(), signal.SIGCONT)), tried(lambda: ours.setblocking(False)),
    tried(lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))), tried(lambda: os.kill(mine, signal.SIGKILL))]]))
ours.close(); theirs.close()
"""


@pytest.mark.e2e
def test_isolated_process_signals_only_itself_and_listed_processes() -> None:
    head = "import fcntl\ndef die():\n    libc.prctl(1, 9, 0, 0, 0)\nos.register_at_fork(after_in_child=die)\n"
    signals, own = said(head + SIGNALLED.format(fence="filter_calls(forks=False, ends=(mine,)).missing == ''"))
    assert set(signals.values()) == {REFUSED, GONE} and set(own) == {"done"}
    signals, _ = said(head + SIGNALLED.format(fence="None"))
    assert not {REFUSED, GONE} & set(signals.values()), "without the fence none is refused (control)"


AROUND = """
def ended(act):
    pid = os.fork()
    if pid == 0:
        act()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
def of_i386():
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3")  # mov eax, 20 (getpid); int 0x80; ret
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
print(json.dumps([ended(lambda: libc.syscall(0x40000000 | 39)), ended(of_i386)]))
"""
KILLED = -31


@pytest.mark.e2e
def test_call_with_another_architectures_numbers_is_killed() -> None:
    """They mean other calls than the table's: of x32 above 2^30, of i386 from 1 on. Control: nobody is without the filter, unless
    the kernel has no such architecture."""
    plain = said(AROUND)
    assert plain[0] == 0 and plain[1] in (0, -11)
    assert said("assert filter_calls(forks=True).missing == ''" + AROUND) == [KILLED, KILLED if plain[1] == 0 else plain[1]]


OLDER = """
os.chdir({folder!r})
open("there", "w").close()
{fence}
def errors(number, *arguments):
    ctypes.set_errno(0)
    made = libc.syscall(number, *arguments)
    if made > 2:
        os.close(made)
    return ctypes.get_errno()
flags = (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC)
print(json.dumps([errors(435, 0, 0), [errors(2, b"there", each, 0o600) for each in flags]]))
"""


@pytest.mark.e2e
def test_calls_unused_by_the_current_library_are_filtered_too(tmp_path: Path) -> None:
    """`open`, in whose place it calls `openat`; and `clone3`, of whose flags a filter sees nothing, is not there at all."""
    cloned, opened = said(OLDER.format(folder=str(tmp_path), fence=""))
    assert cloned not in (0, errno.ENOSYS, errno.EPERM) and opened == [0] * 5, "the control"
    fence = "assert filter_calls(forks=True, writes=False).missing == ''"
    assert said(OLDER.format(folder=str(tmp_path), fence=fence)) == [errno.ENOSYS, [0, *[errno.EPERM] * 4]]

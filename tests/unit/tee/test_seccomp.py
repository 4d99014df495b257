"""The system-call filter: what it is for is refused, in whichever way it is tried, and what was handed in goes on."""

import os

import pytest

from tests.unit.tee.inside import said

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
def test_without_sockets_nothing_is_opened_and_what_was_handed_in_goes_on(forks: bool) -> None:
    seen = said(
        f"made = socket.socket(socket.AF_UNIX)\nassert no_sockets(forks={forks}) == ('no_sockets', '')\n"
        + TRIES.replace("pipe = socket.socket(socket.AF_UNIX)", "pipe = made")
    )
    refused = {"internet", "unix", "netlink", "connect", "bind", "program"}
    assert {name for name, result in seen.items() if result == REFUSED} == refused | (set() if forks else {"fork"})
    assert (seen["io_uring"], seen["ptrace"], seen["read"]) == (GONE, GONE, GONE)
    assert (seen["thread"], seen["socketpair"]) == ("done", "done")


@pytest.mark.e2e
def test_without_the_fence_all_of_it_works() -> None:
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
def test_without_sockets_a_pair_is_of_streams_because_datagrams_can_be_sent_to_any_path() -> None:
    assert said(SOCKETPAIRS) == ["done"] * 3, "the control"
    assert said("assert no_sockets(forks=True).missing == ''" + SOCKETPAIRS) == ["done", REFUSED, REFUSED]


CALLED = """
names = ("socket", "unshare", "setns", "chroot", "pivot_root", "move_mount", "open_tree", "fsopen", "process_madvise",
         "pidfd_send_signal", "fanotify_init", "swapon", "reboot", "acct", "kexec_file_load", "delete_module", "iopl", "ioperm")
from bytewise.tee.seccomp import CALLS
def answer(number):
    libc.syscall(number, -1, -1, -1, -1, -1, -1)
    return ctypes.get_errno()
print(json.dumps([name for name in names if answer(CALLS[name]) != 1]))
"""


@pytest.mark.e2e
def test_without_sockets_what_could_bring_one_back_or_reach_into_another_process_is_refused() -> None:
    assert said("assert no_sockets(forks=True).missing == ''" + CALLED) == []


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
def test_a_process_that_may_fork_gets_no_namespace_by_it() -> None:
    assert said("assert no_sockets(forks=True).missing == ''" + CLONED) == [True, False]

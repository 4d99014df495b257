"""Fences of a process: each refuses what it is for, says that it holds, and says why not where it cannot."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bytewise.service.settings import child_environment
from bytewise.tee import confinement

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534

PROGRAM = """
import ctypes, json, mmap, os, resource, signal, socket, subprocess, sys, threading
from bytewise.tee import confinement
from bytewise.tee.confinement import *
libc = ctypes.CDLL(None, use_errno=True)
def tried(act):
    try:
        act()
        return "done"
    except (OSError, MemoryError) as error:
        return type(error).__name__
def system(number, *arguments):
    return "done" if libc.syscall(number, *arguments) >= 0 else os.strerror(ctypes.get_errno())
def thread():
    started = threading.Thread(target=lambda: None)
    started.start()
    started.join()
def forked():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
"""


def said(code: str) -> Any:
    """What a process of its own prints as JSON."""
    command = [sys.executable, "-c", PROGRAM + code]
    done = subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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


@pytest.mark.e2e
def test_a_network_namespace_has_no_way_out_and_says_where_it_cannot_be_had() -> None:
    code = (
        "fence = no_network()\nprint(json.dumps([fence.missing, sorted(name for _, name in socket.if_nameindex()), "
        "tried(lambda: socket.create_connection(('192.0.2.1', 9), timeout=20))]))"
    )
    missing, interfaces, connected = said(code)
    if missing:
        assert missing.startswith(("unshare:", "uid_map:"))
    else:
        assert (interfaces, connected) == (["lo"], "OSError")


AS_NOBODY = """
import ctypes, os, sys
from bytewise.tee import confinement
if os.getuid() == 0:  # root may look at everything
    os.setgid({nobody})
    os.setuid({nobody})
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # a change of user closes the process by itself
"""


def _readable(fenced: bool) -> bool:
    """Whether one process of a user can read the memory of another that is, or is not, fenced in."""
    become = AS_NOBODY.format(nobody=NOBODY)
    inside = become + ("confinement.unseen()\n" if fenced else "")
    target = subprocess.Popen(
        [sys.executable, "-c", f"{inside}print('here', flush=True)\nsys.stdin.read()"], cwd=ROOT, env=child_environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert target.stdout is not None
    with target:
        assert target.stdout.readline() == b"here\n"
        look = f"{become}\ntry:\n    open('/proc/{target.pid}/mem', 'rb').close()\nexcept OSError:\n    sys.exit(3)\n"
        done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, env=child_environment(), timeout=60, check=False)
        assert done.returncode in (0, 3)
        return done.returncode == 0


@pytest.mark.e2e
def test_who_is_unseen_is_closed_to_processes_of_its_own_user() -> None:
    assert _readable(fenced=False), "without the fence it is open (control)"
    assert not _readable(fenced=True)


@pytest.mark.e2e
def test_no_core_and_bounded_resources() -> None:
    code = (
        "assert unseen() == ('unseen', '') and bounded(memory_bytes=2**28, cpu_s=50, files=64) == ('bounded', '')\n"
        "print(json.dumps([resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_CPU), "
        "resource.getrlimit(resource.RLIMIT_NOFILE), tried(lambda: mmap.mmap(-1, 2**29)), tried(lambda: mmap.mmap(-1, 2**20)), "
        "tried(lambda: [os.dup(0) for _ in range(80)])]))"
    )
    assert said(code) == [[0, 0], [50, 50], [64, 64], "OSError", "done", "OSError"]


def test_fences_that_cannot_be_had_say_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert confinement.no_sockets(forks=True).missing == "no filter for riscv64"
    swaps = tmp_path / "swaps"
    swaps.write_text("Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n")
    monkeypatch.setattr(confinement, "_SWAPS", swaps)
    monkeypatch.setattr(confinement, "_libc", _refusing)
    assert confinement.no_swap().missing.startswith("mlockall: ")


class _Refusing:
    """A C library of a machine that allows nothing."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_: -1


def _refusing() -> _Refusing:
    return _Refusing()

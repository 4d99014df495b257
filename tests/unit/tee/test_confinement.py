"""Fences of a process: each refuses what it is for, says that it holds, and says why not where it cannot."""

import os
import platform
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bytewise.service.settings import child_environment
from bytewise.tee import confinement
from tests.fixtures.tee.fenced_process import PROGRAM, ROOT, said

CAP_IPC_LOCK = 14
REFUSED = "PermissionError"


def _has_namespaces(*options: str) -> bool:
    """Whether this machine gives this user such a namespace, by the word of unshare(1)."""
    return subprocess.run(["unshare", *options, "true"], capture_output=True, timeout=60, check=False).returncode == 0


INSIDE = """
fence = isolate_network()
print(json.dumps([fence.missing, sorted(name for _, name in socket.if_nameindex()),
                  tried(lambda: socket.create_connection(("192.0.2.1", 9), timeout=20))]))
"""


@pytest.mark.e2e
def test_network_namespace_has_no_way_out_and_is_used_wherever_available() -> None:
    missing, interfaces, connected = said(INSIDE)
    if _has_namespaces("--net") or _has_namespaces("--map-current-user", "--net"):
        assert (missing, interfaces, connected) == ("", ["lo"], "OSError")
    else:
        assert re.fullmatch(r"(unshare|uid_map|setgroups|gid_map): E[A-Z]+", missing)


@pytest.mark.e2e
def test_unavailable_network_namespace_is_reported_with_the_kernels_reason() -> None:
    code = "assert filter_calls(forks=True).missing == ''\nprint(json.dumps(isolate_network().missing))"
    assert said(code) == "unshare: EPERM"


ENTERED = """
before = os.readlink("/proc/self/ns/user"), os.getuid()
fence = isolate_network()
print(json.dumps([fence.missing, before == (os.readlink("/proc/self/ns/user"), os.getuid())]))
"""


@pytest.mark.e2e
def test_incomplete_user_namespace_is_not_entered() -> None:
    missing, stayed = said('plain()\nconfinement._UID_MAP = confinement.Path("/nowhere/uid_map")' + ENTERED)
    assert missing in ("uid_map: ENOENT", "unshare: EPERM", "unshare: ENOSPC") and stayed
    # Root without its powers may have such a namespace and may not map itself (user_namespaces(7), CAP_SETFCAP).
    for become in ("powerless()", "plain()"):
        missing, stayed = said(become + ENTERED)
        assert stayed is bool(missing), "where its maps are had it is entered"


def _readable(fenced: bool) -> bool:
    """Whether one process of a user can read the memory of another that is, or is not, fenced in."""
    become = PROGRAM + "plain()\n"
    inside = become + ("confinement.deny_inspection()\n" if fenced else "")
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
def test_undumpable_process_is_unreadable_to_its_own_user() -> None:
    assert _readable(fenced=False), "without the fence it is open (control)"
    assert not _readable(fenced=True)


DIES = """
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
os.chdir({folder!r})
pid = os.fork()
if pid == 0:
    {fence}
    os.abort()
status = os.waitpid(pid, 0)[1]
print(json.dumps([hard != 0, os.WTERMSIG(status), os.WCOREDUMP(status)]))
"""


@pytest.mark.e2e
def test_undumpable_process_leaves_no_core(tmp_path: Path) -> None:
    assert said(DIES.format(folder=str(tmp_path), fence="deny_inspection()"))[1:] == [signal.SIGABRT, False]
    assert list(tmp_path.iterdir()) == []
    possible, _, dumped = said(DIES.format(folder=str(tmp_path), fence="pass"))
    assert dumped or not possible or _no_cores(), "without the fence there is one (control)"


def _no_cores() -> bool:
    """Whether this machine keeps no core of anybody."""
    return not Path("/proc/sys/kernel/core_pattern").read_text().strip()


LOCKED = """
from pathlib import Path
if {plain}:
    plain()
resource.setrlimit(resource.RLIMIT_MEMLOCK, ({limit}, {limit}))
confinement.SWAPS = Path({swaps!r})
fence = avoid_swap()
locked = re.search(r"VmLck:\\s+(\\d+)", Path("/proc/self/status").read_text())[1] != "0"
print(json.dumps([fence.missing, locked, tried(lambda: mmap.mmap(-1, 2**26)), resource.getrlimit(resource.RLIMIT_MEMLOCK)]))
"""


@pytest.fixture
def swaps() -> Iterator[str]:
    """What the kernel would say on a machine with swap, readable by anybody."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        path = Path(name) / "swaps"
        path.write_text("Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n")
        yield str(path)


@pytest.mark.e2e
@pytest.mark.parametrize("limit", [0, 2**20, 2**22])
def test_locked_memory_limit_locks_nothing_and_allows_more_allocation(swaps: str, limit: int) -> None:
    limit = _possible(limit)
    seen = said(LOCKED.format(plain=True, limit=limit, swaps=swaps))
    assert seen == [f"locked memory is limited to {limit} bytes", False, "done", [limit, limit]]


@pytest.mark.e2e
def test_process_without_a_lock_limit_locks_all_memory(swaps: str) -> None:
    limit = _possible(2**20)
    missing, locked, more, limits = said(LOCKED.format(plain=False, limit=limit, swaps=swaps))
    assert (locked, more, limits) == (not missing, "done", [limit, limit])
    ability = int(re.search(r"CapEff:\s+(\w+)", Path("/proc/self/status").read_text())[1], 16)  # type: ignore[index]
    assert locked or not ability >> CAP_IPC_LOCK & 1 or _in_user_namespace()


WITHOUT_SWAP = """
confinement.SWAPS = confinement.Path({swaps!r})
if {plain}:
    plain()
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
limits = limit_resources(memory_bytes=2**28, cpu_s=50, files=64).missing
lock = lambda: re.search(r"VmLck:\\s+(\\d+)", confinement.Path("/proc/self/status").read_text())[1] != "0"
swap = avoid_swap().missing, lock()
missing = lock_memory().missing
print(json.dumps([limits, *swap, missing, lock(), tried(lambda: mmap.mmap(-1, 2**26)), tried(lambda: mmap.mmap(-1, 2**29))]))
"""


@pytest.mark.e2e
@pytest.mark.parametrize("plain", [True, False])
def test_memory_is_locked_on_a_machine_without_swap(swaps: str, plain: bool) -> None:
    Path(swaps).write_text("Filename Type Size Used Priority\n")
    limits, swap, by_no_swap, missing, locked, more, too_much = said(WITHOUT_SWAP.format(swaps=swaps, plain=plain))
    assert (swap, by_no_swap) == ("", False), "no swap is enough for that fence, and locks nothing (control)"
    assert missing == "locked memory is limited to 0 bytes" if plain else locked == (not missing)
    assert (limits, more, too_much) == ("", "done", "OSError")
    assert not (plain and locked)


class _Limits:
    """Limits of a process that may lock `hard` bytes and have `addresses`; notes what is set."""

    RLIM_INFINITY, RLIMIT_AS, RLIMIT_MEMLOCK = resource.RLIM_INFINITY, resource.RLIMIT_AS, resource.RLIMIT_MEMLOCK

    def __init__(self, addresses: int, hard: int) -> None:
        self.now = {self.RLIMIT_AS: (addresses, addresses), self.RLIMIT_MEMLOCK: (5, hard)}

    def getrlimit(self, which: int) -> tuple[int, int]:
        return self.now[which]

    def setrlimit(self, which: int, limits: tuple[int, int]) -> None:
        self.now[which] = limits


@pytest.mark.parametrize(
    ("addresses", "hard", "soft"),
    [
        (100, 100, 100), (100, resource.RLIM_INFINITY, resource.RLIM_INFINITY),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, resource.RLIM_INFINITY), (101, 100, 5), (resource.RLIM_INFINITY, 100, 5),
    ],
)  # fmt: skip
def test_memory_lock_keeps_its_limit_on_success_and_restores_it_on_failure(
    monkeypatch: pytest.MonkeyPatch, addresses: int, hard: int, soft: int
) -> None:
    limits = _Limits(addresses, hard)
    monkeypatch.setattr(confinement, "resource", limits)
    monkeypatch.setattr(confinement, "c_library", lambda: _Answering(0))
    assert confinement.lock_memory() == ("locked", "")
    assert limits.now[resource.RLIMIT_MEMLOCK] == (soft, hard)
    monkeypatch.setattr(confinement, "c_library", lambda: _Answering(-1))
    limits.now[resource.RLIMIT_MEMLOCK] = (5, hard)
    assert confinement.lock_memory().missing and limits.now[resource.RLIMIT_MEMLOCK] == (5, hard)


def _possible(limit: int) -> int:
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)


def _in_user_namespace() -> bool:
    """Whether these abilities count inside a namespace only."""
    return Path("/proc/self/uid_map").read_text().split() != ["0", "0", str(2**32 - 1)]


@pytest.mark.e2e
def test_resource_limits_forbid_core_dumps() -> None:
    code = (
        "assert deny_inspection() == ('unseen', '')\n"
        "assert limit_resources(memory_bytes=2**28, cpu_s=50, files=64) == ('bounded', '')\n"
        "print(json.dumps([resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_CPU), "
        "resource.getrlimit(resource.RLIMIT_NOFILE), tried(lambda: mmap.mmap(-1, 2**29)), tried(lambda: mmap.mmap(-1, 2**20)), "
        "tried(lambda: [os.dup(0) for _ in range(80)])]))"
    )
    assert said(code) == [[0, 0], [50, 50], [64, 64], "OSError", "done", "OSError"]


def test_missing_kernel_information_is_reported_and_not_fatal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(confinement, "SIZES", tmp_path / "statm")
    assert confinement.limit_resources(memory_bytes=1, cpu_s=1, files=1).missing == "FileNotFoundError"
    monkeypatch.setattr(confinement, "INTERFACES", tmp_path / "dev")
    monkeypatch.setattr(confinement, "c_library", lambda: _Answering(0))
    assert confinement.isolate_network().missing == "FileNotFoundError"


def test_unavailable_fences_give_their_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert confinement.filter_calls(forks=True).missing == "no filter for riscv64"
    swaps = tmp_path / "swaps"
    swaps.write_text("Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n")
    monkeypatch.setattr(confinement, "SWAPS", swaps)
    monkeypatch.setattr(confinement, "c_library", _refusing)
    assert re.match("mlockall: |locked memory is limited to", confinement.avoid_swap().missing)


class _Answering:
    """A C library in which every call gives the same."""

    def __init__(self, answer: int) -> None:
        self._answer = answer

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_: self._answer


def _refusing() -> _Answering:
    """That of a machine that allows nothing."""
    return _Answering(-1)


ORPHANED = """
def ended(parent):
    pid = os.fork()
    if pid == 0:
        die_with_parent(parent(), signal.SIGKILL)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps([ended(os.getppid), ended(os.getpid)]))
"""


@pytest.mark.e2e
def test_child_started_after_its_parents_end_ends_at_once() -> None:
    """The parent may be gone before the kernel is asked; then another is the parent. Control: one that is still there."""
    assert said(ORPHANED) == [0, -signal.SIGKILL]

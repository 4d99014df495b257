"""The operating-system processes of a run: starts processes, waits until they are ready, kills one, and ends all. A run ends only
processes that it started itself, and never looks for processes by name."""

import contextlib
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.service.installation import SOURCE_ROOT
from bytewise.service.settings import child_environment

# In a new network namespace (`unshare -rn`) the loopback interface is down. A process with the right to do so brings it up.

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
"""SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP (netdevice(7))."""


def ensure_loopback_up() -> None:
    """Brings the loopback network interface up. Raises `ConfigurationError` if the interface is down and this user may not bring
    it up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sh14s", b"lo", 0, b"")
        flags = struct.unpack("16sh14s", fcntl.ioctl(handle, _GET_FLAGS, request))[1]
        if flags & _UP:
            return
        try:
            fcntl.ioctl(handle, _SET_FLAGS, struct.pack("16sh14s", b"lo", flags | _UP, b""))
        except PermissionError:
            raise ConfigurationError("loopback", "is down; bring it up with `ip link set lo up`") from None


ENDING_S = 20.0
POLL_S = 0.1
SAMPLE_S = 6.0
"""Seconds between two measurements of memory. Measurements are rare, because for each the kernel walks all pages of each process,
and the enclaves need the cores."""


_ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false",
    # Each process imports the same modules as this one, not modules in the folder of the runs.
    "PYTHONPATH": str(SOURCE_ROOT), "PYTHONSAFEPATH": "1",
}  # fmt: skip


ENCLAVE = "-enclave"
"""Suffix of the names of enclave processes. Only enclaves compute for seconds at a time.

All enclaves share the session of the demo, and every other process has a session of its own. Linux first divides the cores
between sessions (autogroup, sched(7)), so the enclaves cannot delay the processes that follow the chain."""
_PROBE_CPU_S = 0.3
_PROBE = (
    f"import time; start = time.monotonic()\nwhile time.process_time() < {_PROBE_CPU_S}: pass\nprint(time.monotonic() - start)"
)
_PROBE_TIMEOUT_S = 60.0


def slowdown() -> float:
    """Measures how many times as long a computation on all cores takes now as on an idle machine. The result is at least 1.

    A process on each core computes for 0.3 s of CPU time, so an idle machine answers in half a second. A machine that does not
    answer within a minute counts as 100 times as slow.
    """
    command = [sys.executable, "-I", "-S", "-c", _PROBE]
    probes = [
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, process_group=0)
        for _ in range(psutil.cpu_count() or 1)
    ]
    deadline, longest = time.monotonic() + _PROBE_TIMEOUT_S, _PROBE_CPU_S
    for probe in probes:
        try:
            said, _ = probe.communicate(timeout=max(0.1, deadline - time.monotonic()))
            longest = max(longest, float(said))
        except subprocess.TimeoutExpired:
            probe.kill()
            probe.communicate()
            longest = 100 * _PROBE_CPU_S
    return longest / _PROBE_CPU_S


class ProcessGroup:
    """All processes of one run, by name. Each process has a log file."""

    def __init__(self, folder: Path, root: Path, on_wait: Callable[[str], None]) -> None:
        """`folder` gets the log files. `root` is the working folder of the processes. `on_wait` is called with the name of each
        thing for which the run waits."""
        self._folder = folder
        self._on_wait = on_wait
        self._root = root
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, list[str]] = {}
        self.exit_codes: dict[str, int] = {}
        self.killed: set[str] = set()
        self._terminated: set[str] = set()
        self.peak_pss_bytes = 0
        self._stop = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def start(self, name: str, command: list[str], output: Path | None = None) -> None:
        """Starts a process under a name. Its output goes to the file `<name>.log`. If `output` is not None, its standard output
        goes to that file instead."""
        log = self.log_of(name).open("ab")
        out = log if output is None else output.open("wb")
        self._commands[name] = command
        environment = child_environment(_ENVIRONMENT)
        computes = name.endswith(ENCLAVE)
        self._running[name] = subprocess.Popen(
            command, cwd=self._root, stdin=subprocess.DEVNULL, stdout=out, stderr=log, env=environment,
            start_new_session=not computes, process_group=0 if computes else None,
        )  # fmt: skip
        log.close()
        out.close()

    def python(self, name: str, module: str, *arguments: str) -> None:
        """Starts `python -m module` with these arguments, as a process under a name."""
        self.start(name, [sys.executable, "-m", module, *arguments])

    def restart(self, name: str) -> None:
        """Starts an ended process again with the same arguments."""
        self.start(name, self._commands[name])

    def command(self, name: str) -> list[str]:
        """Returns the command with which a process was started."""
        return self._commands[name]

    def kill(self, name: str) -> int:
        """Kills a process by SIGKILL, waits for its end, and returns its exit status, which is -9."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGKILL)
        self.killed.add(name)
        return process.wait(ENDING_S)

    def finish(self, name: str, timeout_s: float) -> int:
        """Waits for a process that ends by itself, and returns its exit status. Raises `TryAgain` if it does not end in time."""
        try:
            code = self._running[name].wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TryAgain(name, f"did not end within {timeout_s:.0f} s; see its log") from None
        self._running.pop(name)
        self.exit_codes[name] = code
        return code

    def expect_success(self, name: str, timeout_s: float) -> None:
        """Waits for a process that must end with exit code 0. Raises `ConfigurationError` with the end of its log if it ends with
        another code."""
        code = self.finish(name, timeout_s)
        if code != 0:
            raise ConfigurationError(name, f"ended with {code}: {self.tail(name)}")

    def stop(self, name: str) -> None:
        """Ends a process by SIGTERM and waits for it. Raises `ConfigurationError` if it ends with another exit code than 0."""
        self._running[name].terminate()
        self.expect_success(name, ENDING_S)

    def check(self) -> None:
        """Raises `ConfigurationError` with the name of the first process that ended by itself. Does nothing if all processes
        run."""
        for name, process in self._running.items():
            code = process.poll()
            if code is not None:
                raise ConfigurationError(name, f"ended with {code}: {self.tail(name)}")

    def ended(self) -> dict[str, int]:
        """Returns the exit status of each process that ended although the run did not stop it, by name."""
        codes = {name: process.poll() for name, process in self._running.items()}
        return {name: code for name, code in codes.items() if code is not None}

    def log_of(self, name: str) -> Path:
        """Returns the path of a process's log file."""
        return self._folder / f"{name}.log"

    def tail(self, name: str, lines: int = 6) -> str:
        """Returns the last lines of a process's log, or an empty text if there is no log."""
        path = self.log_of(name)
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""

    def wait(self, what: str, ready: Callable[[], bool], timeout_s: float) -> None:
        """Waits until `ready()` is true. Raises `TryAgain` if that takes longer than `timeout_s` seconds, and
        `ConfigurationError` if a process ends meanwhile. `what` is the name of the awaited thing, for messages."""
        deadline = time.monotonic() + timeout_s
        self._on_wait(what)
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise TryAgain(what, f"not within {timeout_s:.0f} s")
            self._stop.wait(POLL_S)

    def pids(self) -> dict[str, int]:
        """Returns the process id of each running process, by name."""
        return {name: process.pid for name, process in self._running.items()}

    def unclean(self, midway: bool) -> dict[str, int]:
        """Ends all processes (`end`) and returns the exit status of each process that failed. A process failed if its status is
        not 0 and the run did not kill it on purpose.

        `midway` is true if the run stopped early. Then a process that SIGTERM ended counts as no failure, because the signal may
        have come before the process could handle signals.
        """
        ends = self.end()
        asked = self._terminated if midway else set()
        fine = {name for name, code in ends.items() if code == 0 or (code == -signal.SIGTERM and name in asked)}
        return {name: code for name, code in ends.items() if name not in fine | self.killed}

    def end(self) -> dict[str, int]:
        """Ends all processes by SIGTERM, and by SIGKILL if they do not end in time. Returns the exit status of each, by name."""
        self._stop.set()
        self._sampler.join(ENDING_S)
        for name, process in self._running.items():
            if process.poll() is None:
                self._terminated.add(name)
                process.terminate()
        deadline = time.monotonic() + ENDING_S
        for name, process in self._running.items():
            try:
                self.exit_codes[name] = process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                self.exit_codes[name] = process.wait(ENDING_S)
        self._running.clear()
        return self.exit_codes

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            total = sum(_pss(pid) for pid in [os.getpid(), *self.pids().values()])
            self.peak_pss_bytes = max(self.peak_pss_bytes, total)


def _pss(pid: int) -> int:
    """Returns the memory of a process and its children in bytes, as proportional set size (proc(5), smaps_rollup).

    A process that has ended counts as 0. A process whose memory this user may not read also counts as 0, for example an enclave.
    Of this process itself, the children do not count here, because the caller adds each of them.
    """
    try:
        family = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))] if pid != os.getpid() else [pid]
    except psutil.Error:
        return 0
    total = 0
    for member in family:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{member}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total

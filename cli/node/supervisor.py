"""Starts the processes of a node, restarts those that fail, and stops all of them cleanly.

The exit code of an ended process decides what happens next (`bytewise.service.exit_codes`). Wrong settings and refusals end the
node, because a restart would end in the same way. A process that ends with code 0 or after Ctrl-C ends the node, too. After any
other code, for example of a defect or a hung tick, the process is started again, with pauses that double up to a minute. A
process that the node can do without is always started again.
"""

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service import telemetry
from bytewise.service.clock import monotonic_s
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import PREFIX, child_environment, setting_variables

STOP_S = 9.0
"""Longest time in which all processes must have stopped, in seconds. Later the supervisor kills them."""
POLL_S = 0.1
"""Pause between two looks at the processes, in seconds."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""Shortest and longest pause before a failed process is started again, in seconds."""
STEADY_S = 300.0
"""Seconds after which a process counts as stable. The pause before its next restart is then the shortest one again."""
UNUSABLE = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR})
"""Errors of the operating system after which every new start of the program would fail. Other errors may end by themselves."""
FINAL = frozenset({Exit.USAGE, Exit.REFUSED, Exit.INTERRUPTED})
"""Exit codes after which a process is not started again. After wrong settings or a refusal it would end in the same way, and
after an interrupt a person wants it to stop. `Exit.OK` also has this effect."""


class PasswordPipe:
    """Passes a password to a process through a pipe, so that the password is in no file, argument or variable."""

    def __init__(self, password: bytes) -> None:
        self._password = password

    @contextmanager
    def opened(self) -> Iterator[tuple[tuple[int, ...], dict[str, str]]]:
        """Context manager for starting one process inside its block. It yields the file descriptors that the process must
        inherit, and the environment variable that names the pipe."""
        reader, writer = os.pipe()
        try:
            os.write(writer, self._password)
            os.close(writer)
            yield (reader,), {f"{PREFIX}SIGNER__PASSWORD_FILE": f"/dev/fd/{reader}"}
        finally:
            os.close(reader)


class NoPassword:
    """Stands in for `PasswordPipe` when a process needs no password."""

    @contextmanager
    def opened(self) -> Iterator[tuple[tuple[int, ...], dict[str, str]]]:
        """Context manager that yields no file descriptors and no environment variable."""
        yield (), {}


@dataclass(frozen=True, slots=True)
class Program:
    """One process of a node, as the supervisor starts it."""

    name: str
    """Name of the process in the log."""
    command: tuple[str, ...]
    """Program and arguments of the process."""
    needs_account: bool
    """True if the process reads the account key, so that it may need the keystore's password."""
    dispensable: bool = False
    """True if the node goes on without the process. Such a process is started again after every exit code, and gets no
    environment variables with settings."""


class _Process:
    """A program that the supervisor keeps running, with its running process and the time of its next start."""

    def __init__(self, program: Program, start: Callable[[Program], "subprocess.Popen[bytes]"]) -> None:
        self.program = program
        self._start = start
        self._pause_s = FIRST_PAUSE_S
        self.running: subprocess.Popen[bytes] | None = None
        self._started_at = self._due_at = monotonic_s()

    def look(self) -> int | None:
        """Starts the process if it does not run and its pause is over. Returns its exit code if it ended and must not be started
        again, or else None."""
        now = monotonic_s()
        if self.running is None:
            if now >= self._due_at:
                self._begin(now)
            return None
        code = self.running.poll()
        if code is None:
            return None
        self.running = None
        if not self.program.dispensable and (code in FINAL or code == Exit.OK):
            telemetry.log("process.ended", name=self.program.name, code=code)
            return code
        self._pause_s = FIRST_PAUSE_S if now - self._started_at >= STEADY_S else self._pause_s
        telemetry.log("process.restarting", name=self.program.name, code=code, pause_s=self._pause_s)
        self._postpone(now)
        return None

    def _postpone(self, now: float) -> None:
        self._due_at = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def _begin(self, now: float) -> None:
        try:
            self.running, self._started_at = self._start(self.program), now
        except OSError as error:
            program = self.program.command[0]
            if error.errno in UNUSABLE and not self.program.dispensable:
                raise ConfigurationError(self.program.name, f"{program} cannot be started: {error.strerror}") from None
            do = "make its environment again, correct its path in the settings, or free memory; it is tried again"
            telemetry.log("process.not_started", name=self.program.name, program=program, error=error.strerror, do=do)
            self._postpone(now)
            return
        telemetry.log("process.started", name=self.program.name, pid=self.running.pid)


class NodeSupervisor:
    """Runs the processes of one node, restarts those that fail, and stops all of them."""

    def __init__(self, programs: Sequence[Program], password: PasswordPipe | None = None, stop_s: float = STOP_S) -> None:
        self._password = password
        self._stop_s = stop_s
        self._processes = [_Process(each, self._begin) for each in programs]

    def run(self, stop: threading.Event) -> int:
        """Runs the processes until `stop` is set, or until one ends and must not be started again. Then it stops all others and
        returns the node's exit code."""
        code: int | None = None
        try:
            while code is None and not stop.wait(POLL_S):
                code = next((ended for ended in [each.look() for each in self._processes] if ended is not None), None)
        finally:
            killed = self._stop_all()
        if code is not None:
            return code
        return Exit.HUNG if killed else Exit.OK

    def _begin(self, program: Program) -> "subprocess.Popen[bytes]":
        # The processes get only the environment variables with settings. These may contain secrets, so a dispensable process does
        # not get them: the gossip process has its own settings file, and runs third-party code that faces the network.
        environment = child_environment(None if program.dispensable else setting_variables())
        password = self._password if self._password is not None and program.needs_account else NoPassword()
        with password.opened() as (files, variable):
            return subprocess.Popen(
                program.command, stdin=subprocess.DEVNULL, env=environment | variable, pass_fds=files, start_new_session=True
            )

    def _stop_all(self) -> bool:
        """Stops all processes by SIGTERM, and kills those that do not end in time. Returns True if one had to be killed."""
        alive = [each for each in self._processes if each.running is not None and each.running.poll() is None]
        for each in alive:
            assert each.running is not None
            each.running.send_signal(signal.SIGTERM)
        deadline, killed = monotonic_s() + self._stop_s, False
        for each in alive:
            assert each.running is not None
            try:
                each.running.wait(max(0.1, deadline - monotonic_s()))
            except subprocess.TimeoutExpired:
                telemetry.log("process.killed", name=each.program.name)
                each.running.kill()
                each.running.wait()
                killed = True
        return killed


def python_module(module: str, *arguments: str) -> tuple[str, ...]:
    """Returns the command that runs a module of Bytewise with these arguments. With `-P`, Python imports the installed module and
    not one in the current folder."""
    return (sys.executable, "-P", "-m", module, *arguments)

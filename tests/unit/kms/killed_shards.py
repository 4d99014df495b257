"""A network of real shard processes over HTTPS, which kill themselves by SIGKILL at every moment if they are told to."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from bytewise.protocol.encoding import encode
from bytewise.protocol.keys.ceremony import Plan
from bytewise.protocol.units import Address
from bytewise.service.clock import monotonic_s
from bytewise.service.settings import child_environment
from cli.demo.site import free_ports
from kms.ceremony.session import HttpsLink
from kms.ceremony.state import Ceremony, Phase
from tests.unit.kms.ceremonies import SCRIBE
from tests.unit.kms.offices import Office, offices, scribe_over
from tests.unit.kms.test_ceremony_desks import numbered
from tests.unit.kms.world import wait_until

ROOT = Path(__file__).resolve().parents[3]


class Network:
    """Shard processes, the chain that they read, and a way to each."""

    def __init__(self, folder: Path, count: int, killed: bool) -> None:
        self.folder, self.are_killed, self.all_deaths = folder, killed, list[str]()
        self.forgetful: list[Office] = []
        self.shards, self.chain = offices(folder, count)
        self.links: dict[Address, HttpsLink] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stack = contextlib.ExitStack()
        for (number, each), port in zip(numbered(self.shards).items(), free_ports(count), strict=True):
            each.port = port
            self.links[each.signer.address] = self._stack.enter_context(HttpsLink(each.seat(number)))

    def __enter__(self) -> "Network":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._stack.close()

    def start(self, approved: Iterable[Plan] = ()) -> None:
        """Starts all, whose operators approved these plans."""
        (self.folder / "approved").write_text("".join(f"{each.digest.hex()}\n" for each in approved))
        self.tell()
        for each in self.shards:
            words = [each.folder, each.port, SCRIBE.address, self.folder / "chain.json"]
            if self.are_killed:
                self.killed(each).touch()
                words += [self.killed(each), *(["forgetful"] if each in self.forgetful else [])]
            self._processes.append(start(each, words))
        wait_until(lambda: all(listens(each.port) for each in self.shards))

    def stop(self) -> None:
        """Ends all."""
        while self._processes:
            end(self._processes.pop())

    def killed(self, who: Office) -> Path:
        """Where the moments are named at which it was killed."""
        return who.folder.with_suffix(".killed")

    def deaths(self) -> list[str]:
        """All of this ceremony."""
        return [name for each in self.shards for name in self.killed(each).read_text().splitlines()]

    def tell(self) -> None:
        """The chain says now what `self.chain` says."""
        (self.folder / "chain.json").write_bytes(encode(self.chain.epoch))

    def ways(self, who: Iterable[Office]) -> dict[Address, HttpsLink]:
        """To these."""
        return {each.signer.address: self.links[each.signer.address] for each in who}

    def run_killed(self, agreed: Plan, who: list[Office]) -> Ceremony:
        """A ceremony whose shards are killed at every moment, until no new one comes; each is there again after a moment."""
        links = self.ways(who)
        for each in who:
            self.killed(each).write_text("")
        state, deaths = scribe_over(self.folder, agreed, links).run(600, 0.05, monotonic_s, threading.Event().wait), 0
        while deaths < len(self.deaths()):
            deaths = len(self.deaths())
            wait_until(lambda: all(listens(each.port) for each in who))
            scribe_over(self.folder, agreed, links).turn()
        print(f"{agreed.purpose.value} with {len(who)} shards: {deaths} times SIGKILL")
        self.all_deaths += self.deaths()
        assert not state.lies and state.phase is Phase.DONE
        for each in who:
            kept = each.ceremonies().find(agreed.digest)
            assert kept is not None and (kept.ended, kept.seed) == ("done", b"")
        return state


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def start(who: Office, words: list[object]) -> "subprocess.Popen[bytes]":
    """The process, a session leader."""
    command = [sys.executable, "-m", "tests.unit.kms.ceremony_shard", *map(str, words)]
    with who.folder.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, env=child_environment(), stderr=log, stdout=log, start_new_session=True)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kills it and what it forked."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)

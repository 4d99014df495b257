"""Injects the faults of a schedule into a running network, one after the other, and notes when each began and ended."""

import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import httpx2
from sqlalchemy import text

from bench.soak_node.network import SoakNetwork
from bench.soak_node.schedule import ALL, Fault
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.service.clock import monotonic_s
from bytewise.service.exit_codes import Exit
from bytewise.storage.engine import open_database, write_transaction

EXIT_S = 30.0
"""Most seconds that a process may take to end by itself, where it must."""
BLOCK_S = 1
"""Seconds from block to block (`cli.demo.actors.chain_arguments`)."""
STILL_S = 2.0 * BLOCK_S
"""Seconds without a new block after which no block is under way any more."""
FARTHEST_JUMP_S = 600
"""Most seconds by which all jumps together may move the chain's time ahead. A shard refuses times more than half an hour
ahead."""


@dataclass(frozen=True, slots=True)
class Incident:
    """A fault that happened. Times are seconds since the start of the run."""

    kind: str
    target: str
    start: float
    """Second at which the fault began."""
    end: float
    """Second at which the fault was over and its target had recovered."""
    value: float = 0.0
    block: int = 0
    """Newest block before a reorganisation; 0 for other faults."""

    def touches(self, names: Iterable[str]) -> bool:
        """Returns whether the target of the fault was one of these actors, or everybody."""
        return self.target == ALL or self.target in names


class Injector:
    """Injector of scheduled faults. It runs in a thread of its own until the schedule or the run ends."""

    def __init__(self, network: SoakNetwork, faults: Iterable[Fault], now: Callable[[], float], stop: threading.Event) -> None:
        self.incidents: list[Incident] = []
        self.injected: Counter[str] = Counter()
        self.violations: list[str] = []
        self.chain_is_lost = False
        """Whether anvil lost blocks in a reorganisation. Then no reader of the chain can go on, and the run ends."""
        self.busy: set[str] = set()
        """Actors that the injector currently disturbs."""
        self._network = network
        self._faults = faults
        self._now = now
        self._stop = stop
        self._jumped = 0
        self._kinds: dict[str, Callable[[Fault], None]] = {
            "pause-actor": self._pause, "chain-pause": self._pause, "second-instance": self._second,
            "second-instance-after-pause": self._second_after_pause, "reorganisation": self._reorganise,
            "disk-full": self._fill_disk, "chain-jump": self._jump, "clock-jump": self._set_clock,
            "database-cut": self._cut_database,
        }  # fmt: skip

    def run(self) -> None:
        """Injects every fault at its time."""
        for fault in self._faults:
            if self._stop.wait(max(0.0, fault.at_s - self._now())):
                return
            self.inject(fault)

    def inject(self, fault: Fault) -> None:
        """Injects one fault from start to end. The incident is recorded even if the injection fails."""
        start, block = self._now(), 0
        if fault.kind == "reorganisation":
            block = int(self._network.rpc("eth_blockNumber"), 16)
        names = {fault.target, f"{fault.target}-second"}
        self.busy |= names
        try:
            self._action(fault)(fault)
            self.injected[fault.kind] += 1
        except (BytewiseError, OSError, RuntimeError, KeyError, httpx2.HTTPError, subprocess.SubprocessError) as error:
            self.violations.append(f"{fault.kind} of {fault.target} could not be injected: {type(error).__name__}: {error}")
        finally:
            self.busy -= names
            end = self._now() + fault.recovery_s
            self.incidents.append(Incident(fault.kind, fault.target, start, end, fault.value, block))

    def _action(self, fault: Fault) -> Callable[[Fault], None]:
        if fault.kind.startswith("kill-"):
            return self._kill
        if fault.kind in self._kinds:
            return self._kinds[fault.kind]
        return self._order

    def _wait(self, fault: Fault) -> None:
        self._stop.wait(fault.for_s)

    def _kill(self, fault: Fault) -> None:
        self._network.kill(fault.target)
        self._wait(fault)
        self._network.restart(fault.target)

    def _pause(self, fault: Fault) -> None:
        name = "chain" if fault.kind == "chain-pause" else fault.target
        self._network.send(name, signal.SIGSTOP)
        try:
            self._wait(fault)
        finally:
            self._network.send(name, signal.SIGCONT)

    def _order(self, fault: Fault) -> None:
        """Orders a fault of the proxy. Stale answers and lies affect one of the actor's three RPC endpoints, other RPC faults all
        of them. A fault of the DA store affects everybody."""
        kind, _, name = fault.kind.partition("-")
        endpoint = "da/" if kind == "da" else f"rpc/{fault.target}"
        if kind == "rpc" and name in ("stale", "lie"):
            endpoint += f"/{1 + int(fault.at_s) % 3}"
        self._network.order(endpoint, name, fault.value)
        try:
            self._wait(fault)
        finally:
            self._network.order(endpoint, "")

    def _second(self, fault: Fault) -> None:
        """Starts a second process with the key of a running one. The second process must end and say that the key is taken."""
        self._network.await_key(fault.target, EXIT_S)
        other, started = self._network.second(fault.target), monotonic_s()
        code = self._network.exit_within(other, EXIT_S)
        if code != Exit.REFUSED:
            self.violations.append(f"a second instance of {fault.target} ended with {code}, not {int(Exit.REFUSED)}")
        if code is None:
            self._network.kill(other)
        self._stop.wait(max(0.0, fault.for_s - (monotonic_s() - started)))

    def _second_after_pause(self, fault: Fault) -> None:
        """Starts a second process with the key of a stopped one. When the stopped process goes on, it must end."""
        first = fault.target
        self._network.await_key(first, EXIT_S)
        self._network.send(first, signal.SIGSTOP)
        other, before = self._network.second(first), monotonic_s()
        while monotonic_s() - before < fault.for_s and not self._network.said(other, "node.started"):
            if self._stop.wait(0.5):
                break
        took = self._network.said(other, "node.started")
        self._network.send(first, signal.SIGCONT)
        code = self._network.exit_within(first, EXIT_S)
        if took and code in (None, 0):
            self.violations.append(f"{first} went on beside its second instance: exit {code}")
        if code is None:
            self._network.kill(first)
        self._network.group.log_of(other).unlink(missing_ok=True)
        self._network.kill(other)
        self._network.restart(first)

    def _reorganise(self, fault: Fault) -> None:
        """Replaces the newest blocks by other blocks. The chain's time goes on as before.

        No block may be mined meanwhile. Otherwise anvil loses the block below the branch for good, and nobody can read past it.
        """
        depth, rpc = int(fault.value), self._network.rpc
        before = self._head_time()
        rpc("evm_setIntervalMining", 0)
        try:
            self._await_still_chain()
            rpc("anvil_reorg", depth, [])
        finally:
            rpc("evm_setIntervalMining", BLOCK_S)
        lost = [number for number in range(int(rpc("eth_blockNumber"), 16) - depth - 2, int(rpc("eth_blockNumber"), 16))
                if number >= 0 and rpc("eth_getBlockByNumber", hex(number), False) is None]  # fmt: skip
        if lost:
            self.chain_is_lost = True
            raise RuntimeError(f"the chain has lost blocks {lost}: the run ends here")
        behind = before - self._head_time()
        if behind > 0:
            rpc("evm_increaseTime", behind)

    def _await_still_chain(self) -> None:
        """Waits until no block came for `STILL_S`, because a block may still be under way after mining is turned off."""
        head, since, until = "", monotonic_s(), monotonic_s() + EXIT_S
        while monotonic_s() - since < STILL_S:
            if monotonic_s() > until:
                raise RuntimeError("blocks came although mining was turned off")
            newest = str(self._network.rpc("eth_blockNumber"))
            head, since = newest, since if newest == head else monotonic_s()
            self._stop.wait(0.1)

    def _head_time(self) -> int:
        return int(self._network.rpc("eth_getBlockByNumber", "latest", False)["timestamp"], 16)

    def _jump(self, fault: Fault) -> None:
        if self._jumped + fault.value <= FARTHEST_JUMP_S:
            self._jumped += int(fault.value)
            self._network.rpc("evm_increaseTime", int(fault.value))

    def _set_clock(self, fault: Fault) -> None:
        self._network.set_clock(fault.value)
        try:
            self._wait(fault)
        finally:
            self._network.set_clock(0)

    def _fill_disk(self, fault: Fault) -> None:
        """Fills an actor's file system to the last byte for the time of the fault. The file system has its database and its
        keys."""
        path = self._network.disk_file
        with path.open("wb", buffering=0) as filler:
            try:
                for size in (2**20, 2**12, 1):
                    try:
                        while filler.write(bytes(size)) == size:
                            pass
                    except OSError:
                        continue
                self._wait(fault)
            finally:
                path.unlink()

    def _cut_database(self, fault: Fault) -> None:
        """Makes PostgreSQL end every connection of one actor."""
        engine = open_database(self._network.means.server)
        query = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name")
        with write_transaction(engine) as connection:
            connection.execute(query, {"name": self._network.site.database_name(fault.target)})
        engine.dispose()

"""Makes one run from start to end: users ask, faults happen, then the run waits until every receipt and dispute is final."""

import bisect
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import httpx2

from bench.soak_node import flatness
from bench.soak_node.faults import Injector
from bench.soak_node.history import History, read_history
from bench.soak_node.network import PARAMS, SoakNetwork
from bench.soak_node.oracle import ProcessEnd
from bench.soak_node.schedule import schedule
from bench.soak_node.traffic import Traffic
from bytewise.protocol.address_book import Network
from bytewise.service.clock import monotonic_s
from cli.demo.build import Built

SAMPLE_S = 10.0
PROGRESS_S = 10.0
LONGEST_DRAIN_S = 600.0
"""Most seconds that the last disputes may take to end after the last fault. Two disputes of two rounds, one after the other, fit
into them."""
DRAIN_LOOK_S = 15.0
END_S = 90.0
"""Most seconds, after the traffic was stopped, until the last fault has ended and the last question is answered."""
LEAST_RESTART_S = 2.0
"""Seconds before a process that ended by itself is started again. A supervisor would wait as well."""


class Head(NamedTuple):
    """The newest block at one moment of the run."""

    t: float
    number: int
    timestamp: int


@dataclass
class Record:
    """Observations from outside the processes during the run."""

    heads: list[Head] = field(default_factory=list)
    samples: list[flatness.Sample] = field(default_factory=list)
    sizes: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    ends: list[ProcessEnd] = field(default_factory=list)
    loads: list[tuple[float, float]] = field(default_factory=list)

    def when(self, timestamp: int) -> float:
        """Returns the second of the run at which the chain first reached a time, or the last second if it never did."""
        return self._first([each.timestamp for each in self.heads], timestamp)

    def seen(self, number: int) -> float:
        """Returns the second of the run at which a block first existed."""
        return self._first([each.number for each in self.heads], number)

    def _first(self, values: list[int], wanted: int) -> float:
        highest = values[:1]
        for each in values[1:]:
            highest.append(max(highest[-1], each))
        place = bisect.bisect_left(highest, wanted)
        return self.heads[min(place, len(self.heads) - 1)].t


class Campaign:
    """One run of the soak."""

    def __init__(
        self, network: SoakNetwork, seed: int, seconds: float, per_minute: Mapping[str, float], say: Callable[[str], None],
        chosen: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.network = network
        self.record = Record()
        self.stop = threading.Event()
        self._say = say
        self._seconds = seconds
        faults = schedule(seed, seconds, network.means.missing, chosen)
        self.injector = Injector(network, faults, self.elapsed_s, self.stop)
        self.traffic = Traffic(network, seed, per_minute, self.stop)
        self._started = 0.0
        self.ran_s = 0.0
        """Seconds of traffic. It is set when the traffic is over."""

    def elapsed_s(self) -> float:
        """Returns the seconds since traffic began."""
        return monotonic_s() - self._started

    def run(self, built: Built) -> History:
        """Runs traffic and faults, then waits until everything is final. Returns the history of the chain. An interruption only
        ends the traffic, so the hours before the interruption are judged all the same."""
        self._started = monotonic_s()
        faults = threading.Thread(target=self.injector.run, daemon=True)
        try:
            self.traffic.start()
            faults.start()
            self._watch(lambda: self.injector.chain_is_lost or self.elapsed_s() > self._seconds)
        except KeyboardInterrupt:
            self._say("interrupted: what happened until now is judged; interrupt again to end without it")
        finally:
            self.ran_s = self.elapsed_s()
            # The caller ends the network next. From here on no other thread may start or end processes.
            self.stop.set()
            faults.join(END_S)
            self.traffic.join(END_S)
        self._say("no more faults and questions: the last disputes end")
        return self._drain(built.network)

    # --- while it runs ---

    def _watch(self, is_over: Callable[[], bool]) -> None:
        next_sample = next_line = 0.0
        while not is_over():
            now = self.elapsed_s()
            self._look_at_head(now)
            self._revive()
            if now >= next_sample:
                self._sample(now)
                next_sample = now + SAMPLE_S
            if now >= next_line:
                self._say(self._line())
                next_line = now + PROGRESS_S
            threading.Event().wait(1.0)

    def _look_at_head(self, now: float) -> None:
        try:
            block = self.network.rpc("eth_getBlockByNumber", "latest", False)
        except (httpx2.HTTPError, RuntimeError):
            return
        self.record.heads.append(Head(now, int(block["number"], 16), int(block["timestamp"], 16)))

    def _revive(self) -> None:
        """Starts processes again that ended although nobody killed them, and records their ends."""
        with self.network.lock:
            ended = self.network.group.ended()
        for name, code in ended.items():
            if name in self.injector.busy or name == "challenger":
                continue
            self.record.ends.append(ProcessEnd(name, code, self.elapsed_s()))
            self._say(f"{name} ended by itself with {code}: {self.network.group.tail(name, 2)[-300:]}")
            threading.Event().wait(LEAST_RESTART_S)
            self.network.restart(name)

    def _sample(self, now: float) -> None:
        with self.network.lock:
            pids = self.network.group.pids()
        samples = flatness.sample(now, pids)
        self.record.samples += samples
        self.record.loads.append((now, os.getloadavg()[0]))
        receipts = sum(self.traffic.answers.values())
        in_memory = {each.name: each.rss for each in samples if each.name in flatness.IN_MEMORY}
        for name, size in {**self.network.database_sizes(), **in_memory}.items():
            self.record.sizes.setdefault(name, []).append((receipts, size))

    def _line(self) -> str:
        answers, injected = sum(self.traffic.answers.values()), self.injector.injected
        kills = sum(count for kind, count in injected.items() if kind.startswith("kill-"))
        failed, wrong = sum(self.traffic.failures.values()), len(self.injector.violations)
        head = self.record.heads[-1].number if self.record.heads else 0
        return (
            f"block {head}: {answers} answers, {failed} refused or lost, {sum(injected.values())} faults, {kills} kills, "
            f"{len(self.record.ends)} ends of processes, {wrong} violations, load {os.getloadavg()[0]:.1f}"
        )

    def _drain(self, network: Network) -> History:
        """Waits until every challenge window is over and every dispute is paid, at most `LONGEST_DRAIN_S`. Returns the history of
        the chain."""
        until = self.elapsed_s() + LONGEST_DRAIN_S
        while True:
            stop_at = self.elapsed_s() + DRAIN_LOOK_S
            self._watch(lambda at=stop_at: self.elapsed_s() > at)  # type: ignore[misc]
            history = read_history(self.network.site.rpc_url, network)
            ended = {each.values["id"] for each in history.of("Settlement.Paid")}
            waiting = {each.values["id"] for each in history.of("Disputes.DisputeOpened")} - ended
            newest = max((each.time for each in history.of("ReceiptAnchor.BatchAnchored")), default=0)
            left_s = newest + PARAMS.times.window - history.times[-1]
            self._say(f"{len(waiting)} disputes are open, the last window is open for {max(left_s, 0)} s")
            if not history.is_whole or (not waiting and left_s < 0) or self.elapsed_s() > until:
                return history

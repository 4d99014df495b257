"""Connects the parts of a monitor. The monitor follows the chain, chooses one block, and checks every invariant at that block."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from bytewise.ports import Clock
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.keys.epochs import EpochState
from bytewise.protocol.units import Digest, hex0x
from bytewise.service import metrics, telemetry
from bytewise.service.clock import SystemClock, monotonic_s
from bytewise.service.installation import package_version
from bytewise.service.listener import serve_metrics
from bytewise.service.metrics import Actor
from bytewise.service.readiness import Check, ReadinessRegistry
from bytewise.service.schedule import run_ticks
from bytewise.storage.engine import open_database
from bytewise.storage.index.reader import IndexReader, IndexSnapshot
from bytewise.storage.index.store import IndexWriter, NetworkName
from bytewise.storage.index.tables import KeyEpochFact
from chain.client.access import open_chain
from chain.client.address_book import read_network, verify_code
from dashboard.chain_view import ChainEvents, ChainState
from dashboard.index.fold import RULES
from dashboard.index.indexer import Indexer
from dashboard.index.self_check import StateSource, differences, record_life
from dashboard.monitor.findings import InvariantResult, InvariantState
from dashboard.monitor.invariants import INVARIANTS, all_unknown, evaluate
from dashboard.monitor.observation import EpochLogs, Observation
from dashboard.monitor.settings import MonitorSettings
from dashboard.monitor.sources import ReleaseLogReader, read_money
from dashboard.views.scene import Scene
from dashboard.wiring import book_digest
from kms.release_log.entitlement import AuditBlock

STEPS = 200
"""Most steps of the indexer in one pass."""
IN_USE = (EpochState.ACTIVE.value, EpochState.DRAINING.value)
"""States of a key epoch in which shards release for audits and disputes."""


class MonitorReport(NamedTuple):
    """Results of one pass of the monitor: one result for each invariant, at one block."""

    block: int
    """Number of the block; -1 if no block could be read."""
    block_hash: str
    results: tuple[InvariantResult, ...]

    def document(self) -> dict[str, Any]:
        """Returns the report as a JSON object."""
        return {
            "block": self.block, "block_hash": self.block_hash, "invariants": [each.document() for each in self.results],
        }  # fmt: skip


class Monitor:
    """Monitor of one network: it indexes the chain, checks every invariant periodically, and reports the results as metrics and
    log events."""

    def __init__(self, settings: MonitorSettings, clock: Clock | None = None) -> None:
        """Opens chain and index. Raises `ConfigurationError` if the index belongs to another network, or if the chain lacks the
        contracts of the address book."""
        self._settings, self._clock = settings, clock or SystemClock()
        self.readiness = ReadinessRegistry()
        book = read_network(settings.network_file)
        rpc = settings.chain.rpc
        self._client = open_chain(rpc.urls, rpc.quorum, book.chain_id, settings.chain.timeout_s)
        self._network = verify_code(self._client, book)
        location = settings.db.location
        self._indexer: Indexer | None = None
        if settings.follow:
            self._writer = IndexWriter(open_database(location))
            self._writer.claim(NetworkName(book.chain_id, book_digest(book), RULES))
            trees = [pool.tree for pool in book.pools]
            source = ChainEvents(self._client, book)
            self._indexer = Indexer(source, self._writer, book.deploy_block, self._clock, trees, settings.db.check_history)
        self._index = IndexReader(open_database(location, read_only=True))
        self._logs = None if settings.release_logs is None else ReleaseLogReader(self._client, book, settings.release_logs)
        self._check_due_s = 0.0

    def run(self, stop: threading.Event) -> int:
        """Checks all invariants every `check_s` seconds until `stop` is set. Returns the exit code."""
        metrics.CONFIG_INFO.labels(network=str(self._network.chain_id), role="monitor", strategy="").set(1)
        with serve_metrics(self._settings.metrics, Actor.MONITOR, self.readiness):
            return run_ticks(lambda: self.note(self.look()), float(self._settings.check_s), stop, name="monitor")

    def look(self) -> MonitorReport:
        """Makes one pass: checks every invariant at one block and returns the report. If a source does not answer, the invariants
        that need it are unknown. If the chain node does not answer, all invariants are unknown."""
        try:
            self._follow()
            with self.observed() as seen:
                if doubts := "; ".join(seen.doubts(self._clock.now())):
                    return _report(seen, all_unknown(doubts))
                _set_figures(seen)
                return _report(seen, tuple(evaluate(each, seen) for each in INVARIANTS))
        except (Unavailable, Fault) as error:
            return MonitorReport(-1, "", all_unknown(str(error)))

    def note(self, report: MonitorReport) -> None:
        """Publishes a report: sets metrics, logs broken invariants and records readiness. The process is not ready while an
        invariant is unknown."""
        for each in report.results:
            for state in InvariantState:
                metrics.INVARIANT_STATE.labels(invariant=each.name, state=state.value).set(each.state is state)
            metrics.INVARIANT_FINDINGS.labels(invariant=each.name).set(len(each.findings))
            for finding in each.findings:
                telemetry.log("invariant.broken", invariant=each.name, subject=finding.subject, found=finding.text)
        unknown = [each for each in report.results if each.state is InvariantState.UNKNOWN]
        told = f"{len(unknown)} of {len(report.results)} unknown" + (f": {unknown[0].reason[:200]}" if unknown else "")
        do = "Read the reasons with `bytewise monitor check --once`: a node, a shard or the index does not answer."
        self.readiness.record([Check("invariants", not unknown, told, "all known", do)], 3.0 * self._settings.check_s)
        self.readiness.started()

    def _follow(self) -> None:
        if self._indexer is None:
            return
        for _ in range(STEPS):
            done = self._indexer.step()
            metrics.INDEX_EVENTS.inc(done.events)
            metrics.INDEXED_BLOCK.set(done.tip)
            if done.is_done:
                break

    @contextmanager
    def observed(self) -> Iterator[Observation]:
        """Context manager that provides everything that the checks read, at the newest block of the index. Raises `TryAgain` if
        the index is empty."""
        self._self_check()
        with self._index.snapshot() as index:
            at = index.state()
            if at.number < 0:
                raise TryAgain("index", "has no block yet")
            state = ChainState(self._client, self._network, at.hash)
            scene = Scene(index, {}, self._clock.now(), self._settings.invariants.stale_s, package_version())
            money = read_money(self._client, self._network, state.view("Lens", "money"), at.number, Digest(at.hash))
            yield Observation(scene, state, money, self._read_logs(index, state), self._settings.invariants)

    def _self_check(self) -> None:
        """Compares the index with the contracts when the time for it has come. A monitor that only reads the index skips this,
        because the dashboard that writes the index compares it."""
        if self._indexer is None or monotonic_s() < self._check_due_s:
            return
        with self._index.snapshot() as index:
            at = index.state()
            if at.number < 0:
                return
            state = ChainState(self._client, self._network, at.hash)
            found, life = differences(state, index), record_life(state, index)
        self._writer.note_check(at.number, found, life)
        metrics.INDEX_DIFFERENCES.set(len(found))
        # After a difference the next pass compares again at once: one wrong answer of one node may have caused it.
        self._check_due_s = monotonic_s() + (0 if found else self._settings.db.check_s)

    def _read_logs(self, index: IndexSnapshot, state: StateSource) -> tuple[EpochLogs, ...]:
        """Reads the release logs of every key epoch in which shards may release now."""
        at, epochs = index.state(), [row["epoch"] for row in index.all(KeyEpochFact, state=IN_USE)]
        compromised = index.all(KeyEpochFact, state=EpochState.COMPROMISED.value)
        epochs += [row["epoch"] for row in compromised if _may_have_disputes(state, row["epoch"])]
        if self._logs is None:
            return tuple(EpochLogs(each, 0, False, (), "the settings have no [release_logs]") for each in epochs)
        seen = AuditBlock(at.number, at.timestamp, self._clock.now())
        return tuple(self._logs.read(each, seen) for each in epochs)


def _may_have_disputes(state: StateSource, epoch: int) -> bool:
    """Returns whether shards may still release for disputes of a compromised key epoch. An epoch that was never active has no
    receipts and so no disputes."""
    calls = [("KeyEpochs", "isOpenForDisputes", (epoch,)), ("KeyEpochs", "inclusionEnd", (epoch,))]
    is_open, inclusion_end = state.views(calls)
    return bool(is_open and inclusion_end)


def _report(seen: Observation, results: tuple[InvariantResult, ...]) -> MonitorReport:
    state = seen.scene.state
    return MonitorReport(state.number, hex0x(state.hash), results)


def _set_figures(seen: Observation) -> None:
    for part in seen.money.proven or seen.money.viewed:
        metrics.MONEY_DRIFT.labels(contract=part.contract).set(part.drift)
    for log in (log for epoch in seen.logs for log in epoch.logs):
        metrics.RELEASE_LOG_RECORDS.labels(epoch=str(log.epoch), shard=str(log.place)).set(len(log.entries))

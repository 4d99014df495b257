"""Connects the parts of a dashboard and runs them: the indexer in the main thread, the web server (uvicorn) in a second
thread."""

import logging
import threading
from dataclasses import asdict

import uvicorn
from fastapi import FastAPI

from bytewise.protocol.address_book import Network
from bytewise.protocol.digests import sha256
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import hex0x
from bytewise.service import metrics, schedule, telemetry
from bytewise.service.clock import SystemClock
from bytewise.service.installation import package_version
from bytewise.service.listener import serve_metrics
from bytewise.service.metrics import Actor
from bytewise.service.readiness import Check, ReadinessRegistry
from bytewise.service.schedule import PeriodicJob, run_ticks
from bytewise.storage.engine import open_database
from bytewise.storage.index.reader import IndexReader
from bytewise.storage.index.store import IndexWriter, NetworkName
from chain.capsule.facts import deployment_of
from chain.capsule.verification import Trust
from chain.client.access import Chain, open_chain
from chain.client.address_book import read_network, verify_code
from dashboard.capsules import CapsuleShelf
from dashboard.chain_view import ChainEvents, ChainState
from dashboard.index.fold import RULES
from dashboard.index.indexer import Indexer
from dashboard.index.self_check import differences, record_life
from dashboard.release_logs import ReleaseLogShelf
from dashboard.settings import DashboardSettings
from dashboard.web.answers import DashboardSite
from dashboard.web.app import build_app
from dashboard.web.limits import REQUEST_S

DRAIN_S = 5
"""Longest wait in seconds for open requests at shutdown. Then the server ends the requests that still run, such as event
streams."""
STEPS_PER_TICK = 50
_LOGS_UNVERIFIED = "; events are not compared with receipts, because the node refuses eth_getBlockReceipts"


class DashboardProcess:
    """A dashboard process: it indexes the chain and serves pages and API until it is stopped."""

    def __init__(self, settings: DashboardSettings, stop: threading.Event) -> None:
        """Opens chain and index. Raises `ConfigurationError` if the index belongs to another network, or if the chain lacks the
        contracts of the address book."""
        self._settings = settings
        self._stop = stop
        self.readiness = ReadinessRegistry()
        book = read_network(settings.network_file)
        rpc = settings.chain.rpc
        self._client: Chain = open_chain(rpc.urls, rpc.quorum, book.chain_id, settings.chain.timeout_s)
        self._network = verify_code(self._client, book)
        location = settings.db.location
        self._engine = open_database(location)
        self._writer = IndexWriter(self._engine)
        self._writer.claim(NetworkName(book.chain_id, book_digest(book), RULES))
        engine = open_database(location, read_only=True)
        # A visitor's request has a time limit. The self-check has none, because it also waits for the node.
        self._reader, self._pages = IndexReader(engine), IndexReader(engine, REQUEST_S)
        folder = settings.release_logs
        self._logs = None if folder is None else ReleaseLogShelf(folder, book.epochs_domain)
        trees = [pool.tree for pool in book.pools]
        self._source = ChainEvents(self._client, book)
        self._indexer = Indexer(self._source, self._writer, book.deploy_block, SystemClock(), trees, settings.db.check_history)

    def app(self) -> FastAPI:
        """Returns the web application with pages and API."""
        site = DashboardSite(
            self._pages,
            contract_titles(self._network),
            self._settings.account_names,
            SystemClock(),
            self._settings.api.stale_s,
            package_version(),
            CapsuleShelf(self._settings.capsules, Trust(frozenset({deployment_of(self._network).digest}))),
            self._logs,
        )
        return build_app(site, self._settings.api)

    def run(self) -> int:
        """Serves and indexes until the `stop` event is set. Returns the exit code."""
        metrics.CONFIG_INFO.labels(network=str(self._network.chain_id), role="dashboard", strategy="").set(1)
        with serve_metrics(self._settings.metrics, Actor.DASHBOARD, self.readiness), HttpThread(self.app(), self._settings):
            jobs = [PeriodicJob("self_check", self.check, float(self._settings.db.check_s))]
            jobs += [] if self._logs is None else [self._logs.job()]
            return run_ticks(self.tick, self._settings.chain.poll_s, self._stop, name="index", jobs=jobs)

    def tick(self) -> None:
        """Indexes new blocks up to the head of the chain, in at most `STEPS_PER_TICK` steps. After a reorganisation it also
        compares the index with the contracts."""
        rolled_back = 0
        for _ in range(STEPS_PER_TICK):
            done = self._indexer.step()
            rolled_back += done.rolled_back
            metrics.INDEX_EVENTS.inc(done.events)
            metrics.INDEXED_BLOCK.set(done.tip)
            if done.is_done or self._stop.is_set():
                break
        behind = done.head - done.tip
        value = f"{behind} blocks behind" + ("" if self._source.verifies_logs else _LOGS_UNVERIFIED)
        do = "Wait while it catches up; look at the log of this process if it does not."
        self.readiness.record([Check("index", behind <= 2, value, "at most 2 blocks behind", do)])
        self.readiness.started()
        if rolled_back:
            self.check()

    def check(self) -> None:
        """Compares the index with the contracts at the newest indexed block. Records the differences in four places: the index,
        the metrics, the log and the readiness report."""
        with self._reader.snapshot() as index:
            at = index.state()
            if at.number < 0:
                return
            state = ChainState(self._client, self._network, at.hash)
            found, life = differences(state, index), record_life(state, index)
        self._writer.note_check(at.number, found, life)
        metrics.INDEX_DIFFERENCES.set(len(found))
        for line in found:
            telemetry.log("index.differs", row=line)
        do = "Name an empty index database; if the new index differs, too, report this as a defect."
        self.readiness.record(
            [Check("self_check", not found, f"{len(found)} differences", "none", do)], 3.0 * self._settings.db.check_s
        )


class HttpThread:
    """Context manager that serves an application with uvicorn in a thread. Entering it raises `ConfigurationError` if the
    address cannot be used."""

    def __init__(self, app: FastAPI, settings: DashboardSettings) -> None:
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
        api = settings.api
        self._at = f"{api.host}:{api.port}"
        config = uvicorn.Config(
            app, host=api.host, port=api.port, log_config=None, access_log=False, lifespan="off", server_header=False,
            proxy_headers=False, timeout_graceful_shutdown=DRAIN_S, h11_max_incomplete_event_size=16 * 1024,
            limit_concurrency=256,
            callback_notify=schedule.beat_http, timeout_notify=schedule.HTTP_BEAT_S,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._failed = threading.Event()

    def __enter__(self) -> "HttpThread":
        self._thread.start()
        while not self._server.started and not self._failed.wait(0.05):
            pass
        if self._failed.is_set():
            raise ConfigurationError("api.port", f"{self._at} cannot be used: name a free port of this machine")
        telemetry.log("dashboard.served", url=f"http://{self._at}")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(DRAIN_S + 1)

    def _run(self) -> None:
        try:
            self._server.run()
        except SystemExit:
            pass
        finally:
            if not self._server.started:
                self._failed.set()


def book_digest(book: Network) -> str:
    """Returns a digest of a network's contract addresses and its first block. The digest does not cover other fields, so that an
    address book may gain fields later."""
    return hex0x(sha256(encode(book.addresses) + book.deploy_block.to_bytes(8, "big")))


def contract_titles(network: Network) -> dict[str, str]:
    """Returns the address of each contract by a title. The title is the contract's field in the address book in camel case, for
    example `StakeVault` or `ShortTimelock`."""
    addresses = asdict(network.addresses).items()
    return {"".join(word.capitalize() for word in name.split("_")): str(at) for name, at in addresses}

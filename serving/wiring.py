"""Connects the parts of an operator process and runs it. `serving.__main__` and the dishonest operators in `adversaries` use
it.

The main thread runs uvicorn's loop, which reads and checks requests in further threads. One thread loads the model and then
starts the threads of the tick and of the periodic jobs (`schedule.run_ticks`). One thread runs the engine. Before the operator
is ready, `warm_up` answers two requests and verifies the answers as a verifier would. `OwnStake` renews the operator's stake
record at EigenLayer. Without a valid record the operator cannot post batches (ADR-034).
"""

import json
import logging
import os
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import uvicorn

from bytewise.da.client import DaClient
from bytewise.inference.profiles import AnyEngine, open_engine, torch_instead
from bytewise.inference.tokenizer import Tokenizer
from bytewise.ports import Engine
from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import ConfigurationError, NotExact
from bytewise.protocol.errors.branches import BytewiseError, Fault, Unavailable
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.records.environment import PROFILE_EXACT_1, Environment
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.signing import Domain, LocalSigner
from bytewise.protocol.units import Address
from bytewise.service import metrics, schedule, telemetry
from bytewise.service.clock import SystemClock, monotonic_s
from bytewise.service.exit_codes import Exit, exit_of
from bytewise.service.installation import package_version
from bytewise.service.listener import listening_socket, serve_metrics
from bytewise.service.metrics import Actor
from bytewise.service.node_files.certificates import verify_server_certificate
from bytewise.service.readiness import ChainHead, ReadinessRegistry
from bytewise.storage.backups.backup import BackupJob, BackupSource
from bytewise.storage.backups.restore_fence import RestoreFence
from bytewise.storage.checkpoints import checkpoint_keeper
from bytewise.storage.duties import Duties as Orders
from bytewise.storage.engine import check_revision, open_database
from bytewise.storage.journal import Journal, journal_key
from bytewise.storage.nonce_lease import NonceLease, hold_account_key, hold_lease
from bytewise.storage.receipt_store import ReceiptStore
from bytewise.storage.retention import HorizonWatch, housekeeping_job
from bytewise.storage.storage_checks import add_storage_checks
from chain.acts.actor import ContractSender, contract_sender
from chain.client.access import Chain, open_chain
from chain.client.address_book import read_network, verify_code
from chain.reads.reader import SnapshotReader
from chain.sending.keys import AccountSigner, load_signer, open_signer
from chain.sending.sender import SenderPolicy
from serving.api import Gate, HeadTimedProtocol, NamedReceipt, build_api
from serving.batcher import BatchDuties, Batcher
from serving.chain_view import BatchPages, ChainReadiness, DisputePages
from serving.disputes import OperatorDisputes
from serving.openai import ChatRequest, parse_json, read_chat_request
from serving.pipeline import AnswerHook, Pipeline, PipelineDeps, unchanged_answer
from serving.readiness import ReadinessWatch
from serving.request_builder import ChatTokenizer, Offer, make_request
from serving.request_queue import RequestQueue, RequestTicket
from serving.settings import ModelSettings, OperatorSettings, read_environment
from verifier.stake import StakeRecorder, StakeRecordReader


class Recorder(Protocol):
    """The part of a sender that `OwnStake` uses."""

    def sync_stake(self, account: Address, block: int) -> None:
        """Makes the contract `EigenLayerStake` record the present stake of an account, because an old record becomes invalid.
        `block` is the block of the record that this call replaces, or 0 if there is no record."""
        ...


class OwnStake:
    """The operator's stake record. This object reads the record from time to time, and renews it before it is too old."""

    def __init__(self, chain: StakeRecordReader, sender: Recorder, first_block: int, operator: Address) -> None:
        self._chain = chain
        self._sender = sender
        self._operator = operator
        self._record = StakeRecorder(chain, first_block, operator)

    def step(self) -> None:
        """Plans the renewal of the stake record when the renewal is due. Several steps may decide the same renewal, but the
        sender sends it once."""
        head = self._chain.head()
        if head < self._record.next_look:
            return
        for due in self._record.step(self._chain.snapshot(self._operator, head)):
            self._sender.sync_stake(due.account, due.block)


NEW_TOKENS = 8
TEMPERATURES = (0, 0.8)
"""Temperatures of the two requests of `warm_up`. One request is greedy and one samples, so that both code paths of the sampler
run."""


def warm_up(engine: Engine, offer: Offer, tokenizer: ChatTokenizer, client: LocalSigner) -> int:
    """Answers two requests and verifies the answers. Returns the number of tokens. Raises `NotExact` if the engine contradicts
    itself."""
    new, total = min(NEW_TOKENS, offer.environment.limits.max_new_tokens), 0
    for temperature in TEMPERATURES:
        question = {"messages": [{"role": "user", "content": "Are you warm?"}], "max_tokens": new, "seed": 1}
        body = json.dumps(question | {"model": offer.model_name, "temperature": temperature}).encode()
        request, _ = make_request(read_chat_request(parse_json(body)), offer, tokenizer, client, bytes, now=0)
        answer = engine.generate(request)
        found = engine.verify(request, answer.output, answer.out_hash)
        if found.divergence is not None:
            raise NotExact(f"warm-up at temperature {temperature}: verification differs at token {found.divergence.position}")
        total += answer.output.completion_tokens
    return total


FRESH_TICKS, FRESH_S = 15, 30.0
"""A reading of the chain is valid for so many ticks or so many seconds, whichever is longer. After that, the operator refuses
requests until the chain answers."""
HTTP_DRAIN_S, TICK_DRAIN_S, WORK_DRAIN_S = 4, 3.0, 4.5
"""When the process ends, the seconds for open connections, for a running tick, and for all work besides HTTP. HTTP ends first
and the work after it, together within 10 s."""


MAX_CONNECTIONS = 512
"""Most connections of clients at the same time. The server answers further requests with status 503. Each connection takes a file
descriptor, which chain, DA and database need, too."""


HookFactory = Callable[[Address, int], AnswerHook]
"""Function that makes the answer hook of an operator, from its account and the chain id."""


def honest_answers(_operator: Address, _chain_id: int) -> AnswerHook:
    """Returns the answer hook of an honest operator, which changes no answer."""
    return unchanged_answer


def unchanged_engine(engine: Engine) -> Engine:
    """Returns the engine unchanged, as an honest operator runs it."""
    return engine


def run(
    settings: OperatorSettings, wrap_engine: Callable[[Engine], Engine] = unchanged_engine, config: Path | None = None,
    hook_of: HookFactory = honest_answers,
) -> int:  # fmt: skip
    """Runs an operator until SIGTERM, and returns the exit code of the process.

    Only the dishonest operators of tests set `wrap_engine`. Only the operator of an attention fund sets `hook_of`
    (`serving.attention`). `config` is the settings file, and backups contain it. Raises `KeyInUse` if another process of this
    machine uses the account's key.
    """
    telemetry.configure("operator")
    readiness = ReadinessRegistry()
    account_key = hold_account_key(settings.signer.lock_file, settings.db.location)
    with account_key, serve_metrics(settings.metrics, Actor.OPERATOR, readiness):
        return Operator(settings, wrap_engine, readiness, config, hook_of).run()


@dataclass(frozen=True, slots=True)
class ServedModel:
    """An operator whose model is loaded, with its queue. Implements `api.Counter`."""

    model_name: str
    owner: str
    created: int
    queue: RequestQueue
    watch: ReadinessWatch
    context: int
    pipeline: Pipeline
    receipt_store: ReceiptStore
    anchor: Domain

    def prepare(self, asked: RequestTicket, ask: ChatRequest) -> Callable[[], bytes]:
        """Checks the request, and returns the function that computes its answer (`Pipeline.prepare`)."""
        return self.pipeline.prepare(asked, ask)

    def receipt(self, start: bytes) -> NamedReceipt | None:
        """Returns the receipt whose id begins with these bytes, or None (`ReceiptStore.receipt_from`)."""
        found = self.receipt_store.receipt_from(start)
        return None if found is None else (receipt_id(self.anchor, found.receipt), found)

    def check_open(self) -> EpochRecord:
        """Returns the key epoch to which answers are sealed (`ReadinessWatch.open`). Raises `TryAgain` if the operator may not
        accept a request."""
        return self.watch.open()[1]


@dataclass(frozen=True, slots=True)
class OperatorWork:
    """The work of an operator process besides answering requests."""

    batcher: Batcher
    duties: BatchDuties
    disputes: OperatorDisputes
    sender: ContractSender
    queue: RequestQueue
    stake: OwnStake
    jobs: tuple[schedule.PeriodicJob, ...] = ()
    """Periodic jobs that run beside the tick."""

    def tick(self) -> None:
        """Does the work of one tick in this order: duties about anchored batches, the next batch, disputes, the stake record.

        A failure of one part does not stop the other parts. For example, the operator can build no batch while DA is down. Just
        then verifiers demand lists, and the operator must answer. The sender sends the transactions of each part before the
        next part may wait for DA. A `Bug` ends the tick at once. For other errors, the tick goes on, and raises the first of
        them at the end.
        """
        failed: list[Fault | Unavailable] = []
        pump = self.sender.pump
        for part in (self.duties.step, pump, self.batcher.tick, pump, self.disputes.step, self.stake.step, pump):
            try:
                part()
            except (Fault, Unavailable) as error:
                failed.append(error)
        for other in failed[1:]:
            telemetry.log_error("operator.failed_too", other)
        if failed:
            raise failed[0]


def sender_policy(settings: OperatorSettings, own_nonces: int) -> SenderPolicy:
    """Returns the limits of the operator's sender. `own_nonces` is the nonce below which every used nonce counts as the account's
    own, because the database was restored from a backup (`RestoreFence.own_nonces`). It is 0 if the database was not restored."""
    return SenderPolicy(
        confirmations=settings.chain.confirmations, max_fee_wei=settings.signer.max_fee_wei, own_nonces=own_nonces
    )


class Operator:
    """One operator process, from its start to its end (`run`)."""

    def __init__(
        self, settings: OperatorSettings, wrap_engine: Callable[[Engine], Engine], readiness: ReadinessRegistry | None = None,
        config: Path | None = None, hook_of: HookFactory = honest_answers,
    ) -> None:  # fmt: skip
        self._config = config
        self._hook_of = hook_of
        self._readiness = readiness or ReadinessRegistry()
        self._settings = settings
        self._wrap = wrap_engine
        self._stop = threading.Event()
        self._exit_code = int(Exit.INTERNAL)
        self._bugs = False
        self._gate = Gate()
        limits, listen = settings.limits, settings.listen
        verify_server_certificate(listen.certificate_file, listen.key_file)
        self._listening = listening_socket("listen", listen.host, listen.port)
        app = build_api(self._gate, _version(), limits.max_body_bytes, limits.answer_timeout_s)
        self._server = uvicorn.Server(
            uvicorn.Config(
                app, http=HeadTimedProtocol, host=listen.host, port=listen.port, ssl_certfile=str(listen.certificate_file),
                ssl_keyfile=str(listen.key_file), ssl_version=ssl.PROTOCOL_TLS_SERVER, log_config=None, access_log=False,
                lifespan="off", server_header=False, timeout_graceful_shutdown=HTTP_DRAIN_S,
                limit_concurrency=MAX_CONNECTIONS + 1,
                # The address distinguishes callers, so a client must not be able to claim another one.
                proxy_headers=False, callback_notify=schedule.beat_http, timeout_notify=schedule.HTTP_BEAT_S,
            )
        )  # fmt: skip

    def run(self) -> int:
        """Serves until SIGTERM or SIGINT. Returns the exit code of the process."""
        # uvicorn logs the messages of unforeseen errors, which may quote plaintext; `api` counts and names those errors.
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
        asked = schedule.stop_on_signals()
        worker = threading.Thread(target=self._work, name="operator", daemon=True)
        worker.start()
        try:
            self._server.run([self._listening])
        finally:
            self._stop.set()
            worker.join(WORK_DRAIN_S)
        return Exit.OK if asked.is_set() and worker.is_alive() else self._exit_code

    def _work(self) -> None:
        try:
            network = read_network(self._settings.network_file)
            # Opened once, because its password may come by a pipe, which is empty afterwards.
            operator = open_signer(self._settings.signer, network)
            with hold_lease(self._lease(network, operator.address), self._stop) as lease:
                work = self._open(lease, network, operator)
                self._exit_code = schedule.run_ticks(
                    work.tick, self._settings.chain.poll_s, self._stop, name="batch", drain_s=TICK_DRAIN_S, jobs=work.jobs
                )
                work.queue.close()
        except BytewiseError as error:
            telemetry.log_error("operator.failed", error)
            self._exit_code = exit_of(error)
        finally:
            if self._bugs:
                self._exit_code = int(Exit.INTERNAL)
            self._server.should_exit = True

    def _lease(self, network: Network, operator: Address) -> NonceLease:
        """Returns the operator's nonce lease, which the caller takes. Without the lease, two processes of one account would sign
        receipts with the same numbers."""
        database = open_database(self._settings.db.location)
        check_revision(database)
        return NonceLease(database, SystemClock(), network.chain_id, operator)

    def _open(self, lease: NonceLease, network: Network, operator: AccountSigner) -> OperatorWork:
        settings, clock, database = self._settings, lease.clock, lease.engine
        model, environment = settings.model, read_environment(settings.model.environment_file)
        engine = _engine(model, environment)
        offer, tokenizer = _offer(settings, engine, environment, network.chain_id), Tokenizer(engine.artifact)
        gateway = load_signer(settings.gateway_key_file)
        telemetry.log("operator.warmed_up", tokens=warm_up(engine, offer, tokenizer, gateway))
        head = ChainHead(clock, chain_id=int(network.chain_id))
        head.add_checks(self._readiness)
        add_storage_checks(self._readiness, database, lease)
        self._readiness.add("signer", operator.check)
        metrics.CONFIG_INFO.labels(network=str(network.chain_id), role="operator", strategy="").set(1)
        fresh_s = max(FRESH_S, FRESH_TICKS * settings.chain.poll_s)
        deps = PipelineDeps(
            engine=self._wrap(engine), tokenizer=tokenizer, operator=operator, gateway=gateway,
            blobs=DaClient(settings.da.urls, settings.da.timeout_s),
            receipt_store=ReceiptStore(database, clock, operator.address),
            journal=Journal(database, journal_key(settings.db.journal_key_file), clock),
            watch=ReadinessWatch(fresh_s, monotonic_s, self._readiness, head), clock=clock, rng=os.urandom,
            anchor=network.anchor_domain, finish=self._hook_of(operator.address, int(network.chain_id)),
        )  # fmt: skip
        client = open_chain(*settings.chain.rpc, network.chain_id, settings.chain.timeout_s)
        reader = SnapshotReader(client, verify_code(client, network))
        fence = RestoreFence(database)
        sender = self._sender(client, network, lease, operator, fence)
        readiness = ChainReadiness(
            reader, operator.address, environment.digest, offer.model_id, settings.signer.max_fee_wei, settings.accept
        )
        batcher = self._batcher(offer, deps, readiness, sender, fence.restored is not None)
        own = BatchPages(reader, operator.address)
        duties = BatchDuties(own, sender, deps.receipt_store, deps.blobs, operator.address, network.anchor_domain)
        orders, everybody = Orders(database, clock), DisputePages(reader, operator.address)
        horizon = HorizonWatch(reader)
        disputes = OperatorDisputes(
            everybody, sender, deps.receipt_store, deps.blobs, orders, operator.address, network.anchor_domain,
            observe=lambda snapshot: horizon.note(snapshot, duties.locked_from),
        )  # fmt: skip
        stake = OwnStake(reader, sender, int(network.deploy_block), operator.address)
        jobs = self._jobs(network, operator.address, database, horizon)
        return OperatorWork(batcher, duties, disputes, sender, self._opened(offer, deps), stake, jobs)

    def _sender(
        self, client: Chain, network: Network, lease: NonceLease, operator: AccountSigner, fence: RestoreFence
    ) -> ContractSender:
        used = fence.own_nonces(lambda: client.nonce(operator.address, "pending"))
        return contract_sender(client, network, lease, operator, "operator", sender_policy(self._settings, used))

    def _jobs(
        self, network: Network, operator: Address, database: Any, horizon: HorizonWatch
    ) -> tuple[schedule.PeriodicJob, ...]:
        settings, config = self._settings, self._config
        housekeeping = housekeeping_job(database, settings.housekeeping, lambda: horizon.newest, self._stop)
        keeper = checkpoint_keeper(database, settings.db.journal_key_file, settings.checkpoints, SystemClock())
        checkpoints = () if keeper is None else (keeper.job(),)
        if keeper is not None:
            keeper.add_check(self._readiness)
        if settings.backup is None or config is None:
            return (housekeeping, *checkpoints)
        source = BackupSource(config, "operator", (settings,), network, operator, settings.signer.lock_file, database)
        backups = BackupJob(source, settings.backup, SystemClock())
        backups.add_check(self._readiness)
        return (housekeeping, *checkpoints, backups.job())

    def _batcher(
        self, offer: Offer, deps: PipelineDeps, readiness: ChainReadiness, sender: ContractSender, restored: bool
    ) -> Batcher:
        limits = self._settings.limits
        return Batcher(
            operator=deps.operator, environment=offer.environment.digest, model_id=offer.model_id, anchor=deps.anchor,
            chain=readiness, sender=sender, blobs=deps.blobs,
            receipt_store=deps.receipt_store, journal=deps.journal, watch=deps.watch,
            clock=deps.clock, max_batch=limits.max_batch, anchor_within_s=limits.anchor_within_s,
            retry_memory_s=limits.retry_memory_s, retry_answers=limits.retry_answers, restored=restored,
        )  # fmt: skip

    def _opened(self, offer: Offer, deps: PipelineDeps) -> RequestQueue:
        limits, owner = self._settings.limits, deps.operator.address
        queue = RequestQueue(deps.receipt_store.answer_from, limits.queue, self._bug)
        accept = self._settings.accept
        pipeline = Pipeline(offer, deps, limits.anchor_within_s, accept.simulated, accept.rebuilt)
        self._gate.service = ServedModel(
            offer.model_name, owner, deps.clock.now(), queue, deps.watch, offer.environment.limits.max_context, pipeline,
            deps.receipt_store, deps.anchor,
        )  # fmt: skip
        telemetry.log("operator.loaded", operator=owner, model_id=offer.model_id)
        return queue

    def _bug(self, error: BaseException) -> None:
        telemetry.log_error("operator.bug", error)
        self._bugs = True
        self._stop.set()


def _engine(model: ModelSettings, environment: Environment) -> AnyEngine:
    slower = torch_instead(model.artifact, model.device)
    if slower is not None:
        telemetry.log("engine.torch", why=slower)
    # The engine must be able to answer the longest request that the environment allows. If it cannot, the process fails now, at
    # its start.
    return open_engine(
        model.artifact, environment, threads=model.threads, device=model.device, cache_bytes=model.cache_bytes,
        room=environment.limits.max_context,
    )  # fmt: skip


def _offer(settings: OperatorSettings, engine: AnyEngine, environment: Environment, chain_id: int) -> Offer:
    if environment.profile != engine.profile:
        where = settings.model.environment_file.name
        raise ConfigurationError(where, f"is of profile {environment.profile}, the artifact of {engine.profile}")
    artifact = engine.artifact
    return Offer(
        model_name=settings.model.name, model_id=artifact.model_id, template_digest=artifact.template_digest,
        tokenizer_digest=artifact.tokenizer_digest, environment=environment, chain_id=chain_id,
        request_ttl_s=settings.limits.request_ttl_s,
    )  # fmt: skip


def _version() -> dict[str, Any]:
    return {"version": package_version(), "profile": PROFILE_EXACT_1}

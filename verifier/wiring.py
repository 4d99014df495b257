"""Connects the parts of a duty process and runs it: a watchtower, or a verifier that audits without voting.

`committee` builds on `NodeContext` and adds votes. Neither process can run a model (design section 2). `EpochLabel` logs the
active key epoch with its assurance, so that a reader of the log sees whether it is `simulated`.
"""

import functools
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from bytewise.da.client import DaClient
from bytewise.ports import EnclaveJobs
from bytewise.protocol.attention.score import ScoredTest
from bytewise.protocol.decisions.actions import Action
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.decisions.strategies import BUILT_IN, built_in
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.epochs import EpochOnChain
from bytewise.protocol.units import Digest
from bytewise.service import metrics, telemetry
from bytewise.service.clock import SystemClock
from bytewise.service.listener import serve_metrics
from bytewise.service.metrics import Actor
from bytewise.service.readiness import ChainHead, ReadinessRegistry
from bytewise.service.schedule import PeriodicJob, run_ticks
from bytewise.storage.archive import Archive, Cursor, LightAudits
from bytewise.storage.backups.backup import BackupJob, BackupSource
from bytewise.storage.backups.restore_fence import RestoreFence
from bytewise.storage.checkpoints import checkpoint_keeper
from bytewise.storage.duties import Duties
from bytewise.storage.engine import check_revision, open_database
from bytewise.storage.journal import Journal, journal_key
from bytewise.storage.nonce_lease import NonceLease, hold_account_key, hold_lease
from bytewise.storage.retention import HorizonWatch, housekeeping_job
from bytewise.storage.storage_checks import add_storage_checks, data_folder
from chain.acts.actor import contract_sender
from chain.capsule.keeper import CapsuleKeeper
from chain.client.access import open_chain
from chain.client.address_book import read_network, verify_code
from chain.reads.attention import JudgedReveals, read_reveal, scored_range
from chain.reads.reader import RegistryDocuments, SnapshotReader
from chain.sending.keys import open_signer
from chain.sending.sender import SenderPolicy
from kms.shard.share_rotation import with_verification_keys
from verifier.attention import AttentionJob
from verifier.audits.audit_hints import AuditHint, GossipHints, HintBox, HintSender, sent_over
from verifier.audits.auditor import Auditor
from verifier.audits.hint_server import HintServer, KnownVerifiers
from verifier.demander import Demander, DemandOptions
from verifier.disputes.equivocation_reporter import EquivocationReporter
from verifier.disputes.strategist import LocalStrategy, Strategist, StrategyRunner
from verifier.disputes.strategy_process import StrategyProcess
from verifier.disputes.watchtower import Watchtower
from verifier.executor import ActionExecutor, ObservingExecutor, VoteExecutor
from verifier.gossip import GossipClient, PeersWriter
from verifier.jobs.cluster_client import ClusterClient, cluster_check
from verifier.jobs.enclave_client import EnclaveClient
from verifier.jobs.enclave_pool import EnclavePool
from verifier.jobs.enclave_readiness import EnclaveChoice, EnclaveReadiness, KnownEnclave, SuitableEnclave, add_enclave_checks
from verifier.node import Executor, Guards, Node, NodePart, VotePart
from verifier.observation import JUDGES, NodeObserver
from verifier.orders import OrderedDuties
from verifier.settings import ExecutorSettings, GossipSettings, NodeSettings, Role
from verifier.stake import DeferredPayments, RefusedSlashes, StakeRecorder, StaleWeights
from verifier.watch.absence_check import ProbedStore
from verifier.watch.envelope_exchange import EnvelopeExchange
from verifier.watch.leaf_index import LeafIndex
from verifier.watch.list_reader import PolicyDocuments
from verifier.watch.open_windows import DemandIndex, SnapshotPages
from verifier.watch.receipt_inbox import ReceiptInbox
from verifier.watch.records import Records


class EpochReader(Protocol):
    """The part of the chain from which `EpochLabel` reads key epochs."""

    def epoch_on_chain(self, epoch: int, block: int) -> EpochOnChain:
        """Returns a key epoch as the contract `KeyEpochs` stores it."""
        ...


class EpochLabel:
    """A part of every duty process that logs the active key epoch. It decides no action."""

    def __init__(self, chain: EpochReader) -> None:
        self._chain = chain
        self._told = 0

    def step(self, snapshot: Snapshot) -> Sequence[Action]:
        """Logs the active key epoch when it changes, and returns no action. The assurance of an epoch never changes."""
        epoch = snapshot.active_epoch
        if epoch not in (0, self._told):
            metrics.set_key_epoch(epoch, self._chain.epoch_on_chain(epoch, snapshot.number).assurance)
            self._told = epoch
        return ()


class FollowingReader(SnapshotReader):
    """A reader of the chain that gives key epochs the verification keys of the shares in force.

    It uses the newest final block, as shards do. The address book has the verification keys from before the start of this
    process. With them, no envelope would open after a refresh or reshare until the process restarts with a new address book.
    """

    def epoch(self, epoch: int, block: int) -> EpochRecord:
        """Returns a key epoch with the verification keys in force. They are the keys of the address book if shares were dealt
        only once, or if no final block has the epoch yet."""
        record = super().epoch(epoch, block)
        if self.epoch_on_chain(epoch, block).version == 0:
            return record
        final = self.final()
        if final is None:
            return record
        meant = self.epoch_on_chain(epoch, final).commitments
        return with_verification_keys(record, meant) if meant else record


class NodeContext:
    """The connections and repositories of one duty process, from which it builds the node."""

    def __init__(self, settings: NodeSettings, readiness: ReadinessRegistry | None = None) -> None:
        self.settings = settings
        self.readiness = readiness or ReadinessRegistry()
        self.clock = SystemClock()
        self.network = read_network(settings.network_file)
        self.signer = open_signer(settings.signer, self.network)
        self.database = open_database(settings.db.location)
        check_revision(self.database)
        client = open_chain(*settings.chain.rpc, self.network.chain_id, settings.chain.timeout_s)
        self.chain = FollowingReader(client, verify_code(client, self.network))
        self.journal = Journal(self.database, journal_key(settings.db.journal_key_file), self.clock)
        self.lease = NonceLease(self.database, self.clock, self.network.chain_id, self.signer.address)
        self.fence = RestoreFence(self.database)
        own_nonces = self.fence.own_nonces(lambda: client.nonce(self.signer.address, "pending"))
        self.policy = SenderPolicy(
            confirmations=settings.chain.confirmations, max_fee_wei=settings.signer.max_fee_wei, own_nonces=own_nonces
        )
        self.sender = contract_sender(client, self.network, self.lease, self.signer, settings.role.value, self.policy)
        archive, cursor = Archive(self.database, self.clock), Cursor(self.database, "batches")
        # One try for each proxy: backlog and vote try again later, and a tick must not wait for three timeouts.
        self.da = ProbedStore(DaClient(settings.da.urls, settings.da.timeout_s, attempts=1), os.urandom)
        documents = RegistryDocuments(self.chain)
        self.archive = archive
        # Only the part of a watchtower that reports equivocation reads the index.
        self.leaves = LeafIndex(self.network.anchor_domain) if settings.watches else None
        self.records = Records(
            self.chain, documents, self.da, archive, cursor, self.network, settings.policy.fetch_deadline_s, leaves=self.leaves
        )  # fmt: skip
        self.given = None if settings.inbox_folder is None else ReceiptInbox(settings.inbox_folder, self.network.anchor_domain)
        self.demands = DemandIndex(self.chain, int(self.network.deploy_block), settings.demand.budget_s)
        self.horizon = HorizonWatch(self.chain)
        self.hints: HintServer | None = None
        self.members: KnownVerifiers | None = None
        self.gossip_hints: GossipHints | None = None
        self.strategist: Strategist | None = None
        self.gossip = None if settings.gossip.socket is None else GossipClient(settings.gossip.socket)
        self.peers, self.envelopes = self._over_gossip(settings.gossip)

    def _over_gossip(self, settings: GossipSettings) -> tuple[PeersWriter | None, EnvelopeExchange | None]:
        """Makes the parts that serve the gossip process. Returns None for each part that the settings switch off."""
        if self.gossip is None:
            return None, None
        peers = PeersWriter(self.chain, self.network, self.signer, settings, self.archive, self.readiness)
        if settings.envelopes_folder is None:
            return peers, None
        return peers, EnvelopeExchange(self.gossip, self.archive, self.signer.address, settings.envelopes_folder)

    @functools.cached_property
    def pool(self) -> EnclavePool:
        """The pool that runs jobs in the node's enclaves. For a role without enclaves the pool is empty."""
        if self.settings.executor is None:
            return EnclavePool([])
        further = [SuitableEnclave([each]) for each in self._known_enclaves(self.executor.further_sockets)]
        return EnclavePool([self.own_enclave(), *further], self._cluster(), own_has=self._own_has)

    def _own_has(self, model_id: Digest) -> bool:
        return any(each.may_suit(model_id) for each in self.enclave_states)

    def _cluster(self) -> list[ClusterClient]:
        executor = self.executor
        if executor.bridge_socket is None:
            return []
        return [ClusterClient(executor.bridge_socket, executor.prepare_timeout_s) for _ in range(executor.cluster_jobs)]

    def own_enclave(self) -> EnclaveJobs:
        """Returns the client of the enclave at `socket`. If the settings have `next_socket`, the client chooses between the two
        enclaves. If the node also has further enclaves or a cluster, the client refuses jobs that suit none of its enclaves."""
        executor = self.executor
        sockets = (executor.socket,) if executor.next_socket is None else (executor.socket, executor.next_socket)
        if executor.further_sockets or executor.bridge_socket is not None:
            return SuitableEnclave(self._known_enclaves(sockets))
        if executor.next_socket is None:
            return EnclaveClient(executor.socket, executor.prepare_timeout_s)
        return EnclaveChoice(self._known_enclaves(sockets))

    def _known_enclaves(self, sockets: Sequence[Path]) -> tuple[KnownEnclave, ...]:
        timeout_s = self.executor.prepare_timeout_s
        return tuple(KnownEnclave(EnclaveClient(each, timeout_s), self._states_by_socket[each]) for each in sockets)

    @property
    def enclave_states(self) -> tuple[EnclaveReadiness, ...]:
        """The readiness of each of this node's enclaves."""
        return tuple(self._states_by_socket.values())

    @functools.cached_property
    def _states_by_socket(self) -> dict[Path, EnclaveReadiness]:
        executor, chain_id = self.executor, int(self.network.chain_id)
        sockets = [each for each in (executor.socket, executor.next_socket, *executor.further_sockets) if each is not None]
        return {
            each: EnclaveReadiness(
                EnclaveClient(each, executor.prepare_timeout_s),
                lambda: bool(self.pool.busy()),
                chain_id,
                self.clock,
                os.urandom,
            )
            for each in sockets
        }

    @property
    def executor(self) -> ExecutorSettings:
        """Section `[executor]` of the settings. Raises `ConfigurationError` for a watchtower, which has no such section."""
        if self.settings.executor is None:
            raise ConfigurationError("executor", f"role {self.settings.role} has none")
        return self.settings.executor

    def auditor(self) -> Auditor:
        """Makes the part that runs light audits."""
        settings, audits = self.settings, LightAudits(self.database, self.clock)
        return Auditor(
            self.chain, self.network, self.records, audits, self.journal, self.signer, self.pool, os.urandom,
            settings.policy.audit_margin_s, self._hint_sender(),
        )  # fmt: skip

    def watchtower(self) -> Watchtower:
        """Makes the part that challenges receipts on the posted results of auditors, with its strategy and its sources of
        hints."""
        listen, box = self.settings.hint_listener, None
        if listen is not None or self.gossip is not None:
            self.members = KnownVerifiers(self.chain, self.records)
            box = HintBox(self.network.disputes_domain, self.members)
            self.gossip_hints = None if self.gossip is None else GossipHints(self.gossip, box)
        if listen is not None and box is not None:
            self.hints = HintServer(box, listen.host, listen.port, listen.certificate_file, listen.tls_key_file)
        self.strategist = Strategist(self._strategy())
        self.readiness.add("strategy", self.strategist.check)
        orders = Duties(self.database, self.clock)
        return Watchtower(self.chain, self.network, self.records, self.signer, self.settings.watch, box, self.strategist, orders)

    def _strategy(self) -> StrategyRunner:
        policy = self.settings.policy
        if policy.strategy in BUILT_IN:
            return LocalStrategy(built_in(policy.strategy, self.settings.watch.mismatches))
        return StrategyProcess(policy.strategy, policy.strategy_folder, policy.strategy_deadline_s)

    def demander(self, disputes: bool, audits: bool) -> Demander:
        """Makes the part that handles availability demands. `disputes` says whether the node opens disputes, and `audits` whether
        it runs audits. If both are False, the node fetches no demanded envelopes."""
        policy, moves = self.settings.demand_policy, self.settings.moves
        means = DemandOptions(self.signer.address, policy, moves, disputes, fetches=disputes or audits)
        return Demander(self.chain, self.network, self.records, self.da, means, self.demands, self.given)

    def reporter(self) -> EquivocationReporter | None:
        """Makes the part of a watchtower that reports equivocation. Returns None for every other role."""
        if self.leaves is None:
            return None
        first_block, me = int(self.network.deploy_block), self.signer.address
        return EquivocationReporter(self.chain, first_block, me, self.leaves, self.archive, self.given)

    def close(self) -> None:
        """Ends the threads and processes that run beside the ticks."""
        if self.hints is not None:
            self.hints.close()
        if self.strategist is not None:
            self.strategist.close()
        self.pool.stop()

    def _hint_sender(self) -> Callable[[AuditHint], None] | None:
        hints = self.settings.hints
        sender = None if hints is None else HintSender(hints.urls, hints.certificate_file)
        return sender if self.gossip is None else sent_over(self.gossip, sender)

    def node(
        self, auditor: Auditor | None, watchtower: Watchtower | None, voting: VoteExecutor | None = None,
        votes: VotePart | None = None, further: Sequence[NodePart] = (),
    ) -> Node:  # fmt: skip
        """Makes the node. Its parts, in order: label of the key epoch, gossip, votes, further parts of a member, audits, hints,
        challenges, reports, demands, stake, ordered duties."""
        demander, reporter = self.demander(watchtower is not None, auditor is not None), self.reporter()
        first, me, moves = int(self.network.deploy_block), self.signer.address, self.settings.moves
        stake = (
            StakeRecorder(self.chain, first, me),
            StaleWeights(self.chain, me, moves),
            RefusedSlashes(self.chain, first, moves),
            DeferredPayments(self.chain, first, me, moves),
        )
        orders = OrderedDuties(Duties(self.database, self.clock), self.sender)
        everything = (
            EpochLabel(self.chain),
            self.peers,
            self.envelopes,
            votes,
            *further,
            auditor,
            self.members,
            self.gossip_hints,
            watchtower,
            reporter,
            demander,
            *stake,
            orders,
        )
        parts: list[NodePart] = [part for part in everything if part is not None]
        executor: Executor = (
            ObservingExecutor()
            if self.settings.observes
            else ActionExecutor(self.sender, self.journal, auditor, watchtower, voting, demander, reporter)
        )
        return Node(
            self.chain, self.sender, SnapshotPages(self.chain, me, first, self.demands), self.records, executor,
            self.settings.moves, parts, self.pool, auditor, votes, self._observe(), self._guards(),
        )  # fmt: skip

    def _guards(self) -> Guards:
        return Guards(self.readiness, self.clock, data_folder(self.database), self.settings.votes.job_margin_s)

    def _observe(self) -> Callable[[Snapshot], None]:
        """Returns the function that gets each snapshot and passes it to metrics, readiness and housekeeping."""
        observer = self._observer()

        def observe(snapshot: Snapshot) -> None:
            self.horizon.note(snapshot)
            if self.gossip is not None:
                self.gossip.observe()
            observer.observe(snapshot)

        return observe

    def _observer(self) -> NodeObserver:
        """Makes the observer that sets metrics and readiness for each block. Also adds the checks that are computed on
        request."""
        settings, head = self.settings, ChainHead(self.clock, chain_id=int(self.network.chain_id))
        add_storage_checks(self.readiness, self.database, self.lease)
        self.readiness.add("signer", self.signer.check)
        strategy = settings.policy.strategy if settings.watches else ""
        metrics.CONFIG_INFO.labels(network=str(self.network.chain_id), role=settings.role.value, strategy=strategy).set(1)
        max_fee_wei, me = 0 if settings.observes else self.policy.max_fee_wei, self.signer.address
        if settings.role not in JUDGES:
            budget_wei = settings.demand_policy.budget_wei
            return NodeObserver(self.readiness, head, self.chain, me, settings.role, max_fee_wei, budget_wei)
        add_enclave_checks(self.readiness, self.enclave_states)
        if self.executor.bridge_socket is not None:
            self.readiness.add("cluster", functools.partial(cluster_check, self.executor.bridge_socket))
        policies = PolicyDocuments(RegistryDocuments(self.chain))

        def note_policy(digest: Digest, block: int) -> None:
            for each in self.enclave_states:
                each.note_policy(policies.document(digest, block))

        return NodeObserver(self.readiness, head, self.chain, me, settings.role, max_fee_wei, 0, note_policy)


def run(
    name: str, settings: NodeSettings, build: Callable[[NodeContext], Node], stop: threading.Event, config: Path | None = None
) -> int:
    """Runs ticks until `stop`, and returns the exit code.

    Raises `KeyInUse` or `LeaseTaken` if another process sends for the account. `config` is the settings file, which backups
    contain.
    """
    telemetry.configure(name)
    readiness = ReadinessRegistry()
    account_key = hold_account_key(settings.signer.lock_file, settings.db.location)
    with account_key, serve_metrics(settings.metrics, Actor(settings.role.value), readiness):
        context = NodeContext(settings, readiness)
        with hold_lease(context.lease, stop):
            node = build(context)
            telemetry.log("node.started", role=settings.role.value, account=context.signer.address)

            def tick() -> None:
                node.tick()
                if node.ticks == 1:
                    readiness.started()
                if settings.ready_file is not None and node.ticks == 1:
                    settings.ready_file.write_text(context.signer.address)

            inbox = context.given
            prune_inbox = (lambda _: 0) if inbox is None else inbox.prune
            horizon = context.horizon
            jobs = [housekeeping_job(context.database, settings.housekeeping, lambda: horizon.newest, stop, prune_inbox)]
            jobs += _backup_jobs(context, config)
            jobs += _evidence_jobs(context)
            code = run_ticks(tick, settings.chain.poll_s, stop, name=name, jobs=jobs)
            context.close()
    return code


def _evidence_jobs(context: NodeContext) -> list[PeriodicJob]:
    """Returns the periodic jobs that make checkpoints of the journal, keep capsules and score attention tests. Capsules have
    entries of the journal only if there are checkpoints."""
    settings = context.settings
    journal = checkpoint_keeper(context.database, settings.db.journal_key_file, settings.checkpoints, context.clock)
    jobs = []
    if journal is not None:
        journal.add_check(context.readiness)
        jobs.append(journal.job())
    if settings.capsules is not None:
        jobs.append(CapsuleKeeper(context.chain.client, context.network, settings.capsules, journal).job())
    if settings.attention is not None:
        judged = JudgedReveals()
        read = functools.partial(_tests_of, context, judged)
        jobs.append(AttentionJob(settings.attention, context.signer.address, read).job())
    return jobs


def _tests_of(context: NodeContext, judged: JudgedReveals, reveal: Path) -> Sequence[ScoredTest]:
    return scored_range(context.chain, read_reveal(reveal), only=context.signer.address, judged=judged).records


def _backup_jobs(context: NodeContext, config: Path | None) -> list[PeriodicJob]:
    settings = context.settings
    if settings.backup is None or config is None:
        return []
    source = BackupSource(
        config, settings.role.value, (settings,), context.network, context.signer.address, settings.signer.lock_file,
        context.database,
    )  # fmt: skip
    backups = BackupJob(source, settings.backup, context.clock)
    backups.add_check(context.readiness)
    return [backups.job()]


def build_node(context: NodeContext) -> Node:
    """Makes the node for the role in the settings. Raises `ConfigurationError` for a member, which `committee` builds."""
    settings = context.settings
    if settings.role is Role.MEMBER:
        raise ConfigurationError("role", "a member also votes: start it with `bytewise member run`")
    if settings.watches:
        return context.node(None, context.watchtower() if settings.policy.challenges else None)
    return context.node(context.auditor() if settings.policy.audits else None, None)

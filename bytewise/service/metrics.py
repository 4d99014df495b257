"""Every metric of the product: its name, type, help and labels, and the actors that have it.

Code sets a metric at the place where the fact is known: `metrics.DA_BYTES.labels(op="get").inc(len(data))`. Only this module
makes metrics, so an undeclared name is a type error, and a wrong label a `ValueError`. A label has few values and never an id,
because each value is a separate series. `bytewise.service.listener` serves the metrics of the process's actor.

`docs/reference/metrics.md` is written from this module. Names follow Prometheus' conventions: base units, `_total` for counters.
"""

import enum
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Histogram, ProcessCollector
from prometheus_client.metrics_core import Metric

from bytewise.service import telemetry


class Actor(enum.StrEnum):
    """Kind of a process. The label `role` of `bytewise_config_info` and the reference page of metrics use these names."""

    OPERATOR = "operator"
    VERIFIER = "verifier"
    MEMBER = "member"
    WATCHTOWER = "watchtower"
    MONITOR = "monitor"
    SHARD = "shard"
    DA = "da"
    DASHBOARD = "dashboard"


class DeclaredMetric(NamedTuple):
    """Declaration of one metric: one row of the reference page."""

    name: str
    """Name of the metric's samples. The samples of a histogram also have a suffix."""
    kind: str
    """Kind of the metric: `counter`, `gauge` or `histogram`."""
    help: str
    """Meaning and unit of the metric, in one sentence."""
    labels: Mapping[str, tuple[str, ...]]
    """The values of each label. The tuple is empty if they are not known in advance."""
    actors: frozenset[Actor]
    """Actors whose processes have the metric."""


REGISTRY = CollectorRegistry()
"""The metrics of this process. Only this module registers metrics, except the library's collectors of the process itself."""

DECLARED: dict[str, DeclaredMetric] = {}
"""The declaration of every metric, by name."""

EVERY = frozenset(Actor)
DUTY = frozenset({Actor.VERIFIER, Actor.MEMBER, Actor.WATCHTOWER})
"""Actors that decide in each tick from one snapshot of the chain."""
JUDGES = frozenset({Actor.VERIFIER, Actor.MEMBER})
"""Actors with an enclave."""
SENDERS = DUTY | {Actor.OPERATOR}
"""Actors whose process sends transactions from an outbox."""
READERS = SENDERS | {Actor.SHARD, Actor.DASHBOARD, Actor.MONITOR}
"""Actors that read the chain."""
OPERATOR, MEMBER = frozenset({Actor.OPERATOR}), frozenset({Actor.MEMBER})
WATCHTOWER = frozenset({Actor.WATCHTOWER})
SHARD, DA_STORE = frozenset({Actor.SHARD}), frozenset({Actor.DA})
DASHBOARD = frozenset({Actor.DASHBOARD})
INVARIANTS = frozenset({Actor.MONITOR})
"""The actor that checks invariants."""
INDEXERS = DASHBOARD | INVARIANTS
"""Actors that build an index of events."""
FOLLOWERS = DUTY | INDEXERS
"""Actors that follow the blocks of the chain."""

_CALL_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_WORK_S = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_BLOCKS = (1.0, 2.0, 3.0, 6.0, 12.0, 32.0, 64.0, 96.0)
_MOST_PRESET = 64
"""Most series of a metric that are made at the start with the value 0. `increase()` would miss the first step of a series that
begins with that step."""


def _declared(kind: str, name: str, text: str, actors: frozenset[Actor], labels: Mapping[str, Sequence[str]]) -> None:
    prepared = {label: tuple(values) for label, values in labels.items()}
    DECLARED[name] = DeclaredMetric(name, kind, text, prepared, actors)


def _known_series(labels: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    if not labels or math.prod(len(values) for values in labels.values()) > _MOST_PRESET:
        return
    for values in itertools.product(*labels.values()):
        yield dict(zip(labels, values, strict=True))


def _counter(name: str, text: str, actors: frozenset[Actor], **labels: Sequence[str]) -> Counter:
    _declared("counter", name, text, actors, labels)
    made = Counter(name, text, tuple(labels), registry=REGISTRY)
    for series in _known_series(labels):
        made.labels(**series)
    return made


def _gauge(name: str, text: str, actors: frozenset[Actor], **labels: Sequence[str]) -> Gauge:
    _declared("gauge", name, text, actors, labels)
    made = Gauge(name, text, tuple(labels), registry=REGISTRY)
    if not labels:
        made.set(math.nan)  # not known yet. It is not zero: no comparison with NaN is true
    return made


def _histogram(name: str, text: str, actors: frozenset[Actor], buckets: Sequence[float], **labels: Sequence[str]) -> Histogram:
    _declared("histogram", name, text, actors, labels)
    return Histogram(name, text, tuple(labels), registry=REGISTRY, buckets=buckets)


# --- every process ---

UP = _gauge("bytewise_up", "1 while the process serves its metrics.", EVERY)
BUILD_INFO = _gauge("bytewise_build_info", "Always 1; the labels name the version.", EVERY, version=(), python=())
CONFIG_INFO = _gauge(
    "bytewise_config_info", "Always 1; the labels name the chain id of the network, the role, and a watchtower's strategy.",
    EVERY, network=(), role=(), strategy=(),
)  # fmt: skip
READY = _gauge("bytewise_readiness", "1 if the check passes, else 0 (`/readyz` has value, threshold and advice).", EVERY,
               check=())  # fmt: skip
LOOP_SUCCESS = _gauge("bytewise_loop_last_success_timestamp_seconds",
                      "Unix time when a loop last ended without an error; before that, of its start.", EVERY,
                      loop=())  # fmt: skip
LOOP_INTERVAL = _gauge("bytewise_loop_interval_seconds", "Time between two runs of a loop.", EVERY, loop=())
LOOP_RUNS = _counter("bytewise_loop_runs_total", "Runs of a loop.", EVERY, loop=(), result=("ok", "failed", "bug"))
LOOP_SECONDS = _histogram("bytewise_loop_seconds", "Duration of one run of a loop.", EVERY, _WORK_S, loop=())
LOOP_OVERRUNS = _counter("bytewise_loop_overruns_total", "Runs that were left out because the one before had not ended.", EVERY,
                         loop=())  # fmt: skip
LOG_ERRORS = _counter("bytewise_log_errors_total", "Log lines about an error, by the event of the line.", EVERY, topic=())

# --- chain ---

RPC_REQUESTS = _counter(
    "bytewise_rpc_requests_total", "JSON-RPC requests; `provider` is the place of the endpoint in the settings, from 0.",
    READERS, provider=(), method=(), result=("ok", "failed"),
)  # fmt: skip
RPC_SECONDS = _histogram("bytewise_rpc_request_seconds", "Duration of a JSON-RPC request.", READERS, _CALL_S, provider=(),
                         method=())  # fmt: skip
RPC_USING_FALLBACK = _gauge(
    "bytewise_rpc_using_fallback", "1 while the endpoint fails and others answer in its place, else 0; not set for a single one.",
    READERS, provider=(),
)  # fmt: skip
PROVIDER_DISAGREEMENTS = _counter("bytewise_chain_provider_disagreements_total",
                                  "Answers of an endpoint that differ from those of a quorum.", READERS, provider=())  # fmt: skip
HEAD_BLOCK = _gauge("bytewise_chain_head_block", "Number of the block from which the process last decided.", READERS)
HEAD_TIMESTAMP = _gauge("bytewise_chain_head_timestamp_seconds", "Time of that block, Unix seconds.", SENDERS)
CLOCK_OFFSET = _gauge(
    "bytewise_clock_offset_seconds", "Seconds by which that block was dated after this machine's clock when it was read; below "
    "0 if it is older, as it should be. Not set on a test chain.", SENDERS, source=("chain",),
)  # fmt: skip
PARAMS_VERSION = _gauge("bytewise_params_version", "Version of the parameters that is in force.", SENDERS)
INDEXED_BLOCK = _gauge("bytewise_indexer_last_block", "Last block whose batches are known.", FOLLOWERS)
REORG_DEPTH = _histogram("bytewise_chain_reorg_depth_blocks", "Blocks that left the chain in one reorganisation.", FOLLOWERS,
                          _BLOCKS)  # fmt: skip

# --- receipts and data availability ---

BATCHES_SEEN = _counter("bytewise_batches_seen_total", "Batches that the process found on the chain.", DUTY)
RECEIPTS_SEEN = _counter("bytewise_receipts_seen_total", "Receipts that were checked, by finding: Good, or the class of a fault.",
                         DUTY, result=())  # fmt: skip
WITHHELD = _counter("bytewise_withheld_total", "Lists and envelopes that DA had not at the fetch deadline.", DUTY,
                    what=("list", "envelope"))  # fmt: skip
FETCH_BACKLOG = _gauge("bytewise_fetch_backlog", "Lists and envelopes that are still to be fetched.", DUTY)
DA_REQUESTS = _counter(
    "bytewise_da_requests_total", "Requests to DA proxies.", SENDERS, op=("put", "get"),
    status=("ok", "retry", "fail_over", "caller_error", "bad_certificate"),
)  # fmt: skip
DA_SECONDS = _histogram("bytewise_da_request_seconds", "Duration of a request to a DA proxy.", SENDERS, _CALL_S,
                        op=("put", "get"))  # fmt: skip
SIGNER_REQUESTS = _counter("bytewise_signer_requests_total", "Requests to the remote signer.", SENDERS,
                           result=("ok", "away", "refused"))  # fmt: skip
SIGNER_SECONDS = _histogram("bytewise_signer_seconds", "Duration of a request to the remote signer.", SENDERS, _CALL_S)
DA_BYTES = _counter("bytewise_da_bytes_total", "Bytes stored at or read from DA.", SENDERS, op=("put", "get"))
STORE_REQUESTS = _counter("bytewise_da_store_requests_total", "Blobs that the DA store took or gave.", DA_STORE,
                          op=("put", "get"))  # fmt: skip
STORE_FULL = _counter("bytewise_da_store_full_total", "Blobs that the DA store refused because it is full.", DA_STORE)

# --- audits and the enclave ---

AUDITS_DRAWN = _counter("bytewise_audits_drawn_total", "Light audits for which the verifier was drawn.", JUDGES)
AUDITS = _counter("bytewise_audits_total", "Light audits that were signed, by result, or that failed.", JUDGES,
                  outcome=("match", "mismatch", "none", "failed"))  # fmt: skip
AUDIT_QUEUE = _gauge("bytewise_audit_queue_length", "Drawn audits without a result.", JUDGES)
AUDIT_COVERAGE = _gauge(
    "bytewise_audit_coverage_ratio", "Share of the drawn audits with a signed result, of those whose time ended in the last day; "
    "no number without one.", JUDGES,
)  # fmt: skip
REPLAYS = _counter(
    "bytewise_replay_total", "Jobs of the enclave, by kind and by what it found; `failed` found nothing.", JUDGES,
    kind=("audit", "vote"), outcome=("executed", "invalid", "cannot_execute", "unavailable", "no_key", "failed"),
)  # fmt: skip
REPLAY_SECONDS = _histogram("bytewise_replay_seconds", "Duration of a job of the enclave.", JUDGES, _WORK_S,
                            kind=("audit", "vote"))  # fmt: skip
JOBS_WAITING = _gauge("bytewise_jobs_waiting", "Jobs that wait for the enclave or run in it.", JUDGES)
ENCLAVE_UP = _gauge("bytewise_enclave_up", "1 if the enclave took the last job that it was offered, else 0.", JUDGES)
JOBS_SHED = _counter(
    "bytewise_jobs_shed_total", "Jobs left out because they would begin too late; only audits, never votes.", JUDGES,
    kind=("audit",),
)  # fmt: skip
CLUSTER_UP = _gauge("bytewise_cluster_up", "1 if the cluster took the last job that it was offered, else 0.", JUDGES)
COLLATERAL_EXPIRES = _gauge(
    "bytewise_collateral_expires_timestamp_seconds", "When the evidence of the enclave's hardware expires.",
    JUDGES,
)  # fmt: skip
ATTESTATIONS = _counter("bytewise_attestation_total", "Evidence of the own enclaves, by what the appraisal policy said.", JUDGES,
                        result=("accepted", "refused"))  # fmt: skip
ATTESTATION_AGE = _gauge("bytewise_attestation_age_seconds", "Time since the policy last accepted evidence of an own enclave, or "
                         "since the start if it never did.", JUDGES)  # fmt: skip
MEASUREMENT_ALLOWED = _gauge(
    "bytewise_registered_measurement_allowed", "1 if the network allows the measurement with which the account joined its pool, "
    "else 0; no number without a pool.", JUDGES,
)  # fmt: skip
UNFENCED_JOBS = _counter("bytewise_unfenced_jobs_total", "Jobs of an enclave that lacks a fence of confinement.", JUDGES)

# --- disputes and duties ---

DISPUTES_OPEN = _gauge("bytewise_disputes_open", "Disputes that can still change, by our part in them.", DUTY,
                       role=("member", "challenger", "observer"))  # fmt: skip
DISPUTE_DEADLINE = _gauge(
    "bytewise_dispute_min_seconds_to_deadline", "Seconds until the next deadline of our own seats; +Inf if nothing is due.",
    MEMBER, stage=("commit", "reveal"),
)  # fmt: skip
DISPUTE_STAGE = _gauge("bytewise_dispute_stage_seconds", "Length of the stage that ends at that deadline.", MEMBER,
                       stage=("commit", "reveal"))  # fmt: skip
OWN_DISPUTES = _counter(
    "bytewise_own_disputes_total", "Disputes that the account opened and that became final, by verdict. `upheld` cost its bond.",
    WATCHTOWER, verdict=("upheld", "overturned", "invalid", "unavailable", "draw", "refunded"),
)  # fmt: skip
BONDS = _gauge(
    "bytewise_bonds_wei", "Bonds of the account's disputes: open or not won in the budget's period (`open`), or decided and not "
    "on the chain yet (`ordered`).", WATCHTOWER, state=("open", "ordered"),
)  # fmt: skip
DUTIES = _counter("bytewise_duties_total", "Duties that ended.", SENDERS, kind=("vote", "certify", "appeal"),
                  result=("done", "missed", "declined"))  # fmt: skip
DUTIES_PENDING = _gauge("bytewise_duties_pending", "Duties that are open.", SENDERS)
ATTENTION_RESULTS = _gauge("bytewise_attention_results", "Results of the node in revealed attention tests.", JUDGES,
                           result=("caught", "unopened", "missed", "silent", "unavailable"))  # fmt: skip
VOTES = _counter("bytewise_votes_total", "Votes that entered the protection table, by what they say.", MEMBER,
                 choice=("executed", "invalid", "cannot_execute", "unavailable", "no_key"))  # fmt: skip
VOTES_WITHOUT_DA = _counter("bytewise_votes_without_da_total", "Votes that were not made because DA gave nothing at all.", MEMBER)
SEATS = _counter("bytewise_seats_total", "Own seats that were paid or charged, by what the court made of them.", MEMBER,
                 outcome=("right", "worked", "neutral", "absent", "not_revealed", "wrong"))  # fmt: skip
PROTECT_REFUSALS = _counter(
    "bytewise_protect_refusals_total", "Votes that the protection table refused (`second_vote`) or lacks (`missing`).", MEMBER,
    kind=("second_vote", "missing"),
)  # fmt: skip
PROTECT_RECORDS = _gauge("bytewise_protect_records", "Votes in the protection table.", MEMBER)
GOSSIP_PEERS = _gauge("bytewise_gossip_peers", "Peers to which the gossip process is connected; 0 while it is away.", DUTY)
GOSSIP_REGISTERED = _gauge("bytewise_gossip_registered_peers", "Other accounts whose gossip identity is in force.", DUTY)
GOSSIP_MESSAGES = _counter(
    "bytewise_gossip_messages_total", "Messages that were handed to the gossip process, or taken from it.", DUTY,
    topic=("hint", "root", "have"), direction=("out", "in"),
)  # fmt: skip
GOSSIP_DROPPED = _counter("bytewise_gossip_dropped_total", "Messages, requests and connections that the gossip process refused.",
                          DUTY, reason=())  # fmt: skip
GOSSIP_REFUSED = _counter(
    "bytewise_gossip_refused_total", "Messages of other members that were refused: badly signed, of no seat, or other than the "
    "sender's commitment.", MEMBER, error=(),
)  # fmt: skip
PART_FAILURES = _counter("bytewise_part_failures_total", "Steps of a part of the node that failed and are tried again.", DUTY,
                         part=(), error=())  # fmt: skip
ACTION_FAILURES = _counter("bytewise_action_failures_total", "Decided actions that failed and are decided again.", DUTY,
                           action=(), error=())  # fmt: skip
REPORT_FAILURES = _counter("bytewise_report_failures_total", "Reports of equivocation that could not be checked.", WATCHTOWER,
                           error=())  # fmt: skip
PENALTY_CHECK_FAILURES = _counter("bytewise_penalty_check_failures_total", "Unpaid penalties that could not be checked.", DUTY,
                                  error=())  # fmt: skip
HINTS_REFUSED = _counter("bytewise_hints_refused_total", "Audit hints that the watchtower refused.", WATCHTOWER, reason=())

# --- account and transactions ---

BALANCE = _gauge("bytewise_account_balance_wei", "Balance of the account.", SENDERS)
REQUIRED = _gauge("bytewise_account_required_wei", "Balance that the account needs in the worst case: bonds and gas.", SENDERS)
STAKE = _gauge("bytewise_account_stake_wei", "Stake of the account that counts.", SENDERS)
TRANSACTIONS = _counter("bytewise_tx_total", "Transactions that ended, by function of the contract and end.", SENDERS,
                        function=(), state=("confirmed", "superseded", "expired", "reverted", "replaced"))  # fmt: skip
TX_PENDING = _gauge("bytewise_tx_pending", "Transactions that have not ended.", SENDERS)
TX_OLDEST = _gauge("bytewise_tx_oldest_pending_seconds", "Age of the oldest of them; 0 if there is none.", SENDERS)
TX_NONCE = _gauge("bytewise_tx_nonce", "Transactions of the account in the chain.", SENDERS)
TX_BUMPS = _counter("bytewise_tx_bumps_total", "Times that the fee of a stuck transaction was raised.", SENDERS)
TX_FEES = _counter("bytewise_tx_fee_wei_total", "Fees of confirmed transactions.", SENDERS)
TX_CONFIRM_SECONDS = _histogram("bytewise_tx_confirm_seconds", "Seconds from the plan of a transaction to its confirmation.",
                                SENDERS, _WORK_S)  # fmt: skip
TX_STEP_FAILURES = _counter("bytewise_tx_step_failures_total", "Steps of a transaction that failed and are tried again.",
                            SENDERS, function=(), error=())  # fmt: skip
TX_STOPPED = _gauge("bytewise_tx_stopped", "1 while sending is stopped because somebody else used a nonce of the account.",
                    SENDERS)  # fmt: skip
LEASE_CONFLICTS = _counter(
    "bytewise_lease_conflicts_total", "Processes that ran for this account too: they were refused, or took the nonce lease over.",
    SENDERS, kind=("refused", "lost"),
)  # fmt: skip

# --- key shards ---

KEY_EPOCH = _gauge("bytewise_key_epoch_info", "Always 1; the labels name the key epoch and its assurance.", READERS,
                   epoch=(), assurance=())  # fmt: skip
SHARDS_READY = _gauge("bytewise_kms_shards_ready", "Shards of the key epoch whose channel accepts a connection.", JUDGES)
SHARDS_THRESHOLD = _gauge("bytewise_kms_threshold", "Shards that open an envelope of the key epoch.", JUDGES)
SHARE_IN_FORCE = _gauge("bytewise_kms_share_in_force", "1 if the shard's share was in force at the last read of the chain, "
                        "else 0.", SHARD)  # fmt: skip
KMS_CHANNELS = _counter("bytewise_kms_channels_total", "Connections of enclaves, by what became of them.", SHARD,
                        outcome=("attested", "refused", "crowded", "full"))  # fmt: skip
KMS_RELEASES = _counter("bytewise_kms_releases_total", "Release requests that were recorded, by decision.", SHARD,
                        decision=("released", "refused"))  # fmt: skip
KMS_REFUSALS = _counter("bytewise_kms_refusals_total", "Requests that the shard refused, by rule.", SHARD, rule=())

# --- operator ---

RECEIPTS_SIGNED = _counter("bytewise_receipts_signed_total", "Receipts that were signed.", OPERATOR)
RECEIPTS_SKIPPED = _counter("bytewise_receipts_skipped_total", "Receipt numbers that were anchored as empty leaves.", OPERATOR,
                            reason=("expired", "closed", "no_receipt"))  # fmt: skip
RECEIPTS_UNANCHORED = _gauge("bytewise_receipts_unanchored", "Signed receipts that are not in an anchored batch.", OPERATOR)
BATCHES_ANCHORED = _counter("bytewise_batches_anchored_total", "Own batches that the chain has.", OPERATOR)
RECEIPT_ROOM = _gauge("bytewise_receipt_room", "Receipts that the free stake can still carry.", OPERATOR)
ANSWER_SECONDS = _histogram("bytewise_answer_seconds", "Duration from the turn of a request to its stored receipts.", OPERATOR,
                            _WORK_S)  # fmt: skip
REQUESTS_FAILED = _counter("bytewise_requests_failed_total", "Requests that were answered with an error.", OPERATOR, error=())
REQUESTS_JOINED = _counter("bytewise_requests_joined_total", "Retries that got the answer of the first request.", OPERATOR,
                           how=("in_flight", "remembered"))  # fmt: skip
REQUESTS_REFUSED = _counter("bytewise_requests_refused_total", "Requests that were not accepted.", OPERATOR,
                            reason=("queue",))  # fmt: skip
DISPUTES_AGAINST = _counter("bytewise_disputes_against_us_total", "Disputes about own receipts.", OPERATOR)
DISPUTES_TO_APPEAL = _counter("bytewise_disputes_to_appeal_total", "Verdicts against us that could be appealed.", OPERATOR)

# --- dashboard ---

INDEX_DIFFERENCES = _gauge("bytewise_index_differences", "Rows of the index that differ from the contracts' views, at most 20.",
                           INDEXERS)  # fmt: skip
INDEX_LOGS_VERIFIED = _gauge(
    "bytewise_index_logs_verified",
    "1 if events of new blocks are compared with the blocks' receipts; 0 while the node refuses them, or without an own index.",
    INDEXERS,
)
INDEX_EVENTS = _counter("bytewise_index_events_total", "Events of contracts that were added to the index.", INDEXERS)
VERDICTS = _counter(
    "bytewise_verdicts_total", "Final verdicts that were added to the index; one that a reorganisation repeats counts again.",
    INDEXERS, verdict=("upheld", "overturned", "invalid", "unavailable", "draw", "refunded"),
)  # fmt: skip
SLASHED = _counter("bytewise_slashed_wei_total", "Stake that was taken, in events that were added to the index.", INDEXERS)
PAGES_SERVED = _counter("bytewise_pages_total", "Answers of pages and API, by status.", DASHBOARD,
                        status=("2xx", "3xx", "4xx", "5xx"))  # fmt: skip
STREAMS_OPEN = _gauge("bytewise_event_streams", "Event streams that are open.", DASHBOARD)

# --- monitor ---

INVARIANT_STATE = _gauge("bytewise_invariant_state", "1 for the state of an invariant at the last check, 0 for the other states.",
                         INVARIANTS, invariant=(), state=("holds", "broken", "unknown"))  # fmt: skip
INVARIANT_FINDINGS = _gauge("bytewise_invariant_findings", "Places where an invariant was broken at the last check.", INVARIANTS,
                            invariant=())  # fmt: skip
MONEY_DRIFT = _gauge(
    "bytewise_money_drift_wei", "Balance of a contract without what it owes, keeps and has burned; below 0: money is missing.",
    INVARIANTS, contract=("Ledger", "StakeVault"),
)  # fmt: skip
RELEASE_LOG_RECORDS = _gauge("bytewise_release_log_records", "Records of a shard's release log that the monitor has.", INVARIANTS,
                             epoch=(), shard=())  # fmt: skip

# --- storage ---

DB_SIZE = _gauge("bytewise_db_size_bytes", "Size of the database.", SENDERS)
DELETED = _counter(
    "bytewise_housekeeping_deleted_total", "Rows and files that housekeeping deleted, and duties that it ended (`duty_swept`).",
    SENDERS,
    what=("envelope", "receipt", "audit", "duty", "duty_swept", "transaction", "own_envelope", "own_receipt",
          "inbox"),
)  # fmt: skip
BACKUP_TIME = _gauge("bytewise_backup_timestamp_seconds", "Time of the node's newest backup, Unix seconds; 0 without one.",
                     SENDERS)  # fmt: skip
BACKUP_INTERVAL = _gauge("bytewise_backup_interval_seconds", "Time between two backups, as the settings have it.", SENDERS)
LOG_ENTRIES = _gauge("bytewise_log_entries", "Entries of the journal.", SENDERS)
CHECKPOINT_TIME = _gauge("bytewise_log_checkpoint_timestamp_seconds", "Time of the journal's newest signed checkpoint, Unix "
                         "seconds; not set without one.", SENDERS)  # fmt: skip
JOURNAL_CONTINUED = _gauge(
    "bytewise_journal_continued", "1 if the journal continued its signed checkpoints at the last look, else 0; not set without "
    "`[checkpoints]`.", SENDERS,
)  # fmt: skip
DISK_FREE = _gauge("bytewise_disk_free_bytes", "Free bytes of the file system that holds a folder of the process.", EVERY,
                   path=("data",))  # fmt: skip
DISK_SIZE = _gauge("bytewise_disk_size_bytes", "Size of that file system.", EVERY, path=("data",))

ProcessCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
telemetry.on_error(lambda event: LOG_ERRORS.labels(topic=event).inc())

_epoch: tuple[int, str] | None = None


def set_key_epoch(epoch: int, assurance: str) -> None:
    """Sets the metric of the key epoch and its assurance. Logs both if one of them has changed.

    `epoch` is the key epoch of this process.
    """
    global _epoch
    if _epoch != (epoch, assurance):
        _epoch = (epoch, assurance)
        KEY_EPOCH.clear()
        KEY_EPOCH.labels(epoch=str(epoch), assurance=assurance).set(1)
    telemetry.key_epoch(epoch, assurance)


class _ActorView:
    """The metrics in `REGISTRY` that an actor has."""

    def __init__(self, actor: Actor) -> None:
        self._hidden = {name.removesuffix("_total") for name, each in DECLARED.items() if actor not in each.actors}

    def collect(self) -> Iterable[Metric]:
        """Returns the metric families of the actor with their samples."""
        return (family for family in REGISTRY.collect() if family.name not in self._hidden)


def exposition(actor: Actor) -> bytes:
    """Returns the actor's metrics in Prometheus' text format, with HELP and TYPE."""
    return prometheus_client.generate_latest(_ActorView(actor))

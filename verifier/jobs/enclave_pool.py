"""Runs enclave jobs in threads, votes before audits, so that a tick never waits for a job (design section 2).

Each thread serves one enclave: one beside this process, or one of a cluster. Enclaves that fail together form a group. Each
enclave beside this process is a group of its own, and the whole cluster is one group. While a group accepts no job, other groups
go on, and a job that one group refuses goes to another. The pool drops an audit that would begin too late ("shedding"), so that
votes and other audits get the time. It never drops a vote. While a group accepts no job, the pool asks it less often
(`EnclavePresence`). The log says once that the group went away and once that it returned.

Machines of the cluster are untrusted. If an enclave beside this process suits a job, the cluster gets half of the job's time, so
that this enclave can still run it. A job that failed in the cluster goes to an idle enclave beside this process.
"""

import bisect
import functools
import math
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple, Protocol, TypeVar

from prometheus_client import Gauge

from bytewise.ports import EnclaveJobs
from bytewise.protocol.errors.actors import ResultsDiffer
from bytewise.protocol.errors.branches import Bug, BytewiseError
from bytewise.protocol.jobs import JobResult, Prepared, RunJob
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.units import Digest, hex0x
from bytewise.service import metrics, telemetry
from bytewise.service.clock import monotonic_s
from kms.shard.release_policy import INSTANCES_PER_SEAT
from verifier.jobs.job import AUDIT, Capacity, EnclaveAway, EnclaveUnsuited, FinishedJob, JobKey, JobOrder

REMEMBERED = 4096
"""Number of newest jobs for which the pool remembers the result, the instances with a ticket, and whether the job was dropped or
failed in the cluster."""
MEASURED = 64
"""Number of last jobs whose durations are used to estimate the next one."""
RESTART_S = 60.0
"""Most seconds that an enclave takes to restart."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 5.0
"""First and longest pause, in seconds of wall time, before an absent enclave is asked again. The pause doubles each time. It
stays short compared with a commit phase."""
CLUSTER = "cluster"
"""Name of the group of all enclaves that are reached over the bridge."""
_JOIN_S = 2.0
_IDLE_S = 60.0
_POLL_S = 0.25
"""Seconds after which a waiting thread checks again whether its group may take a job."""

K = TypeVar("K")
V = TypeVar("V")


class ClusterJobs(EnclaveJobs, Protocol):
    """Client of a cluster that holds one conversation at a time with one of its enclaves."""

    def end_within(self, seconds: float) -> None:
        """Limits the next conversation to `seconds`, even if its machine asks for more time."""
        ...


class EnclavePool:
    """A queue of jobs, and one thread for each enclave. Implements `JobPool`."""

    def __init__(
        self, own: Sequence[EnclaveJobs], cluster: Sequence[ClusterJobs] = (), monotonic: Callable[[], float] = monotonic_s,
        own_has: Callable[[Digest], bool] = lambda _: True,
    ) -> None:  # fmt: skip
        """`own` has the enclaves beside this process. `cluster` has one client for each job that may run in the cluster at once.
        `own_has` returns whether an enclave of `own` may take jobs about a model."""
        self._monotonic = monotonic
        self._own_has = own_has
        self._condition = threading.Condition()
        self._waiting: list[_Queued] = []
        self._jobs: dict[JobKey, _Queued] = {}
        self._finished: list[FinishedJob] = []
        self._count = 0
        self._stopped = False
        self._broken: BaseException | None = None
        self._seconds: deque[float] = deque(maxlen=MEASURED)
        self._tickets: _Recent[JobKey, set[Digest]] = _Recent()
        self._failed: _Recent[JobKey, bool] = _Recent()
        """Jobs that failed in the cluster."""
        self._idle: Counter[str] = Counter()
        """Number of threads of each group that wait for a job."""
        self._shed: _Recent[JobKey, bool] = _Recent()
        self._unsuited: _Recent[JobKey, bool] = _Recent()
        self._results = ResultComparison()
        alone = [self._group(f"own {number}", metrics.ENCLAVE_UP) for number in range(1, len(own) + 1)]
        whole = self._group(CLUSTER, metrics.CLUSTER_UP)
        # The metric is 0 until a first job has found the cluster. It is 1 for a node without a cluster, which lacks none.
        metrics.CLUSTER_UP.set(not cluster)
        self._groups = [*alone, *([whole] if cluster else [])]
        lanes: list[tuple[_Group, _LimitFor]] = [
            *((group, functools.partial(self._limited, each)) for group, each in zip(alone, own, strict=True)),
            *((whole, functools.partial(self._limited_in_cluster, each)) for each in cluster),
        ]
        self._threads = [
            threading.Thread(target=self._loop, args=(limit, group), name=f"jobs-{number}", daemon=True)
            for number, (group, limit) in enumerate(lanes)
        ]
        for thread in self._threads:
            thread.start()

    def busy(self) -> frozenset[JobKey]:
        """Returns the keys of the jobs that wait, run, or have a result that was not collected yet."""
        with self._condition:
            return frozenset(self._jobs)

    def away(self) -> bool:
        """Returns whether a new job would find no enclave now. That is so if two conditions hold for every group. The last job of
        the group found no enclave. And the pool does not ask the group again now, because the pause of the group is not over or
        because the pool has a job already."""
        with self._condition:
            return all(each.presence.down and (each.presence.pausing or bool(self._jobs)) for each in self._groups)

    def capacity(self) -> Capacity:
        """Returns the size and the load of the pool."""
        with self._condition:
            longest = max(self._seconds, default=0.0)
            return Capacity(len(self._threads), len(self._jobs), self._queued_s(), longest)

    def submit(self, order: JobOrder) -> None:
        """Queues a job. Does nothing if a job with this key waits, runs, or has a result that was not collected yet. Drops an
        audit that would begin too late."""
        with self._condition:
            if order.key in self._jobs:
                return
            self._count += 1
            queued = _Queued(order.priority, self._count, order, self._monotonic() + order.time_left_s)
            if self._is_late(queued, self._queued_s()):
                self._note_shed(order.key)
                return
            self._jobs[order.key] = queued
            bisect.insort(self._waiting, queued)
            metrics.JOBS_WAITING.set(len(self._jobs))
            self._condition.notify_all()

    def collect(self) -> tuple[FinishedJob, ...]:
        """Returns the results since the last call. If a thread ended with an unexpected error, raises that error."""
        with self._condition:
            if self._broken is not None:
                raise self._broken
            finished, self._finished = tuple(self._finished), []
            for each in finished:
                del self._jobs[each.key]
            metrics.JOBS_WAITING.set(len(self._jobs))
            return finished

    def stop(self) -> None:
        """Stops the threads. No further job begins, and the end of the process abandons a job that still runs."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
        for thread in self._threads:
            thread.join(_JOIN_S)

    def _group(self, name: str, up: Gauge) -> "_Group":
        return _Group(name, EnclavePresence(self._monotonic, name, up))

    def _limited(self, enclave: EnclaveJobs, queued: "_Queued") -> EnclaveJobs:
        return _LimitedEnclave(enclave, self._instances(queued))

    def _limited_in_cluster(self, enclave: ClusterJobs, queued: "_Queued") -> EnclaveJobs:
        return _LimitedCluster(enclave, self._instances(queued), functools.partial(self._share_s, queued))

    def _instances(self, queued: "_Queued") -> set[Digest]:
        with self._condition:
            return self._tickets.setdefault(queued.order.key, set())

    def _share_s(self, queued: "_Queued", model_id: Digest) -> float:
        """Returns the seconds that the cluster may take for a job: half of the time that is left if an enclave beside this
        process could run it, too. Otherwise the pool sets no limit. An enclave that has just gone away counts, because it may
        restart in time."""
        others = any(
            each.is_own and each.name not in queued.refused and each.presence.away_s <= RESTART_S for each in self._groups
        )
        return (queued.until - self._monotonic()) / 2 if others and self._own_has(model_id) else math.inf

    def _loop(self, limit: "_LimitFor", group: "_Group") -> None:
        while (queued := self._take(group)) is not None:
            began = monotonic_s()
            outcome = self._run(queued, limit, group)
            seconds = monotonic_s() - began
            _count(queued.order.key[0], outcome, seconds)
            if outcome is None:
                return
            self._finish(queued, outcome, seconds, group)

    def _take(self, group: "_Group") -> "_Queued | None":
        """Waits for the next job for this group and returns it. Returns None when the pool stops."""
        with self._condition:
            self._idle[group.name] += 1
            try:
                while not self._stopped and self._broken is None:
                    found = self._next(group)
                    if found is not None:
                        self._waiting.remove(found)
                        return found
                    self._condition.wait(_POLL_S if self._waiting else _IDLE_S)
                return None
            finally:
                self._idle[group.name] -= 1

    def _next(self, group: "_Group") -> "_Queued | None":
        # While every group pauses, jobs are taken and refused at once, so that their parts learn of it.
        if group.presence.pausing and not all(each.presence.pausing for each in self._groups):
            return None
        for each in list(self._waiting):
            if self._is_late(each, 0.0):
                self._waiting.remove(each)
                del self._jobs[each.order.key]
                self._note_shed(each.order.key)
            elif group.name not in each.refused and (group.is_own or not self._waits_for_own(each)):
                return each
        return None

    def _waits_for_own(self, queued: "_Queued") -> bool:
        """Returns whether this job failed in the cluster and an enclave beside this process can take it now."""
        return queued.order.key in self._failed and any(
            each.is_own and self._idle[each.name] > 0 and not each.presence.pausing and each.name not in queued.refused
            for each in self._groups
        )

    def _run(self, queued: "_Queued", limit: "_LimitFor", group: "_Group") -> JobResult | BytewiseError | None:
        presence, order = group.presence, queued.order
        if presence.pausing:
            return EnclaveAway("enclave", "took no job a moment ago")  # this job waited behind the job that found no enclave
        try:
            result = order.run(limit(queued))
            presence.found()
            self._results.note(order.receipt_id, result)
            return result
        except Bug as bug:
            self._break(bug)
        except EnclaveUnsuited as error:
            return error
        except EnclaveAway as error:
            presence.lost(error)
            return error
        except BytewiseError as error:
            presence.found()
            telemetry.log_error("job.failed", error)
            return error
        except Exception as error:  # noqa: BLE001  top of the thread: the next tick raises it and ends the process
            self._break(error)
        return None

    def _finish(self, queued: "_Queued", outcome: JobResult | BytewiseError, seconds: float, group: "_Group") -> None:
        with self._condition:
            if not group.is_own and not isinstance(outcome, JobResult | EnclaveUnsuited):
                self._failed[queued.order.key] = True
            if isinstance(outcome, EnclaveAway):
                queued.refused.add(group.name)
                if any(each.name not in queued.refused for each in self._groups):
                    bisect.insort(self._waiting, queued)
                    self._condition.notify_all()
                    return
                if isinstance(outcome, EnclaveUnsuited):
                    self._note_unsuited(queued.order.key, outcome)
            else:
                self._seconds.append(seconds)
            self._finished.append(FinishedJob(queued.order.key, outcome))

    def _note_unsuited(self, key: JobKey, error: EnclaveUnsuited) -> None:
        if not self._unsuited.setdefault(key, False):
            self._unsuited[key] = True
            telemetry.log_error("job.refused", error, kind=key[0], subject=key[1])

    def _break(self, error: BaseException) -> None:
        with self._condition:
            self._broken = error
            self._condition.notify_all()

    def _queued_s(self) -> float:
        waits = len(self._jobs) - len(self._finished)
        free = max(0, waits + 1 - len(self._threads))
        return self._usual_s() * free / max(1, len(self._threads))

    def _usual_s(self) -> float:
        return fmean(self._seconds) if self._seconds else 0.0

    def _is_late(self, queued: "_Queued", wait_s: float) -> bool:
        return queued.priority == AUDIT and self._monotonic() + wait_s > queued.until

    def _note_shed(self, key: JobKey) -> None:
        if not self._shed.setdefault(key, False):
            self._shed[key] = True
            metrics.JOBS_SHED.labels(kind=key[0]).inc()
            telemetry.log(
                "job.shed", kind=key[0], subject=key[1], queued_s=round(self._queued_s(), 1),
                do="Add enclaves (docs/guide/run-many-enclaves.md), or lower the stake: it sets how many audits are drawn.",
            )  # fmt: skip


class EnclavePresence:
    """The record of whether one group's enclaves accepted the last job. The job threads write the record, and the tick reads
    it."""

    def __init__(
        self, monotonic: Callable[[], float] = monotonic_s, group: str = "own 1", up: Gauge = metrics.ENCLAVE_UP
    ) -> None:
        """`group` names the enclaves in the log. `up` is the metric that shows whether they are there."""
        self._monotonic = monotonic
        self._group = group
        self._up = up
        self._lock = threading.Lock()
        self._pause_s = 0.0
        self._lost_at = 0.0
        self._not_before = 0.0

    @property
    def down(self) -> bool:
        """True if the last job found no enclave."""
        with self._lock:
            return self._pause_s > 0

    @property
    def away_s(self) -> float:
        """Seconds since the enclave went away, or 0 while it is there."""
        with self._lock:
            return self._monotonic() - self._lost_at if self._pause_s > 0 else 0.0

    @property
    def pausing(self) -> bool:
        """True while it is too early to ask the enclave again."""
        with self._lock:
            return self._pause_s > 0 and self._monotonic() < self._not_before

    def lost(self, error: EnclaveAway) -> None:
        """Notes that the enclave accepted no job. Each pause before the next question is twice as long as the one before, up to
        `LONGEST_PAUSE_S`."""
        with self._lock:
            now, first = self._monotonic(), self._pause_s == 0
            if first:
                self._lost_at = now
            self._pause_s = FIRST_PAUSE_S if first else min(2 * self._pause_s, LONGEST_PAUSE_S)
            self._not_before = now + self._pause_s
        self._up.set(0)
        if first:
            telemetry.log_error("enclave.lost", error, group=self._group)

    def found(self) -> None:
        """Notes that the enclave accepted a job."""
        with self._lock:
            back, away_s = self._pause_s > 0, self._monotonic() - self._lost_at
            self._pause_s = 0.0
        self._up.set(1)
        if back:
            telemetry.log("enclave.returned", group=self._group, away_s=round(away_s))


class _Group(NamedTuple):
    """A group of enclaves that fail together."""

    name: str
    presence: EnclavePresence

    @property
    def is_own(self) -> bool:
        """True if the enclaves of the group are beside this process, and not in a cluster."""
        return self.name != CLUSTER


@dataclass(order=True)
class _Queued:
    """A job in the queue. Jobs compare by priority, then by their number, which is the order of execution."""

    priority: int
    number: int
    order: JobOrder = field(compare=False)
    until: float = field(compare=False)
    refused: set[str] = field(default_factory=set, compare=False)
    """Names of the groups that refused this job."""


_LimitFor = Callable[[_Queued], EnclaveJobs]
"""Function that returns the enclave of a thread, wrapped so that it keeps the limits of one job."""


class _Recent(OrderedDict[K, V]):
    """A map that keeps at most `REMEMBERED` entries and forgets the oldest."""

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        while len(self) > REMEMBERED:
            self.popitem(last=False)


class _LimitedEnclave:
    """A wrapper of an enclave beside this process that limits how many enclave instances get a ticket for one job. Shards release
    a key to few instances of one seat, so a job that many enclaves fail must not use up that number."""

    def __init__(self, enclave: EnclaveJobs, instances: set[Digest]) -> None:
        self._enclave = enclave
        self._instances = instances

    def prepare(self, receipt_id: Digest, model_id: Digest) -> Prepared:
        """Prepares a key in the enclave. Raises `EnclaveUnsuited` if this would be one instance too many for the job."""
        prepared = self._enclave.prepare(receipt_id, model_id)
        if prepared.instance not in self._instances and len(self._instances) >= INSTANCES_PER_SEAT:
            self._enclave.close()
            raise EnclaveUnsuited("enclave", f"{INSTANCES_PER_SEAT} other instances already had a ticket for this job")
        return prepared

    def run(self, job: RunJob) -> JobResult:
        """Runs the job in the enclave, whose instance has a ticket from now on."""
        self._instances.add(job.ticket.instance)
        return self._enclave.run(job)

    def close(self) -> None:
        """Ends the conversation with the enclave."""
        self._enclave.close()


class _LimitedCluster(_LimitedEnclave):
    """A wrapper of an enclave of the cluster. Its machine may name any instance, so an instance counts only once its result was
    accepted. Shards enforce their own limit in any case."""

    def __init__(self, enclave: ClusterJobs, instances: set[Digest], share_s: Callable[[Digest], float]) -> None:
        super().__init__(enclave, instances)
        self._cluster = enclave
        self._share_s = share_s

    def prepare(self, receipt_id: Digest, model_id: Digest) -> Prepared:
        """Prepares a key in an enclave of the cluster, within the cluster's part of the job's time."""
        self._cluster.end_within(self._share_s(model_id))
        return super().prepare(receipt_id, model_id)

    def run(self, job: RunJob) -> JobResult:
        """Runs the job in the enclave, and counts its instance once the result was accepted."""
        result = self._enclave.run(job)
        self._instances.add(job.ticket.instance)
        return result


class ResultComparison:
    """A comparison of job results, for each receipt separately. The engine is deterministic, so all results that are EXECUTED
    or INVALID must agree in every bit. Other results say nothing about the receipt and are not compared."""

    def __init__(self) -> None:
        self._known: _Recent[Digest, JobResult] = _Recent()
        self._lock = threading.Lock()

    def note(self, receipt_id: Digest, result: JobResult) -> None:
        """Remembers a result. If an earlier result about the receipt says something else, logs both and raises
        `ResultsDiffer`."""
        if result.outcome not in (Outcome.EXECUTED.value, Outcome.INVALID.value):
            return  # a missing key or a small machine says nothing about the receipt
        with self._lock:
            first = self._known.setdefault(receipt_id, result)
        if _content(first) == _content(result):
            return
        for each in (first, result):
            telemetry.log(
                "job.contradicted", receipt=receipt_id, subject=each.subject, round=each.round, outcome=each.outcome,
                code=each.code, tokens=each.tokens_hash, trace=each.trace_root,
            )  # fmt: skip
        raise ResultsDiffer(hex0x(receipt_id))


def _content(result: JobResult) -> tuple[object, ...]:
    return result.outcome, result.code, result.tokens_hash, result.trace_root


def _count(kind: str, outcome: JobResult | BytewiseError | None, seconds: float) -> None:
    if outcome is None or isinstance(outcome, EnclaveAway):
        return  # nothing was tried
    found = Outcome(outcome.outcome).name.lower() if isinstance(outcome, JobResult) else "failed"
    metrics.REPLAYS.labels(kind=kind, outcome=found).inc()
    metrics.REPLAY_SECONDS.labels(kind=kind).observe(seconds)

"""The agents of a cluster, as the bridge uses them through Ray. Only this module imports Ray.

A call of an agent runs at most once: Ray restarts an agent that died, and never repeats a call. A lease may end while its call
still runs. The bridge drops the late answer of that call, and the agent takes no other job before the answer has come.
"""

import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import ray

from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.jobs import MAX_MESSAGE_BYTES
from bytewise.protocol.units import Digest
from bytewise.service import telemetry
from bytewise.service.clock import monotonic_s
from verifier.cluster.agent import FENCE_BYTES, Agent
from verifier.cluster.settings import BridgeSettings, resource_of
from verifier.jobs.cluster_messages import ClaimRefused, ClusterState

POLL_S = 0.2
"""Seconds between two checks of calls that run and of agents that start."""
LOOK_S = 2.0
"""Seconds between two questions to a free agent whether it still has its enclave. Ray may have restarted the agent."""
LOST_S = 10.0
"""Seconds without an answer of the head node after which the bridge takes the cluster for lost. A new head node would know
neither this driver nor its agents."""
NAMESPACE = "bytewise"
REMEMBERED = 100
"""Number of receipts that the bridge remembers for each agent."""


class AgentRefused(Exception):
    """Raised when no agent takes the job. `message` says why."""

    def __init__(self, message: ClaimRefused) -> None:
        super().__init__(message.problem)
        self.message = message


class _Agent:
    """One agent. `call` is the call that it still works on, from the present lease or an earlier one."""

    def __init__(self, model_id: Digest, start: Callable[[], Any]) -> None:
        self.model_id = model_id
        self.handle = start()
        self.start = start
        self.is_open = self.is_leased = False
        self.problem = "is starting"
        self.call: Any = None
        self.look_at = 0.0
        self.answered: list[Digest] = []
        """The newest receipts for which the duty process accepted a result of this agent."""
        self.failed: list[Digest] = []
        """The newest receipts of leases that go on, or that ended without an accepted result."""

    def preference(self, receipt_id: Digest) -> tuple[bool, bool]:
        """Returns the rank of the agent for a job. The agent with the lowest rank gets the job. An agent that gave a result about
        the receipt comes first, because shards count instances. An agent that failed the receipt comes last, because its machine
        may be hostile."""
        return receipt_id in self.failed, receipt_id not in self.answered


class Lease(NamedTuple):
    """The right to use one agent for one job. Each lease of an agent has its own fence, which is a number that grows."""

    agents: "RayAgents"
    agent: _Agent
    fence: int

    def call(self, name: str, argument: bytes, limit_s: float, is_wanted: Callable[[], bool]) -> bytes:
        """Calls a method of the agent and returns its answer. `is_wanted` says whether the duty process still waits. Raises
        `TryAgain` if the agent died, if its answer is late or malformed, or if the job is not wanted any more."""
        return self.agents.ask(self, name, argument, limit_s, is_wanted)

    def note_result(self, receipt_id: Digest) -> None:
        """Notes that the duty process accepted the agent's result about a receipt."""
        self.agent.failed = [each for each in self.agent.failed if each != receipt_id]
        self.agent.answered = [*self.agent.answered[1 - REMEMBERED :], receipt_id]


class RayAgents:
    """The agents of all models. This object starts the agents in the cluster, and leases each agent to one conversation at a
    time."""

    def __init__(self, settings: BridgeSettings) -> None:
        """Joins the cluster and starts the agents. Raises `TryAgain` if the cluster cannot be reached."""
        self._settings = settings
        self._changed = threading.Condition()
        self._fences = itertools.count(1)
        self._stopped = False
        self._head_seen = self._head_asked = monotonic_s()
        try:
            ray.init(
                address=settings.address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False,
                ignore_reinit_error=True,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001  (Ray raises many classes; all mean that there is no cluster)
            raise TryAgain(f"Ray at {settings.address}", f"{type(error).__name__}: start the head node first") from None
        self._agents = [
            _Agent(model_id, lambda model_id=model_id: self._start(model_id))  # type: ignore[misc]
            for model_id in settings.models
            for _ in range(settings.agents)
        ]
        self._keeper = threading.Thread(target=self._keep, name="agents", daemon=True)
        self._keeper.start()

    @contextmanager
    def lease(self, model_id: Digest, receipt_id: Digest) -> Iterator[Lease]:
        """Context manager that leases a free agent whose enclave runs the model. An agent that gave a result about the receipt
        before is preferred. An agent that failed at the receipt is taken last. Raises `AgentRefused` if the bridge does not know
        the model, if no agent of the model has an enclave, or if no agent becomes free in time."""
        agent = self._take(model_id, receipt_id)
        agent.failed = [*agent.failed[1 - REMEMBERED :], receipt_id]
        fence = next(self._fences)
        try:
            yield Lease(self, agent, fence)
        finally:
            agent.handle.release.remote(fence)
            with self._changed:
                agent.is_leased = False
                self._changed.notify_all()

    def ask(self, lease: Lease, name: str, argument: bytes, limit_s: float, is_wanted: Callable[[], bool]) -> bytes:
        """Calls a method of a leased agent and returns its answer, as `Lease.call` describes."""
        agent, until = lease.agent, monotonic_s() + limit_s
        call = agent.call = getattr(agent.handle, name).remote(lease.fence, argument)
        while not ray.wait([call], timeout=POLL_S)[0]:
            if not is_wanted() or monotonic_s() > until:
                raise TryAgain("agent", "gave no answer in time" if is_wanted() else "is not wanted any more")
        agent.call = None
        answer = self._value(agent, call)
        if not isinstance(answer, bytes) or not FENCE_BYTES < len(answer) <= FENCE_BYTES + MAX_MESSAGE_BYTES:
            raise TryAgain("agent", f"gave {type(answer).__name__} instead of an answer: is another program in this cluster?")
        if int.from_bytes(answer[:FENCE_BYTES], "big") != lease.fence:
            raise TryAgain("agent", "gave the answer of another lease")
        return answer[FENCE_BYTES:]

    def state(self, models: bool) -> ClusterState:
        """Returns how many agents are wanted, ready and free. With `models`, the answer also has a line for each model that lacks
        agents."""
        with self._changed:
            ready = [each for each in self._agents if each.is_open]
            free = [each for each in ready if not each.is_leased and each.call is None]
            problems = tuple(filter(None, map(self._problem, self._settings.models))) if models else ()
            return ClusterState(len(self._agents), len(ready), len(free), problems)

    def check_head(self) -> None:
        """Checks every `LOOK_S` seconds whether the head node answers. Raises `TryAgain` once the cluster is lost."""
        now = monotonic_s()
        if now < self._head_asked + LOOK_S:
            return
        host, _, port = self._settings.address.rpartition(":")
        try:
            # Ray itself would wait for a head that is gone, for a minute.
            socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
            self._head_seen = now
        except OSError:
            pass
        self._head_asked = monotonic_s()
        if now > self._head_seen + LOST_S or not self._keeper.is_alive():
            do = "its head node went away: start it, join the machines again, then start the bridge"
            raise TryAgain(f"Ray at {self._settings.address}", do)

    def close(self) -> None:
        """Leaves the cluster, which ends its agents."""
        self._stopped = True
        self._keeper.join()
        ray.shutdown()

    def _start(self, model_id: Digest) -> Any:
        settings = self._settings
        remote = ray.remote(Agent).options(
            num_cpus=settings.cpus, num_gpus=settings.gpus, resources={resource_of(model_id): 1}, max_restarts=-1,
            max_task_retries=0, max_concurrency=1,
        )  # fmt: skip
        return remote.remote(settings.enclave_sockets, bytes(model_id), settings.prepare_timeout_s)

    def _take(self, model_id: Digest, receipt_id: Digest) -> _Agent:
        until = monotonic_s() + self._settings.prepare_timeout_s
        if model_id not in self._settings.models:
            what = f"0x{model_id.hex()} is not among the models of the bridge: add it to `models`, or run it in an own enclave"
            raise AgentRefused(ClaimRefused(what, True))
        with self._changed:
            while True:
                fitting = [each for each in self._agents if each.model_id == model_id]
                free = [each for each in fitting if each.is_open and not each.is_leased and each.call is None]
                if free:
                    agent = min(free, key=lambda each: each.preference(receipt_id))
                    agent.is_leased = True
                    return agent
                if not any(each.is_open for each in fitting):
                    raise AgentRefused(ClaimRefused(self._problem(model_id), True))
                if monotonic_s() >= until:
                    raise AgentRefused(ClaimRefused(f"all {len(fitting)} agents are busy: raise `agents` and add enclaves", True))
                self._changed.wait(min(POLL_S, max(0.0, until - monotonic_s())))  # the end of a lease wakes this thread

    def _problem(self, model_id: Digest) -> str:
        missing = [each for each in self._agents if each.model_id == model_id and not each.is_open]
        if not missing:
            return ""
        wanted = sum(each.model_id == model_id for each in self._agents)
        what = f"{len(missing)} of {wanted} agents of model 0x{model_id.hex()[:8]} are missing ({missing[0].problem})"
        return f"{what}: start enclaves on a Ray node with --resources='{{\"{resource_of(model_id)}\": {len(missing)}}}'"

    def _keep(self) -> None:
        """Runs in a thread until `close`. Gives enclaves to agents that started, and frees agents whose late call has ended."""
        opening: dict[int, Any] = {}
        pause = threading.Event()
        while not self._stopped:
            for number, agent in enumerate(self._agents):
                if agent.is_leased:
                    continue
                if agent.call is not None and agent.is_open:
                    if ray.wait([agent.call], timeout=0)[0]:
                        agent.call = None
                        telemetry.log("agent.late_answer_dropped", model=agent.model_id)
                elif not agent.is_open or monotonic_s() >= agent.look_at:
                    opening[number] = self._open(agent, opening.get(number))
            with self._changed:
                self._changed.notify_all()
            pause.wait(POLL_S)

    def _open(self, agent: _Agent, asked: Any) -> Any:
        """Asks an agent to take an enclave, or to confirm that it still has one. Returns the pending question, or None once it is
        answered."""
        if asked is None:
            return agent.handle.open.remote()
        if not ray.wait([asked], timeout=0)[0]:
            agent.problem = agent.problem or "no machine has room for it, or it is starting"
            return asked
        try:
            found = self._value(agent, asked)
        except TryAgain as error:
            found = str(error).encode()
        agent.problem = found.decode("utf-8", "replace")[:300] if isinstance(found, bytes) else "gave no answer"
        was_open, agent.is_open, agent.look_at = agent.is_open, not agent.problem, monotonic_s() + LOOK_S
        if agent.is_open and not was_open:
            agent.call = None
            telemetry.log("agent.opened", model=agent.model_id)
        return None

    def _value(self, agent: _Agent, call: Any) -> object:
        """Returns the value of a call. Its bytes are unpickled here, in a process without keys. Raises `TryAgain` if the agent
        died or the call failed."""
        try:
            return ray.get(call)
        except ray.exceptions.ActorDiedError as error:
            # Ray ends an agent for good only if this driver or a person did.
            agent.is_open, agent.call, agent.handle = False, None, agent.start()
            raise TryAgain("agent", type(error).__name__) from None
        except Exception as error:  # noqa: BLE001  (an error of Ray, or one that the other side made up)
            agent.is_open, agent.call = False, None
            telemetry.log("agent.lost", model=agent.model_id, error=type(error).__name__)
            raise TryAgain("agent", f"{type(error).__name__}: its machine or process ended") from None

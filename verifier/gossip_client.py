"""The duty process's side of gossip: messages to and from the gossip process of this member (ADR-077)."""

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bytewise.protocol.errors.actors import TryAgain
from bytewise.service import metrics, telemetry
from bytewise.service.clock import monotonic_s
from gossip.handover import HandOverClient, ProcessState
from gossip.messages import TOPICS, GossipRefused

MAX_KEPT = 4096
"""Most messages of one topic that wait to be taken. The oldest are dropped first."""
PAUSE_S = 20.0
"""Seconds in which a process that hung is left alone."""


class GossipClient:
    """Implements `ports.GossipPort` and `envelope_exchange.EnvelopeGossip` over the UNIX socket of the gossip process."""

    def __init__(self, socket: Path) -> None:
        self._handover = HandOverClient(socket)
        self._kept: dict[str, deque[dict[str, Any]]] = {topic: deque(maxlen=MAX_KEPT) for topic in TOPICS}
        self._is_away = False
        self._seen: ProcessState | None = None
        """State of the gossip process when it was asked last."""
        self._not_before = 0.0
        """Monotonic time before which a hung process is not called again: several parts call it in each tick."""

    def publish(self, topic: str, body: dict[str, Any]) -> None:
        """Hands a body to the gossip process. `TryAgain` if that is away or refuses."""
        with self._answering():
            self._handover.publish(topic, body)
        metrics.GOSSIP_MESSAGES.labels(topic=topic, direction="out").inc()

    def take(self, topic: str) -> Sequence[dict[str, Any]]:
        """The bodies on a topic that arrived since the last call. `TryAgain` if the gossip process is away, which is logged
        once."""
        with self._answering():
            while taken := self._handover.take():
                for each in taken:
                    self._kept[each.topic].append(each.body)
                    metrics.GOSSIP_MESSAGES.labels(topic=each.topic, direction="in").inc()
        if self._is_away:
            telemetry.log("gossip.returned")
        self._is_away = False
        found = tuple(self._kept[topic])
        self._kept[topic].clear()
        return found

    def offer(self, envelope: str, file: Path) -> None:
        """Lets other seats have the bytes of a file. `TryAgain` as above."""
        with self._answering():
            self._handover.offer(envelope, file)

    def fetch(self, envelope: str, size: int, account: str, file: Path) -> None:
        """Writes what a member gives for an envelope into a file; takes up to a minute. `TryAgain` if it gives nothing."""
        try:
            self._handover.fetch(envelope, size, account, file)
        except GossipRefused as error:
            raise TryAgain("gossip", str(error)) from None

    def observe(self) -> None:
        """Sets the metrics of the gossip process. It has none of its own."""
        try:
            with self._answering():
                state = self._handover.state()
        except TryAgain:
            metrics.GOSSIP_PEERS.set(0)
            return
        metrics.GOSSIP_PEERS.set(state.connected)
        # A restarted process counts from 0 again.
        before = self._seen.refusals if self._seen is not None and self._seen.process == state.process else {}
        for reason, count in state.refusals.items():
            metrics.GOSSIP_DROPPED.labels(reason=reason).inc(max(count - before.get(reason, 0), 0))
        self._seen = state

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        if monotonic_s() < self._not_before:
            raise TryAgain("gossip", "hung a moment ago")
        try:
            yield
        except GossipRefused as error:
            if error.reason == "hung":
                self._not_before = monotonic_s() + PAUSE_S
            if error.reason in ("away", "hung") and not self._is_away:
                self._is_away = True
                telemetry.log("gossip.away", do="nothing: the node acts alone; is the gossip process started?", detail=str(error))
            raise TryAgain("gossip", str(error)) from None

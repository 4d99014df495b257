"""The duty process's side of gossip: it passes messages to the gossip process of this node and takes messages from it
(ADR-031)."""

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
"""Most messages of one topic that wait until a part takes them. The oldest are dropped first."""
PAUSE_S = 20.0
"""Seconds for which this process does not call a gossip process that hung."""


class GossipClient:
    """Client of the gossip process over its UNIX socket. Implements `ports.GossipPort` and `envelope_exchange.EnvelopeGossip`."""

    def __init__(self, socket: Path) -> None:
        self._handover = HandOverClient(socket)
        self._kept: dict[str, deque[dict[str, Any]]] = {topic: deque(maxlen=MAX_KEPT) for topic in TOPICS}
        self._is_away = False
        self._seen: ProcessState | None = None
        """State that the gossip process reported last."""
        self._not_before = 0.0
        """Monotonic time before which a hung gossip process is not called again. Without it, each part of a tick would wait for
        the process."""

    def publish(self, topic: str, body: dict[str, Any]) -> None:
        """Hands a message body to the gossip process for publication. Raises `TryAgain` if the gossip process is away or refuses
        it."""
        with self._answering():
            self._handover.publish(topic, body)
        metrics.GOSSIP_MESSAGES.labels(topic=topic, direction="out").inc()

    def take(self, topic: str) -> Sequence[dict[str, Any]]:
        """Returns the message bodies that arrived on a topic since the last call for this topic. Raises `TryAgain` if the gossip
        process is away, and logs only the first of several such failures in a row."""
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
        """Lets other seats of the dispute fetch the bytes of a file. Raises `TryAgain` if the gossip process is away or refuses
        it."""
        with self._answering():
            self._handover.offer(envelope, file)

    def fetch(self, envelope: str, size: int, account: str, file: Path) -> None:
        """Fetches an envelope of `size` bytes from another member's account, and writes the bytes into a file. The caller checks
        the bytes. This takes up to a minute. Raises `TryAgain` if the member gives nothing."""
        try:
            self._handover.fetch(envelope, size, account, file)
        except GossipRefused as error:
            raise TryAgain("gossip", str(error)) from None

    def observe(self) -> None:
        """Sets the metrics about the gossip process, which serves no metrics itself."""
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

"""Audit hints over gossip. Record, check and `HintBox` are the same as for hints over HTTPS (`hint_server`)."""

from collections.abc import Callable

from bytewise.ports import GossipPort
from bytewise.protocol.decisions.actions import Action
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.encoding import from_json, to_json
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.service import metrics, telemetry
from verifier.audits.audit_hints import AuditHint, HintBox

TOPIC = "hint"
"""Gossip topic of audit hints."""


class GossipHints:
    """The part of a node that puts the hints from gossip into the box. Implements `node.NodePart`, but decides no action."""

    def __init__(self, gossip: GossipPort, box: HintBox) -> None:
        self._gossip = gossip
        self._box = box

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Takes the hints that arrived since the last block, and returns no action. A wrong hint is counted and logged. If the
        gossip process is away, nothing happens."""
        try:
            bodies = self._gossip.take(TOPIC)
        except Unavailable:
            return ()
        for body in bodies:
            try:
                self._box.put(from_json(AuditHint, body))
            except Fault as error:
                metrics.HINTS_REFUSED.labels(reason=type(error).__name__).inc()
                telemetry.log_error("hint.refused", error)
        return ()


def sent_over(gossip: GossipPort, also: Callable[[AuditHint], None] | None) -> Callable[[AuditHint], None]:
    """Returns a function that publishes a hint over gossip and then gives it to the sender `also`, if there is one. If gossip
    does not accept the hint, the function only logs that."""

    def send(hint: AuditHint) -> None:
        try:
            gossip.publish(TOPIC, to_json(hint))
        except Unavailable as error:
            telemetry.log_error("hint.not_published", error, receipt=hint.result.receipt_id)
        if also is not None:
            also(hint)

    return send

"""Audit hints over gossip: the same record, the same check and the same box as hints over HTTPS (`hint_server`)."""

from collections.abc import Callable

from bytewise.ports import GossipPort
from bytewise.protocol.decisions.actions import Action
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.encoding import from_json, to_json
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.service import metrics, telemetry
from verifier.audits.audit_hints import AuditHint, HintBox

TOPIC = "hint"
"""Topic of audit hints."""


class GossipHints:
    """Puts the hints that arrive over gossip into the box. Implements `node.NodePart`; decides nothing."""

    def __init__(self, gossip: GossipPort, box: HintBox) -> None:
        self._gossip = gossip
        self._box = box

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Takes the hints since the last block. A wrong one is counted. Without its gossip process a node goes on."""
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
    """A function that publishes a hint, and hands it to another sender too. A hint that cannot be published is only logged."""

    def send(hint: AuditHint) -> None:
        try:
            gossip.publish(TOPIC, to_json(hint))
        except Unavailable as error:
            telemetry.log_error("hint.not_published", error, receipt=hint.result.receipt_id)
        if also is not None:
            also(hint)

    return send

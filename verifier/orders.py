"""Duties that a person ordered with a command. The only such duty here is to certify a proposed environment or model.

The member's running process sends the certification, because only one process may send transactions for an account.
"""

from typing import Protocol

from bytewise.protocol.decisions.actions import Action
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.units import Digest, hex0x
from bytewise.service import telemetry
from bytewise.storage.duties import Duties, Duty
from bytewise.storage.outbox import OutboxItem, OutboxState

CERTIFY = "certify"
"""Kind of the duty that `bytewise member certify` stores. The duty's subject is `certification_subject`, and its deadline is the
end of the proposal."""

_SENT = (OutboxState.CONFIRMED, OutboxState.FINAL, OutboxState.SUPERSEDED)


class Certifier(Protocol):
    """The part of a sender that sends certifications."""

    def certify_item(self, digest: Digest, vectors: Digest, certify_until: int) -> OutboxItem:
        """Plans the transaction that certifies an item. Plans it again if an earlier attempt ended without success. Returns the
        outbox row of the transaction."""
        ...


def certification_subject(item: Digest, vectors: Digest, certify_until: int) -> bytes:
    """Returns the subject of an order to certify. It consists of the item, the vectors that the member computed, and the end of
    the proposal. So each proposal of one item has its own subject."""
    return item + vectors + certify_until.to_bytes(8, "big")


class OrderedDuties:
    """The part of a node that carries out the duties that a person ordered. It plans each certification at each block, until the
    certification is on the chain or the proposal has ended. Implements `verifier.node.NodePart`."""

    def __init__(self, duties: Duties, sender: Certifier) -> None:
        self._duties = duties
        self._sender = sender

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Plans the transactions of the ordered duties. Returns no action, because a person has already decided."""
        for order in self._duties.pending():
            if order.kind == CERTIFY:
                self._certify(order, snapshot.clock)
        return ()

    def _certify(self, order: Duty, clock: int) -> None:
        item = Digest(order.subject[:32])
        if clock > order.deadline:
            self._duties.miss(CERTIFY, order.subject, "the proposal was over")
            telemetry.log("certify.missed", item=hex0x(item))
            return
        row = self._sender.certify_item(item, Digest(order.subject[32:64]), order.deadline)
        if row.state in _SENT:
            self._duties.done(CERTIFY, order.subject, row.state)

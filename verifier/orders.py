"""Duties that a person ordered with a command: to certify a proposed environment or model.

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
"""Kind of the duty that `bytewise member certify` stores. Its subject is `certification_subject`, its deadline the end of the
proposal."""

_SENT = (OutboxState.CONFIRMED, OutboxState.FINAL, OutboxState.SUPERSEDED)


class Certifier(Protocol):
    """The part of a sender that sends certifications."""

    def certify_item(self, digest: Digest, vectors: Digest, certify_until: int) -> OutboxItem:
        """Plans the transaction that certifies an item. Plans it again if an earlier attempt ended without success. Returns the
        state of its outbox row."""
        ...


def certification_subject(item: Digest, vectors: Digest, certify_until: int) -> bytes:
    """Returns the subject of an order to certify: the item, the vectors that were computed, and the end of the proposal. An order
    for another proposal of the same item therefore has another subject."""
    return item + vectors + certify_until.to_bytes(8, "big")


class OrderedDuties:
    """The part of a node that carries out ordered duties, at each block until the certification is in the chain or the proposal
    has ended. Implements `verifier.node.NodePart`."""

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

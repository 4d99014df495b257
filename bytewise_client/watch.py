"""The watchtower SDK: write a strategy, and let a node carry out what it proposes (`docs/guide/write-a-watchtower.md`).

A strategy subclasses `Strategy`. The node calls it in a process of its own, which has no key and cannot send anything.
"""

from bytewise.protocol.decisions.strategies import (
    AuditEvent,
    Defend,
    DisputeEvent,
    DisputeProposal,
    Hunt,
    Proposals,
    ReceiptEvent,
    Strategy,
)

__all__ = ["AuditEvent", "Defend", "DisputeEvent", "DisputeProposal", "Hunt", "Proposals", "ReceiptEvent", "Strategy"]

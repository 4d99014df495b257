"""The watchtower SDK.

You write a strategy, and a node carries out the disputes that it proposes (`docs/guide/write-a-watchtower.md`). A strategy is a
subclass of `Strategy`. The node calls it in a separate process, which has no key and cannot send anything.
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

"""When an act is too late: for the contract, by chain time; or because what it rests on was seen too long ago, by ours."""

from collections.abc import Sequence

from bytewise.storage.outbox import Attempt, Intent
from chain.client.rpc import Block
from chain.sending.transactions import is_empty


def is_past(intent: Intent, head: Block) -> bool:
    """Whether the contract's deadline is over."""
    return 0 < intent.deadline < head.timestamp


def left(intent: Intent, head: Block) -> int | None:
    """Seconds of chain time until the deadline; None without one."""
    return intent.deadline - head.timestamp if intent.deadline else None


def is_stale(intent: Intent, attempts: Sequence[Attempt], now: int) -> bool:
    """Whether nobody asked for the act lately and no node was given any version of it; `now` in Unix seconds."""
    return 0 < intent.hand_in_by < now and all(is_empty(each.raw) or each.broadcast_at is None for each in attempts)


def times_moved(old: Intent, new: Intent, now: int) -> bool:
    """Whether an act that is asked for again has to be written down with new times: of the time to hand it in half is gone."""
    return old.deadline != new.deadline or (new.hand_in_by > 0 and 2 * (old.hand_in_by - now) < new.hand_in_by - now)

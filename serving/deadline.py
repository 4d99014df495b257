"""Until when a receipt may be anchored: a Request that has expired by then is a defect of the record (R-28), and convicts us.

A receipt's own `anchorBy` is softer: anchored later it is marked (R-16), but nobody is convicted, and later receipts need it.
"""

import json
from collections.abc import Iterable

from bytewise.protocol.errors import ConfigurationError, TryAgain
from bytewise.protocol.receipt import SignedReceipt
from bytewise.protocol.request import Request


def verify_time_left(request: Request, anchor_by: int) -> Request:
    """The request, if it outlives the promise that its receipt will make; `TryAgain` if it waited too long for the engine."""
    if request.expiry < anchor_by:
        raise TryAgain("engine", "the request waited for too long")
    return request


def expiry_of(signed: SignedReceipt, answer: bytes | None) -> int:
    """Unix seconds of chain time at which the receipt's Request expires; without our copy of the answer, its `anchorBy`.

    That is never later: see `verify_time_left`.
    """
    if answer is None:
        return signed.receipt.anchor_by
    return int(json.loads(answer)["opening"]["request"]["expiry"])


def verify_deadline(first: int, expiries: Iterable[int], reserve_s: int, now: int) -> int:
    """Last second of chain time at which a batch with these expiries may be sent: `reserve_s` are left for its way into a block.

    `ConfigurationError` after it: nothing that this process may do helps, so a person has to.
    """
    deadline = min(expiries) - reserve_s
    if now > deadline:
        raise ConfigurationError(
            f"receipts from {first} on",
            f"were to be anchored by {deadline}, and it is {now}: their requests expire, and anchoring them would convict this "
            "operator. Do not restart it with these keys: unbond its stake, then serve with a new account and an empty database",
        )
    return deadline

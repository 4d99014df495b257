"""Until when a receipt may be anchored: a Request that has expired by then is a defect of the record (R-28), and convicts us.

A receipt's own `anchorBy` is softer: anchored later it is marked (R-16), but nobody is convicted, and later receipts need it.
"""

import json

from bytewise.protocol.errors import TryAgain
from bytewise.protocol.receipt import SignedReceipt
from bytewise.protocol.request import Request


def verify_time_left(request: Request, until: int) -> Request:
    """The request, if it lives `until` then: the promise that its receipt will make, and the longest pause beyond it, in chain
    time. `TryAgain` if it waited too long for the engine."""
    if request.expiry < until:
        raise TryAgain("engine", "the request waited for too long")
    return request


def expiry_of(signed: SignedReceipt, answer: bytes | None) -> int:
    """Unix seconds of chain time at which the receipt's Request expires; without our copy of the answer, its `anchorBy`.

    That is never later: see `verify_time_left`.
    """
    if answer is None:
        return signed.receipt.anchor_by
    return int(json.loads(answer)["opening"]["request"]["expiry"])


def too_late(first: int, deadline: int, now: int) -> str | None:
    """What a person is told once the receipts from number `first` on can no longer be anchored in time; None before that.

    `deadline` and `now` are chain time. Nothing that this process may do helps with these receipts.
    """
    if now <= deadline:
        return None
    return (
        f"receipts from {first} on were to be anchored by {deadline}, and it is {now}: their requests expire, and anchoring them "
        "would convict this operator. Leave it running until its last window is over, to answer demands; then unbond its stake, "
        "and serve with a new account and an empty database"
    )

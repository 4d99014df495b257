"""Until when a receipt may be anchored: a Request that has expired by then is a defect of the record (R-28), and convicts us.

A receipt's own `anchorBy` is softer: anchored later it is marked (R-16), but nobody is convicted, and later receipts need it.
"""

import json

from bytewise.protocol.errors import TryAgain
from bytewise.protocol.records.receipt import SignedReceipt
from bytewise.protocol.records.request import Request

EXPIRED = "its request expires, and anchoring it would convict this operator"


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

"""Fees of a transaction in wei per gas. They rise while there is no receipt, and as a deadline comes closer.

The tip of a transaction with a deadline is inversely proportional to the time left: 1 gwei ten minutes before the deadline, 50
gwei in the last block. A seat that misses its commitment loses far more than that.
"""

from typing import NamedTuple

TIP_WEI = 10**9
"""Tip (priority fee) far from a deadline: 1 gwei, which public builders accept at quiet times."""

HURRY_S = 600
"""Seconds before a deadline from which the tip rises: some fifty blocks."""

BLOCK_S = 12
"""Seconds between two blocks. The tip rises no further when less time is left, because no later block can be reached."""


class Fees(NamedTuple):
    """Fee cap and tip (priority fee) of a transaction, in wei per gas."""

    max_fee: int
    tip: int


def tip_at(left_s: int | None) -> int:
    """Returns the tip in wei per gas. `left_s` is the number of seconds until the deadline, or None if there is no deadline. The
    tip never falls while the deadline comes closer."""
    if left_s is None:
        return TIP_WEI
    return TIP_WEI * HURRY_S // min(max(left_s, BLOCK_S), HURRY_S)


def fees_at(base_fee_wei: int, tip_wei: int = TIP_WEI) -> Fees:
    """Returns fees that stay valid until the base fee has doubled, which takes six full blocks."""
    return Fees(2 * base_fee_wei + tip_wei, tip_wei)


def offered(base_fee_wei: int, left_s: int | None, ceiling_wei: int) -> Fees:
    """Returns the fees of a transaction's first version. Neither fee cap nor tip is above the ceiling."""
    return _under(fees_at(base_fee_wei, tip_at(left_s)), ceiling_wei)


def raised(old: Fees, base_fee_wei: int, left_s: int | None, ceiling_wei: int) -> Fees | None:
    """Returns fees with which a new version replaces the old one in every pool.

    Fee cap and tip are at least 10 % above the old ones, because geth and anvil refuse a smaller step. They are also at least the
    fees that a new transaction would get now. Returns None if the ceiling does not allow 10 % more.
    """
    fresh = fees_at(base_fee_wei, tip_at(left_s))
    least = Fees(_plus_tenth(old.max_fee), _plus_tenth(old.tip))
    new = _under(Fees(max(least.max_fee, fresh.max_fee), max(least.tip, fresh.tip)), ceiling_wei)
    return new if new.max_fee >= least.max_fee and new.tip >= least.tip else None


def outgrown(old: Fees, left_s: int | None) -> bool:
    """Returns whether the deadline is now so close that `tip_at` gives at least twice the old tip. The sender then raises the
    fees at once. Because the tip must double each time, this happens only a few times for one transaction."""
    return tip_at(left_s) >= 2 * old.tip


def _under(fees: Fees, ceiling_wei: int) -> Fees:
    highest = min(fees.max_fee, ceiling_wei)
    return Fees(highest, min(fees.tip, highest))


def _plus_tenth(value: int) -> int:
    return value + value // 10 + 1

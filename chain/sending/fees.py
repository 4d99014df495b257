"""What a transaction offers per gas, in wei, and how that rises: without a receipt, and with a deadline that comes near.

The tip of an act with a deadline is in inverse proportion to the time left: 1 gwei ten minutes before it, 50 gwei in the last
block. A seat that misses its commitment is charged far more than that.
"""

from typing import NamedTuple

TIP_WEI = 10**9
"""Priority fee without hurry: 1 gwei, what public builders accept at quiet times."""

HURRY_S = 600
"""Time before a deadline from which the tip rises: some fifty blocks."""

BLOCK_S = 12
"""Time between two blocks; less than that is not left for another try."""


class Fees(NamedTuple):
    """What a transaction offers per gas, in wei."""

    max_fee: int
    tip: int


def tip_at(left_s: int | None) -> int:
    """Tip in wei with so many seconds left; None for no deadline. Never falls as time passes."""
    if left_s is None:
        return TIP_WEI
    return TIP_WEI * HURRY_S // min(max(left_s, BLOCK_S), HURRY_S)


def fees_at(base_fee_wei: int, tip_wei: int = TIP_WEI) -> Fees:
    """Fees that stay valid while the base fee doubles: six full blocks."""
    return Fees(2 * base_fee_wei + tip_wei, tip_wei)


def offered(base_fee_wei: int, left_s: int | None, ceiling_wei: int) -> Fees:
    """Fees of a first version, neither of them above the ceiling."""
    return _under(fees_at(base_fee_wei, tip_at(left_s)), ceiling_wei)


def raised(old: Fees, base_fee_wei: int, left_s: int | None, ceiling_wei: int) -> Fees | None:
    """Fees that replace `old` in every pool: at least 10 % more of both (geth's and anvil's rule), and enough for today.

    None if the ceiling leaves no room for a tenth.
    """
    fresh = fees_at(base_fee_wei, tip_at(left_s))
    least = Fees(_plus_tenth(old.max_fee), _plus_tenth(old.tip))
    new = _under(Fees(max(least.max_fee, fresh.max_fee), max(least.tip, fresh.tip)), ceiling_wei)
    return new if new.max_fee >= least.max_fee and new.tip >= least.tip else None


def outgrown(old: Fees, left_s: int | None) -> bool:
    """Whether the deadline has come so near that twice the old tip is due: a few times in a transaction's life."""
    return tip_at(left_s) >= 2 * old.tip


def _under(fees: Fees, ceiling_wei: int) -> Fees:
    highest = min(fees.max_fee, ceiling_wei)
    return Fees(highest, min(fees.tip, highest))


def _plus_tenth(value: int) -> int:
    return value + value // 10 + 1

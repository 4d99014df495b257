"""Public draws that anyone can repeat: committee seats and light audits (design sections 9 and 10)."""

from collections.abc import Sequence

from bytewise.protocol import digests
from bytewise.protocol.digests import Label, keccak256_abi
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address, Digest


def round_seed(seed: Digest, dispute: Digest, round_number: int) -> Digest:
    """Returns the seed of one round, as `Disputes` stores it. `seed` is the result of `RandaoSource.seedOf`:
    keccak256(abi.encode(mix, chain id, number of the seed block))."""
    return keccak256_abi(("bytes32", "bytes32", "uint16"), (seed, dispute, round_number))


def draw_seats(
    seed: Digest, dispute: Digest, round_number: int, seats: int, stakes: Sequence[tuple[Address, int]]
) -> tuple[Address, ...]:
    """Returns the account that gets each seat, drawn with replacement in proportion to stake.

    `seed` is the result of `RandaoSource.seedOf`; `stakes` are the eligible verifiers in registry order, in wei. This function
    walks through all stakes, while the contract draws from its stake tree with the same chances. Raises `MalformedValue` if
    there is no stake.
    """
    total = sum(stake for _, stake in stakes)
    if total <= 0:
        raise MalformedValue("stakes", "nobody to draw")
    holders = []
    for seat in range(seats):
        kinds = ("bytes32", "bytes32", "uint16", "uint256")
        point = int.from_bytes(keccak256_abi(kinds, (seed, dispute, round_number, seat))) % total
        for holder, stake in stakes:
            if point < stake:
                holders.append(holder)
                break
            point -= stake
    return tuple(holders)


BEACON_DELAY_BLOCKS = 2
"""Number of blocks from a batch to the block whose hash draws the batch's auditors. This hash is unknown when the batch is
posted."""
BEACON_HISTORY_BLOCKS = 8_191
"""Number of newest blocks whose hashes a contract can read (EIP-2935). This is 27 hours on Ethereum, and a challenge window may
be longer. `Audits` accepts no result of a batch whose beacon is older (`BeaconExpired`)."""


def beacon_is_known(batch_block: int, head: int) -> bool:
    """Returns whether a transaction in the block after `head` can read a batch's beacon.

    `Audits` cannot check the draw without the beacon.
    """
    return 0 < head + 1 - (batch_block + BEACON_DELAY_BLOCKS) <= BEACON_HISTORY_BLOCKS


def may_audit(pool: Digest, joined_at: int, judging_pool: Digest, batch_block: int) -> bool:
    """Returns whether a verifier may audit the receipts of a batch, by the rule of `Audits.post`.

    The verifier's `pool` must be the pool that judges the batch's environment, and the verifier must have joined by the batch's
    block. A verifier that joined after the beacon is known could choose which receipts it gets to open.
    """
    return any(pool) and pool == judging_pool and joined_at <= batch_block


def seats_in_audit_draw(stake_wei: int, unit_wei: int, is_member: bool) -> int:
    """Returns a verifier's number of seats in the draw of a batch's auditors: one for each whole audit unit of stake.

    Returns 0 if `is_member`, the result of `may_audit`, is False. `stake_wei` is the stake that counted at the end of the batch's
    block. Stake that is deposited after the beacon is known therefore gives no seats.
    """
    return stake_wei // unit_wei if is_member else 0


def audit_is_drawn(beacon: Digest, receipt_id: Digest, verifier: Address, rate_bps: int, seats: int) -> bool:
    """Returns whether the verifier is drawn to audit the receipt: H(beacon, receipt, verifier) < rate × seats (design section
    10).

    `beacon` is the hash of the block that is `BEACON_DELAY_BLOCKS` after the batch. `rate_bps` is the chance per seat in
    1/10,000. `seats` is the result of `seats_in_audit_draw`.
    """
    drawn = int.from_bytes(digests.labelled(Label.AUDIT_DRAW, beacon, receipt_id, verifier.encode()))
    return drawn * 10_000 < rate_bps * seats << 256

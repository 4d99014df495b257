"""Public draws that anyone can repeat: committee seats and light audits (design sections 9 and 10)."""

from collections.abc import Sequence

from bytewise.protocol import digests
from bytewise.protocol.digests import Label, keccak256_abi
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address, Digest


def round_seed(seed: Digest, dispute: Digest, round_number: int) -> Digest:
    """The seed of one round, as `Disputes` stores it."""
    return keccak256_abi(("bytes32", "bytes32", "uint16"), (seed, dispute, round_number))


def draw_seats(
    seed: Digest, dispute: Digest, round_number: int, seats: int, stakes: Sequence[tuple[Address, int]]
) -> tuple[Address, ...]:
    """The holder of each seat, drawn with replacement in proportion to stake.

    `seed` is the beacon of the dispute's seed block; `stakes` are the eligible verifiers in registry order, in wei. This is a
    linear walk. The contract draws from its stake tree with the same chances.
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
"""The hash of the second block after a batch draws its auditors, because that hash is unknown when the batch is posted."""
BEACON_HISTORY_BLOCKS = 8_191
"""Newest blocks whose hashes a contract can read (EIP-2935): 27 hours on Ethereum, shorter than a window may be. `Audits` accepts
no result of a batch whose beacon is older (`BeaconExpired`)."""


def beacon_is_known(batch_block: int, head: int) -> bool:
    """Whether a transaction in the block after `head` can read a batch's beacon. Without it `Audits` cannot check the draw."""
    return 0 < head + 1 - (batch_block + BEACON_DELAY_BLOCKS) <= BEACON_HISTORY_BLOCKS


def may_audit(pool: Digest, joined_at: int, judging_pool: Digest, batch_block: int) -> bool:
    """Whether a verifier may audit the receipts of a batch, as `Audits.post` has it.

    Its `pool` must be the one that judges the batch's environment, and it must have joined by the batch's block: who joins after
    the beacon is known would choose which receipts it has opened.
    """
    return any(pool) and pool == judging_pool and joined_at <= batch_block


def seats_in_audit_draw(stake_wei: int, unit_wei: int, is_member: bool) -> int:
    """Seats of a verifier in the draw of a batch's auditors: one for each whole audit unit of stake, 0 outside the pool.

    `stake_wei` is the stake that counted at the end of the batch's block: an account that pays in after the beacon is known has
    no seats. `is_member` is the answer of `may_audit`.
    """
    return stake_wei // unit_wei if is_member else 0


def audit_is_drawn(beacon: Digest, receipt_id: Digest, verifier: Address, rate_bps: int, seats: int) -> bool:
    """Whether the verifier audits the receipt: H(beacon, receipt, verifier) < rate × seats (design section 10).

    `beacon` is the hash of block `BEACON_DELAY_BLOCKS` after the batch, `rate_bps` the chance per seat in 1/10,000, `seats` are
    those of `seats_in_audit_draw`.
    """
    drawn = int.from_bytes(digests.labelled(Label.AUDIT_DRAW, beacon, receipt_id, verifier.encode()))
    return drawn * 10_000 < rate_bps * seats << 256

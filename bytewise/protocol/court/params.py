"""Parameters of the contracts, in versions that never change (`Types.sol`, `IParams`), and the amounts that follow from them.

Names are those of `Types.sol` in snake case. Durations are seconds of the protocol clock, amounts are wei, shares are 1/10,000.
"""

from dataclasses import dataclass

from bytewise.protocol.errors.records import MalformedValue

BPS = 10_000
"""Shares are given as parts of this number: basis points."""

MAX_REARMS = 3
"""Number of times that the lost seed of one round is replaced. If a seed is lost once more, the dispute ends with its earlier
verdict, or with DRAW if it has none."""


@dataclass(frozen=True, slots=True)
class Durations:
    """All durations, in seconds of the protocol clock."""

    window: int
    """Challenge window: the time after anchoring in which a receipt can be disputed."""
    max_anchor_delay: int
    """Time in which an operator must anchor a receipt after a demand. Batches are also accepted for this time after their key
    epoch, environment, model, pool or operator was closed."""
    cure: int
    """Time in which an operator must answer an availability demand."""
    seed_time: int
    """Longest time for announcing, mining and proving a seed."""
    draw_time: int
    """Longest time for drawing the committee."""
    commit_time: int
    """Length of the commit phase."""
    reveal_time: int
    """Length of the reveal phase."""
    appeal_time: int
    """Time in which a verdict can be appealed."""
    rerun_time: int
    """Longest time for all reruns of a dispute together."""
    airgap: int
    """Time between the last verdict and the first movement of money."""
    max_pause: int
    """Longest pause of the protocol clock."""
    execution_bound: int
    """Longest time for fetching the envelope, getting the key and the slowest sequential execution."""
    unbond_delay: int
    """Time between a request to withdraw stake and its payment."""
    da_retention: int
    """Time for which the DA layer keeps bytes."""
    da_margin: int
    """Part of `da_retention` that is a reserve: no deadline uses it."""
    key_retention: int
    """Time for which shards keep the key of an epoch after the epoch began to drain."""
    withdraw_delay: int
    """Time between a credit and its payment."""
    breaker_time: int
    """Period in which the breaker counts convictions of one environment."""


@dataclass(frozen=True, slots=True)
class Committee:
    """Size of the committees and conditions of a verdict."""

    seats: tuple[int, int, int]
    """Number of seats of each level: odd and growing, 0 beyond `rounds`."""
    rounds: int
    """Number of levels, 1 to 3."""
    max_reruns: int
    """Number of reruns that one dispute may have. A round that ends without a key is run again."""
    breaker_operators: int
    """The breaker trips when more operators than this are convicted in one environment within `breaker_time`."""
    tau_num: int
    """Numerator of the quorum τ, as a fraction of the seats."""
    tau_den: int
    """Denominator of the quorum τ."""
    min_pool: int
    """Number of verifiers with weight that a pool needs before batches of its environments are accepted."""
    certify_bps: int
    """Share of a pool's stake units. Verifiers with at least this share must have reproduced an environment or model before it is
    accepted."""


@dataclass(frozen=True, slots=True)
class Money:
    """All amounts, in wei."""

    fee_per_seat: int
    """Pay of a seat that voted with the final verdict."""
    privacy_price: int
    """Part of a dispute's bond that pays for opening a receipt, whatever the verdict."""
    slash_amount: int
    """Stake that a convicted operator loses."""
    absent_penalty: int
    """Penalty of a seat that did not commit, that could not execute the request, or that reported no key although a later
    committee got one."""
    no_reveal_penalty: int
    """Penalty of a seat that committed but did not reveal. If the round has a commit root, every drawn seat counts as
    committed."""
    wrong_penalty: int
    """Penalty of a seat that voted against the final verdict, or for it with another round digest than its largest group."""
    min_operator_stake: int
    """Stake that an operator needs to post batches."""
    min_verifier_stake: int
    """Stake that a verifier needs to have weight."""
    receipt_collateral: int
    """Stake that is locked for each open receipt."""
    withheld_penalty: int
    """Penalty for each receipt of a batch whose list was demanded and not shown; for the whole batch at least `slash_amount`."""
    unanchored_penalty: int
    """Penalty for an issued receipt whose anchoring was demanded and did not happen, or whose number was skipped."""
    demand_bond: int
    """Bond of an availability demand."""
    audit_unit: int
    """Stake of one seat in the light-audit draw."""
    bounty: int
    """Bounty of one light audit that another verifier confirms."""


@dataclass(frozen=True, slots=True)
class RewardShares:
    """Shares of rewards, and limits of audits and batches."""

    alpha_bps: int
    """Share of a slash that goes to a challenger whose alternative answer won."""
    beta_bps: int
    """Share of a slash that goes to the seats that voted with the verdict."""
    operator_share_bps: int
    """Share of lost bonds, after fees, that goes to the operator."""
    audit_rate_bps: int
    """Chance per audit seat that a receipt is audited."""
    audits_per_hour: int
    """Bounties that one verifier can claim per hour."""
    max_batch: int
    """Largest number of receipts in one batch."""


@dataclass(frozen=True, slots=True)
class ParamSet:
    """One version of all parameters."""

    times: Durations
    """All durations."""
    committee: Committee
    """Size of the committees and conditions of a verdict."""
    money: Money
    """All amounts of money."""
    shares: RewardShares
    """Shares of rewards, and limits."""

    def seats(self, level: int) -> int:
        """Returns the number of seats of a level. Levels are counted from 1."""
        return self.committee.seats[level - 1]

    def quorum(self, seats: int) -> int:
        """Returns the number of seats that a verdict needs: ceil(seats · τ)."""
        return -(-seats * self.committee.tau_num // self.committee.tau_den)

    @property
    def required_bond(self) -> int:
        """Bond that opens a dispute, in wei: the fees of the first round plus the privacy price."""
        return self.seats(1) * self.money.fee_per_seat + self.money.privacy_price

    def appeal_bond(self, level: int) -> int:
        """Returns the bond of an appeal to `level`, in wei: twice the fees of that level."""
        return 2 * self.seats(level) * self.money.fee_per_seat

    @property
    def longest_dispute(self) -> int:
        """Longest time in seconds from the issue of a receipt to the end of its last possible dispute (design section 9).

        `cure` counts twice, because first the list may be demanded, and then an envelope of the list.
        """
        t = self.times
        one = t.seed_time + t.draw_time + t.commit_time + t.reveal_time + t.appeal_time
        before = t.max_anchor_delay + t.window + 2 * t.cure
        return before + self.committee.rounds * one + t.rerun_time + t.airgap + t.max_pause


CAPACITY = 7**5
"""Number of leaves of a stake tree."""


@dataclass(frozen=True, slots=True)
class TreeShape:
    """Parameters with which a stake tree is deployed. A verifier's weight in draws is its stake in whole units of `unit_wei`.

    Raises `MalformedValue` if the units of a full tree could exceed 32 bits, or if a seed could be foreseen while stake still
    moves.
    """

    epoch_blocks: int
    """Length of a stake epoch in blocks."""
    lookahead_blocks: int
    """Number of blocks at the start of an epoch whose beacons are not used as seeds in that epoch."""
    unit_wei: int
    """Stake of one unit of weight, in wei."""
    max_units: int
    """Most units that one account can have."""

    def __post_init__(self) -> None:
        foreseen = not 1 <= self.lookahead_blocks < self.epoch_blocks
        if foreseen or self.unit_wei < 1 or not 1 <= self.max_units <= (2**32 - 1) // CAPACITY:
            raise MalformedValue("tree shape", str(self))

    def epoch(self, block: int) -> int:
        """Returns the stake epoch of a block. The first epoch is 1."""
        return block // self.epoch_blocks + 1

    def epoch_of_seed(self, block: int) -> int:
        """Returns the stake epoch in which a draw may use the mix of this block as its seed. This is the epoch of the block.

        Raises `MalformedValue` if the block is among the first `lookahead_blocks` of its epoch.
        """
        if block % self.epoch_blocks < self.lookahead_blocks:
            raise MalformedValue("seed block", f"{block} is not {self.lookahead_blocks} blocks into its epoch")
        return self.epoch(block)

    def seed_block_from(self, earliest: int) -> int:
        """Returns the first block at or after `earliest` that satisfies two conditions: it can be a seed block, and it is in the
        first half of its epoch's seed blocks.

        The later blocks of the epoch remain for the draw, which must end before the epoch does.
        """
        first = earliest // self.epoch_blocks * self.epoch_blocks + self.lookahead_blocks
        spare = (self.epoch_blocks - self.lookahead_blocks - 1) // 2
        return max(earliest, first) if earliest <= first + spare else first + self.epoch_blocks

    def units(self, stake_wei: int) -> int:
        """Returns the number of whole units in a stake, at most `max_units`."""
        return min(stake_wei // self.unit_wei, self.max_units)

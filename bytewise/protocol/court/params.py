"""Parameters of the contracts in versions that never change (`Types.sol`, `IParams`), and the amounts that follow from them.

Names are those of `Types.sol` in snake case. Durations are seconds of the protocol clock, amounts wei, shares 1/10,000.
"""

from dataclasses import dataclass

from bytewise.protocol.errors.records import MalformedValue

BPS = 10_000
"""Shares are counted in parts of this."""

MAX_REARMS = 3
"""How often the seed of one round may be lost before the dispute ends without a draw."""


@dataclass(frozen=True, slots=True)
class Durations:
    """All durations."""

    window: int
    """Challenge window: how long a receipt can be disputed after it was anchored."""
    max_anchor_delay: int
    """How long an operator may take to anchor a receipt, after the end of an epoch's inclusion or after a demand."""
    cure: int
    """How long an operator may take to answer an availability demand."""
    seed_time: int
    """Bound for announcing, mining and proving a seed."""
    draw_time: int
    """Bound for drawing the committee."""
    commit_time: int
    """Length of the commit phase."""
    reveal_time: int
    """Length of the reveal phase."""
    appeal_time: int
    """How long a verdict can be appealed."""
    rerun_time: int
    """Bound for all reruns of a dispute together."""
    airgap: int
    """Time between the last verdict and the first movement of money."""
    max_pause: int
    """Longest pause."""
    execution_bound: int
    """Bound for fetching the envelope, getting the key and the slowest sequential execution."""
    unbond_delay: int
    """Time between a request to withdraw stake and its payment."""
    da_retention: int
    """How long the DA layer keeps bytes."""
    da_margin: int
    """Part of `da_retention` that is kept as a reserve: no deadline uses it."""
    key_retention: int
    """How long shards keep the key of an epoch."""
    withdraw_delay: int
    """Time between a credit and its payment."""
    breaker_time: int
    """Period over which the breaker counts convictions of one environment."""


@dataclass(frozen=True, slots=True)
class Committee:
    """Size of the committees and what a verdict needs."""

    seats: tuple[int, int, int]
    """Seats of each level: odd and growing, 0 beyond `rounds`."""
    rounds: int
    """Number of levels, 1 to 3."""
    max_reruns: int
    """How many rounds that ended without a key are run again."""
    breaker_operators: int
    """Convictions of more operators than this trip the breaker."""
    tau_num: int
    """Quorum numerator."""
    tau_den: int
    """Quorum denominator."""
    min_pool: int
    """Verifiers with weight that a pool needs before batches of its environments are accepted."""
    certify_bps: int
    """Share of a pool's units that must have reproduced an environment or model before it is accepted."""


@dataclass(frozen=True, slots=True)
class Money:
    """All amounts, in wei."""

    fee_per_seat: int
    """Pay of a seat that voted with the final verdict."""
    privacy_price: int
    """Price of opening a receipt, whatever the verdict."""
    slash_amount: int
    """Stake that a convicted operator loses."""
    absent_penalty: int
    """Penalty of a seat that did not commit or could not execute."""
    no_reveal_penalty: int
    """Penalty of a seat that committed and did not reveal."""
    wrong_penalty: int
    """Penalty of a seat that voted against the final verdict."""
    min_operator_stake: int
    """Stake that an operator needs to post batches."""
    min_verifier_stake: int
    """Stake that a verifier needs to have weight."""
    receipt_collateral: int
    """Stake that one open receipt locks."""
    withheld_penalty: int
    """Penalty per receipt of a batch whose demanded list was not answered."""
    unanchored_penalty: int
    """Penalty for an issued receipt that was demanded and not anchored."""
    demand_bond: int
    """Bond of a demand."""
    audit_unit: int
    """Stake of one seat in the light-audit draw."""
    bounty: int
    """Bounty of one light audit that another verifier confirms."""


@dataclass(frozen=True, slots=True)
class RewardShares:
    """Shares and limits."""

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
    """Durations."""
    committee: Committee
    """Size of the committees and what a verdict needs."""
    money: Money
    """Amounts."""
    shares: RewardShares
    """Shares and limits."""

    def seats(self, level: int) -> int:
        """Seats of a level, counted from 1."""
        return self.committee.seats[level - 1]

    def quorum(self, seats: int) -> int:
        """Seats that make a verdict: ceil(seats · τ)."""
        return -(-seats * self.committee.tau_num // self.committee.tau_den)

    @property
    def required_bond(self) -> int:
        """Bond that opens a dispute: the fees of the first round plus the privacy price."""
        return self.seats(1) * self.money.fee_per_seat + self.money.privacy_price

    def appeal_bond(self, level: int) -> int:
        """Bond of an appeal to `level`: twice the fees of that level."""
        return 2 * self.seats(level) * self.money.fee_per_seat

    @property
    def longest_dispute(self) -> int:
        """Longest time in seconds from the issue of a receipt to the end of its last possible dispute (design section 9).

        `cure` counts twice: first the list may be demanded, and then an envelope of it.
        """
        t = self.times
        one = t.seed_time + t.draw_time + t.commit_time + t.reveal_time + t.appeal_time
        before = t.max_anchor_delay + t.window + 2 * t.cure
        return before + self.committee.rounds * one + t.rerun_time + t.airgap + t.max_pause


CAPACITY = 7**5
"""Number of leaves of a stake tree."""


@dataclass(frozen=True, slots=True)
class TreeShape:
    """Shape with which a stake tree is deployed.

    `MalformedValue` if the units of a full tree would not fit 32 bits, or if a seed could be foreseen while stake still moves.
    """

    epoch_blocks: int
    """Length of a stake epoch in blocks."""
    lookahead_blocks: int
    """Number of blocks at the start of an epoch whose beacons are no seeds of that epoch."""
    unit_wei: int
    """Stake of one unit, in wei."""
    max_units: int
    """Cap on the units of one account."""

    def __post_init__(self) -> None:
        foreseen = not 1 <= self.lookahead_blocks < self.epoch_blocks
        if foreseen or self.unit_wei < 1 or not 1 <= self.max_units <= (2**32 - 1) // CAPACITY:
            raise MalformedValue("tree shape", str(self))

    def epoch(self, block: int) -> int:
        """The epoch of a block; the first is 1."""
        return block // self.epoch_blocks + 1

    def epoch_of_seed(self, block: int) -> int:
        """The epoch in which the beacon of a block draws. `MalformedValue` if the block is among the first blocks of an epoch."""
        if block % self.epoch_blocks < self.lookahead_blocks:
            raise MalformedValue("seed block", f"{block} is not {self.lookahead_blocks} blocks into its epoch")
        return self.epoch(block)

    def seed_block_from(self, earliest: int) -> int:
        """The first seed block at or after `earliest` that leaves half of its epoch's seed blocks for the draw."""
        first = earliest // self.epoch_blocks * self.epoch_blocks + self.lookahead_blocks
        spare = (self.epoch_blocks - self.lookahead_blocks - 1) // 2
        return max(earliest, first) if earliest <= first + spare else first + self.epoch_blocks

    def units(self, stake_wei: int) -> int:
        """Units of a stake, rounded down and capped."""
        return min(stake_wei // self.unit_wei, self.max_units)

"""Parameters of the contracts, in versions that never change (`Types.sol`, `IParams`), and what follows from them.

Names are those of `Types.sol` in snake case; durations are seconds of the protocol clock, amounts wei, shares 1/10,000.
"""

from dataclasses import dataclass

from bytewise.protocol.errors.records import MalformedValue

BPS = 10_000
"""The whole, where shares are counted."""

MAX_REARMS = 3
"""Seeds of one round that may be lost before the dispute ends undrawn."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Every duration."""

    window: int
    """To question a receipt, from its anchoring."""
    max_anchor_delay: int
    """From the end of an epoch's inclusion, and from a demand, to anchoring."""
    cure: int
    """To answer an availability demand."""
    seed_time: int
    """Bound for a seed to be announced, mined and proven."""
    draw_time: int
    """Bound for the draw."""
    commit_time: int
    """Length of the commit phase."""
    reveal_time: int
    """Length of the reveal phase."""
    appeal_time: int
    """To appeal a verdict."""
    rerun_time: int
    """Bound for all reruns of a dispute together."""
    airgap: int
    """From a last verdict to the first movement of money."""
    max_pause: int
    """Longest pause."""
    execution_bound: int
    """Fetch, key and slowest sequential execution."""
    unbond_delay: int
    """From a request to leave to the payment of the stake."""
    da_retention: int
    """How long DA keeps bytes."""
    da_margin: int
    """How much of that is not relied on."""
    key_retention: int
    """How long shards keep an epoch's key."""
    withdraw_delay: int
    """From a credit to its payment."""
    breaker_time: int
    """Over which convictions of one environment are counted together."""


@dataclass(frozen=True, slots=True)
class Committee:
    """Who judges."""

    seats: tuple[int, int, int]
    """Of each level; odd, growing; 0 beyond `rounds`."""
    rounds: int
    """Levels: 1 to 3."""
    max_reruns: int
    """Of rounds that had no key."""
    breaker_operators: int
    """Convictions of more operators than this trip the breaker."""
    tau_num: int
    """Quorum numerator."""
    tau_den: int
    """Quorum denominator."""
    min_pool: int
    """Verifiers with weight without which a pool takes no batch."""
    certify_bps: int
    """Share of a pool's units that must have reproduced an environment or model."""


@dataclass(frozen=True, slots=True)
class Money:
    """Amounts."""

    fee_per_seat: int
    """Pay of a right seat."""
    privacy_price: int
    """Opening a receipt has a price, whatever the verdict."""
    slash_amount: int
    """What a convicted operator loses."""
    absent_penalty: int
    """Of a seat that did not commit or could not execute."""
    no_reveal_penalty: int
    """Of a seat that committed only."""
    wrong_penalty: int
    """Of a seat that said something else than the final verdict."""
    min_operator_stake: int
    """Stake without which an operator posts nothing."""
    min_verifier_stake: int
    """Stake without which a verifier weighs nothing."""
    receipt_collateral: int
    """Stake that one open receipt binds."""
    withheld_penalty: int
    """Per receipt of a batch whose list was demanded in vain."""
    unanchored_penalty: int
    """For a receipt that was given out and not anchored when demanded."""
    demand_bond: int
    """Bond of a demand."""
    audit_unit: int
    """Stake of one seat of the light-audit draw."""
    bounty: int
    """For one agreeing light audit."""


@dataclass(frozen=True, slots=True)
class RewardShares:
    """Shares and counts."""

    alpha_bps: int
    """Of a slash, to a challenger whose other answer won."""
    beta_bps: int
    """Of a slash, to the right seats."""
    operator_share_bps: int
    """Of what lost bonds leave after fees, to the operator."""
    audit_rate_bps: int
    """Light-audit chance per audit seat."""
    audits_per_hour: int
    """Bounties of one verifier."""
    max_batch: int
    """Most receipts of one batch."""


@dataclass(frozen=True, slots=True)
class ParamSet:
    """One version of all parameters."""

    times: Durations
    """Durations."""
    committee: Committee
    """Who judges."""
    money: Money
    """Amounts."""
    shares: RewardShares
    """Shares and counts."""

    def seats(self, level: int) -> int:
        """Seats of a level, counted from 1."""
        return self.committee.seats[level - 1]

    def quorum(self, seats: int) -> int:
        """Seats that make a verdict: ceil(seats · τ)."""
        return -(-seats * self.committee.tau_num // self.committee.tau_den)

    @property
    def required_bond(self) -> int:
        """Bond that opens a dispute: the fees of the first round and the privacy price."""
        return self.seats(1) * self.money.fee_per_seat + self.money.privacy_price

    def appeal_bond(self, level: int) -> int:
        """Bond that asks for `level`: twice its fees."""
        return 2 * self.seats(level) * self.money.fee_per_seat

    @property
    def longest_dispute(self) -> int:
        """Seconds from the issue of a receipt to the end of its last possible dispute: the static law of design section 9.

        `cure` counts twice: a list may be demanded, and then an envelope of it.
        """
        t = self.times
        one = t.seed_time + t.draw_time + t.commit_time + t.reveal_time + t.appeal_time
        before = t.max_anchor_delay + t.window + 2 * t.cure
        return before + self.committee.rounds * one + t.rerun_time + t.airgap + t.max_pause


CAPACITY = 7**5
"""Places of a stake tree."""


@dataclass(frozen=True, slots=True)
class TreeShape:
    """What a tree is deployed with; `MalformedValue` where a full tree of the heaviest accounts would not fit 32 bits,
    or where seeds could be foreseen while stake still moves."""

    epoch_blocks: int
    """Blocks of an epoch."""
    lookahead_blocks: int
    """First blocks of an epoch whose beacons are no seeds of it."""
    unit_wei: int
    """Stake of one unit."""
    max_units: int
    """Most units of one account."""

    def __post_init__(self) -> None:
        foreseen = not 1 <= self.lookahead_blocks < self.epoch_blocks
        if foreseen or self.unit_wei < 1 or not 1 <= self.max_units <= (2**32 - 1) // CAPACITY:
            raise MalformedValue("tree shape", str(self))

    def epoch(self, block: int) -> int:
        """The epoch of a block; the first is 1."""
        return block // self.epoch_blocks + 1

    def epoch_of_seed(self, block: int) -> int:
        """The epoch that the beacon of a block draws in; `MalformedValue` in the first blocks of an epoch."""
        if block % self.epoch_blocks < self.lookahead_blocks:
            raise MalformedValue("seed block", f"{block} is not {self.lookahead_blocks} blocks into its epoch")
        return self.epoch(block)

    def seed_block_from(self, earliest: int) -> int:
        """The first block from `earliest` on that is a seed block and leaves half of its epoch's seed blocks for the draw."""
        first = earliest // self.epoch_blocks * self.epoch_blocks + self.lookahead_blocks
        spare = (self.epoch_blocks - self.lookahead_blocks - 1) // 2
        return max(earliest, first) if earliest <= first + spare else first + self.epoch_blocks

    def units(self, stake_wei: int) -> int:
        """Units that a stake is worth: rounded down, capped."""
        return min(stake_wei // self.unit_wei, self.max_units)

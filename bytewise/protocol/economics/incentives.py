"""Computes what fraud, attacks and watching pay. Amounts are wei, chances are in [0, 1].

Deterrence compares the gain with the expected slash for one receipt (design section 12: π* = G / (G + S_eff)). A positive margin
means that one rational operator loses by one fraud at these prices. It proves nothing about an operator that has other reasons.
"""

import math
from dataclasses import dataclass

from bytewise.protocol.court.params import BPS, ParamSet
from bytewise.protocol.court.settlement import Pot, split
from bytewise.protocol.economics.chances import levels_of
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Verdict

YEAR_S = 365 * 86_400

GAS = {
    "open": 290_779,
    "draw_31_of_1000": 423_053,
    "commit": 100_862,
    "reveal": 127_409,
    "finalize_and_settle_seats_31_direct": 773_782,
    "answer_list_188_leaves": 4_948_001,
    "audit_post": 213_090,
    "audit_open": 127_908,
    "audit_claim": 231_111,
}
"""Measured gas of single steps (`bench/results/gas.json`, which a test compares)."""
GAS_OF_SEAT = (
    GAS["commit"] + GAS["reveal"] + (GAS["draw_31_of_1000"] + GAS["finalize_and_settle_seats_31_direct"]) / 31
)  # fmt: skip
"""Gas of one seat in one round, if each seat belongs to another member."""
GAS_OF_AUDIT = GAS["audit_post"] + GAS["audit_open"] + GAS["audit_claim"]
"""Gas of one paid light audit."""


def effective_slash(slash: float, alpha_bps: int, beta_bps: int, own_challenger: float, own_seats: float) -> float:
    """Returns S_eff = S · (1 - α·a - β·h): the part of a slash that does not come back to the operator.

    `own_challenger` (a) is the chance that the operator's own challenger wins α. `own_seats` (h) is the operator's share of the
    seats that are right.
    """
    alpha, beta = alpha_bps / BPS, beta_bps / BPS
    return slash * (1 - alpha * own_challenger - beta * own_seats)


def punished_chance(client: float, audits: float, convicted: float) -> float:
    """Returns π = (1 - (1 - q)(1 - P₂)) · c: the chance that somebody disputes a fraud and a committee convicts it. The client
    disputes it, or audits make a watchtower dispute it."""
    return (1 - (1 - client) * (1 - audits)) * convicted


def break_even_chance(gain: float, loss: float) -> float:
    """Returns π* = G / (G + S_eff). Fraud pays if the chance of punishment is below it. Returns 0 if there is no gain."""
    return gain / (gain + loss) if gain > 0 else 0.0


def margin(chance: float, gain: float, loss: float) -> float:
    """Returns D = π · S_eff - (1 - π) · G: the expected loss by one fraud. If it is negative, fraud pays."""
    return chance * loss - (1 - chance) * gain


def largest_gain(chance: float, loss: float) -> float:
    """Returns G_max = S_eff · π / (1 - π): the gain at which the margin is 0. It is infinite if π is 1 and S_eff is not 0."""
    if chance < 1:
        return loss * chance / (1 - chance)
    return math.inf if loss > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Deterrence:
    """All figures about the deterrence of fraud with one receipt."""

    client: float
    """q: chance that the client disputes a fraud."""
    audits: float
    """P₂: chance that audits make a watchtower dispute a fraud."""
    convicted: float
    """c: chance that a disputed fraud is convicted."""
    punished: float
    """π: chance that a fraud is disputed and convicted."""
    loss: float
    """S_eff: part of a slash that does not come back to the operator, in wei."""
    gain: float
    """G: gain by one fraud, in wei."""
    break_even: float
    """π*: chance of punishment below which fraud pays."""
    margin: float
    """D: expected loss by one fraud, in wei."""
    largest_gain: float
    """G_max: gain at which the margin is 0, in wei; may be infinite."""


def deterrence(client: float, audits: float, convicted: float, loss: float, gain: float) -> Deterrence:
    """Returns all figures of deterrence for these chances and amounts.

    Raises `MalformedValue` for a chance outside [0, 1], or an amount that is negative or infinite.
    """
    chances = (client, audits, convicted)
    if not all(0 <= each <= 1 for each in chances) or not all(0 <= each < math.inf for each in (loss, gain)):
        raise MalformedValue("deterrence", f"chances {chances}, loss {loss}, gain {gain}")
    punished = punished_chance(client, audits, convicted)
    return Deterrence(
        client, audits, convicted, punished, loss, gain, break_even_chance(gain, loss), margin(punished, gain, loss),
        largest_gain(punished, loss),
    )  # fmt: skip


# --- attacks ---


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices that no parameter sets. The reader assumes them."""

    gas: float
    """Price of one unit of gas, in wei."""
    work: float
    """Price of one re-execution in an enclave, in wei."""
    interest: float
    """Yield that locked capital would earn elsewhere, per year (0.05 is 5 %)."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack that costs other people money and time."""

    name: str
    """Short description of the attacker's act."""
    attacker: float
    """Loss of the attacker, in wei."""
    others: float
    """Loss of others that nobody repays, in wei."""

    @property
    def ratio(self) -> float:
        """R: loss of the attacker divided by the loss of others. Infinite if others lose nothing."""
        if self.others > 0:
            return self.attacker / self.others
        return math.inf if self.attacker > 0 else 0.0


def capital_cost(amount: float, interest: float, seconds: float) -> float:
    """Returns the cost of locked capital: amount x yield x time. `interest` is per year, `seconds` is the time."""
    return amount * interest * seconds / YEAR_S


def unpaid(cost: float, pay: float) -> float:
    """Returns the part of a cost that a payment does not cover."""
    return max(0.0, cost - pay)


def frivolous_dispute(p: ParamSet, prices: Prices) -> Attack:
    """Returns the losses if somebody disputes a true receipt. The first committee upholds it, and the bond is lost."""
    seats, t = p.seats(1), p.times
    parts = split(Verdict.UPHELD, Pot(p.required_bond, 0, 0, 0, seats, False, False), p)
    seconds = t.seed_time + t.draw_time + t.commit_time + t.reveal_time + t.appeal_time + t.airgap
    committee = unpaid(seats * (prices.work + GAS_OF_SEAT * prices.gas), seats * parts.per_seat)
    operator = unpaid(capital_cost(p.money.slash_amount, prices.interest, seconds), parts.to_operator)
    return Attack("a frivolous dispute", p.required_bond + GAS["open"] * prices.gas, committee + operator)


def stall_to_draw(p: ParamSet, prices: Prices) -> Attack:
    """Returns the losses if hostile seats are silent until the dispute ends without a verdict. The honest seats of every round
    work unpaid.

    The number of hostile seats is the least that keeps the honest seats one short of a quorum.
    """
    t, levels = p.times, levels_of(p)
    honest = sum(level.quorum - 1 for level in levels)
    one = t.seed_time + t.draw_time + t.commit_time + t.reveal_time
    seconds = len(levels) * one + t.airgap
    advanced = sum(level.seats for level in levels[1:]) * p.money.fee_per_seat
    capital = capital_cost(p.money.slash_amount + advanced, prices.interest, seconds)
    burned = min(p.money.fee_per_seat, p.required_bond)
    return Attack(
        "stalling to a draw", burned + GAS["open"] * prices.gas, honest * (prices.work + GAS_OF_SEAT * prices.gas) + capital
    )


def needless_demand(p: ParamSet, prices: Prices) -> Attack:
    """Returns the losses if somebody demands a whole list that DA serves. The operator answers and gets the bond."""
    bond = p.money.demand_bond * p.shares.max_batch
    locked = capital_cost(p.money.receipt_collateral * p.shares.max_batch, prices.interest, p.times.cure)
    return Attack("a needless demand", bond, unpaid(GAS["answer_list_188_leaves"] * prices.gas + locked, bond))


def withheld_list(p: ParamSet, prices: Prices) -> Attack:
    """Returns the losses if an operator does not show the list of a full batch, so that the demand for it expires.

    The demander gets its bond back, and the share α of the penalty.
    """
    penalty = max(p.money.withheld_penalty * p.shares.max_batch, p.money.slash_amount)
    bond = p.money.demand_bond * p.shares.max_batch
    locked = capital_cost(bond, prices.interest, p.times.cure)
    return Attack("a withheld list", penalty, unpaid(locked, penalty * p.shares.alpha_bps / BPS))


def unanchored_receipt(p: ParamSet, prices: Prices) -> Attack:
    """Returns the losses if an operator never anchors a receipt that it gave to a client. The demand to anchor it expires."""
    penalty = p.money.unanchored_penalty
    locked = capital_cost(p.money.demand_bond, prices.interest, p.times.max_anchor_delay)
    return Attack("a receipt that is never anchored", penalty, unpaid(locked, penalty * p.shares.alpha_bps / BPS))


def attacks(p: ParamSet, prices: Prices) -> tuple[Attack, ...]:
    """Returns the losses of all attacks. The gas of making a demand is not measured and is left out."""
    kinds = (frivolous_dispute, stall_to_draw, needless_demand, withheld_list, unanchored_receipt)
    return tuple(kind(p, prices) for kind in kinds)


# --- watchtower ---


@dataclass(frozen=True, slots=True)
class WatchtowerTerms:
    """Chances, work and costs of one watchtower that also audits."""

    drawn: float
    """Chance that the watchtower is drawn to audit a receipt."""
    agreed: float
    """Chance that another auditor of the receipt confirms the result."""
    receipts: float
    """Number of receipts per month."""
    share: float
    """Share of the frauds that the watchtower is the first to dispute, knowing the right answer."""
    fixed: float
    """Fixed cost per month, in wei."""


def watchtower_profit(p: ParamSet, prices: Prices, tower: WatchtowerTerms, fraud: float, convicted: float) -> float:
    """Returns the profit per month in wei. `fraud` is the share f of false receipts; `convicted` is c.

    receipts · (drawn · (bounty · agreed - cost) + f · share · (α · S · c - bond · yield · time - gas)) - fixed. The profit must
    not be negative at f = 0: without a reward for checking nobody checks, and then fraud pays (arXiv 2308.02880).
    """
    audit = tower.drawn * (p.money.bounty * tower.agreed - prices.work - GAS_OF_AUDIT * prices.gas)
    reward = p.shares.alpha_bps / BPS * p.money.slash_amount * convicted
    bond = capital_cost(p.required_bond, prices.interest, p.longest_dispute)
    dispute = tower.share * (reward - bond - GAS["open"] * prices.gas)
    return tower.receipts * (audit + fraud * dispute) - tower.fixed


# --- a month's money ---


@dataclass(frozen=True, slots=True)
class MoneyFlows:
    """Expected wei per month."""

    slashed: float
    """Stake that operators lose."""
    challengers: float
    """Rewards α of challengers."""
    seats: float
    """Pay of committee members."""
    operators: float
    """Shares of lost bonds that operators get."""
    bounties: float
    """Bounties of light audits, paid from the bounty pool."""
    burned: float
    """Money that is burned."""


def money_flows(p: ParamSet, convictions: float, upheld: float, audits: float) -> MoneyFlows:
    """Returns the flows of a month with these numbers of convictions, lost disputes and paid audits.

    Assumes that each dispute ends in its first round with all seats right, and that the challenger of a conviction knew the
    answer.
    """
    seats = p.seats(1)
    guilty = Pot(p.required_bond, 0, 0, p.money.slash_amount, seats, False, True)
    right = Pot(p.required_bond, 0, 0, 0, seats, False, False)
    lost, won = split(Verdict.OVERTURNED, guilty, p), split(Verdict.UPHELD, right, p)
    paid = (lost.bond_back + lost.alpha + lost.per_seat * seats, won.to_operator + won.per_seat * seats)
    return MoneyFlows(
        slashed=convictions * guilty.slashed, challengers=convictions * lost.alpha,
        seats=seats * (convictions * lost.per_seat + upheld * won.per_seat), operators=upheld * won.to_operator,
        bounties=audits * p.money.bounty,
        burned=convictions * (guilty.total - paid[0]) + upheld * (right.total - paid[1]),
    )  # fmt: skip

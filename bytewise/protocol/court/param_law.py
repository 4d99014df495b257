"""Checks a set of parameters against the bounds and rules of `ParamLaw.sol` (design section 9), so that people can judge a
proposal.

The contract refuses a set at the first violation. This module lists further violations, too, in the contract's order.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bytewise.protocol.court.params import BPS, Committee, Durations, Money, ParamSet, RewardShares
from bytewise.protocol.court.settlement import MAX_REWARD_BPS

HOUR, DAY = 3_600, 86_400
_ETHER = 10**18
_MAX_OPERATOR_SHARE_BPS = 5_000
_MAX_WINDOW = 14 * DAY
_MIN_WINDOW = HOUR
_MIN_STEP = 600
_MAX_PAUSE = 3 * DAY
_MAX_UNBOND_DELAY = 30 * DAY
_MAX_WITHDRAW_DELAY = 30 * DAY
_MAX_BREAKER_TIME = 90 * DAY
_MAX_ROUNDS = 3
_MAX_RERUNS = 7
_MIN_SEATS = 3
MAX_SEATS = 255
_MAX_POOL = 10_000
_DEMANDS_IN_A_SLASH = 10
_BOUNTIES_IN_A_SLASH = 100
_MAX_AUDITS_PER_HOUR = 3_600
_MAX_OPERATOR_STAKE = 1_000_000 * _ETHER
_MAX_BATCH = 188

U8_MAX, U16_MAX, U32_MAX, U96_MAX = (2**bits - 1 for bits in (8, 16, 32, 96))
LARGEST = {
    **dict.fromkeys(Durations.__dataclass_fields__, U32_MAX),
    **dict.fromkeys(Committee.__dataclass_fields__, U16_MAX),
    **dict.fromkeys(("rounds", "max_reruns", "breaker_operators"), U8_MAX),
    **dict.fromkeys(Money.__dataclass_fields__, U96_MAX),
    **dict.fromkeys(RewardShares.__dataclass_fields__, U16_MAX),
    "max_batch": U32_MAX,
}
"""Largest number that the contract's type of each parameter can contain (`Types.sol`)."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that a set of parameters violates."""

    key: str
    """Name of the rule in the contract's error."""
    words: str
    """Description of the violation, with the bounds."""
    is_static_law: bool = False
    """Whether the contract's error is `StaticLawBroken`, for a relation between times. Otherwise it is `ParamOutOfBounds`."""


@dataclass(frozen=True, slots=True)
class TimeSegment:
    """A named length of time: a part of the longest dispute, or the period for which stake, data or keys are kept."""

    name: str
    """Name of the parameter."""
    seconds: int
    """Total length in seconds of all occurrences."""
    count: int
    """Number of times that the part occurs."""


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """The rule about times: stake, data and keys must be kept for longer than the longest dispute takes."""

    segments: tuple[TimeSegment, ...]
    """Parts of the longest dispute, in the order in which they pass."""
    limits: tuple[TimeSegment, ...]
    """Times for which stake, data and keys are kept. Each must be longer than all segments together."""

    @property
    def longest(self) -> int:
        """Length in seconds of the longest dispute, from the issue of a receipt."""
        return sum(each.seconds for each in self.segments)


def time_budget(p: ParamSet) -> TimeBudget:
    """Returns the parts of `ParamSet.longest_dispute`, and the times that must be longer than all of them together."""
    t, rounds = p.times, p.committee.rounds
    parts = (
        ("max_anchor_delay", 1), ("window", 1), ("cure", 2), ("seed_time", rounds), ("draw_time", rounds),
        ("commit_time", rounds), ("reveal_time", rounds), ("appeal_time", rounds), ("rerun_time", 1), ("airgap", 1),
        ("max_pause", 1),
    )  # fmt: skip
    limits = (("unbond_delay", t.unbond_delay), ("da_retention", max(0, t.da_retention - t.da_margin)),
              ("key_retention", t.key_retention))  # fmt: skip
    return TimeBudget(
        tuple(TimeSegment(name, count * getattr(t, name), count) for name, count in parts),
        tuple(TimeSegment(name, seconds, 1) for name, seconds in limits),
    )


def violations(p: ParamSet, is_test_chain: bool) -> tuple[Violation, ...]:
    """Returns the rules of `ParamLaw.sol` that the set violates; empty if it violates none.

    If a number does not fit the contract's type, only such violations are returned. With an impossible number of rounds, the
    rules about money and retention times are not checked.

    The contract also compares retention times with the longest disputes under older versions. This function does not.
    `is_test_chain`: on a test chain the contract allows short times and small pools (`TestChains.sol`).
    """
    wide = tuple(_types(p))
    if wide:
        return wide
    most_seats = p.seats(p.committee.rounds) if 1 <= p.committee.rounds <= _MAX_ROUNDS else 0
    found = [*_times(p.times), *_committee(p.committee), *_shares(p.shares)]
    if most_seats:
        found += _stakes(p.money, most_seats)
        found += _prices(p.money, most_seats, p.shares.max_batch)
        if not is_test_chain:
            found += _at_stake(p.times, p.committee.min_pool, most_seats)
        found += _delays(p)
    return (*found, *_rounds(p.times, p.committee.max_reruns))


def _types(p: ParamSet) -> Iterator[Violation]:
    for part in (p.times, p.committee, p.money, p.shares):
        for name in type(part).__dataclass_fields__:
            value = getattr(part, name)
            for each in value if isinstance(value, tuple) else (value,):
                if not 0 <= each <= LARGEST[name]:
                    yield Violation(_key(name), f"{name} must be a whole number from 0 to {LARGEST[name]}")


def _key(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _within(name: str, value: int, least: int, most: int, key: str = "") -> Iterator[Violation]:
    if not least <= value <= most:
        bounds = f"from {least} to {most}" if least <= most else f"at least {least} and at most {most}, which no value is"
        yield Violation(key or _key(name), f"{name} is {value}, and must be {bounds}")


def _fields(record: Durations | Money | RewardShares, *bounds: tuple[str, int, int]) -> Iterator[Violation]:
    for name, least, most in bounds:
        yield from _within(name, getattr(record, name), least, most)


def _times(t: Durations) -> Iterator[Violation]:
    steps = ("window", "cure", "seed_time", "draw_time", "commit_time", "reveal_time", "appeal_time", "airgap")
    yield from _fields(
        t, *((name, 1, _MAX_WINDOW) for name in steps), ("max_pause", 0, _MAX_PAUSE), ("execution_bound", 1, _MAX_WINDOW),
        ("unbond_delay", 1, _MAX_UNBOND_DELAY), ("withdraw_delay", 0, _MAX_WITHDRAW_DELAY),
        ("breaker_time", t.appeal_time + t.airgap, _MAX_BREAKER_TIME),
    )  # fmt: skip


def _at_stake(t: Durations, min_pool: int, most_seats: int) -> Iterator[Violation]:
    """Yields violations of the bounds that do not apply on a test chain."""
    yield from _fields(
        t, ("window", _MIN_WINDOW, _MAX_WINDOW), ("max_anchor_delay", _MIN_STEP, U32_MAX),
        *((name, _MIN_STEP, _MAX_WINDOW) for name in ("cure", "commit_time", "reveal_time", "appeal_time", "airgap")),
    )  # fmt: skip
    yield from _within("min_pool", min_pool, most_seats, _MAX_POOL)


def _committee(c: Committee) -> Iterator[Violation]:
    yield from _within("rounds", c.rounds, 1, _MAX_ROUNDS)
    before = _MIN_SEATS - 1
    for place, seats in enumerate(c.seats):
        name = f"seats of level {place + 1}"
        if place >= c.rounds:
            yield from _within(name, seats, 0, 0, "seats")
            continue
        yield from _within(name, seats, before + 1, MAX_SEATS, "seats")
        if seats % 2 == 0:
            yield Violation("seats", f"{name} are {seats}, and must be an odd number")
        before = seats
    yield from _within("max_reruns", c.max_reruns, 0, _MAX_RERUNS)
    yield from _within("breaker_operators", c.breaker_operators, 1, U8_MAX)
    # Two thirds, so that a wrong verdict needs more than silence; four fifths, so that a few absent members prevent no verdict.
    if c.tau_den == 0 or c.tau_num * 3 < c.tau_den * 2 or c.tau_num * 5 > c.tau_den * 4:
        yield Violation("tau", f"the quorum is {c.tau_num}/{c.tau_den}, and must be from 2/3 to 4/5")
    yield from _within("min_pool", c.min_pool, 1, _MAX_POOL)
    yield from _within("certify_bps", c.certify_bps, 1, BPS)


def _shares(s: RewardShares) -> Iterator[Violation]:
    yield from _within("alpha_bps + beta_bps", s.alpha_bps + s.beta_bps, 0, MAX_REWARD_BPS, "alphaBps+betaBps")
    yield from _fields(
        s, ("operator_share_bps", 0, _MAX_OPERATOR_SHARE_BPS), ("audit_rate_bps", 0, BPS),
        ("audits_per_hour", 0, _MAX_AUDITS_PER_HOUR), ("max_batch", 1, _MAX_BATCH),
    )  # fmt: skip


def _stakes(m: Money, most_seats: int) -> Iterator[Violation]:
    """Yields violations of the rules about stake and penalties.

    The least stake must cover everything that an account may lose in one round, and a worse act must never cost less.
    """
    most = min(m.min_verifier_stake, m.slash_amount) // most_seats
    yield from _fields(
        m, ("min_operator_stake", 1, _MAX_OPERATOR_STAKE), ("slash_amount", 1, m.min_operator_stake),
        ("min_verifier_stake", 1, _MAX_OPERATOR_STAKE), ("absent_penalty", 0, most),
        ("no_reveal_penalty", m.absent_penalty, most), ("wrong_penalty", m.no_reveal_penalty, most),
        ("receipt_collateral", 1, m.min_operator_stake), ("withheld_penalty", 1, m.min_operator_stake),
        ("unanchored_penalty", m.slash_amount, m.min_operator_stake),
    )  # fmt: skip


def _prices(m: Money, most_seats: int, max_batch: int) -> Iterator[Violation]:
    """Yields violations of the rules about prices.

    A free step would invite flooding, and a step that is too expensive could not be used.
    """
    yield from _within("fee_per_seat", m.fee_per_seat, 1, U96_MAX)
    bond = most_seats * m.fee_per_seat + m.privacy_price
    yield from _within(
        "fees of the largest round plus privacy_price", bond, 0, m.slash_amount, "feePerSeat+privacyPrice"
    )  # fmt: skip
    bonds, most = m.demand_bond * max_batch, m.slash_amount // _DEMANDS_IN_A_SLASH
    yield from _within("demand_bond times max_batch", bonds, max_batch, most, "demandBond")
    yield from _within("audit_unit", m.audit_unit, 1, U96_MAX)
    yield from _within("bounty", m.bounty, 0, m.slash_amount // _BOUNTIES_IN_A_SLASH)


def _delays(p: ParamSet) -> Iterator[Violation]:
    budget = time_budget(p)
    for limit in budget.limits:
        if limit.seconds <= budget.longest:
            words = f"{limit.name} leaves {limit.seconds} s, and must outlast the longest dispute of {budget.longest} s"
            yield Violation(_key(limit.name), words, is_static_law=True)


def _rounds(t: Durations, max_reruns: int) -> Iterator[Violation]:
    one = t.seed_time + t.draw_time + t.commit_time + t.reveal_time
    needs = (
        ("commit_time", t.commit_time, 2 * t.execution_bound, "twice execution_bound"),
        ("rerun_time", t.rerun_time, max_reruns * one, "all max_reruns rounds"),
    )  # fmt: skip
    for name, have, needed, what in needs:
        if have < needed:
            yield Violation(_key(name), f"{name} is {have} s, and must hold {what}: {needed} s", is_static_law=True)

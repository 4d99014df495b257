"""Replays an ended dispute under other parameters: the same votes and acts, counted and paid by other rules.

Each dispute is replayed alone. The amounts that other disputes took from the same accounts stay as they were.
"""

import enum
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from bytewise.protocol.court.params import BPS, Committee, Money, ParamSet
from bytewise.protocol.court.settlement import CONVICTIONS, MAX_REWARD_BPS, Pot, SeatOutcome, split
from bytewise.protocol.court.tally import MISSING
from bytewise.protocol.economics.past_disputes import FLOWS, DisputeMoney, PastDispute, PastRound, Range
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import Digest

REPLAYED = {
    "money": ("fee_per_seat", "privacy_price", "slash_amount", "absent_penalty", "no_reveal_penalty", "wrong_penalty"),
    "shares": ("alpha_bps", "beta_bps", "operator_share_bps"),
    "committee": ("tau_num", "tau_den", "seats", "rounds", "max_reruns"),
    "times": ("window", "commit_time", "reveal_time", "appeal_time", "airgap"),
}
"""Parameters that decide the result of a replay, by group. A replay has no answer if one of `times` differs from the recorded
one. These move deadlines to which people reacted, and no replay can tell how people would have reacted to others."""
FORGIVING = frozenset({Verdict.DRAW, Verdict.REFUNDED})
"""Verdicts after which no seat is charged."""
_MOST_SEATS = 255
_OF_PAY = ("to_operator", "to_verifiers", "repaid", "burned")
"""Amounts that depend on the pay of a seat."""
_ROUNDING = 3
"""Wei by which rounding down may change a sum between two ends of a range, in addition to one wei for each seat."""


class ReplayKind(enum.StrEnum):
    """Possible results of a replay: one verdict is known, several verdicts are possible, or nothing can be said."""

    RECOMPUTED = "recomputed"
    BOUNDED = "bounded"
    NOT_ANSWERABLE = "not answerable"


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result of a dispute under other parameters."""

    kind: ReplayKind
    """How much is known about the verdict. The range of each amount shows whether the amount is known."""
    verdicts: tuple[Verdict, ...]
    """Possible verdicts: one if it is known, none if nothing can be said."""
    money: Mapping[str, Range]
    """Range of each amount, by its name in `FLOWS`; empty if nothing can be said."""
    notes: tuple[str, ...]
    """Sentences that say on which facts the result depends, or why there is no result."""


# --- votes ---


def possible_verdicts(r: PastRound, seats: int, quorum: int) -> frozenset[Verdict]:
    """Returns the possible verdicts of a settled round if its committee had had `seats` seats, drawn from the same seed.

    Seats that exist in both committees keep their votes, and additional seats may vote in any way. With the recorded number of
    seats the result is the one verdict of the tally. `quorum` must be above half of `seats`.
    """
    more, fewer = max(0, seats - r.seats), max(0, r.seats - seats)
    found = set[Verdict]()
    if min(r.equal, seats) + more >= quorum:
        found.add(Verdict.UPHELD)
    if r.lead and min(r.lead, seats) + more >= quorum:
        found.add(r.lead_verdict)
    if min(r.lead, r.scattered) + more >= quorum:
        found |= {Verdict.OVERTURNED, Verdict.INVALID}
    lead_always = r.lead - fewer >= quorum
    missing = min(r.unavailable, seats) + more
    if missing and not lead_always and min(r.lead, quorum - 1) + missing >= quorum:
        found.add(Verdict.UNAVAILABLE)
    undecided = min(r.equal, quorum - 1) + min(r.lead + r.unavailable, quorum - 1) + r.other + more
    return frozenset(found | ({Verdict.NONE} if undecided >= seats else set()))


class _Course:
    """The course of a dispute under a set of parameters, as far as the recorded rounds show it. It is filled round by round."""

    def __init__(self) -> None:
        self.verdicts: frozenset[Verdict] = frozenset()
        self.rounds = 0
        """Number of recorded rounds that take place under the parameters."""
        self.standing = Verdict.NONE
        """Verdict of the last conclusive round; NONE if there is none yet."""
        self.decided: int | None = None
        """Place of the round with this verdict; None if it is not known."""
        self.appealed = Verdict.NONE
        self.appeal_level = 0
        self.reruns = 0
        self.fees = 0
        """Fees in wei that the treasury must advance for recorded rounds."""
        self.more_fees = 0
        """Fees in wei that the treasury may have to advance for further rounds whose votes nobody knows."""
        self.more_seats = 0
        """Most seats of these further rounds."""
        self.obstacle = ""
        """Reason why nothing can be said; empty if something can."""
        self.note = ""

    @property
    def last(self) -> Verdict:
        """Verdict with which the dispute ends if no further round decides."""
        return self.standing if self.standing is not Verdict.NONE else Verdict.DRAW

    def end(self, *verdicts: Verdict, note: str = "") -> bool:
        """Sets the verdict of the dispute, or several possible ones. Returns True: the course ends."""
        self.verdicts, self.note = frozenset(verdicts), note
        return True

    def stop(self, why: str) -> bool:
        """Notes why nothing can be said. Returns True: the course ends."""
        self.obstacle = why
        return True


def _follow(past: PastDispute, p: ParamSet) -> _Course:
    """Returns the course of a dispute by the rules of `Disputes.settle`, as far as its rounds are known."""
    course = _Course()
    for place in range(len(past.rounds)):
        course.rounds = place + 1
        if _pass_round(course, past, p, place):
            return course
    raise MalformedValue("dispute", "its rounds end before it does")


def _pass_round(course: _Course, past: PastDispute, p: ParamSet, place: int) -> bool:
    """Settles one recorded round. Returns whether the course ends with it."""
    r = past.rounds[place]
    seats = p.seats(r.level)
    if not r.settled:
        return course.end(course.last)
    if 0 < r.certified < p.quorum(seats):
        return course.stop("A certificate of votes would be below the quorum; its members might have opened their votes instead.")
    possible = possible_verdicts(r, seats, p.quorum(seats))
    is_appealed = place == _appealed_place(past) and r.level < p.committee.rounds
    reruns = _reruns(course, r, p)
    if is_appealed and possible != {r.verdict}:
        return course.stop(
            "Another verdict might have stood when it was appealed. Nobody knows whether anybody had appealed that."
        )
    if len(possible) > 1 or (possible == {Verdict.NONE} and len(reruns) > 1):
        return _fan_out(course, p, r, possible)
    (verdict,) = possible
    if verdict is Verdict.NONE:
        return _go_on(course, past, p, place, is_rerun=True in reruns)
    may_appeal = r.verdict is Verdict.NONE and r.level < p.committee.rounds and course.appealed is Verdict.NONE
    course.standing, course.decided = verdict, place
    if not is_appealed:
        return course.end(verdict, note="An earlier round decides it, if nobody appeals." if may_appeal else "")
    course.appealed, course.appeal_level = verdict, r.level + 1
    return False


def _reruns(course: _Course, r: PastRound, p: ParamSet) -> frozenset[bool]:
    """Returns the possible answers to: do so many seats lack a key that a round without a verdict is run again?

    Both answers are possible if some seats are not known.
    """
    seats = p.seats(r.level)
    least, spare = r.no_key - max(0, r.seats - seats), seats - p.quorum(seats)
    left = course.reruns < p.committee.max_reruns
    return frozenset(left and count > spare for count in (least, r.no_key + max(0, seats - r.seats)))


def _go_on(course: _Course, past: PastDispute, p: ParamSet, place: int, is_rerun: bool) -> bool:
    """Continues after a round without a verdict: with the same level again, a larger level, or the end.

    Returns whether the course ends.
    """
    r = past.rounds[place]
    if not is_rerun and r.level == p.committee.rounds:
        return course.end(course.last)
    level = r.level if is_rerun else r.level + 1
    following = past.rounds[place + 1] if place + 1 < len(past.rounds) else None
    if following is None or following.level != level or r.verdict is not Verdict.NONE:
        return _open(course, p, r.level)
    course.reruns += is_rerun
    course.fees += 0 if is_rerun else p.seats(level) * p.money.fee_per_seat
    return False


def _open(course: _Course, p: ParamSet, level: int) -> bool:
    """Ends the course with all verdicts that are possible, because further rounds have votes that nobody knows."""
    levels = [p.seats(each) for each in range(level + 1, p.committee.rounds + 1)]
    course.more_fees += sum(levels) * p.money.fee_per_seat
    course.more_seats += sum(levels) + p.committee.max_reruns * max(p.committee.seats[: p.committee.rounds])
    course.decided = None
    note = "It needs a committee that was never drawn: best and worst case."
    return course.end(Verdict.UPHELD, *CONVICTIONS, course.last, note=note)


def _fan_out(course: _Course, p: ParamSet, r: PastRound, possible: frozenset[Verdict]) -> bool:
    """Ends the course with several verdicts, because seats that nobody knows may decide the round in more than one way."""
    if Verdict.NONE in possible and (r.level < p.committee.rounds or True in _reruns(course, r, p)):
        return _open(course, p, r.level)
    course.decided = None
    ends = (course.last if each is Verdict.NONE else each for each in possible)
    return course.end(*ends, note="Votes of another committee are not known: best and worst case.")


def _appealed_place(past: PastDispute) -> int | None:
    """Returns the place of the round whose verdict was appealed: the first round with a verdict. None without an appeal."""
    if past.appealed is Verdict.NONE:
        return None
    return next((place for place, r in enumerate(past.rounds) if r.verdict is not Verdict.NONE), None)


# --- amounts ---


def within_reach(recorded: int, old: int, new: int) -> Range:
    """Returns the wei that an account pays at the rate `new`, if it paid `recorded` at the rate `old`.

    An account that paid less than `old` had no more, so it cannot pay more at a higher rate.
    """
    if new <= recorded:
        return Range(new, new)
    return Range(recorded, recorded if recorded < old else new)


def _slash(past: PastDispute, p: ParamSet) -> Range:
    """Returns the stake that a conviction takes from the operator."""
    old, new, locked = past.params.money.slash_amount, p.money.slash_amount, past.locked
    if past.verdict in CONVICTIONS:
        found = within_reach(past.money.slashed, old, new)
        # A larger lock would have kept stake that the operator withdrew meanwhile.
        return found if found.high >= new or new <= old or locked < old else Range(found.low, new)
    if past.others_took:
        return Range(0, new)
    return Range(min(new, locked), new)


def _right(r: PastRound, verdict: Verdict, keys: frozenset[Digest]) -> int:
    """Returns the number of seats of a round that agree with the verdict. For each right answer the largest group counts."""
    if verdict is Verdict.UPHELD:
        return r.equal
    return sum(max((each.seats for each in r.groups if each.key == key), default=0) for key in keys)


def _keys(past: PastDispute, course: _Course, p: ParamSet, verdict: Verdict) -> frozenset[Digest]:
    """Returns the keys of the votes that a conviction finds right."""
    if course.decided is None or verdict not in CONVICTIONS:
        return frozenset()
    r = past.rounds[course.decided]
    if verdict is not Verdict.UNAVAILABLE:
        return frozenset({r.lead_key})
    mixed = r.unavailable < p.quorum(p.seats(r.level))
    return frozenset({MISSING, r.lead_key} if mixed else {MISSING})


def _same_course(past: PastDispute, old: _Course, new: _Course, p: ParamSet) -> bool:
    """Returns whether the same rounds with the same seats led to the same end."""
    same = (old.verdicts, old.rounds, old.decided, old.appealed) == (new.verdicts, new.rounds, new.decided, new.appealed)
    (verdict, *_) = new.verdicts
    return same and not _other_seats(past, new, p) and _keys(past, old, past.params, verdict) == _keys(past, new, p, verdict)


def _other_seats(past: PastDispute, course: _Course, p: ParamSet) -> bool:
    return any(r.settled and p.seats(r.level) != r.seats for r in past.rounds[: course.rounds])


def _paid(past: PastDispute, course: _Course, p: ParamSet, verdict: Verdict) -> Range:
    """Returns the number of seats that a verdict pays."""
    held = [r for r in past.rounds[: course.rounds] if r.settled]
    if verdict is Verdict.DRAW:
        return Range(0, 0)
    if course.decided is None or (verdict is Verdict.UNAVAILABLE and _other_seats(past, course, p)):
        return Range(0, sum(p.seats(r.level) for r in held) + course.more_seats)
    keys, found = _keys(past, course, p, verdict), Range(0, 0)
    for r in held:
        seats, right = p.seats(r.level), _right(r, verdict, keys)
        found += Range(max(0, right - max(0, r.seats - seats)), min(right, seats) + max(0, seats - r.seats))
    return found


def _penalties(past: PastDispute, course: _Course, p: ParamSet, verdict: Verdict, is_same: bool) -> Range:
    """Returns the penalties of the members. Another verdict charges other members, and nobody knows how much they had."""
    if verdict in FORGIVING:
        return Range(0, 0)
    old, new = _rates(past.params.money), _rates(p.money)
    if is_same:
        sums = ([sum(rates.get(each, 0) for each in one.outcomes) for rates in (old, new)] for one in past.charges)
        return sum((within_reach(one.taken, *both) for one, both in zip(past.charges, sums, strict=True)), Range(0, 0))
    if course.decided is None or _other_seats(past, course, p):
        seats = sum(p.seats(r.level) for r in past.rounds[: course.rounds]) + course.more_seats
        return Range(0, seats * max(new.values()))
    return Range(0, _most_charged(past, course, p, verdict, new))


def _most_charged(past: PastDispute, course: _Course, p: ParamSet, verdict: Verdict, rates: Mapping[SeatOutcome, int]) -> int:
    keys, most = _keys(past, course, p, verdict), 0
    for r in past.rounds[: course.rounds]:
        if r.settled:
            absent = r.absent + r.cannot_execute + r.no_key
            wrong = r.seats - absent - r.not_revealed - _right(r, verdict, keys)
            counts = {SeatOutcome.ABSENT: absent, SeatOutcome.NOT_REVEALED: r.not_revealed, SeatOutcome.WRONG: wrong}
            most += sum(rates[of] * count for of, count in counts.items())
    return most


def _rates(money: Money) -> dict[SeatOutcome, int]:
    return {
        SeatOutcome.ABSENT: money.absent_penalty, SeatOutcome.NOT_REVEALED: money.no_reveal_penalty,
        SeatOutcome.WRONG: money.wrong_penalty,
    }  # fmt: skip


def _amounts(verdict: Verdict, pot: Pot, p: ParamSet, penalties: int) -> DisputeMoney:
    s = split(verdict, pot, p)
    to_challenger, to_verifiers = s.bond_back + s.alpha, s.per_seat * pot.seats
    out = to_challenger + s.to_appellant + s.to_operator + to_verifiers + s.repaid
    return DisputeMoney(
        pot.bond, pot.appeal_bond, pot.advanced, pot.slashed, to_challenger, s.to_appellant, s.to_operator, to_verifiers,
        s.repaid, pot.total - out, penalties,
    )  # fmt: skip


def _is_same(past: PastDispute, old: _Course, new: _Course, p: ParamSet, verdict: Verdict) -> bool:
    return len(new.verdicts) == 1 and past.verdict is verdict and _same_course(past, old, new, p)


def _paid_seats(past: PastDispute, old: _Course, new: _Course, p: ParamSet, verdict: Verdict) -> Range:
    """Returns the number of seats that a verdict pays; the recorded number if the course is the recorded one."""
    if _is_same(past, old, new, p, verdict):
        return Range(past.paid_seats, past.paid_seats)
    return _paid(past, new, p, verdict)


def _ends(past: PastDispute, old: _Course, new: _Course, p: ParamSet, verdict: Verdict) -> Iterator[DisputeMoney]:
    """Yields the amounts for every combination of lowest and highest unknown values.

    Every amount rises or falls with each of them.
    """
    is_same = _is_same(past, old, new, p, verdict)
    seats = _paid_seats(past, old, new, p, verdict)
    slash = _slash(past, p) if verdict in CONVICTIONS else Range(0, 0)
    penalties = _penalties(past, new, p, verdict, is_same)
    advanced = _advanced(past, old, new, p, seats if verdict is Verdict.REFUNDED else Range(0, 0))
    bond, appeal_bond = p.required_bond, p.appeal_bond(new.appeal_level) if new.appeal_level else 0
    won = verdict is not Verdict.REFUNDED and new.appealed not in (Verdict.NONE, verdict)
    knew = _knew(past, old, new, p, verdict)
    for advance, slashed, paid, charged, has_known in itertools.product(
        *({each.low, each.high} for each in (advanced, slash, seats, penalties)), knew
    ):
        yield _amounts(verdict, Pot(bond, appeal_bond, advance, slashed, paid, won, bool(has_known)), p, charged)


def _advanced(past: PastDispute, old: _Course, new: _Course, p: ParamSet, refunded: Range) -> Range:
    """Returns the amount that the treasury advances. In a refund it is at least the pay of the seats that worked."""
    wanted = max(old.fees, refunded.high * past.params.money.fee_per_seat)
    low, high = (max(fees, refunded.high * p.money.fee_per_seat) for fees in (new.fees, new.fees + new.more_fees))
    least, most = (within_reach(past.money.advanced, wanted, each) for each in (low, high))
    return Range(least.low, most.high)


def _knew(past: PastDispute, old: _Course, new: _Course, p: ParamSet, verdict: Verdict) -> tuple[bool, ...]:
    """Returns the possible answers to: did the challenger show that it knew the answer?

    It could not show this for an answer that never won.
    """
    if verdict not in CONVICTIONS or verdict is Verdict.UNAVAILABLE:
        return (past.knew,)
    same = past.verdict is verdict and new.decided is not None
    return (past.knew,) if same and _keys(past, old, past.params, verdict) == _keys(past, new, p, verdict) else (False, True)


# --- replay ---


def replay(past: PastDispute, p: ParamSet) -> Replayed:
    """Replays a dispute under the parameters `p`.

    Raises `MalformedValue` for parameters with which nothing can be computed, or if the recorded rounds do not lead to an end.
    """
    check_replayable(p)
    if any(getattr(p.times, name) != getattr(past.params.times, name) for name in REPLAYED["times"]):
        return _unknown("People met the deadlines that they had. With others they would have acted otherwise.")
    old, new = _follow(past, past.params), _follow(past, p)
    if old.obstacle or (past.verdict is not Verdict.REFUNDED and old.verdicts != {past.verdict}):
        return _unknown("The index has no votes that lead to its verdict.")
    if new.obstacle:
        return _unknown(new.obstacle)
    if past.verdict is Verdict.REFUNDED:
        if not _same_course(past, old, new, p):
            return _unknown("The guardian ended it, and would have seen another course.")
        new.verdicts, new.note = frozenset({Verdict.REFUNDED}), "The guardian's refund is taken as it was."
        old.verdicts = new.verdicts
    verdicts = tuple(sorted(new.verdicts))
    ends = [each for verdict in verdicts for each in _ends(past, old, new, p, verdict)]
    is_known = len(verdicts) == 1
    seats = [_paid_seats(past, old, new, p, verdict) for verdict in verdicts]
    return Replayed(
        ReplayKind.RECOMPUTED if is_known else ReplayKind.BOUNDED,
        verdicts,
        _ranges(ends, p, past, all(each.low == each.high for each in seats)),
        (new.note,) if new.note else (),
    )


def _unknown(why: str) -> Replayed:
    return Replayed(ReplayKind.NOT_ANSWERABLE, (), {}, (why,))


def _ranges(ends: Iterable[DisputeMoney], p: ParamSet, past: PastDispute, are_seats_known: bool) -> dict[str, Range]:
    """Returns the least and the largest value of each amount, widened by possible rounding between them.

    Pay is rounded down for each seat. So an amount that is the same at both ends of an unknown value may be another one between
    them.
    """
    ends = list(ends)
    found = dict[str, Range]()
    inputs = FLOWS[: FLOWS.index("to_challenger")]
    is_known = are_seats_known and all(len({getattr(each, name) for each in ends}) == 1 for name in inputs)
    room = _ROUNDING + _MOST_SEATS * (len(past.rounds) + p.committee.rounds + p.committee.max_reruns)
    for name in FLOWS:
        values = [getattr(each, name) for each in ends]
        low, high = min(values), max(values)
        is_rounded = name not in (*inputs, "penalties") and (low != high or (name in _OF_PAY and not is_known))
        found[name] = Range(max(0, low - room), high + room) if is_rounded else Range(low, high)
    return found


def check_replayable(p: ParamSet) -> None:
    """Raises `MalformedValue` for parameters with which no verdict or no split can be computed.

    The contracts have more rules for parameters (`param_law`).
    """
    c: Committee = p.committee
    if not (1 <= c.rounds <= len(c.seats) and all(1 <= seats <= _MOST_SEATS for seats in c.seats[: c.rounds])):
        raise MalformedValue("parameters", f"{c.rounds} levels of {list(c.seats)} seats: each level needs 1 to {_MOST_SEATS}")
    if not (c.tau_den and c.tau_den < 2 * c.tau_num <= 2 * c.tau_den):
        raise MalformedValue("parameters", f"the quorum {c.tau_num}/{c.tau_den} is not above one half and at most 1")
    if p.shares.alpha_bps + p.shares.beta_bps > MAX_REWARD_BPS or p.shares.operator_share_bps > BPS:
        raise MalformedValue("parameters", f"alpha_bps + beta_bps is above {MAX_REWARD_BPS}, or operator_share_bps above {BPS}")

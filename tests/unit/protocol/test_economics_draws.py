"""The curves of the console agree with the network's own draw and tally, played with random seeds, within four sigma."""

import math
import random
from collections import Counter
from fractions import Fraction

import pytest

from bytewise.protocol import digests
from bytewise.protocol.court.sortition import audit_is_drawn, draw_seats, seats_in_audit_draw
from bytewise.protocol.court.tally import Count, VoteContent, judge, vote_content
from bytewise.protocol.economics.chances import (
    Level,
    Population,
    auditor_count,
    audits_convince,
    chances_by_quorum,
    levels_of,
    round_chances,
)
from bytewise.protocol.records.statements import Finding, Outcome, Verdict
from bytewise.protocol.units import U8, U16, ZERO_DIGEST, Address, Digest
from chain.deployment.params import DEVNET
from tests.fixtures.builders import word

SIGMAS = 4
STAKE = 10**20
TRUTH, LIE = word("truth"), word("lie")
HOSTILE, ABSENT = {Address(f"0x{n:040x}") for n in (1, 2, 3)}, {Address(f"0x{n:040x}") for n in (4, 5)}
HONEST = {Address(f"0x{n:040x}") for n in (6, 7, 8, 9)}


def stakes(people: Population) -> list[tuple[Address, int]]:
    """Accounts of each party, with its share in unequal parts."""
    hostile = math.floor(people.hostile * STAKE)
    absent = math.floor((1 - people.hostile) * people.absent * STAKE)
    made: list[tuple[Address, int]] = []
    for party, whole in ((HOSTILE, hostile), (ABSENT, absent), (HONEST, STAKE - hostile - absent)):
        parts = [whole * (place + 1) // math.comb(len(party) + 1, 2) for place in range(len(party))]
        made += zip(sorted(party), [*parts[:-1], whole - sum(parts[:-1])], strict=True)
    return made


def content(tokens: Digest) -> VoteContent:
    """A vote for one answer."""
    return vote_content(Finding(word("dispute"), U16(1), U8(Outcome.EXECUTED), U8(0), tokens, word("trace"), word("round")))


SAID = {**dict.fromkeys(HOSTILE, content(LIE)), **dict.fromkeys(HONEST, content(TRUTH))}


def ends_of_round(level: Level, people: Population, number: int, source: random.Random) -> dict[Digest, str]:
    """`taken`, `stalled` or `kept` for each claim, with the seed that the hostile like best."""
    ends: dict[Digest, list[str]] = {TRUTH: [], LIE: []}
    for _ in range(people.tries):
        seats = Counter(draw_seats(Digest(source.randbytes(32)), word("dispute"), number, level.seats, stakes(people)))
        for claim in ends:
            claimed, count = (claim, digests.out_hash(claim, word("trace"))), Count()
            for voter, own in seats.items():
                count = count.add(SAID[voter], own, claimed) if voter in SAID else count
            verdict = judge(count, claimed[1], level.quorum).verdict
            kept = (verdict is Verdict.UPHELD) == (claim == TRUTH)
            ends[claim].append("stalled" if verdict is Verdict.NONE else "kept" if kept else "taken")
    return {claim: next(end for end in ("taken", "stalled", "kept") if end in found) for claim, found in ends.items()}


def assert_near(hits: int, trials: int, chance: float) -> None:
    """Within four sigma of a binomial."""
    sigma = math.sqrt(trials * chance * (1 - chance))
    assert abs(hits - trials * chance) <= SIGMAS * sigma + 1e-6, (
        f"{hits} of {trials}, expected {trials * chance:.1f} ± {sigma:.1f}"
    )


@pytest.mark.parametrize(
    ("percent", "absent", "tries"), [(10, 0, 1), (25, 20, 1), (33, 0, 2), (45, 10, 1), (60, 0, 1), (70, 5, 1)]
)
def test_rounds_end_as_often_as_the_curve_says(percent: int, absent: int, tries: int) -> None:
    people, trials = Population(Fraction(percent, 100), Fraction(absent, 100), tries), 400
    level, source = levels_of(DEVNET)[0], random.Random(percent)
    found = Counter(end for _ in range(trials) for end in ends_of_round(level, people, 1, source).items())
    wanted = round_chances(level, people)
    for claim in (TRUTH, LIE):
        for name in ("taken", "stalled", "kept"):
            assert_near(found[claim, name], trials, getattr(wanted, name))


@pytest.mark.parametrize("percent", [30, 45, 55])
def test_disputes_end_as_often_as_the_curve_says(percent: int) -> None:
    people, trials, source = Population(Fraction(percent, 100)), 300, random.Random(percent)
    levels, ends = levels_of(DEVNET), Counter[str]()
    for _ in range(trials):
        end = "stalled"
        for number, level in enumerate(levels, 1):
            end = ends_of_round(level, people, number, source)[LIE]
            ends["rounds"] += 1
            if end != "stalled":
                break
        ends[end] += 1
    wanted = chances_by_quorum(levels, people)
    assert_near(ends["taken"], trials, wanted.fraud_passes)
    assert_near(ends["stalled"], trials, wanted.void)
    assert_near(ends["kept"], trials, wanted.convicted)
    assert_near(ends["rounds"] - trials, trials, wanted.rounds - 1)


def test_wrong_share_is_not_within_four_sigma() -> None:
    source, level = random.Random(1), levels_of(DEVNET)[0]
    found = Counter(ends_of_round(level, Population(Fraction(33, 100)), 1, source)[TRUTH] for _ in range(400))
    with pytest.raises(AssertionError, match="of 400, expected"):
        assert_near(found["kept"], 400, round_chances(level, Population(Fraction(25, 100))).kept)


@pytest.mark.parametrize(("rate", "hostile"), [(300, 0), (2_000, 2), (5_000, 3), (9_000, 5)])
def test_audits_convince_as_often_as_the_curve_says(rate: int, hostile: int) -> None:
    unit, trials = DEVNET.money.audit_unit, 1_500
    stake = [unit * units + 7 for units in (1, 1, 2, 3, 0, 1)]
    seats = [seats_in_audit_draw(each, unit, is_member=True) for each in stake]
    accounts = [Address(f"0x{n:040x}") for n in range(1, len(seats) + hostile + 1)]
    hits, ones = 0, 0
    for number in range(trials):
        drawn = [audit_is_drawn(word("beacon"), word(number), who, rate, own)
                 for who, own in zip(accounts, [*seats, *[1] * hostile], strict=True)]  # fmt: skip
        against, for_it = sum(drawn[: len(seats)]), sum(drawn[len(seats) :])
        hits += against >= 2 and against > for_it
        ones += against >= 1
    honest = auditor_count(rate, seats)
    assert_near(hits, trials, audits_convince(honest, auditor_count(rate, [1] * hostile), 2))
    assert_near(ones, trials, honest.at_least(1))


def test_silence_counts_for_nobody() -> None:
    """The tally under the model: seats that say nothing are in no group."""
    assert judge(Count(), ZERO_DIGEST, 2).verdict is Verdict.NONE

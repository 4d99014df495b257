"""The verdict of a round: design section 9's table, and what must hold for any votes whatever."""

import dataclasses
import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.protocol.digests import out_hash
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest
from tests.reference.verdict_rules import RevealedVote, Tally, tally


def word(value: int) -> Digest:
    return Digest(bytes([value]) * 32)


CLAIM = (word(1), out_hash(word(1), word(2)))
"""tokens_hash and out_hash of the receipt."""
_names = (Address(f"0x{i:040x}") for i in itertools.count(1))


def executed(seats: int, tokens: int = 1, trace: int = 2, proof: int = 3) -> RevealedVote:
    return RevealedVote(next(_names), seats, Outcome.EXECUTED, 0, word(tokens), word(trace), word(proof))


def other(seats: int, outcome: Outcome, code: int = 0) -> RevealedVote:
    return RevealedVote(next(_names), seats, outcome, code, ZERO_DIGEST, ZERO_DIGEST, ZERO_DIGEST)


def run(*votes: RevealedVote, seats: int = 15, paper: bool = False) -> Tally:
    return tally(seats, 2, 3, votes, *CLAIM, paper)


def test_two_thirds_of_15_seats_are_10() -> None:
    assert run().quorum == 10
    assert run(seats=31).quorum == 21


ROUNDS: dict[str, tuple[tuple[RevealedVote, ...], Verdict, int]] = {
    "ten equal seats": ((executed(10),), Verdict.UPHELD, 1),
    "nine equal seats": ((executed(9),), Verdict.NONE, 0),
    "one identical other answer": ((executed(6, tokens=8), executed(4, tokens=8), executed(5)), Verdict.OVERTURNED, 2),
    "different other answers": ((executed(5, tokens=8), executed(5, tokens=9), executed(5)), Verdict.NONE, 0),
    "withholding": ((other(10, Outcome.UNAVAILABLE),), Verdict.UNAVAILABLE, 1),
    "withholding and the leading fault": (
        (other(6, Outcome.UNAVAILABLE), executed(4, tokens=8), executed(1, tokens=9)), Verdict.UNAVAILABLE, 2,
    ),
    "withholding and the claim": ((other(6, Outcome.UNAVAILABLE), executed(9)), Verdict.NONE, 0),
    "no key": ((other(15, Outcome.NO_KEY),), Verdict.NONE, 0),
    "cannot execute": ((other(15, Outcome.CANNOT_EXECUTE),), Verdict.NONE, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUNDS)
def test_verdict_of_a_round_and_number_of_its_winners(name: str) -> None:
    votes, verdict, winners = ROUNDS[name]
    found = run(*votes)
    assert (found.verdict, len(found.winners)) == (verdict, winners)
    assert found.replacement == (out_hash(word(8), word(2)) if verdict is Verdict.OVERTURNED else ZERO_DIGEST)


def test_true_out_hash_with_other_tokens_is_another_answer() -> None:
    seats = (executed(6), executed(4))
    found = tally(15, 2, 3, seats, word(8), CLAIM[1])
    assert (found.verdict, found.replacement, found.equal) == (Verdict.OVERTURNED, CLAIM[1], 0)
    assert found.winners == tuple(vote.voter for vote in seats)


def test_a_wrong_trace_of_true_tokens_overturns() -> None:
    assert run(executed(10, trace=9)).verdict is Verdict.OVERTURNED


def test_equal_answers_without_equal_round_digests_do_not_add_up() -> None:
    assert run(executed(8), executed(7, proof=9)).verdict is Verdict.NONE


def test_one_defect_code_convicts_and_two_do_not() -> None:
    same = run(other(6, Outcome.INVALID, 4), other(4, Outcome.INVALID, 4))
    assert (same.verdict, same.code, same.replacement) == (Verdict.INVALID, 4, ZERO_DIGEST)
    assert run(other(6, Outcome.INVALID, 4), other(4, Outcome.INVALID, 5)).verdict is Verdict.NONE


def test_papers_rule_slashes_an_honest_operator_where_ours_draws_again() -> None:
    votes = (executed(9), other(6, Outcome.NO_KEY))
    assert run(*votes).verdict is Verdict.NONE
    assert run(*votes, paper=True).verdict is Verdict.OVERTURNED


def test_more_votes_than_seats_or_half_a_quorum_is_refused() -> None:
    with pytest.raises(MalformedValue):
        run(executed(16))
    with pytest.raises(MalformedValue):
        tally(15, 1, 2, (), *CLAIM)


ANY_VOTE = st.builds(
    RevealedVote, voter=st.integers(1, 10**6).map(lambda i: Address(f"0x{i:040x}")), seats=st.integers(1, 8),
    outcome=st.sampled_from(Outcome), code=st.integers(0, 2), tokens_hash=st.integers(1, 2).map(word),
    trace_root=st.just(word(2)), round_digest=st.integers(3, 4).map(word),
)  # fmt: skip
ANY_VOTES = st.lists(ANY_VOTE, max_size=12, unique_by=lambda vote: vote.voter)
ANY_TAU = st.sampled_from([(2, 3), (3, 5), (4, 5), (51, 100), (1, 1)])


@given(ANY_VOTES, ANY_TAU, st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_order_of_votes_is_irrelevant(votes: Sequence[RevealedVote], tau: tuple[int, int], random: object) -> None:
    shuffled = list(votes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    seats = sum(v.seats for v in votes) + 1
    first, second = (tally(seats, *tau, order, *CLAIM) for order in (votes, shuffled))
    assert dataclasses.replace(first, winners=()) == dataclasses.replace(second, winners=())
    # Only who shares a conviction for withholding can hang on order: two fault groups of one size.
    if first.verdict is not Verdict.UNAVAILABLE:
        assert set(first.winners) == set(second.winners)


@given(ANY_VOTES, ANY_TAU, st.integers(1, 3).map(word))
@settings(max_examples=300)
def test_verdict_has_a_quorum_and_two_verdicts_never_coexist(
    votes: Sequence[RevealedVote], tau: tuple[int, int], tokens: Digest
) -> None:
    found = tally(sum(v.seats for v in votes) + 1, *tau, votes, tokens, CLAIM[1])
    backing = sum(v.seats for v in votes if v.voter in found.winners)
    if found.verdict is Verdict.NONE:
        assert not found.winners
    else:
        assert backing >= found.quorum and 2 * backing > found.revealed
    if found.verdict is Verdict.UPHELD:
        assert all((v.tokens_hash, v.out_hash) == (tokens, CLAIM[1]) for v in votes if v.voter in found.winners)
    elif found.verdict is not Verdict.NONE:
        assert all((v.tokens_hash, v.out_hash) != (tokens, CLAIM[1]) for v in votes if v.voter in found.winners)


@given(ANY_VOTES, ANY_TAU, st.integers(0, 40))
@settings(max_examples=300)
def test_missing_and_doubtful_votes_never_convict(votes: Sequence[RevealedVote], tau: tuple[int, int], absent: int) -> None:
    # Whoever honestly finds the claim, or doubts, or stays away: no number of them convicts.
    harmless = [v for v in votes if v.outcome in (Outcome.NO_KEY, Outcome.CANNOT_EXECUTE) or v.is_equal(*CLAIM)]
    found = tally(sum(v.seats for v in harmless) + absent + 1, *tau, harmless, *CLAIM)
    assert found.verdict in (Verdict.NONE, Verdict.UPHELD)


@given(ANY_VOTES, ANY_TAU)
@settings(max_examples=200)
def test_missing_seat_never_helps_a_conviction(votes: Sequence[RevealedVote], tau: tuple[int, int]) -> None:
    seats = sum(v.seats for v in votes) + 1
    convicts = {Verdict.OVERTURNED, Verdict.INVALID, Verdict.UNAVAILABLE}
    if tally(seats + 5, *tau, votes, *CLAIM).verdict in convicts:
        assert tally(seats, *tau, votes, *CLAIM).verdict in convicts

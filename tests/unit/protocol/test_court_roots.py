"""Commit roots in the model of the court: who posts one, and what silence beside one costs (ADR-030)."""

import pytest

from bytewise.protocol.court.phases import Event
from bytewise.protocol.court.settlement import SeatOutcome
from bytewise.protocol.errors.actors import NotAMember
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.signing import Domain, typed_digest
from bytewise.protocol.units import Address
from tests.fixtures.court.builders import VOTE_CONTENTS, account, claim, params, vote, word
from tests.fixtures.court.play import Play, alt_keys
from tests.reference import voting
from tests.reference.accounting import Accounting
from tests.reference.seat_outcomes import penalty, standing
from tests.reference.state import Court, Dispute

OPERATOR, CHALLENGER = account("operator"), account("challenger")
VERIFIERS = [account(f"verifier {i}") for i in range(3)]


@pytest.fixture
def play() -> Play:
    """A dispute whose three seats three members hold, in its commit phase."""
    books = Accounting(stakes={OPERATOR: 5000, **dict.fromkeys(VERIFIERS, 100)}, treasury=500)
    court = Play(Court(Domain(1, account("court")), {1: params((3, 0, 0), 1)}, books), [CHALLENGER], VERIFIERS)
    what = claim(1, OPERATOR, word("environment"), court.court.now + 50)
    assert court.open(what, CHALLENGER, alt_keys(what)[1], "innocent")
    found = only(court)
    court.wait(found.round.seed_block + 1 - court.court.block)
    assert court.do("draw", found.id, Event.DRAW_LAST, found.id, VERIFIERS)
    return court


def only(play: Play) -> Dispute:
    (found,) = play.court.disputes.values()
    return found


@pytest.mark.parametrize("who", [CHALLENGER, OPERATOR, account("a stranger")])
def test_only_members_post_roots(play: Play, who: Address) -> None:
    with pytest.raises(NotAMember):
        voting.post_root(play.court, only(play).id, who, word("root"))
    assert voting.post_root(play.court, only(play).id, VERIFIERS[0], word("root")).disputes[only(play).id].round.roots


@pytest.mark.parametrize("rooted", [False, True])
def test_missing_reveal_beside_a_root_costs_the_same_as_after_a_commitment(play: Play, rooted: bool) -> None:
    found = only(play)
    if rooted:
        play.court = voting.post_root(play.court, found.id, VERIFIERS[2], word("root"))
    said = [vote(found, who, VOTE_CONTENTS[0]) for who in VERIFIERS[:2]]
    for one in said:
        play.court = voting.commit(play.court, found.id, one.voter, one.seat_mask, typed_digest(play.court.domain, one))
    play.wait(found.round.commit_end + 1 - play.court.now)
    for one in said:
        play.court = voting.reveal(play.court, one)
    play.wait(only(play).round.reveal_end + 1 - play.court.now)
    assert play.settle(found) and only(play).verdict is Verdict.UPHELD
    silent = standing(only(play), only(play).round, VERIFIERS[2])
    assert silent is (SeatOutcome.NOT_REVEALED if rooted else SeatOutcome.ABSENT)
    assert penalty(silent, params().money) == (5 if rooted else 3)

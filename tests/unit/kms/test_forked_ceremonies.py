"""A coordinator shows two logs of one ceremony, and puts what honest shards truly said in one of them into the other (attack
15)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bytewise.crypto.curve import ORDER
from bytewise.protocol.errors.actors import CeremonyRefused
from bytewise.protocol.keys.ceremony_log import Body, Deal, DealReview, Join, Message, sign_message
from bytewise.protocol.units import Address
from kms.ceremony import state_machine
from kms.ceremony.deals import make_deal
from kms.ceremony.responses import _opening, due_messages, seeded_rng
from kms.ceremony.state import CeremonyPhase
from tests.fixtures.kms.ceremonies import CeremonyParties, Party, generated, new_key, opens, refresh, repair
from tests.fixtures.kms.lying_shards import ELSEWHERE


class Forked:
    """Two logs of one ceremony. An honest shard says one word of each kind in all its life, to the log that it was shown."""

    def __init__(self, plan: Callable[[], CeremonyParties]) -> None:
        self.shown = plan()
        self.other = CeremonyParties(self.shown.plan, self.shown.parties)
        self._words: dict[tuple[Address, type], Message] = {}

    def word(self, ceremony: CeremonyParties, who: Party, body: Body) -> Message:
        """What its desk says: the first word of this kind."""
        return self._words.setdefault((who.signer.address, type(body)), sign_message(who.signer, ceremony.state.id, body))

    def both(self, without: Callable[[CeremonyParties, Party, Body], bool] = lambda ceremony, who, body: False) -> None:
        """Ends the phase in both logs after all that the parties owe, but what `without` leaves out."""
        for ceremony in (self.shown, self.other):
            for who in ceremony.parties:
                for body in due_messages(ceremony.state, who.member):
                    if not without(ceremony, who, body):
                        ceremony.post(self.word(ceremony, who, body))
            ceremony.close()

    def moved(self, who: Party, kind: type = object) -> tuple[Message, ...]:
        """What the party says in the log that it is shown."""
        return tuple(
            self.word(self.shown, who, body) for body in due_messages(self.shown.state, who.member) if isinstance(body, kind)
        )


def joined_otherwise(make: Callable[[], CeremonyParties] = new_key) -> Forked:
    """In the other log the last receiver did not join."""
    forked = Forked(make)
    last = forked.shown.parties[-1]
    forked.both(lambda ceremony, who, body: ceremony is forked.other and who is last and isinstance(body, Join))
    return forked


def dealt_otherwise() -> Forked:
    """Shard 1 deals wrong values in the log that is shown, and under the same ephemeral keys good ones in the other."""
    forked = Forked(new_key)
    forked.both()
    liar, state = forked.shown.parties[0], forked.shown.state
    opening = _opening(state, liar.member, state.plan.dealers[0])
    bad = replace(opening, coefficients=((opening.coefficients[0] + 1) % ORDER, *opening.coefficients[1:]))
    for ceremony, values in ((forked.shown, bad), (forked.other, opening)):
        rng = seeded_rng(liar.seed, state.id, b"one and the same")
        deal = make_deal(state.id, ceremony.state.phase_head, 1, values, ceremony.state.keys, rng)
        ceremony.post(sign_message(liar.signer, state.id, deal))
    forked.both()
    points = [[each.enc for each in ceremony.state.deals[1].sealed] for ceremony in (forked.shown, forked.other)]
    assert points[0] == points[1]
    return forked


def renewed() -> CeremonyParties:
    return refresh(*generated(2, 3))


def mended() -> CeremonyParties:
    """A helper speaks last."""
    ceremony = repair(*generated(2, 4))
    return CeremonyParties(ceremony.plan, ceremony.parties[::-1])


def judged_otherwise(make: Callable[[], CeremonyParties]) -> Forked:
    """In the other log one receiver did not judge: another transcript."""
    forked = Forked(make)
    forked.both()
    forked.both()
    forked.both(
        lambda ceremony, who, body: ceremony is forked.other and who is ceremony.parties[-1] and isinstance(body, DealReview)
    )
    return forked


def unbound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: words mean what they say in any log."""
    monkeypatch.setattr(state_machine, "verify_phase_head", lambda state, message, begun: begun)


def test_complaint_from_another_log_is_refused_and_its_author_not_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    forked = dealt_otherwise()
    honest = forked.shown.parties[1:]
    words = [word for who in honest for word in forked.moved(who)]
    for word in words:
        with pytest.raises(CeremonyRefused, match="of another log"):
            forked.other.post(word)
        forked.shown.post(word)
    assert forked.other.state.faults == {} and forked.other.state.revealed == frozenset()
    assert list(forked.shown.state.faults) == [forked.shown.parties[0].signer.address]
    unbound(monkeypatch)
    forked = dealt_otherwise()
    for who in forked.shown.parties[1:]:
        for word in forked.moved(who):
            forked.other.post(word)
    assert forked.other.state.phase is CeremonyPhase.FAILED and forked.other.state.revealed == {2, 3}
    assert set(forked.other.state.faults) == {who.signer.address for who in forked.shown.parties[1:]}


def test_deal_from_another_log_is_refused_and_its_dealer_not_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    forked = joined_otherwise()
    dealer = forked.shown.parties[1]
    for word in forked.moved(dealer, Deal):
        with pytest.raises(CeremonyRefused, match="of another log"):
            forked.other.post(word)
    assert forked.other.state.faults == {}
    unbound(monkeypatch)
    for word in forked.moved(dealer, Deal):
        forked.other.post(word)
    assert list(forked.other.state.faults) == [dealer.signer.address]


def test_repair_value_of_another_log_is_refused_and_helper_not_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    forked = judged_otherwise(mended)
    helper = forked.shown.parties[1]
    words = forked.moved(helper)
    assert [each.kind for each in words] == ["hand"]
    with pytest.raises(CeremonyRefused, match="of another log"):
        forked.other.post(words[0])
    assert forked.other.state.faults == {}
    unbound(monkeypatch)
    forked.other.post(words[0])
    assert list(forked.other.state.faults) == [helper.signer.address]


def test_confirmation_of_another_logs_transcript_accuses_nobody() -> None:
    forked = judged_otherwise(renewed)
    words = [word for who in forked.shown.parties[:2] for word in forked.moved(who)]
    assert [each.kind for each in words] == ["confirm", "consent"] * 2
    for word in words:
        with pytest.raises(CeremonyRefused, match="another transcript"):
            forked.other.post(word)
        forked.shown.post(word)
    assert forked.other.state.faults == {} and forked.shown.state.faults == {}


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_participant_with_a_log_of_its_own_is_left_out_and_not_accused(kind: str) -> None:
    ceremony = renewed()
    ceremony.parties[1].meddle = ELSEWHERE[kind]
    assert ceremony.run().phase is CeremonyPhase.DONE and ceremony.state.faults == {}
    assert set(ceremony.refused) == {ceremony.parties[1].signer.address}
    assert ceremony.plan.source is not None and opens(ceremony) == ceremony.plan.source.commitments[0]

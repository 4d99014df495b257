"""Who deals last, or keeps the log, and takes a deal away: no key is made without it; what is left of the choice (ADR-034)."""

from collections.abc import Callable

import pytest

from bytewise.crypto.curve import decode_point
from bytewise.protocol.keys.ceremony import SharesSource
from kms.ceremony import state_machine
from kms.ceremony.state import CeremonyPhase, CeremonyState
from tests.fixtures.kms.ceremonies import CeremonyParties, Meddling, Party, generated, opens, party, plan_for
from tests.fixtures.kms.rogue_dealers import constants_dealt, is_even, lying_withdrawer, withdrawer

LAST = 3
"""Index of the dealer that deals last."""

TRIES = 64
"""In each it is even whether the key is as the dealer wants it: of so many both happen, but for once in 2^63."""


def dealt(meddle: Meddling | None = None) -> CeremonyParties:
    """Three shards make a key for two; the third deals last. All that there is to deal is dealt."""
    parties = [party(n) for n in range(1, 4)]
    parties[LAST - 1].meddle = meddle
    parties_of_ceremony = CeremonyParties(plan_for(parties, 2, 2), parties)
    while parties_of_ceremony.state.phase is not CeremonyPhase.DEALING:
        for who in parties_of_ceremony.parties:
            parties_of_ceremony.speak(who)
        parties_of_ceremony.close()
    for who in parties_of_ceremony.parties:
        parties_of_ceremony.speak(who)
    return parties_of_ceremony


def withdrawn(meddle: Meddling) -> CeremonyParties:
    """The first ceremony in which the last dealer took its deal away, at the end of its dealing."""
    for _ in range(TRIES):
        parties_of_ceremony = dealt(meddle)
        if len(parties_of_ceremony.state.polynomials) < LAST:
            return parties_of_ceremony
    raise AssertionError("it liked every key")


def with_one_deal_withheld() -> CeremonyParties:
    """A coordinator that saw all three deals, likes the key without the third better, and shows nobody that one."""
    for _ in range(TRIES):
        parties_of_ceremony = dealt()
        if not is_even(constants_dealt(parties_of_ceremony)):
            break
    parties = parties_of_ceremony.parties
    again = CeremonyParties(parties_of_ceremony.plan, parties)
    for message in parties_of_ceremony.log:
        if (message.sender, message.kind) != (parties[LAST - 1].signer.address, "deal"):
            again.post(message)
    return again


ATTACKS: dict[str, Callable[[], CeremonyParties]] = {
    "dealer": lambda: withdrawn(withdrawer),
    "coordinator": with_one_deal_withheld,
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_ceremony_fails_and_names_a_committed_dealer_that_is_silent(attack: Callable[[], CeremonyParties]) -> None:
    parties_of_ceremony = attack()
    parties_of_ceremony.close()
    last = parties_of_ceremony.plan.dealers[LAST - 1]
    assert parties_of_ceremony.state.phase is CeremonyPhase.FAILED and parties_of_ceremony.state.result is None
    assert f"dealer {LAST} ({last.address}) committed and did not deal" in parties_of_ceremony.state.reason
    assert parties_of_ceremony.state.faults == {}, "silence is no lie: its deal may have been held back"


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_control_silent_dealers_choose_between_two_keys_where_left_out(
    attack: Callable[[], CeremonyParties], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unasked(state: CeremonyState) -> CeremonyState:
        return state

    monkeypatch.setattr(state_machine, "verify_all_opened", unasked)
    parties_of_ceremony = attack()
    without = constants_dealt(parties_of_ceremony)
    parties_of_ceremony.close()
    assert parties_of_ceremony.run().phase is CeremonyPhase.DONE and parties_of_ceremony.state.faults == {}
    assert parties_of_ceremony.state.result is not None and parties_of_ceremony.state.result.qualified == (1, 2)
    assert decode_point(opens(parties_of_ceremony)) == without, (
        "the one of the two keys that it took, and nobody can say that it did"
    )


def test_dealer_that_lies_instead_chooses_once_and_is_convicted_for_it() -> None:
    """What is left: the adversary wins one bit of the key, and its account."""
    parties_of_ceremony = withdrawn(lying_withdrawer)
    without = constants_dealt(parties_of_ceremony)
    assert parties_of_ceremony.run().phase is CeremonyPhase.DONE
    assert (
        list(parties_of_ceremony.state.faults) == [parties_of_ceremony.plan.dealers[LAST - 1].address]
        and decode_point(opens(parties_of_ceremony)) == without
    )


def test_uncommitted_participants_and_helpers_may_be_silent(made: tuple[list[Party], SharesSource]) -> None:
    parties = [party(n) for n in range(1, 4)]
    parties[LAST - 1].absent = {CeremonyPhase.JOINING}
    assert CeremonyParties(plan_for(parties, 2, 2), parties).run().phase is CeremonyPhase.DONE
    held, source = made
    held[LAST - 1].absent = {CeremonyPhase.DEALING}
    dealers = dict(enumerate(held, start=1))
    parties_of_ceremony = CeremonyParties(plan_for(held, 2, 2, dealers=dealers, source=source), held)
    assert parties_of_ceremony.run().phase is CeremonyPhase.DONE and opens(parties_of_ceremony) == source.commitments[0]


@pytest.fixture(scope="module")
def made() -> tuple[list[Party], SharesSource]:
    """Shards that made a key together."""
    return generated(2, 3)

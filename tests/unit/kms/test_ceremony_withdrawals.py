"""Who deals last, or keeps the log, and takes a deal away: no key is made without it; what is left of the choice (ADR-038)."""

from collections.abc import Callable

import pytest

from bytewise.crypto.curve import decode_point
from kms.ceremony import state_machine
from kms.ceremony.state import CeremonyPhase
from tests.fixtures.kms.ceremonies import CeremonyParties, Meddling, generated, new_key, opens, refresh
from tests.fixtures.kms.rogue_dealers import constants_dealt, is_even, lying_withdrawer, withdrawer

LAST = 3
"""Index of the dealer that deals last."""

TRIES = 64
"""In each it is even whether the key is as the dealer wants it: of so many both happen, but for once in 2^63."""


def dealt(meddle: Meddling | None = None) -> CeremonyParties:
    """Three shards make a key for two; the third deals last. All that there is to deal is dealt."""
    ceremony = new_key()
    ceremony.parties[LAST - 1].meddle = meddle
    ceremony.until(CeremonyPhase.DEALING).turn()
    return ceremony


def withdrawn(meddle: Meddling) -> CeremonyParties:
    """The first ceremony in which the last dealer took its deal away, at the end of its dealing."""
    for _ in range(TRIES):
        ceremony = dealt(meddle)
        if len(ceremony.state.polynomials) < LAST:
            return ceremony
    raise AssertionError("it liked every key")


def with_one_deal_withheld() -> CeremonyParties:
    """A coordinator that saw all three deals, likes the key without the third better, and shows nobody that one."""
    for _ in range(TRIES):
        ceremony = dealt()
        if not is_even(constants_dealt(ceremony)):
            break
    parties = ceremony.parties
    again = CeremonyParties(ceremony.plan, parties)
    for message in ceremony.log:
        if (message.sender, message.kind) != (parties[LAST - 1].signer.address, "deal"):
            again.post(message)
    return again


ATTACKS: dict[str, Callable[[], CeremonyParties]] = {
    "dealer": lambda: withdrawn(withdrawer),
    "coordinator": with_one_deal_withheld,
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_ceremony_fails_and_names_a_committed_dealer_that_is_silent(attack: Callable[[], CeremonyParties]) -> None:
    ceremony = attack()
    ceremony.close()
    last = ceremony.plan.dealers[LAST - 1]
    assert ceremony.state.phase is CeremonyPhase.FAILED and ceremony.state.result is None
    assert f"dealer {LAST} ({last.address}) committed and did not deal" in ceremony.state.reason
    assert ceremony.state.faults == {}, "silence is no lie: its deal may have been held back"


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_control_silent_dealers_choose_between_two_keys_where_left_out(
    attack: Callable[[], CeremonyParties], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_machine, "verify_all_opened", lambda state: state)
    ceremony = attack()
    without = constants_dealt(ceremony)
    ceremony.close()
    assert ceremony.run().phase is CeremonyPhase.DONE and ceremony.state.faults == {}
    assert ceremony.state.result is not None and ceremony.state.result.qualified == (1, 2)
    assert decode_point(opens(ceremony)) == without, "the one of the two keys that it took, and nobody can say that it did"


def test_dealer_that_lies_instead_chooses_once_and_is_convicted_for_it() -> None:
    """What is left: the adversary wins one bit of the key, and its account."""
    ceremony = withdrawn(lying_withdrawer)
    without = constants_dealt(ceremony)
    assert ceremony.run().phase is CeremonyPhase.DONE
    assert list(ceremony.state.faults) == [ceremony.plan.dealers[LAST - 1].address] and decode_point(opens(ceremony)) == without


def test_uncommitted_participants_and_helpers_may_be_silent() -> None:
    ceremony = new_key()
    ceremony.parties[LAST - 1].absent = {CeremonyPhase.JOINING}
    assert ceremony.run().phase is CeremonyPhase.DONE
    held, source = generated(2, 3)
    held[LAST - 1].absent = {CeremonyPhase.DEALING}
    ceremony = refresh(held, source)
    assert ceremony.run().phase is CeremonyPhase.DONE and opens(ceremony) == source.commitments[0]

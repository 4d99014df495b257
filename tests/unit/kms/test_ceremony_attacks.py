"""Attacks on key ceremonies (13 to 15 of `docs/evidence/attacks.md`), each beside its control: it wins once its defence is
removed."""

import contextlib
import os
from collections.abc import Iterator, Sequence

import pytest
from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto.curve import GENERATOR, ORDER, decode_point, encode_point, random_scalar
from bytewise.crypto.shares import combine_values
from bytewise.protocol.errors.actors import CeremonyRefused, DealerLied
from bytewise.protocol.keys.ceremony_log import Body, Deal, DealReview, read_message
from bytewise.protocol.units import Digest
from kms.ceremony import deals, responses, state_machine
from kms.ceremony.deals import commitment_digest, draw_polynomial, make_deal, open_deal, open_value, verify_deal, weighted_value
from kms.ceremony.responses import ParticipantSecrets, _deal_secret, due_messages
from kms.ceremony.state import CeremonyPhase, CeremonyState
from tests.fixtures.kms.ceremonies import (
    CeremonyParties,
    Meddling,
    Party,
    generated,
    new_key,
    opens,
    party,
    plan_for,
    refresh,
    repair,
)
from tests.fixtures.kms.dishonest_seals import spying
from tests.fixtures.kms.lying_shards import ALL, deal_as_hand
from tests.fixtures.kms.rogue_dealers import OWN, chooser, is_wanted, rogue, silent_judge

# --- 13: the last dealer, and two deals ---


def last_speaks(meddle: Meddling) -> CeremonyParties:
    """3 of 4 shards make a key; the third deals last, in its own way, and the fourth is with it."""
    parties = [party(n) for n in range(1, 5)]
    parties[2].meddle, parties[3].meddle = meddle, silent_judge
    return all_but_closed(CeremonyParties(plan_for(parties, 3, 3), [*parties[:2], parties[3], parties[2]]))


def all_but_closed(ceremony: CeremonyParties) -> CeremonyParties:
    """The ceremony up to its last close: everybody who can has proved its share."""
    ceremony.until(CeremonyPhase.CONFIRMING).turn()
    return ceremony


def test_attack_13_last_dealer_chooses_the_key_only_without_the_hash_round(monkeypatch: pytest.MonkeyPatch) -> None:
    ceremony = last_speaks(chooser)
    assert "commitments that differ from its posted hash" in ceremony.state.faults[ceremony.plan.dealers[2].address]
    assert ceremony.state.result is not None and ceremony.state.result.qualified == (1, 2, 4)
    # Control: who may deal what it chose when it knew the others is no liar, and the key is as it wants it, every time.
    monkeypatch.setattr(state_machine, "verify_deal", verify_uncommitted)
    for _ in range(3):
        ceremony = last_speaks(chooser)
        assert not ceremony.state.faults and is_wanted(decode_point(opens(ceremony)))
        ceremony.close()
        assert ceremony.state.phase is CeremonyPhase.DONE


def test_attack_13_without_proofs_and_hash_round_key_is_a_dealers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ceremony = last_speaks(rogue)
    liar, own = ceremony.plan.dealers[2].address, encode_point(GENERATOR * OWN)
    assert "commitments that differ from its posted hash" in ceremony.state.faults[liar]
    # Either defence alone names it.
    with monkeypatch.context() as patch:
        patch.setattr(state_machine, "verify_deal", verify_uncommitted)
        assert "did not prove the value at 0" in last_speaks(rogue).state.faults[liar]
    with monkeypatch.context() as patch:
        patch.setattr(deals, "knows_log", lambda *_: True)
        assert "commitments that differ from its posted hash" in last_speaks(rogue).state.faults[liar]
    # Control: with neither, nobody is named, and two shards sign for shares of a key of which one dealer knows all. What is left
    # is the quorum: who cheats so has no share that it could prove.
    monkeypatch.setattr(state_machine, "verify_deal", verify_uncommitted)
    monkeypatch.setattr(deals, "knows_log", lambda *_: True)
    ceremony = last_speaks(rogue)
    assert ceremony.state.result is not None and ceremony.state.result.public_key == own
    assert not ceremony.state.faults and set(ceremony.state.signatures) == {1, 2}
    ceremony.close()
    assert ceremony.state.phase is CeremonyPhase.FAILED and ceremony.state.reason == "2 confirmations, 3 needed"


def ceremony_with(meddle: Meddling) -> CeremonyParties:
    """2 of 3 shards make a key, the first of them in its own way."""
    ceremony = new_key()
    ceremony.parties[0].meddle = meddle
    return ceremony


def two_sound_deals(ceremony: CeremonyParties, who: Party, body: Body) -> Iterator[Body]:
    """Deals twice: both times a sound polynomial, and sealed as it should be."""
    yield body
    if isinstance(body, Deal):
        other = draw_polynomial(ceremony.state.id, 1, random_scalar(os.urandom), ceremony.plan.threshold, os.urandom)
        yield make_deal(ceremony.state.id, ceremony.state.phase_head, 1, other, ceremony.state.keys, os.urandom)


def dealt_twice() -> CeremonyParties:
    """2 of 3 shards make a key, the first of which deals two polynomials."""
    ceremony = ceremony_with(two_sound_deals)
    ceremony.run()
    return ceremony


def value_in(ceremony: CeremonyParties, said: Deal, receiver: int) -> int:
    """What a deal of dealer 1 has for a receiver."""
    sealed = next(each for each in said.sealed if each.receiver == receiver)
    point = decode_point(sealed.enc) * _deal_secret(ceremony.state, ceremony.parties[receiver - 1].member)
    return open_value(ceremony.state.id, 1, sealed, point, ceremony.state.keys[receiver])


def test_attack_13_dealer_that_deals_twice_is_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    named = dealt_twice()
    liar = named.parties[0].signer.address
    assert set(named.state.faults) == {liar} and "sent two different messages" in named.state.faults[liar]
    assert named.state.result is not None and named.state.result.qualified == (2, 3)
    # Two things stop it, one message of a kind and the hash round. Without the first the second names the same dealer.
    monkeypatch.setattr(state_machine, "repeat_of", lambda state, message: None)
    assert "commitments that differ from its posted hash" in dealt_twice().state.faults[liar]
    # Control: with neither, both deals are good, the newest counts, and who read the first has no share of the key.
    monkeypatch.setattr(state_machine, "verify_deal", verify_uncommitted)
    ceremony = dealt_twice()
    result, shares = ceremony.state.result, ceremony.shares()
    assert result is not None and result.qualified == (1, 2, 3) and not ceremony.state.faults
    first, newest = (body for each in ceremony.log if each.sender == liar and isinstance(body := read_message(each), Deal))
    early = (shares[1] - value_in(ceremony, newest, 1) + value_in(ceremony, first, 1)) % ORDER
    assert encode_point(GENERATOR * combine_values({1: shares[1], 2: shares[2]})) == result.public_key
    assert encode_point(GENERATOR * combine_values({1: early, 2: shares[2]})) != result.public_key


def verify_uncommitted(
    ceremony: Digest, dealer: int, found: Deal, committed: Digest, threshold: int, receivers: Sequence[int]
) -> tuple[EccPoint, ...]:
    """`verify_deal` without the hash round."""
    own = commitment_digest(ceremony, dealer, found.commitments, found.e, found.f)
    return verify_deal(ceremony, dealer, found, own, threshold, receivers)


# --- 14: two sets of dealers ---


def sum_of_what_opens(state: CeremonyState, who: ParticipantSecrets, receiver: int) -> int:
    """`_dealt_value` of a receiver that sums the deals which it can open, in place of those that the log qualified."""
    values = {}
    for dealer, said in state.deals.items():
        sealed = next(each for each in said.sealed if each.receiver == receiver)
        point, polynomial = decode_point(sealed.enc) * _deal_secret(state, who), [decode_point(each) for each in said.commitments]
        with contextlib.suppress(DealerLied):
            values[dealer] = open_deal(state.id, dealer, sealed, point, state.keys[receiver], polynomial)
    return weighted_value(dict.fromkeys(values, 1), values)


def half_dealt() -> tuple[CeremonyParties, bool]:
    """2 of 3 shards make a key; the first deals a false value to the third alone. Whether the others' sums make the key."""
    ceremony = all_but_closed(ceremony_with(ALL["wrong share"]))
    assert ceremony.state.result is not None and ceremony.state.result.qualified == (2, 3)
    sums = {i: responses.dealt_value(ceremony.state, ceremony.parties[i - 1].member, i) for i in (2, 3)}
    makes_key = encode_point(GENERATOR * combine_values(sums)) == ceremony.state.result.public_key
    ceremony.close()
    return ceremony, makes_key


def test_attack_14_receivers_that_sum_local_deals_hold_shares_of_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    ceremony, makes_key = half_dealt()
    assert makes_key and ceremony.state.phase is CeremonyPhase.DONE and set(ceremony.shares()) == {2, 3}
    # Control: each sums what opens for it, and a dealer that lies to one shard alone has ended the ceremony.
    monkeypatch.setattr(responses, "dealt_value", sum_of_what_opens)
    ceremony, makes_key = half_dealt()
    assert not makes_key and ceremony.state.phase is CeremonyPhase.FAILED and "1 confirmations, 2 needed" in ceremony.state.reason


def test_attack_14_signer_of_another_transcript_is_ignored() -> None:
    ceremony = ceremony_with(ALL["other transcript"])
    assert ceremony.run().phase is CeremonyPhase.DONE and set(ceremony.shares()) == {2, 3}
    assert ceremony.refused == [ceremony.parties[0].signer.address]


# --- 15: complaints that open an honest dealer ---


def flooded() -> CeremonyParties:
    """Two of five shards complain falsely about the same honest dealer; two values of its polynomial are the polynomial."""
    ceremony = new_key(2, 3, 5)
    for each in ceremony.parties[1:3]:
        each.meddle = ALL["false complaint"]
    with contextlib.suppress(CeremonyRefused):  # who judges after the end is refused
        ceremony.run()
    return ceremony


def read_off(ceremony: CeremonyParties, dealer: int) -> int:
    """The value at 0 of a dealer's polynomial, from the complaints in the log."""
    make_deal, values = ceremony.state.deals[dealer], {}
    polynomial = [decode_point(each) for each in make_deal.commitments]
    for message in ceremony.log:
        body = read_message(message)
        for said in body.complaints if isinstance(body, DealReview) else ():
            receiver = next(seat.index for seat in ceremony.plan.receivers if seat.address == message.sender)
            sealed = next(each for each in make_deal.sealed if each.receiver == receiver)
            key = ceremony.state.keys[receiver]
            values[receiver] = open_deal(ceremony.state.id, dealer, sealed, decode_point(said.point), key, polynomial)
    return combine_values(values)


def test_attack_15_complaint_flood_opens_a_dealer_only_without_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    ceremony = flooded()
    assert ceremony.state.phase is CeremonyPhase.FAILED and len(ceremony.state.revealed) == 2 and ceremony.state.result is None
    # Control: without a budget the ceremony goes on, and a part of the key that it makes stands in its log.
    monkeypatch.setattr(state_machine, "fail_ceremony", lambda state, reason: state)
    ceremony = flooded()
    assert ceremony.state.phase is CeremonyPhase.DONE
    assert ceremony.state.result is not None and 1 in ceremony.state.result.qualified
    assert encode_point(GENERATOR * read_off(ceremony, 1)) == ceremony.state.deals[1].commitments[0]


# --- 15: what is sealed as one thing, said as another ---


def mended() -> CeremonyParties:
    """Shards 2 and 3 help shard 1, which lost its share; the latter hands to it what the former dealt."""
    held, source = generated(2, 3)
    held[2].meddle = deal_as_hand
    ceremony = repair(held, source)
    ceremony.run()
    return ceremony


def test_deal_is_no_repair_value_unless_seal_contexts_coincide(monkeypatch: pytest.MonkeyPatch) -> None:
    ceremony = mended()
    assert list(ceremony.state.faults) == [ceremony.parties[1].signer.address] and list(ceremony.state.repair_values) == [1]
    for module in (state_machine, responses):
        monkeypatch.setattr(module, "repair_context", lambda ceremony, transcript: ceremony)
    ceremony = mended()
    assert ceremony.state.faults == {} and list(ceremony.state.repair_values) == [1, 2]


# --- 15: true complaints about a deal that borrows another's ephemeral point ---

WANTED = {1: 2, 2: 1}


def judged(shift: int) -> tuple[CeremonyParties, dict[int, DealReview]]:
    """2 of 3 shards renew their shares; the last borrows points of the others. What each of them says of the deals."""
    held, source = generated(2, 3)
    held[2].meddle = spying(WANTED, shift)
    ceremony = refresh(held, source).until(CeremonyPhase.JUDGING)
    said = {
        i: body
        for i, who in enumerate(held[:2], 1)
        for body in due_messages(ceremony.state, who.member)
        if isinstance(body, DealReview)
    }
    return ceremony, said


def borrowed_key(ceremony: CeremonyParties, said: dict[int, DealReview], shift: int) -> int:
    """The epoch's key, from what the last shard has by right and what shard 2 says of its deal, under a point of dealer 1."""
    state, last = ceremony.state, ceremony.parties[2]
    of_2, of_3 = state.deals[1].sealed[1:]
    shown = decode_point(said[2].complaints[0].point)
    point = shown + -(decode_point(state.keys[2]) * shift) if shift else shown
    values = {2: open_value(state.id, 1, of_2, point, state.keys[2])}
    own = decode_point(of_3.enc) * _deal_secret(state, last.member)
    values[3] = open_value(state.id, 1, of_3, own, state.keys[3])
    return combine_values({1: combine_values(values), 3: last.share or 0})


@pytest.mark.parametrize("shift", [0, 7])
def test_attack_15_borrowed_points_reveal_the_key_without_ephemeral_proofs(monkeypatch: pytest.MonkeyPatch, shift: int) -> None:
    ceremony, said = judged(shift)
    assert list(ceremony.state.faults) == [ceremony.parties[2].signer.address] and 3 not in ceremony.state.polynomials
    assert "did not prove the ephemeral key" in next(iter(ceremony.state.faults.values()))
    assert len(said) == 2 and not any(each.complaints for each in said.values())
    # Control: without the proofs both complain rightly, and one shard of the two that open has the key.
    monkeypatch.setattr(deals, "verify_sealed", lambda ceremony, dealer, sealed: sealed)
    ceremony, said = judged(shift)
    assert ceremony.state.faults == {} and [len(each.complaints) for each in said.values()] == [1, 1]
    source = ceremony.plan.source
    assert source is not None and encode_point(GENERATOR * borrowed_key(ceremony, said, shift)) == source.commitments[0]

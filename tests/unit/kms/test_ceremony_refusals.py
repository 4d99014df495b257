"""Each refusal of a ceremony's rules by itself: what no honest shard says or gets, and what is told of it."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bytewise.crypto import hpke
from bytewise.crypto.curve import GENERATOR, ORDER, encode_point, encode_scalar, random_scalar
from bytewise.crypto.shares import split
from bytewise.protocol.errors.actors import CeremonyFailed, CeremonyRefused, DealerLied, ShareMissing
from bytewise.protocol.keys.ceremony_log import Complaint, DealReview, Exchange, ExchangeAnswer, sign_message
from bytewise.protocol.keys.epochs import EpochOnChain
from bytewise.protocol.suites import rebuilt_epoch
from bytewise.protocol.units import U64, U256, Address, Blob, Digest
from kms.ceremony import canary
from kms.ceremony.authority import TrustSettings, verify_authority
from kms.ceremony.coordinator import epoch_document, transcript_of
from kms.ceremony.deals import _info, draw_polynomial, make_deal, open_value, seal_value, verify_sealed
from kms.ceremony.responses import new_share
from kms.ceremony.state import CeremonyPhase, exclude, result_of
from tests.fixtures.kms.ceremonies import (
    COORDINATOR,
    KEY_EPOCHS,
    CeremonyParties,
    generated,
    new_key,
    party,
    plan_for,
    refresh,
    repair,
    seat,
)
from tests.fixtures.kms.dkg_fixture import NO_EPOCH, CeremonyShard, brought, ceremony_shards, coordinator_over, plan
from tests.fixtures.kms.lying_shards import HELPERS, IDENTITY

CEREMONY = Digest(b"\x0c" * 32)


# --- what shares, polynomials and sealed values must be ---


def test_canary_shows_a_share_of_another_key() -> None:
    secret = random_scalar(os.urandom)
    shares, commitments = split(secret, 2, 3, os.urandom)
    key, base = encode_point(commitments[0]), canary.canary_point(CEREMONY)
    partials = {index: base * share for index, share in shares.items()}
    assert canary.verify_canary(CEREMONY, key, 2, partials) == partials
    for index, subset in ((1, "1, 2"), (2, "1, 2"), (3, "2, 3")):
        with pytest.raises(CeremonyFailed, match=rf"shares \({subset}\) do not open the canary"):
            canary.verify_canary(CEREMONY, key, 2, partials | {index: base * (shares[index] + 1)})
    with pytest.raises(CeremonyFailed, match="1 shares, threshold 2"):
        canary.verify_canary(CEREMONY, key, 2, {1: partials[1]})


def test_polynomials_that_cancel_out_make_no_key() -> None:
    first = tuple(GENERATOR * random_scalar(os.urandom) for _ in range(2))
    with pytest.raises(CeremonyFailed, match="identity"):
        result_of(new_key(count=2).plan, CEREMONY, {1: first, 2: tuple(-each for each in first)}, {})


def test_sum_that_is_not_the_source_key_is_no_result() -> None:
    others = {index: tuple(GENERATOR * random_scalar(os.urandom) for _ in range(2)) for index in (1, 2)}
    with pytest.raises(CeremonyFailed, match="the sum is of another key"):
        result_of(refresh(*generated(2, 2)).plan, CEREMONY, others, {})


def test_impossible_sealed_value_names_its_dealer() -> None:
    secret = random_scalar(os.urandom)
    key = encode_point(GENERATOR * secret)
    sound = seal_value(CEREMONY, 1, 2, 7, key, os.urandom)
    assert verify_sealed(CEREMONY, 1, sound) == sound
    for wrong, words in (
        (replace(sound, ciphertext=Blob(sound.ciphertext[:-1])), "has 47 bytes"),
        (replace(sound, ciphertext=Blob(sound.ciphertext + b"\0")), "has 49 bytes"),
        (replace(sound, enc=IDENTITY), "P-256 point"),
        (replace(sound, e=Blob(ORDER.to_bytes(32, "big"))), "not below the group order"),
        (replace(sound, f=Blob(bytes(31))), "31 bytes"),
    ):
        with pytest.raises(DealerLied, match=words):
            verify_sealed(CEREMONY, 1, wrong)
    for place in ((Digest(bytes(32)), 1), (CEREMONY, 2)):
        with pytest.raises(DealerLied, match="did not prove the ephemeral key"):
            verify_sealed(*place, sound)


def test_value_above_the_group_order_is_refused() -> None:
    secret, ephemeral = random_scalar(os.urandom), random_scalar(os.urandom)
    key, enc = (encode_point(GENERATOR * each) for each in (secret, ephemeral))
    point = GENERATOR * (secret * ephemeral % ORDER)
    shared = hpke.shared_secret(point, enc, key)
    ciphertext = hpke.key_schedule(shared, _info(CEREMONY, 1, 2)).seal(ORDER.to_bytes(32, "big"))
    sealed = replace(seal_value(CEREMONY, 1, 2, 7, key, os.urandom), enc=enc, ciphertext=Blob(ciphertext))
    with pytest.raises(DealerLied, match="its deal to 2 is no scalar"):
        open_value(CEREMONY, 1, sealed, point, key)
    for ceremony, dealer, receiver in ((Digest(bytes(32)), 1, 2), (CEREMONY, 2, 2), (CEREMONY, 1, 3)):
        with pytest.raises(DealerLied, match=f"its deal to {receiver} does not open"):
            open_value(ceremony, dealer, replace(sealed, receiver=receiver), point, key)


# --- words that have no place ---


def one_uncommitted(phase: CeremonyPhase) -> CeremonyParties:
    """The third of three shards did not join, and the others have come so far."""
    ceremony = new_key()
    ceremony.parties[2].absent = {CeremonyPhase.JOINING}
    return ceremony.until(phase)


def test_participant_that_did_not_commit_deals_nothing() -> None:
    ceremony = one_uncommitted(CeremonyPhase.DEALING)
    opening = draw_polynomial(ceremony.state.id, 3, random_scalar(os.urandom), 2, os.urandom)
    body = make_deal(ceremony.state.id, ceremony.state.phase_head, 3, opening, ceremony.state.keys, os.urandom)
    with pytest.raises(CeremonyRefused, match="which did not commit"):
        ceremony.post(sign_message(ceremony.parties[2].signer, ceremony.state.id, body))


def test_judgement_covers_participants_and_accuses_each_dealer_once() -> None:
    ceremony = one_uncommitted(CeremonyPhase.JUDGING)
    before, (first, _, uncommitted) = ceremony.state, ceremony.parties
    for judge, accused in ((first, (3,)), (first, (9,)), (first, (1, 1)), (first, (2, 1)), (uncommitted, ())):
        complaints = tuple(Complaint(each, encode_point(GENERATOR), encode_scalar(1), encode_scalar(1)) for each in accused)
        with pytest.raises(CeremonyRefused, match="judgement of"):
            ceremony.post(sign_message(judge.signer, before.id, DealReview(before.phase_head, complaints)))
    assert ceremony.state == before


def test_repair_without_its_receiver_fails_at_once() -> None:
    held, source = generated(2, 3)
    held[0].absent = {CeremonyPhase.JOINING}
    ceremony = repair(held, source)
    ceremony.turn()
    ceremony.close()
    assert ceremony.state.phase is CeremonyPhase.FAILED and ceremony.state.reason == "the repair target did not join"


def test_excluded_repair_target_takes_nothing_of_a_helper_with_its_number() -> None:
    """Repair target and helpers are numbered apart: here the target and the first helper are both number 1."""
    held, source = generated(2, 3)
    early, late = (repair(held, source).until(phase) for phase in (CeremonyPhase.JOINING, CeremonyPhase.CONFIRMING))
    early.turn()
    for ceremony in (early, late):
        target, before = ceremony.parties[2].signer.address, ceremony.state
        after = exclude(before, target, "lies")
        assert (after.keys, after.repair_values) == (before.keys, before.repair_values) and len(after.keys) == 2
        assert len(after.repair_values) == (2 if ceremony is late else 0)
        helper = exclude(before, ceremony.parties[0].signer.address, "lies")
        assert sorted(helper.keys) == ([2] if ceremony is early else [1, 2]) and helper.repair_key == before.repair_key
    early.state = exclude(early.state, early.parties[2].signer.address, "lies")
    early.close()
    assert early.state.phase is CeremonyPhase.FAILED and early.state.reason == "the repair target did not join"
    late.speak(late.parties[2])
    confirmed = exclude(late.state, late.parties[0].signer.address, "lies")
    assert sorted(late.state.partials) == [1] == sorted(confirmed.partials) == sorted(confirmed.signatures)
    assert sorted(confirmed.repair_values) == [2]
    assert not exclude(late.state, late.parties[2].signer.address, "lies").partials


def test_repair_with_too_few_values_reports_their_number() -> None:
    held, source = generated(2, 3)
    held[2].meddle = HELPERS["garbage hand"]
    ceremony = repair(held, source).until(CeremonyPhase.CONFIRMING)
    assert len(ceremony.state.repair_values) == 2
    with pytest.raises(ShareMissing, match="1 of 2 helpers sent a usable value"):
        new_share(ceremony.state, ceremony.parties[2].member)


def test_share_needs_a_result_a_participant_and_matching_commitments() -> None:
    early, ceremony = (new_key(count=2).until(phase) for phase in (CeremonyPhase.JUDGING, CeremonyPhase.CONFIRMING))
    parties, result = ceremony.parties, ceremony.state.result
    assert result is not None and new_share(ceremony.state, parties[0].member)
    for state, who in ((early.state, early.parties[0]), (ceremony.state, party(9))):
        with pytest.raises(ShareMissing, match=f"none in phase {state.phase.name}"):
            new_share(state, who.member)
    other = result._replace(commitments=(result.commitments[0], encode_point(GENERATOR)))
    with pytest.raises(ShareMissing, match="does not fit the commitments"):
        new_share(replace(ceremony.state, result=other), parties[0].member)
    with pytest.raises(CeremonyRefused, match="no transcript in phase JUDGING"):
        transcript_of(early.state)
    for state in (early.state, ceremony.state):
        with pytest.raises(CeremonyRefused, match=f"no document in phase {state.phase.name}"):
            epoch_document(state)


# --- what a shard takes part in ---


class NoEpoch:
    """A chain that has no epoch yet."""

    def key_epoch(self, epoch: int) -> EpochOnChain:
        return NO_EPOCH

    def is_open_for_disputes(self, epoch: int) -> bool:
        return False


TRUST = TrustSettings(31337, KEY_EPOCHS, COORDINATOR.address, frozenset(), simulated=True)
FOREIGN: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another chain": ({"chain_id": U256(1)}, {}, "is of another network"),
    "another contract": ({"key_epochs": Address("0x" + "e2" * 20)}, {}, "is of another network"),
    "another coordinator": ({"scribe": party(9).signer.address}, {}, "the shard's settings"),
    "another assurance": ({"assurance": "splendid"}, {}, "is splendid"),
    "simulated in production": ({}, {"simulated": False}, "is simulated"),
    "a key that is rebuilt": ({"epoch": U64(rebuilt_epoch(1))}, {}, "release_shares is not set"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_shard_takes_no_part_in_a_plan_its_operator_did_not_approve(name: str) -> None:
    """Also where nobody asked before who keeps the plan. Control: the plan as it is."""
    changes, otherwise, words = FOREIGN[name]
    parties = [party(n) for n in (1, 2)]
    sound = plan_for(parties, 2, 2)
    assert verify_authority(sound, TRUST, parties[0].signer.address, NoEpoch()) == sound
    with pytest.raises(CeremonyRefused, match=words):
        verify_authority(replace(sound, **changes), replace(TRUST, **otherwise), parties[0].signer.address, NoEpoch())


def test_every_seat_of_a_plan_is_a_participant_and_there_are_no_others() -> None:
    held, source = generated(2, 3)
    heir = party(7)
    mending = plan_for(held[1:], 2, 2, dealers={2: held[1], 3: held[2]}, source=source, heir=seat(1, heir))
    moving = plan_for([party(8), heir], 2, 2, dealers=dict(enumerate(held, start=1)), source=source)
    for agreed, who in ((mending, heir), (mending, held[1]), (moving, held[0]), (moving, heir)):
        with pytest.raises(CeremonyRefused, match="is NONE"):  # it is the chain that is asked next
            verify_authority(agreed, TRUST, who.signer.address, NoEpoch())
    for agreed, who in ((mending, held[0]), (moving, party(9))):
        with pytest.raises(CeremonyRefused, match="has no seat for this shard"):
            verify_authority(agreed, TRUST, who.signer.address, NoEpoch())


# --- the coordinator hears nobody who has another log, or speaks for others ---


class Altering:
    """The way to a shard, of which somebody has taken hold."""

    def __init__(self, ceremony_shard: CeremonyShard) -> None:
        self._office = ceremony_shard
        self.answered: ExchangeAnswer | None = None
        self.head: Digest | None = None
        self.instead: ExchangeAnswer | None = None

    def exchange(self, asked: Exchange, timeout_s: float) -> ExchangeAnswer:
        self.answered = self._office.exchange(asked, timeout_s)
        said = self.answered if self.instead is None else replace(self.answered, messages=self.instead.messages)
        return said if self.head is None else replace(said, head=self.head)


def test_coordinator_ignores_a_shard_with_another_log(tmp_path: Path) -> None:
    shards, _ = ceremony_shards(tmp_path, 2)
    link = Altering(shards[0])
    coordinator = coordinator_over(tmp_path, plan(shards, 2, 2), {shards[0].signer.address: link})
    link.head = Digest(bytes(32))
    assert not coordinator.exchange_round() and coordinator.state.length == 0
    assert link.answered is not None and link.answered.messages
    link.head = None
    assert coordinator.exchange_round() and coordinator.state.length == len(link.answered.messages)


def test_coordinator_accepts_a_shards_messages_only_from_that_shard(tmp_path: Path) -> None:
    shards, _ = ceremony_shards(tmp_path, 2)
    agreed, own = plan(shards, 2, 2), shards[0].signer.address
    link = Altering(shards[0])
    coordinator = coordinator_over(tmp_path, agreed, {own: link})
    first, link.instead = (each.exchange(brought(agreed)) for each in shards)
    assert {each.sender for each in link.instead.messages} == {shards[1].signer.address}
    assert not coordinator.exchange_round() and coordinator.state.length == 0
    link.instead = first
    assert coordinator.exchange_round() and {who for who, _ in coordinator.state.bodies} == {own}

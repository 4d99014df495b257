"""Key ceremonies between honest shards, and between honest and dishonest ones: any t new shares open, or nothing changed."""

import os
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import CeremonyRefused, NoProgress, ShareMissing
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import BadSignature
from bytewise.protocol.keys.ceremony import SharesSource
from bytewise.protocol.keys.ceremony_log import Close, sign_message
from bytewise.protocol.signing import LocalSigner, verify_signature
from bytewise.protocol.units import Blob, Digest
from bytewise.service.secret import Secret
from bytewise.service.settings import library_variables
from kms.ceremony.coordinator import share_consents
from kms.ceremony.responses import due_messages, new_share
from kms.ceremony.state import CeremonyPhase, shares_digest
from kms.ceremony.state_machine import apply, initial_state, replay
from tests.fixtures.kms.ceremonies import (
    COORDINATOR,
    RUNNING,
    CeremonyParties,
    Party,
    generated,
    in_force,
    new_key,
    opens,
    party,
    plan_for,
    refresh,
    repair,
)
from tests.fixtures.kms.lying_shards import ALL, DEALERS, HELPERS, HOLDERS, RECEIVERS, SILENT


def shares_of(held: list[Party]) -> dict[int, int]:
    """Old shares by index."""
    return {i: each.share for i, each in enumerate(held, start=1) if each.share is not None}


Made = tuple[list[Party], SharesSource]


@pytest.fixture(scope="module")
def made() -> Made:
    """2 of 3 shards with a key; tests copy the parties."""
    return generated(2, 3)


@pytest.mark.parametrize(("threshold", "count"), [(2, 2), (3, 4)])
def test_honest_shards_make_a_key_that_any_threshold_of_them_opens(threshold: int, count: int) -> None:
    ceremony = new_key(threshold, count, count)
    assert ceremony.run().phase is CeremonyPhase.DONE and ceremony.state.faults == {}
    opens(ceremony)
    assert len(set(ceremony.shares().values())) == count


def test_a_refresh_keeps_the_key_and_changes_every_share(made: Made) -> None:
    held, source = made
    ceremony = refresh([replace(each) for each in held], source, 3)
    assert ceremony.run().phase is CeremonyPhase.DONE and opens(ceremony) == source.commitments[0]
    assert ceremony.state.result is not None and ceremony.state.result.commitments[1:] != source.commitments[1:]
    old, new = shares_of(held), ceremony.shares()
    assert not set(old.values()) & set(new.values())
    with pytest.raises(AssertionError):
        in_force({1: old[1], 2: new[2]}, 2, source.commitments[0])
    in_force(old, 2, source.commitments[0])


@pytest.mark.parametrize(("dealing", "threshold", "count"), [((1, 3), 3, 4), ((1, 2, 3), 2, 2)])
def test_resharing_to_others_and_threshold_keeps_the_key(
    made: Made, dealing: tuple[int, ...], threshold: int, count: int
) -> None:
    held, source = made
    fresh = [party(20 + n) for n in range(count - 1)] + [replace(held[0])]
    dealers = {i: replace(held[i - 1]) for i in dealing if i != 1} | {1: fresh[-1]}
    ceremony = CeremonyParties(plan_for(fresh, threshold, count, dealers=dealers, source=source), [*dealers.values(), *fresh])
    assert ceremony.run().phase is CeremonyPhase.DONE
    assert opens(ceremony) == source.commitments[0]
    # For the chain: each at its place among those who had the shares before, the same digest as the new holders sign.
    assert ceremony.state.result is not None
    consents, digest = (share_consents(ceremony.state), shares_digest(ceremony.plan, ceremony.state.result))
    assert [index for index, each in enumerate(consents, start=1) if each] == list(dealing)
    for index in dealing:
        assert verify_signature("shares", digest, consents[index - 1], dealers[index].signer.address)


def test_key_moves_only_with_the_consent_of_the_former_threshold(made: Made) -> None:
    held, source = made
    fresh = [party(20 + n) for n in range(3)]
    for silent in ({2}, {1, 2}):
        dealers = {
            i: replace(each, absent={CeremonyPhase.CONFIRMING} if i in silent else set()) for i, each in enumerate(held, start=1)
        }
        ceremony = CeremonyParties(plan_for(fresh, 2, 3, dealers=dealers, source=source), [*dealers.values(), *fresh])
        assert ceremony.run().phase is (CeremonyPhase.DONE if len(silent) == 1 else CeremonyPhase.FAILED)
        assert sorted(ceremony.state.consents) == [i for i in dealers if i not in silent]
    assert ceremony.state.reason == "1 consents, 2 needed" and ceremony.state.result is None
    assert share_consents(ceremony.state)[2] and not any(share_consents(ceremony.state)[:2])


def test_a_lost_share_is_repaired_by_a_threshold_of_helpers(made: Made) -> None:
    held, source = made
    ceremony = repair([replace(each) for each in held], source, 2)
    assert ceremony.run().phase is CeremonyPhase.DONE and ceremony.shares() == {2: held[1].share}
    for helper in ceremony.parties[:2]:
        with pytest.raises(ShareMissing):
            new_share(ceremony.state, helper.member)


@pytest.mark.parametrize("kind", ["wrong share", "garbage hand", "copied hand"])
def test_lying_helper_can_stop_a_repair_and_not_forge_a_share(kind: str, made: Made) -> None:
    held, source = made
    ceremony = repair([*held[:2], replace(held[2], meddle={**ALL, **HELPERS}[kind])], source, 2)
    assert ceremony.run().phase is CeremonyPhase.FAILED and ceremony.shares() == {}
    # What does not open only the heir could tell, and it says nothing.
    assert set(ceremony.state.faults) == (set() if kind == "garbage hand" else {held[2].signer.address})


@pytest.mark.parametrize("kind", [*DEALERS, *RECEIVERS])
def test_every_liar_is_named_and_the_key_is_made_without_them(kind: str) -> None:
    ceremony = new_key()
    ceremony.parties[2].meddle = ALL[kind]
    state = ceremony.run()
    assert state.phase is CeremonyPhase.DONE and set(state.faults) == {ceremony.parties[2].signer.address}
    assert state.result is not None and (3 in state.result.qualified) == (kind in ("wrong partial", "unsigned"))
    assert state.revealed == ({3} if kind == "false complaint" else set()) and 3 not in state.partials
    opens(ceremony)


@pytest.mark.parametrize("kind", ["wrong share", "rogue key", "false complaint", *HOLDERS])
def test_lying_dealer_of_a_resharing_cannot_change_the_key(kind: str, made: Made) -> None:
    held, source = made
    ceremony = refresh([held[0], replace(held[1], meddle={**ALL, **HOLDERS}[kind]), held[2]], source)
    assert ceremony.run().phase is CeremonyPhase.DONE
    assert set(ceremony.state.faults) == {held[1].signer.address} and sorted(ceremony.state.consents) == [1, 3]
    assert opens(ceremony) == source.commitments[0]


def test_dealer_that_reshares_another_value_than_its_share_is_excluded(made: Made) -> None:
    held, source = made
    ceremony = refresh([replace(held[0], share=12345), *held[1:]], source)
    assert ceremony.run().phase is CeremonyPhase.DONE
    assert "another value than its share" in ceremony.state.faults[held[0].signer.address]
    assert opens(ceremony) == source.commitments[0]


@pytest.mark.parametrize("kind", SILENT)
def test_silent_dealer_is_not_called_a_liar(kind: str) -> None:
    ceremony = new_key()
    ceremony.parties[0].meddle = SILENT[kind]
    state = ceremony.run()
    # Who committed, and saw what the others dealt, may be silent as a choice: then there is no key (ADR-038).
    assert state.phase is (CeremonyPhase.FAILED if kind == "silent" else CeremonyPhase.DONE) and state.faults == {}
    if state.phase is CeremonyPhase.DONE:
        assert state.result is not None and state.result.qualified == (2, 3)
        opens(ceremony)


def test_false_complaints_above_the_budget_end_the_ceremony() -> None:
    ceremony = new_key()
    for each in ceremony.parties[:2]:
        each.meddle = ALL["false complaint"]
    with pytest.raises(CeremonyRefused):  # whoever judges after the end is refused
        ceremony.run()
    assert ceremony.state.phase is CeremonyPhase.FAILED and "made public" in ceremony.state.reason
    assert len(ceremony.state.revealed) == 2 and ceremony.state.result is None


MIXES = 300 if library_variables(("BYTEWISE_SOAK_KMS",)) else 10

PARTIES = st.lists(
    st.tuples(st.sampled_from(["honest"] * 3 + list(ALL)), st.sets(st.sampled_from(RUNNING), max_size=2)), min_size=3, max_size=3
)


@given(PARTIES, st.booleans())
@settings(max_examples=MIXES, deadline=None)
def test_with_liars_or_partitions_any_threshold_opens_or_nothing_changed(
    made: Made, kinds: list[tuple[str, set[CeremonyPhase]]], fresh: bool
) -> None:
    """Lies of every kind at once with messages lost in any phases: no honest shard is named, and there is all or nothing."""
    held, source = made
    parties = [
        replace(each, meddle=ALL.get(kind), absent=set(absent), seed=Secret(os.urandom(32)))
        for each, (kind, absent) in zip(held, kinds, strict=True)
    ]
    ceremony = CeremonyParties(plan_for(parties, 2, 2), parties) if fresh else refresh(parties, source)
    try:
        ceremony.run()
    except CeremonyRefused:
        assert ceremony.state.phase is CeremonyPhase.FAILED
    liars = {each.signer.address for each in parties if each.meddle is not None}
    assert set(ceremony.state.faults) <= liars
    if ceremony.state.phase is CeremonyPhase.DONE:
        key = opens(ceremony)
        assert fresh or key == source.commitments[0]
    else:
        assert ceremony.state.phase is CeremonyPhase.FAILED and ceremony.state.result is None and ceremony.state.reason
    in_force(shares_of(held), 2, source.commitments[0])


def test_ceremony_state_is_a_function_of_the_log_and_of_every_prefix() -> None:
    """A shard that lost all but seed and log, at any message, says the same bytes again."""
    ceremony = new_key(count=2)
    ceremony.run()
    said = {(each.sender, each.kind): each.body for each in ceremony.log}
    for length in range(len(ceremony.log)):
        state = replay(ceremony.plan, tuple(ceremony.log[:length]))
        for who in ceremony.parties:
            for body in due_messages(state, who.member):
                message = sign_message(who.signer, state.id, body)
                assert said[message.sender, message.kind] == message.body
    assert replay(ceremony.plan, tuple(ceremony.log)).head == ceremony.state.head


def test_misplaced_message_is_refused_and_changes_nothing() -> None:
    parties = [party(n) for n in range(1, 4)]
    ceremony, other = (CeremonyParties(plan_for(parties, 2, 3), parties) for _ in range(2))
    ceremony.speak(parties[0])
    other.speak(parties[1])
    first, before = ceremony.log[0], ceremony.state
    stranger, close = LocalSigner(b"\x99" * 32), Close(CeremonyPhase.JOINING, before.head)
    cases = [
        (other.log[0], CeremonyRefused),
        (first, NoProgress),
        (replace(first, signature=Blob(bytes(65))), BadSignature),
        (replace(first, sender=parties[1].signer.address), BadSignature),
        (replace(first, kind="deal"), Fault),
        (replace(first, kind="poem"), CeremonyRefused),
        (replace(other.log[0], ceremony=before.id), BadSignature),
        (sign_message(stranger, before.id, close), CeremonyRefused),
        (sign_message(COORDINATOR, before.id, Close(CeremonyPhase.DEALING, before.head)), CeremonyRefused),
        (sign_message(COORDINATOR, before.id, Close(CeremonyPhase.JOINING, Digest(bytes(32)))), CeremonyRefused),
        (sign_message(stranger, before.id, due_messages(initial_state(ceremony.plan), parties[2].member)[0]), CeremonyRefused),
    ]
    for message, error in cases:
        with pytest.raises(error):
            apply(before, message)
    assert ceremony.state == before


@given(st.binary(max_size=200), st.sampled_from(["join", "commit", "deal", "judgement", "hand", "confirm", "close"]))
@settings(max_examples=50, deadline=None)
def test_random_bytes_are_refused_as_every_message_kind(data: bytes, kind: str) -> None:
    who = party(1)
    state = initial_state(plan_for([who, party(2)], 2, 2))
    draft = replace(sign_message(who.signer, state.id, Close(1, state.head)), kind=kind, body=Blob(data))
    with pytest.raises(Fault):
        apply(state, replace(draft, signature=who.signer.sign(draft.digest)))


def test_impossible_plans_are_refused(made: Made) -> None:
    held, source = made
    good = plan_for(held, 2, 3)
    seats = good.receivers
    cases: list[dict[str, object]] = [
        {"threshold": 1}, {"threshold": 4}, {"quorum": 5}, {"quorum": 1}, {"reveal_budget": 2}, {"reveal_budget": -1},
        {"receivers": seats[1:]}, {"receivers": ()}, {"dealers": seats[:2]}, {"dealers": tuple(reversed(seats))},
        {"receivers": (seats[0], replace(seats[1], address=seats[0].address), *seats[2:])}, {"source": source},
        {"heir": seats[0]}, {"dealers": (replace(seats[0], index=0), *seats[1:])},
    ]  # fmt: skip
    for change in cases:
        with pytest.raises(CeremonyRefused):
            replace(good, **change)  # type: ignore[arg-type]
    off = SharesSource(0, (source.commitments[0], Blob(b"\x04" + bytes(64))))
    with pytest.raises(CeremonyRefused):
        initial_state(plan_for(held, 2, 3, dealers=dict(enumerate(held, start=1)), source=off))
    assert decode(type(good), encode(good)) == good

"""A shard gives a partial for one receipt, to one attested enclave, for one right; everything else has a named refusal."""

import functools
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.crypto import hpke
from bytewise.crypto.curve import decode_point
from bytewise.crypto.shares import verify_partial
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import BudgetSpent, ConfigurationError, EpochClosed, TicketRefused
from bytewise.protocol.errors.branches import BytewiseError, Fault
from bytewise.protocol.errors.records import BadSignature, MerkleProofMismatch, NotCanonical, SequenceBroken
from bytewise.protocol.jobs import key_domain
from bytewise.protocol.keys.epochs import MAX_RELEASE_BODY_BYTES, Decision, EpochState, Partial, ReleaseRequest, partial_info
from bytewise.protocol.keys.release_log import START, verify_log
from bytewise.protocol.merkle import batch_leaf, batch_proof, batch_root, verify_batch_proof
from bytewise.protocol.records.seal import Envelope
from bytewise.protocol.records.statements import TicketKind
from bytewise.protocol.signing import LocalSigner, typed_digest, verify_signature
from bytewise.protocol.units import U16, U32, U64, ZERO_DIGEST, Digest
from kms.shard import release, release_policy
from kms.shard.release import Shard
from kms.storage import keyring
from kms.storage.sealing import open_sealer
from tests.fixtures.kms.memory_chain import AUDIT_RATE_BPS, CONTRACTS, NOW, OTHER_VOTER, VOTER, Case
from tests.fixtures.kms.release_network import ATTACKER, World, is_drawn, refused


def test_a_seat_gets_a_proven_partial_and_a_signed_record(fresh: World) -> None:
    shard, case = fresh.shard(2), fresh.disputed()
    request = fresh.request(case)
    answer = shard.release(encode(request), fresh.peer(shard))
    record = answer.record
    address = fresh.document.record.shards[1].address
    assert (record.receipt_id, record.voter, record.shard, record.index) == (case.id, VOTER.address, address, 0)
    assert (record.decision, record.previous, record.decided_at) == (Decision.RELEASED, ZERO_DIGEST, NOW)
    verify_signature("release", typed_digest(key_domain(CONTRACTS), record), answer.signature, address)
    info = partial_info(address, case.id, record.ticket_hash, 1)
    partial = decode(Partial, hpke.open_from_transport(fresh.secret, info, answer.sealed_partial))
    key = decode_point(fresh.document.record.shards[1].verification_key)
    assert verify_partial(partial, 2, key, decode_point(decode(Envelope, case.envelope).enc), case.id)
    assert shard.log(0).entries[0].record == record


def test_an_open_dispute_is_served_while_the_epoch_can_be(fresh: World) -> None:
    for phase in (Phase.COMMIT, Phase.REVEAL):
        for state in (EpochState.ACTIVE, EpochState.DRAINING, EpochState.COMPROMISED):
            case = fresh.disputed(phase=phase)
            set_facts(fresh, epoch_state=state)
            assert fresh.release(fresh.shard(1), case).record.decision == Decision.RELEASED


def test_records_of_one_instance_under_one_right_are_capped(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_policy, "RECORDS_PER_INSTANCE", 3)
    case, shard = fresh.disputed(), fresh.shard(1)
    tickets = [fresh.ticket(case, expires_at=U64(NOW + 60 + n)) for n in range(4)]
    for each in tickets[:3]:
        fresh.release(shard, case, ticket=each)
    with pytest.raises(BudgetSpent):
        fresh.release(shard, case, ticket=tickets[3])
    assert len([each for each in shard.log(0).entries if each.record.decision == Decision.RELEASED]) == 3
    other = fresh.ticket(case, expires_at=U64(NOW + 63), instance=Digest(os.urandom(32)))
    assert fresh.release(shard, case, ticket=other).record.decision == Decision.RELEASED


def test_recorded_refusals_of_one_verifier_are_few_per_day(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "REFUSALS_A_DAY", 2)
    case, shard = fresh.case(), fresh.shard(1)
    for _ in range(4):
        refused(TicketRefused, fresh, shard, fresh.request(case, ticket=fresh.ticket(case, expires_at=U64(NOW))))
    assert len(shard.log(0).entries) == 2
    fresh.clock.seconds = NOW + 86_400
    set_facts(fresh, timestamp=fresh.clock.now())
    refused(TicketRefused, fresh, shard, fresh.request(case, ticket=fresh.ticket(case, expires_at=U64(NOW))))
    assert len(shard.log(0).entries) == 3


def test_a_closed_epoch_releases_nothing(fresh: World) -> None:
    """And a compromised one for disputes alone."""
    case, shard = fresh.disputed(), fresh.shard(1)
    for state in (EpochState.NONE, EpochState.PENDING, EpochState.RETIRED):
        set_facts(fresh, epoch_state=state)
        refused(EpochClosed, fresh, shard, fresh.request(case))
    set_facts(fresh, epoch_state=EpochState.COMPROMISED)
    audit = fresh.ticket(case, TicketKind.AUDIT)
    refused(EpochClosed, fresh, shard, fresh.request(case, audit, fresh.chain.anchor(case)))


def test_other_epoch_is_not_served(world: World) -> None:
    case, shard = world.case(epoch=2), world.shard(1)
    refused(EpochClosed, world, shard, world.request(case))


# --- audits ---


def test_drawn_audit_is_served_and_an_undrawn_one_is_not(fresh: World) -> None:
    """Nor one by an account made for the beacon, which is a verifier now and had no stake when the batch was posted."""
    case, shard = fresh.case(), fresh.shard(1)
    proof, ticket = fresh.chain.anchor(case), fresh.ticket(case, TicketKind.AUDIT)
    assert is_drawn(case, fresh.chain.beacon)  # type: ignore[arg-type]
    fresh.chain.audit_rate_bps = 0
    refused(TicketRefused, fresh, shard, fresh.request(case, ticket, proof))
    fresh.chain.audit_rate_bps = AUDIT_RATE_BPS
    fresh.chain.audit_seats[OTHER_VOTER.address] = 0
    for who in (ATTACKER, OTHER_VOTER):
        theirs = fresh.ticket(case, TicketKind.AUDIT, voter=who.address)
        refused(TicketRefused, fresh, shard, fresh.request(case, theirs, proof, who))
    assert fresh.release(shard, case, ticket=ticket, proof=proof).record.decision == Decision.RELEASED


AUDIT_CHANGES: dict[str, tuple[type[BytewiseError], Callable[[World], None]]] = {
    "window over": (TicketRefused, lambda w: set_facts(w, clock=NOW + 501)),
    "beacon lost": (TicketRefused, lambda w: set_facts(w, number=int(w.chain.batches[0].block) + 2 + 8191)),
    "no stake that counts, or of another pool": (TicketRefused, lambda w: w.chain.audit_seats.update({VOTER.address: 0})),
    "another root": (MerkleProofMismatch, lambda w: set_batch(w, root=ZERO_DIGEST)),
    "another operator": (TicketRefused, lambda w: set_batch(w, operator=ATTACKER.address)),
    "another epoch": (TicketRefused, lambda w: set_batch(w, key_epoch=U64(9))),
    "another model": (TicketRefused, lambda w: set_batch(w, model_id=ZERO_DIGEST)),
    "another environment": (TicketRefused, lambda w: set_batch(w, environment=ZERO_DIGEST)),
    "number before the batch": (SequenceBroken, lambda w: set_batch(w, first_seq=U64(8))),
    "number after the batch": (SequenceBroken, lambda w: set_batch(w, first_seq=U64(5))),
    "proof too long for a batch of one": (MerkleProofMismatch, lambda w: set_batch(w, count=U32(1))),
}


def set_facts(world: World, **changes: object) -> None:
    world.chain.facts = replace(world.chain.facts, **changes)  # type: ignore[arg-type]


def set_batch(world: World, **changes: object) -> None:
    world.chain.batches[0] = replace(world.chain.batches[0], **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", AUDIT_CHANGES)
def test_audit_without_entitlement_is_refused(fresh: World, name: str) -> None:
    case, (error, change) = fresh.case(7), AUDIT_CHANGES[name]
    proof = fresh.chain.anchor(case)
    change(fresh)
    ticket = fresh.ticket(case, TicketKind.AUDIT, expires_at=U64(NOW + 1000))
    refused(error, fresh, fresh.shard(1), fresh.request(case, ticket, proof))


def test_attack_30_old_tree_in_a_new_batch_reopens_no_receipt(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The root of a batch of one is the public tree of four old receipts, whose windows are over."""
    old, shard = [fresh.case(seq) for seq in range(1, 5)], fresh.shard(1)
    leaves = [batch_leaf(case.id, case.receipt.seq) for case in old]
    fresh.chain.anchor(old[0])
    set_batch(fresh, root=batch_root(leaves), first_seq=U64(5), count=U32(1))
    asked = [
        fresh.request(case, ticket=fresh.ticket(case, TicketKind.AUDIT), proof=batch_proof(leaves, place))
        for place, case in enumerate(old)
    ]
    for request in asked:
        refused(SequenceBroken, fresh, shard, request)
    # Control: a shard that follows only the path to the root opens all of them.
    monkeypatch.setattr(
        release_policy, "verify_place",
        lambda batch, identifier, seq, proof: verify_batch_proof(batch.root, batch_leaf(identifier, seq), proof),
    )  # fmt: skip
    for request in asked:
        shard.release(encode(request), fresh.peer(shard))
    assert sum(entry.record.decision == Decision.RELEASED for entry in shard.log(0).entries) == len(old)


def test_audit_of_unsigned_receipt_or_under_a_dispute_id_is_refused(fresh: World) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    proof, audit = fresh.chain.anchor(case), functools.partial(fresh.ticket, case, TicketKind.AUDIT)
    forged = replace(case, receipt_signature=ATTACKER.sign(case.id))
    refused(BadSignature, fresh, shard, fresh.request(forged, audit(), proof))
    for odd in (audit(round=U16(1)), audit(subject=Digest(b"\x01" * 32))):
        refused(TicketRefused, fresh, shard, fresh.request(case, odd, proof))


# --- limits ---


def test_the_audit_budget_survives_a_restart_and_never_refuses_a_seat(fresh: World) -> None:
    first, second, third = (fresh.case(seq) for seq in (1, 2, 3))

    def audit(shard: Shard, case: Case, times: int = 1) -> None:
        proof, ticket = fresh.chain.anchor(case), fresh.ticket(case, TicketKind.AUDIT)
        for _ in range(times):
            fresh.release(shard, case, ticket=ticket, proof=proof)

    audit(fresh.shard(1, audits=2), first, times=2)  # the answer was lost: asking again costs no budget
    restarted = fresh.shard(1, audits=2)
    audit(restarted, second)
    with pytest.raises(BudgetSpent):
        audit(restarted, third)
    fresh.chain.open(third)
    assert fresh.release(restarted, third).record.decision == Decision.RELEASED


def test_instances_are_capped_per_seat_independently_of_other_seats(fresh: World) -> None:
    case, shard = fresh.disputed(seat_mask=0b1), fresh.shard(1)

    def ask(signer: LocalSigner = VOTER, **changes: Any) -> int:
        ticket = fresh.ticket(case, voter=signer.address, instance=Digest(os.urandom(32)), **changes)
        return fresh.release(shard, case, ticket=ticket, signer=signer).record.decision

    assert [ask(), ask()] == [Decision.RELEASED] * 2
    with pytest.raises(BudgetSpent):
        ask()
    (subject, dispute), *_ = fresh.chain.disputes.items()
    other = replace(dispute.members[0], voter=OTHER_VOTER.address, seat_mask=0b10)
    fresh.chain.disputes[subject] = replace(dispute, members=(*dispute.members, other))
    assert ask(OTHER_VOTER) == Decision.RELEASED
    # A later round is another right.
    fresh.chain.disputes[subject] = replace(dispute, round=2)
    assert ask(round=U16(2)) == Decision.RELEASED


# --- the record ---


def test_refused_verifier_is_recorded_and_refused_outsider_is_not(fresh: World) -> None:
    case, shard = fresh.disputed(seat_mask=0), fresh.shard(1)
    for who in (VOTER, ATTACKER):
        ticket = fresh.ticket(case, voter=who.address)
        refused(TicketRefused, fresh, shard, fresh.request(case, ticket, signer=who))
        assert [entry.record.voter for entry in shard.log(0).entries] == [VOTER.address]


def test_records_form_a_chain_that_outlives_restarts(fresh: World) -> None:
    for _ in range(2):
        case, shard = fresh.disputed(), fresh.shard(1)
        fresh.release(shard, case)
    entries = shard.log(0).entries
    assert [entry.record.index for entry in entries] == [0, 1]
    assert entries[1].record.previous == typed_digest(key_domain(CONTRACTS), entries[0].record)
    head = fresh.records(1).verify_chain(1)
    assert head.next_index == 2
    assert verify_log(entries, START, key_domain(CONTRACTS)) == head


# --- bodies ---


def test_a_body_above_the_cap_is_refused_before_it_is_parsed(world: World) -> None:
    with pytest.raises(NotCanonical):
        world.shard(1).release(b"{" * (MAX_RELEASE_BODY_BYTES + 1), world.peer(world.shard(1)))


@given(st.binary(max_size=500))
@settings(max_examples=100, deadline=None)
def test_random_bodies_are_a_fault(data: bytes) -> None:
    with pytest.raises(Fault):
        decode(ReleaseRequest, data)


def test_request_round_trips_and_accepts_no_other_member(world: World) -> None:
    shard, case = world.shard(1), world.case()
    body = encode(world.request(case))
    assert encode(decode(ReleaseRequest, body)) == body
    for broken in (body[:-1], body + b" ", body.replace(b'{"batch_id"', b'{"a":1,"batch_id"', 1)):
        with pytest.raises(Fault):
            shard.release(broken, world.peer(shard))


def test_shard_outside_the_epoch_does_not_start(fresh: World) -> None:
    folder = fresh.settings.shards[0].folder
    (folder / "signing.sealed").unlink()
    keyring.draw_account(folder, open_sealer(folder), os.urandom)
    with pytest.raises(ConfigurationError):
        fresh.shard(1)

"""Requests that a shard refuses before or at the question of right: envelope, evidence, ticket."""

import os
from dataclasses import replace
from typing import Any

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors import (
    BadSignature,
    ConfigurationError,
    EnvelopeProofBad,
    EvidenceRefused,
    ForeignChain,
    TicketRefused,
    TryAgain,
)
from bytewise.protocol.messages import TicketKind, transport_key_hash
from bytewise.protocol.phases import Phase
from bytewise.protocol.seal import envelope_hash
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import U8, U16, U64, U256, ZERO_DIGEST, Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.tee_simulated.quoter import SimulatedQuoter
from bytewise.tee_simulated.root import Platform
from kms import hpke
from kms.policy import key_domain
from tests.unit.kms.memory_chain import CONTRACTS, NOW, OTHER_VOTER, VOTER
from tests.unit.kms.world import ATTACKER, World, refused

# --- envelopes ---


def test_an_envelope_copied_into_the_attackers_own_receipt_is_refused(world: World) -> None:
    """The attacker anchors its own receipt around the victim's envelope, disputes it, and holds a seat."""
    victim, shard = world.case(), world.shard(1)
    receipt = replace(victim.receipt, operator=ATTACKER.address, seq=U64(1))
    copied = world.named(victim.payload, receipt, victim.envelope, ATTACKER)
    assert receipt.envelope_hash == envelope_hash(victim.envelope)
    world.chain.open(copied)
    refused(EnvelopeProofBad, world, shard, world.request(shard, copied))


def test_other_bytes_than_the_receipt_names_are_refused(world: World) -> None:
    case, other, shard = world.case(1), world.case(2), world.shard(1)
    world.chain.open(case)
    refused(EnvelopeProofBad, world, shard, replace(world.request(shard, case), envelope=Blob(other.envelope)))


def test_a_receipt_of_another_chain_is_refused(world: World) -> None:
    case, shard = world.case(), world.shard(1)
    foreign = world.named(case.payload, replace(case.receipt, chain_id=U256(1)), case.envelope)
    refused(ForeignChain, world, shard, world.request(shard, foreign))


# --- evidence ---


def test_a_replayed_nonce_is_refused(fresh: World) -> None:
    shard, case = fresh.shard(1), fresh.case()
    fresh.chain.open(case)
    body = encode(fresh.request(shard, case))
    shard.release(body)
    with pytest.raises(EvidenceRefused, match="nonce was used"):
        shard.release(body)
    assert len(shard.log(0).entries) == 1


def test_a_nonce_of_another_shard_or_of_nobody_is_refused(world: World) -> None:
    case, shard, other = world.case(), world.shard(1), world.shard(2)
    world.chain.open(case)
    for nonce in (other.nonce().nonce, Digest(os.urandom(32)), ZERO_DIGEST):
        refused(EvidenceRefused, world, shard, world.request(shard, case, nonce=nonce))


def test_evidence_for_another_nonce_is_refused(world: World) -> None:
    case, shard = world.case(), world.shard(1)
    world.chain.open(case)
    request = world.request(shard, case)
    refused(EvidenceRefused, world, shard, replace(request, nonce=shard.nonce().nonce))


def test_evidence_with_another_measurement_is_refused(world: World) -> None:
    case, shard = world.case(), world.shard(1)
    world.chain.open(case)
    quoter = SimulatedQuoter(Platform(world.folder / "platform.key"), Digest(b"\x99" * 32), SystemClock())
    error = refused(EvidenceRefused, world, shard, world.request(shard, case, quoter=quoter))
    assert "measurement" in str(error)


def test_simulated_evidence_is_refused_for_a_hardware_epoch(fresh: World) -> None:
    """Fence 5: the chain's label of the epoch decides, whatever this shard's own files say."""
    case = fresh.case()
    fresh.chain.open(case)
    record = replace(fresh.document.record, assurance="hardware")
    fresh.document = replace(fresh.document, record=record)
    fresh.chain.facts = replace(fresh.chain.facts, assurance="hardware")
    shard = fresh.shard(1)
    refused(EvidenceRefused, fresh, shard, fresh.request(shard, case))


def test_a_shard_whose_epoch_document_is_not_the_chains_stops(fresh: World) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case)
    for change in ({"assurance": "hardware"}, {"public_key": fresh.public}):
        before = fresh.chain.facts
        fresh.chain.facts = replace(before, **change)
        refused(ConfigurationError, fresh, shard, fresh.request(shard, case))
        fresh.chain.facts = before


def test_another_policy_on_the_chain_is_a_reason_to_wait(fresh: World) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case)
    fresh.chain.facts = replace(fresh.chain.facts, policy=Digest(b"\x01" * 32))
    refused(TryAgain, fresh, shard, fresh.request(shard, case))


def test_evidence_for_one_ticket_or_transport_key_serves_no_other(world: World) -> None:
    case, shard = world.case(), world.shard(1)
    world.chain.open(case)
    request = world.request(shard, case)
    _, other_key = hpke.transport_keypair(os.urandom)
    refused(EvidenceRefused, world, shard, replace(request, transport_key=other_key))
    moved = replace(request.ticket, transport_key_hash=transport_key_hash(other_key))
    signature = VOTER.sign(typed_digest(key_domain(CONTRACTS), moved))
    request = world.request(shard, case)
    stolen = replace(request, transport_key=other_key, ticket=moved, ticket_signature=signature)
    refused(EvidenceRefused, world, shard, stolen)


# --- tickets ---


TICKET_CHANGES: dict[str, dict[str, Any]] = {
    "another receipt": {"receipt_id": Digest(b"\x01" * 32)},
    "another transport key": {"transport_key_hash": Digest(b"\x01" * 32)},
    "expired": {"expires_at": U64(NOW)},
    "an unknown kind": {"kind": U8(3)},
    "an earlier round": {"round": U16(0)},
}


@pytest.mark.parametrize("name", TICKET_CHANGES)
def test_a_ticket_that_does_not_fit_is_refused(fresh: World, name: str) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case)
    ticket = fresh.ticket(case, **TICKET_CHANGES[name])
    refused(TicketRefused, fresh, shard, fresh.request(shard, case, ticket=ticket))


def test_a_ticket_for_a_dispute_about_another_receipt_is_refused(fresh: World) -> None:
    case, other, shard = fresh.case(1), fresh.case(2), fresh.shard(1)
    subject = fresh.chain.open(other)
    ticket = fresh.ticket(case, subject=subject)
    refused(TicketRefused, fresh, shard, fresh.request(shard, case, ticket=ticket))


def test_another_seats_ticket_is_refused(fresh: World) -> None:
    """A ticket in the seat's name, signed by another; and another verifier's own ticket, without a seat."""
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case)
    refused(BadSignature, fresh, shard, fresh.request(shard, case, signer=OTHER_VOTER))
    ticket = fresh.ticket(case, voter=OTHER_VOTER.address)
    refused(TicketRefused, fresh, shard, fresh.request(shard, case, ticket=ticket, signer=OTHER_VOTER))


def test_a_seat_mask_of_zero_is_no_seat(fresh: World) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case, seat_mask=0)
    refused(TicketRefused, fresh, shard, fresh.request(shard, case))


def test_a_finished_dispute_gives_no_right(fresh: World) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case, Phase.FINAL)
    refused(TicketRefused, fresh, shard, fresh.request(shard, case))


def test_what_a_later_block_may_cure_is_a_reason_to_wait(fresh: World) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    refused(TryAgain, fresh, shard, fresh.request(shard, case))
    fresh.chain.open(case, Phase.SEED)
    refused(TryAgain, fresh, shard, fresh.request(shard, case))
    fresh.chain.open(case)
    refused(TryAgain, fresh, shard, fresh.request(shard, case, ticket=fresh.ticket(case, round=U16(2))))
    audit = fresh.ticket(case, TicketKind.AUDIT)
    refused(TryAgain, fresh, shard, fresh.request(shard, case, ticket=audit))
    proof = fresh.chain.anchor(case)
    fresh.chain.beacon = None
    refused(TryAgain, fresh, shard, fresh.request(shard, case, ticket=audit, proof=proof))

"""Requests that a shard refuses before or at the question of right: envelope, evidence, ticket."""

import os
from dataclasses import replace
from typing import Any

import pytest

from bytewise.crypto import hpke
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.errors.actors import ConfigurationError, EvidenceRefused, TicketRefused, TryAgain
from bytewise.protocol.errors.evidence import MeasurementRefused
from bytewise.protocol.errors.records import BadSignature, EnvelopeProofBad, ForeignChain
from bytewise.protocol.records.seal import envelope_hash
from bytewise.protocol.records.statements import TicketKind, transport_key_hash
from bytewise.protocol.units import U8, U16, U64, U256, Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.tee_simulated.quoter import SimulatedQuoter
from bytewise.tee_simulated.root import Platform
from tests.fixtures.kms.memory_chain import NOW, OTHER_VOTER
from tests.fixtures.kms.release_network import ATTACKER, World, refused

# --- envelopes ---


def test_an_envelope_copied_into_the_attackers_own_receipt_is_refused(world: World) -> None:
    """The attacker anchors its own receipt around the victim's envelope, disputes it, and holds a seat."""
    victim, shard = world.case(), world.shard(1)
    receipt = replace(victim.receipt, operator=ATTACKER.address, seq=U64(1))
    copied = world.named(victim.payload, receipt, victim.envelope, ATTACKER)
    assert receipt.envelope_hash == envelope_hash(victim.envelope)
    world.chain.open(copied)
    refused(EnvelopeProofBad, world, shard, world.request(copied))


def test_other_bytes_than_the_receipt_names_are_refused(world: World) -> None:
    case, other, shard = world.case(1), world.case(2), world.shard(1)
    world.chain.open(case)
    refused(EnvelopeProofBad, world, shard, replace(world.request(case), envelope=Blob(other.envelope)))


def test_a_receipt_of_another_chain_is_refused(world: World) -> None:
    case, shard = world.case(), world.shard(1)
    foreign = world.named(case.payload, replace(case.receipt, chain_id=U256(1)), case.envelope)
    refused(ForeignChain, world, shard, world.request(foreign))


# --- evidence ---


def test_evidence_with_another_measurement_is_refused(world: World) -> None:
    case, shard = world.case(), world.shard(1)
    world.chain.open(case)
    quoter = SimulatedQuoter(Platform(world.folder / "platform.key"), Digest(b"\x99" * 32), SystemClock())
    with pytest.raises(MeasurementRefused):
        world.peer(shard, quoter)


def test_a_shards_own_program_gets_no_keys(world: World) -> None:
    """It is trusted, and for something else."""
    with pytest.raises(MeasurementRefused, match="as verifier-enclave"):
        world.peer(world.shard(1), world.shard_quoter)


def test_simulated_evidence_is_refused_for_a_hardware_epoch(fresh: World) -> None:
    """Fence 5: the chain's label of the epoch decides, whatever this shard's own files say."""
    case = fresh.case()
    fresh.chain.open(case)
    record = replace(fresh.document.record, assurance="hardware")
    fresh.document = replace(fresh.document, record=record)
    fresh.chain.facts = replace(fresh.chain.facts, assurance="hardware")
    shard = fresh.shard(1)
    refused(EvidenceRefused, fresh, shard, fresh.request(case))


def test_shard_with_an_epoch_document_other_than_the_chains_stops(fresh: World) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case)
    for change in ({"assurance": "hardware"}, {"public_key": fresh.public}):
        before = fresh.chain.facts
        fresh.chain.facts = replace(before, **change)
        refused(ConfigurationError, fresh, shard, fresh.request(case))
        fresh.chain.facts = before


def test_other_policy_on_the_chain_asks_for_a_retry(fresh: World) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case)
    fresh.chain.facts = replace(fresh.chain.facts, policy=Digest(b"\x01" * 32))
    refused(TryAgain, fresh, shard, fresh.request(case))


def test_a_ticket_for_one_transport_key_serves_no_channel_of_another(world: World) -> None:
    case, shard = world.case(), world.shard(1)
    world.chain.open(case)
    _, other_key = hpke.transport_keypair(os.urandom)
    refused(TicketRefused, world, shard, world.request(case), world.peer(shard, key=other_key))
    moved = world.ticket(case, transport_key_hash=transport_key_hash(other_key))
    refused(TicketRefused, world, shard, world.request(case, moved))


def test_a_channel_without_a_transport_key_gets_nothing(world: World) -> None:
    """There would be nothing to seal a partial to."""
    case, shard = world.case(), world.shard(1)
    world.chain.open(case)
    nothing = world.ticket(case, transport_key_hash=transport_key_hash(Blob(b"")))
    refused(TicketRefused, world, shard, world.request(case, nothing), world.peer(shard, key=Blob(b"")))


# --- tickets ---


TICKET_CHANGES: dict[str, dict[str, Any]] = {
    "another receipt": {"receipt_id": Digest(b"\x01" * 32)},
    "a transport key that is not": {"transport_key_hash": Digest(b"\x01" * 32)},
    "expired": {"expires_at": U64(NOW)},
    "an unknown kind": {"kind": U8(3)},
    "an earlier round": {"round": U16(0)},
}


@pytest.mark.parametrize("name", TICKET_CHANGES)
def test_a_ticket_that_does_not_fit_is_refused(fresh: World, name: str) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case)
    ticket = fresh.ticket(case, **TICKET_CHANGES[name])
    refused(TicketRefused, fresh, shard, fresh.request(case, ticket=ticket))


def test_a_ticket_for_a_dispute_about_another_receipt_is_refused(fresh: World) -> None:
    case, other, shard = fresh.case(1), fresh.case(2), fresh.shard(1)
    subject = fresh.chain.open(other)
    ticket = fresh.ticket(case, subject=subject)
    refused(TicketRefused, fresh, shard, fresh.request(case, ticket=ticket))


def test_another_seats_ticket_is_refused(fresh: World) -> None:
    """A ticket in the seat's name, signed by another; and another verifier's own ticket, without a seat."""
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case)
    refused(BadSignature, fresh, shard, fresh.request(case, signer=OTHER_VOTER))
    ticket = fresh.ticket(case, voter=OTHER_VOTER.address)
    refused(TicketRefused, fresh, shard, fresh.request(case, ticket=ticket, signer=OTHER_VOTER))


def test_a_seat_mask_of_zero_is_no_seat(fresh: World) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case, seat_mask=0)
    refused(TicketRefused, fresh, shard, fresh.request(case))


@pytest.mark.parametrize("phase", [Phase.APPEAL, Phase.AIRGAP, Phase.FINAL])
def test_round_after_its_votes_gives_no_right(fresh: World, phase: Phase) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case, phase)
    refused(TicketRefused, fresh, shard, fresh.request(case))


@pytest.mark.parametrize("phase", [Phase.AIRGAP, Phase.FINAL])
def test_round_that_can_never_come_gives_no_right(fresh: World, phase: Phase) -> None:
    """Nobody can appeal any more."""
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case, phase)
    refused(TicketRefused, fresh, shard, fresh.request(case, ticket=fresh.ticket(case, round=U16(2))))


def test_condition_that_a_later_block_may_change_asks_for_a_retry(fresh: World) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    refused(TryAgain, fresh, shard, fresh.request(case))
    fresh.chain.open(case, Phase.SEED)
    refused(TryAgain, fresh, shard, fresh.request(case))
    for phase in (Phase.COMMIT, Phase.REVEAL, Phase.APPEAL):
        # The newest block may have the next round already, drawn after an appeal.
        fresh.chain.open(case, phase)
        refused(TryAgain, fresh, shard, fresh.request(case, ticket=fresh.ticket(case, round=U16(2))))
    audit = fresh.ticket(case, TicketKind.AUDIT)
    refused(TryAgain, fresh, shard, fresh.request(case, ticket=audit))
    proof = fresh.chain.anchor(case)
    fresh.chain.beacon = None
    refused(TryAgain, fresh, shard, fresh.request(case, ticket=audit, proof=proof))

"""Requests that a shard refuses at the question of right; `test_bad_inputs` has those that it refuses before."""

import os
from dataclasses import replace
from typing import Any

import pytest

from bytewise.crypto import hpke
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.errors.actors import ConfigurationError, EvidenceRefused, TicketRefused, TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.evidence import MeasurementRefused
from bytewise.protocol.errors.records import BadSignature
from bytewise.protocol.records.statements import TicketKind, transport_key_hash
from bytewise.protocol.units import U8, U16, Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.tee_simulated.authorities import Platform
from bytewise.tee_simulated.quoter import SimulatedQuoter
from tests.fixtures.kms.memory_chain import OTHER_VOTER
from tests.fixtures.kms.release_network import World, refused

# --- evidence ---


def test_evidence_of_a_program_that_is_no_verifier_enclave_is_refused(world: World) -> None:
    """Another program, and the shard's own, which is trusted for something else."""
    other = SimulatedQuoter(Platform(world.folder / "platform.key"), Digest(b"\x99" * 32), SystemClock())
    for quoter, words in ((other, ""), (world.shard_quoter, "as verifier-enclave")):
        with pytest.raises(MeasurementRefused, match=words):
            world.peer(world.shard(1), quoter)


def test_simulated_evidence_is_refused_for_a_hardware_epoch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fence 5: the chain's label of the epoch decides, whatever this shard's own files say."""
    hardware, case = replace(world.document.record, assurance="hardware"), world.disputed()
    monkeypatch.setattr(world, "document", replace(world.document, record=hardware))
    monkeypatch.setattr(world.chain, "facts", replace(world.chain.facts, assurance="hardware"))
    refused(EvidenceRefused, world, world.shard(1), world.request(case))


CHAINS: dict[str, tuple[type[BytewiseError], dict[str, Any]]] = {
    "another label of the epoch": (ConfigurationError, {"assurance": "hardware"}),
    "another key of the epoch": (ConfigurationError, {"public_key": Blob(b"\x04" + bytes(64))}),
    "another policy": (TryAgain, {"policy": Digest(b"\x01" * 32)}),
}


@pytest.mark.parametrize("name", CHAINS)
def test_shard_stops_or_waits_where_the_chain_names_others(world: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error, changes = CHAINS[name]
    monkeypatch.setattr(world.chain, "facts", replace(world.chain.facts, **changes))
    refused(error, world, world.shard(1), world.request(world.disputed()))


def test_a_ticket_for_one_transport_key_serves_no_channel_of_another(world: World) -> None:
    """Nor a channel without one: there would be nothing to seal a partial to."""
    case, shard, (_, other) = world.disputed(), world.shard(1), hpke.transport_keypair(os.urandom)
    for asked, key in ((world.public, other), (other, world.public), (Blob(b""), Blob(b""))):
        ticket = world.ticket(case, transport_key_hash=transport_key_hash(asked))
        refused(TicketRefused, world, shard, world.request(case, ticket), world.peer(shard, key=key))


# --- tickets ---

NEXT = {"round": U16(2)}
TICKETS: dict[str, tuple[type[BytewiseError], dict[str, Any], dict[str, Any]]] = {
    "an unknown kind": (TicketRefused, {}, {"kind": U8(3)}),
    "an earlier round": (TicketRefused, {}, {"round": U16(0)}),
    "a seat mask of zero": (TicketRefused, {"seat_mask": 0}, {}),
    **{f"its round is in {p.name}": (TicketRefused, {"phase": p}, {}) for p in (Phase.APPEAL, Phase.AIRGAP, Phase.FINAL)},
    **{
        f"a round after {p.name}, when nobody can appeal": (TicketRefused, {"phase": p}, NEXT)
        for p in (Phase.AIRGAP, Phase.FINAL)
    },
    "a round that is not drawn": (TryAgain, {"phase": Phase.SEED}, {}),
    # The newest block may have the next round already, drawn after an appeal.
    **{f"a round after {p.name}": (TryAgain, {"phase": p}, NEXT) for p in (Phase.COMMIT, Phase.REVEAL, Phase.APPEAL)},
}
"""Error, dispute and ticket: what a later block may change is asked for again."""


@pytest.mark.parametrize("name", TICKETS)
def test_a_ticket_that_does_not_fit_its_dispute_is_refused(world: World, name: str) -> None:
    error, opened, changes = TICKETS[name]
    case = world.disputed(**opened)
    refused(error, world, world.shard(1), world.request(case, world.ticket(case, **changes)))


def test_another_seats_ticket_is_refused(world: World) -> None:
    """A ticket in the seat's name, signed by another; and another verifier's own ticket, without a seat."""
    case, shard = world.disputed(), world.shard(1)
    refused(BadSignature, world, shard, world.request(case, signer=OTHER_VOTER))
    ticket = world.ticket(case, voter=OTHER_VOTER.address)
    refused(TicketRefused, world, shard, world.request(case, ticket, signer=OTHER_VOTER))


def test_unknown_dispute_batch_or_beacon_asks_for_a_retry(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    case, shard = world.case(), world.shard(1)
    audit = world.ticket(case, TicketKind.AUDIT)
    for ticket in (world.ticket(case), audit):
        refused(TryAgain, world, shard, world.request(case, ticket))
    proof = world.chain.anchor(case)
    monkeypatch.setattr(world.chain, "beacon", None)
    refused(TryAgain, world, shard, world.request(case, audit, proof))

"""A coordinator that collects every word of a resharing, tells the shards that it failed, and gives them to a curator."""

from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.crypto.curve import GENERATOR, encode_point
from bytewise.crypto.shares import combine_values
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.keys.ceremony_log import Confirm, Consent, Message, read_message
from bytewise.protocol.signing import verify_signature
from bytewise.protocol.units import Address, Blob
from bytewise.storage.ceremonies import StoredCeremony
from kms.ceremony.coordinator import Coordinator
from kms.ceremony.participant import ParticipantKeys
from kms.ceremony.state import CeremonyPhase, CeremonyState, shares_digest
from kms.storage import keyring
from tests.fixtures.kms.ceremonies import COORDINATOR
from tests.fixtures.kms.ceremony_runs import PHASE_S, made_key, numbered
from tests.fixtures.kms.dkg_fixture import CeremonyShard, OneEpoch, Turns, coordinator_of


class LyingCoordinator(Coordinator):
    """Keeps the words of the last phase to itself, and ends the ceremony for everybody else without them."""

    withheld: tuple[Message, ...] = ()

    def _receive(self, address: Address, message: Message) -> bool:
        if self.state.phase is not CeremonyPhase.CONFIRMING:
            return super()._receive(address, message)
        self.withheld += (message,)
        return False


def moved_by(chain: OneEpoch, before: CeremonyState, words: tuple[Message, ...]) -> tuple[Blob, ...]:
    """The commitments that the chain means when a curator shows it these words, as `KeyEpochs.reshare` judges them."""
    plan, result, bodies = before.plan, before.result, [read_message(each) for each in words]
    assert result is not None
    what = shares_digest(plan, result)
    for kind, seats, needed in ((Confirm, plan.receivers, plan.quorum), (Consent, plan.dealers, chain.epoch.threshold)):
        signed = [(m.sender, b.signature) for m, b in zip(words, bodies, strict=True) if isinstance(b, kind)]
        assert {sender for sender, _ in signed} <= {seat.address for seat in seats} and len(set(signed)) >= needed
        for sender, signature in signed:
            verify_signature("shares", what, signature, sender)
    chain.epoch = replace(chain.epoch, commitments=Blob(b"".join(result.commitments)), version=plan.version)
    return result.commitments


def betrayed(folder: Path) -> tuple[list[CeremonyShard], tuple[Blob, ...]]:
    """A key is dealt again, its coordinator lies about the end, a curator moves the chain; the commitments in force."""
    shards, chain, _, _ = key = made_key(folder)
    honest = coordinator_of(folder, key.renewal(), shards)
    coordinator = LyingCoordinator(honest.signed.plan, COORDINATOR, honest._records, honest._links)
    states: list[CeremonyState] = []
    turns = Turns()

    def clock() -> float:
        states.append(coordinator.state)
        return turns.clock()

    assert coordinator.run(PHASE_S, 1.0, clock, turns.wait).phase is CeremonyPhase.FAILED
    words = tuple({(each.sender, each.kind): each for each in coordinator.withheld}.values())
    return shards, moved_by(chain, next(each for each in reversed(states) if each.phase is CeremonyPhase.CONFIRMING), words)


def test_coordinator_that_hides_messages_from_shards_loses_no_key(tmp_path: Path) -> None:
    """What a shard signed for it has, whatever it is told of the ceremony later; the chain decides which shares are erased."""
    shards, commitments = betrayed(tmp_path)
    shares = {index: each.share(3, commitments) for index, each in numbered(shards).items()}
    assert encode_point(GENERATOR * combine_values(shares)) == commitments[0]
    assert keyring.erase_others(shards[0].folder, 3, commitments) == 1
    assert shards[0].share(3, commitments) == shares[1]


def test_control_participants_that_store_late_lose_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the same coordinator and curator, and participants that do not store before they sign."""
    at_the_end = ParticipantKeys.store

    def store(keys: ParticipantKeys, state: CeremonyState, kept: StoredCeremony) -> None:
        if state.phase is CeremonyPhase.DONE:
            at_the_end(keys, state, kept)

    monkeypatch.setattr(ParticipantKeys, "store", store)
    shards, commitments = betrayed(tmp_path)
    for each in shards:
        with pytest.raises(ConfigurationError):
            each.share(3, commitments)

"""What a coordinator tells the person who waits for its ceremony: where it stands, and for whom it waits; not the same twice."""

from pathlib import Path

import pytest

from kms.ceremony.state import CeremonyPhase
from kms.ceremony.state_machine import awaited_addresses
from tests.fixtures.kms.dkg_fixture import CeremonyShard, Turns, ceremony_shards, coordinator_of, plan


class Returning(Turns):
    """Turns after some of which a shard is there."""

    def __init__(self, shard: CeremonyShard, after: int) -> None:
        super().__init__()
        self._shard, self._left = shard, after

    def wait(self, seconds: float) -> None:
        self._left -= 1
        self._shard.away = self._left > 0
        super().wait(seconds)


def test_silent_shard_is_named_once_at_the_end_of_its_phase(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards, _ = ceremony_shards(tmp_path, 3)
    shards[2].away = True
    coordinator = coordinator_of(tmp_path, plan(shards, 2, 3), shards)
    turns = Turns()
    state = coordinator.run(50.0, 1.0, turns.clock, turns.wait)
    assert state.phase is CeremonyPhase.FAILED and state.reason == "2 receivers, 3 needed"
    captured = capsys.readouterr().err
    assert captured.count("ceremony.exchange_failed") == 1 and turns.clock() >= 50
    assert f'"phase":"JOINING","silent":["{shards[2].url}"]' in captured
    assert '"phase":"JOINING","waits_for":3,"waits_s":50.0' in captured


def test_every_phase_is_announced_with_returning_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards, _ = ceremony_shards(tmp_path, 2)
    shards[1].away = True
    turns = Returning(shards[1], 3)
    coordinator = coordinator_of(tmp_path, plan(shards, 2, 2), shards)
    assert set(awaited_addresses(coordinator.state)) == {each.signer.address for each in shards}
    state = coordinator.run(50.0, 1.0, turns.clock, turns.wait)
    assert state.phase is CeremonyPhase.DONE and awaited_addresses(state) == ()
    captured = capsys.readouterr().err
    for phase in (CeremonyPhase.JOINING, CeremonyPhase.DEALING, CeremonyPhase.JUDGING, CeremonyPhase.CONFIRMING):
        assert captured.count(f'"phase":"{phase.name}","waits_for":2') == 1
    assert captured.count("ceremony.shard_reached") == 1 and "ceremony.phase_timed_out" not in captured

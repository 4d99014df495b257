"""Shards that are cut off in a phase: a quorum has the key, or what was is in force. All ways are in `test_ceremony_soak`."""

from pathlib import Path

from kms.ceremony.state import CeremonyPhase
from tests.fixtures.kms.ceremony_runs import made_key
from tests.fixtures.kms.partitions import Cut, all_or_nothing, run_cut

CUTS = (
    Cut(CeremonyPhase.JOINING, frozenset({3}), "answer"),
    Cut(CeremonyPhase.DEALING, frozenset({1, 2}), "request"),
    Cut(CeremonyPhase.DEALING, frozenset({2}), "answer"),
    Cut(CeremonyPhase.JUDGING, frozenset({1, 2, 3}), "request"),
    Cut(CeremonyPhase.CONFIRMING, frozenset({1}), "answer"),
    Cut(CeremonyPhase.CONFIRMING, frozenset({2, 3}), "answer"),
)


def test_partition_in_any_phase_gives_a_quorum_the_key_or_changes_nothing(tmp_path: Path) -> None:
    shards, _, made, _ = key = made_key(tmp_path, 3)
    ways = {each.signer.address: each for each in shards}
    for cut in CUTS:
        all_or_nothing(cut, run_cut(tmp_path, key.renewal(), ways, cut), shards, made)

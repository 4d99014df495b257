"""What housekeeping is told of each block: the longest law of all parameters so far, open disputes, open windows."""

from dataclasses import replace

from bytewise.protocol.court.params import ParamSet
from bytewise.storage.retention import HorizonWatch
from chain.deployment.params import DEVNET
from tests.fixtures.snapshot_builders import case, snapshot, word


class TwoVersions:
    """Parameters whose first version had longer windows."""

    def params(self, version: int, block: int) -> ParamSet:
        window = {1: 10_000_000, 2: DEVNET.times.window}[version]
        return replace(DEVNET, times=replace(DEVNET.times, window=window))


def test_horizon_has_the_longest_law_of_all_versions() -> None:
    watch, chain = HorizonWatch(TwoVersions()), TwoVersions()
    assert watch.newest is None
    watch.note(replace(snapshot(), params_version=2))
    assert watch.newest is not None and watch.newest.dispute_s == chain.params(1, 0).longest_dispute
    assert watch.newest.stake_s == DEVNET.times.unbond_delay


def test_horizon_names_open_disputes_and_the_first_open_batch() -> None:
    watch, dispute = HorizonWatch(TwoVersions()), case()
    watch.note(replace(snapshot(dispute), params_version=1, batches=(), batch_count=7), first_locked_seq=5)
    found = watch.newest
    assert found is not None
    assert (found.disputes, found.disputed) == ({dispute.id}, {dispute.receipt_id})
    assert (found.disputed_batches, found.first_open_batch, found.first_locked_seq) == ({dispute.batch_id}, 7, 5)
    assert word(1) not in found.disputes

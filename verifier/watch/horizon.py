"""Computes at each block which records of a node the chain can still need. Housekeeping deletes all other records."""

from typing import Protocol

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.storage.retention import Horizon


class ParamsReader(Protocol):
    """The part of the chain that `HorizonWatch` reads."""

    def params(self, version: int, block: int) -> ParamSet:
        """Returns one version of the network's parameters."""
        ...


class HorizonWatch:
    """The newest `Horizon` of a node. A tick calls `note`, and another thread reads `newest`, which is None before the first
    tick."""

    def __init__(self, chain: ParamsReader) -> None:
        self._chain = chain
        self.newest: Horizon | None = None

    def note(self, snapshot: Snapshot, first_locked_seq: int = 0) -> None:
        """Computes the horizon from a snapshot. An operator passes `first_locked_seq`, the number of its first receipt whose
        collateral is not released."""
        # A batch keeps the parameters under which it was anchored, so the longest of all versions count.
        versions = [self._chain.params(version, snapshot.number) for version in range(1, snapshot.params_version + 1)]
        self.newest = Horizon(
            clock=min(snapshot.clock, snapshot.timestamp),
            dispute_s=max(each.longest_dispute for each in versions),
            stake_s=max(each.times.unbond_delay for each in versions),
            disputes=frozenset(case.id for case in snapshot.disputes),
            disputed=frozenset(case.receipt_id for case in snapshot.disputes),
            disputed_batches=frozenset(case.batch_id for case in snapshot.disputes),
            first_open_batch=snapshot.batches[0].batch_id if snapshot.batches else snapshot.batch_count,
            first_locked_seq=first_locked_seq,
        )

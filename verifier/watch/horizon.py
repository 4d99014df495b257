"""The records of a node that the chain can still need, from the snapshot of each block. Housekeeping deletes all others."""

from typing import Protocol

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.storage.retention import Horizon


class ParamsReader(Protocol):
    """The part of the chain that is read: each version of the parameters once."""

    def params(self, version: int, block: int) -> ParamSet:
        """A version of all parameters."""
        ...


class HorizonWatch:
    """The newest `Horizon`. A tick calls `note`, and another thread reads `newest`."""

    def __init__(self, chain: ParamsReader) -> None:
        self._chain = chain
        self.newest: Horizon | None = None

    def note(self, snapshot: Snapshot, first_locked_seq: int = 0) -> None:
        """Computes the horizon from a snapshot. `first_locked_seq`: as in `Horizon`, for an operator."""
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

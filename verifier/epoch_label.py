"""Says which key epoch is in force and what the chain calls it: who reads the log must know if that is simulated (fence 6)."""

from collections.abc import Sequence
from typing import Protocol

from bytewise.protocol.decisions.actions import Action
from bytewise.protocol.decisions.snapshot import Docket
from bytewise.protocol.keys.epochs import EpochOnChain
from bytewise.service import telemetry


class EpochReader(Protocol):
    """What is asked of the chain."""

    def epoch_on_chain(self, epoch: int, block: int) -> EpochOnChain:
        """A key epoch as `KeyEpochs` has it."""
        ...


class EpochLabel:
    """A part of every duty process that wants nothing done."""

    def __init__(self, chain: EpochReader) -> None:
        self._chain = chain
        self._told = 0

    def step(self, docket: Docket) -> Sequence[Action]:
        """Tells the epoch when it is another than before; an epoch keeps its label for good."""
        epoch = docket.active_epoch
        if epoch not in (0, self._told):
            telemetry.key_epoch(epoch, self._chain.epoch_on_chain(epoch, docket.number).assurance)
            self._told = epoch
        return ()

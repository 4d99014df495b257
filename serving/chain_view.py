"""Reads this operator's standing: a handful of views at one block."""

from bytewise.protocol.docket import Docket
from bytewise.protocol.keys import EpochState
from bytewise.protocol.units import Address, Digest
from bytewise.service import telemetry
from chain.reader import DocketReader
from chain.records import Status
from serving.standing import Standing

NO_CASES = 2**63
"""Beyond any dispute's index: an operator has nothing to decide about disputes."""


class OperatorStanding:
    """Implements `batcher.StandingReader` over the chain client."""

    def __init__(self, reader: DocketReader, operator: Address, environment: Digest, model_id: Digest) -> None:
        self._reader = reader
        self._operator = operator
        self._environment = environment
        self._model_id = model_id

    def read(self) -> Standing:
        """At the newest block."""
        reader = self._reader
        block = reader.head()
        docket = reader.docket(self._operator, block, NO_CASES)
        epoch = docket.active_epoch
        record = reader.epoch(epoch, block) if self._listed(epoch) else None
        if record is not None and reader.epoch_state(epoch, block) is not EpochState.ACTIVE:
            record = None
        environment, model = reader.item(self._environment, block), reader.item(self._model_id, block)
        return Standing(
            number=docket.number, timestamp=docket.timestamp, epoch=record,
            environment_active=environment.status is Status.ACTIVE, model_active=model.status is Status.ACTIVE,
            registered=docket.me.is_operator, last_seq=docket.me.last_seq,
            judged=any(environment.pool) and reader.pool(environment.pool, block).seatable,
            room=self._room(docket), price_wei=docket.price_wei,
        )  # fmt: skip

    def _room(self, docket: Docket) -> int:
        """Receipts for which the stake that nothing binds is enough."""
        money = self._reader.params(docket.params_version, docket.number).money
        return docket.me.free_wei // money.receipt_collateral if docket.me.stake_wei >= money.min_operator_stake else 0

    def _listed(self, epoch: int) -> bool:
        """Whether our book has the epoch to seal to. Without it we serve nobody, but go on anchoring what was signed."""
        listed = any(document.record.epoch == epoch for document in self._reader.network.epochs)
        if epoch and not listed:
            telemetry.log("operator.epoch_not_listed", epoch=epoch)
        return listed

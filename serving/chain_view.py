"""Reads this operator's standing: a handful of views at one block."""

from bytewise.protocol.docket import AnchoredBatch, Docket
from bytewise.protocol.keys import EpochState
from bytewise.protocol.units import Address, Digest
from bytewise.service import telemetry
from chain.reader import DocketReader
from chain.records import DemandKind, DemandState, Status
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
            judged=self._judged(environment.pool, block),
            room=self._room(docket), price_wei=docket.price_wei,
        )  # fmt: skip

    def _judged(self, pool: Digest, block: int) -> bool:
        found = self._reader.pool(pool, block) if any(pool) else None
        return found is not None and found.seatable

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


class OwnBatches:
    """Implements `duties.BatchReader` over the chain client."""

    def __init__(self, reader: DocketReader, operator: Address) -> None:
        self._reader = reader
        self._operator = operator

    def head(self) -> int:
        """Number of the newest block."""
        return self._reader.head()

    def docket(self, block: int) -> Docket:
        """What concerns the operator, but for disputes."""
        return self._reader.docket(self._operator, block, NO_CASES)

    def anchored(self, from_batch: int, block: int) -> tuple[AnchoredBatch, ...]:
        """A page of batches, everybody's."""
        return self._reader.anchored(from_batch, block)

    def demanded_envelopes(self, receipts: tuple[Digest, ...], block: int) -> dict[Digest, int]:
        """Deadlines of the open demands for envelopes among these receipts."""
        demands = self._reader.demands(receipts, block)
        return {
            name: demand.deadline
            for name, demand in zip(receipts, demands, strict=True)
            if demand.kind is DemandKind.ENVELOPE and demand.state is DemandState.OPEN
        }

"""Reads this operator's standing: a handful of views at one block."""

from bytewise.protocol.keys import EpochState
from bytewise.protocol.units import Address, Digest
from bytewise.service import telemetry
from chain.client import at_hash
from chain.reader import ChainReader
from serving.standing import Standing

_ACTIVE = 1
"""`Status.ACTIVE` of environments and models."""


class OperatorStanding:
    """Implements `batcher.StandingReader` over the chain client."""

    def __init__(self, reader: ChainReader, operator: Address, environment: Digest, model_id: Digest) -> None:
        self._reader = reader
        self._operator = operator
        self._environment = environment
        self._model_id = model_id

    def _listed(self, epoch: int) -> bool:
        """Whether our book has the epoch to seal to. Without it we serve nobody, but go on anchoring what was signed."""
        listed = any(document.record.epoch == epoch for document in self._reader.network.epochs)
        if epoch and not listed:
            telemetry.log("operator.epoch_not_listed", epoch=epoch)
        return listed

    def read(self) -> Standing:
        """At the newest block."""
        client, where = self._reader.client, self._reader.network.addresses
        block = client.head()
        at = at_hash(block.hash)
        epoch = client.call("KeyEpochs", where.key_epochs, "activeEpoch", block=at)
        record = self._reader.epoch(epoch, block.number) if self._listed(epoch) else None
        if record is not None and self._reader.epoch_state(epoch, block.number) is not EpochState.ACTIVE:
            record = None
        environment = client.call("Registry", where.registry, "environmentStatus", self._environment, block=at)
        model = client.call("Registry", where.registry, "modelStatus", self._model_id, block=at)
        info = client.call("Registry", where.registry, "operatorInfo", self._operator, block=at)
        last_seq = client.call("ReceiptAnchor", where.receipt_anchor, "lastSeq", self._operator, block=at)
        return Standing(
            number=block.number, timestamp=block.timestamp, epoch=record, environment_active=environment == _ACTIVE,
            model_active=model == _ACTIVE, registered=bool(info["registered"]), last_seq=int(last_seq),
        )  # fmt: skip

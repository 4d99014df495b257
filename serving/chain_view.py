"""Reads the operator's readiness, disputes and batches from the chain, at one block."""

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.decisions.demands import DemandKind, DemandState
from bytewise.protocol.decisions.snapshot import AnchoredBatch, Snapshot
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.keys.epochs import EpochOnChain, EpochState
from bytewise.protocol.records.receipt import anchor_subject
from bytewise.protocol.units import Address, Digest
from bytewise.service import metrics, telemetry
from chain.reads.key_epochs import names_holders
from chain.reads.reader import SnapshotReader
from chain.reads.records import Status
from serving.anchoring_order import ServiceTerms
from serving.readiness import Readiness, epoch_refusal, operator_required_wei, receipt_room
from serving.settings import AcceptSettings
from verifier.watch.open_windows import SnapshotPages


class ChainReadiness:
    """The reader of the operator's readiness, over the chain client. Implements `batcher.ReadinessReader`."""

    def __init__(
        self, reader: SnapshotReader, operator: Address, environment: Digest, model_id: Digest, max_fee_wei: int,
        accept: AcceptSettings,
    ) -> None:  # fmt: skip
        """`max_fee_wei` is the largest fee per gas that the operator pays. `accept` says to which key epochs it may seal."""
        self._reader = reader
        self._operator = operator
        self._environment = environment
        self._model_id = model_id
        self._max_fee_wei = max_fee_wei
        self._accept = accept

    def read(self) -> Readiness:
        """Reads the operator's state at the newest block, and sets the metrics that show this state."""
        reader = self._reader
        block = reader.head()
        snapshot = reader.snapshot(self._operator, block)
        metrics.BALANCE.set(snapshot.me.balance_wei)
        metrics.STAKE.set(snapshot.me.stake_wei)
        metrics.PARAMS_VERSION.set(snapshot.params_version)
        epoch = snapshot.active_epoch
        key = reader.epoch_on_chain(epoch, block)
        record = reader.epoch(epoch, block) if self._listed(epoch, key) else None
        if record is not None:
            metrics.set_key_epoch(record.epoch, record.assurance)
            if key.state is not EpochState.ACTIVE:
                record = None
        params = reader.params(snapshot.params_version, block)
        required_wei = operator_required_wei(params, snapshot.price_wei, self._max_fee_wei)
        metrics.REQUIRED.set(required_wei)
        environment, model = reader.item(self._environment, block), reader.item(self._model_id, block)
        return Readiness(
            number=snapshot.number, timestamp=snapshot.timestamp, epoch=record,
            environment_active=environment.status is Status.ACTIVE, model_active=model.status is Status.ACTIVE,
            registered=snapshot.me.is_operator, suspended=snapshot.me.is_suspended, last_seq=snapshot.me.last_seq,
            judged=self._judged(environment.pool, block),
            room=receipt_room(snapshot.me, params.money), price_wei=snapshot.price_wei, most=self._most(snapshot, params),
            paused=snapshot.paused, pause_s=params.times.max_pause,
            max_anchor_delay_s=params.times.max_anchor_delay, balance_wei=snapshot.me.balance_wei, required_wei=required_wei,
            epoch_refusal=None if record is None else epoch_refusal(record, self._accept),
        )  # fmt: skip

    def anchorable_for(self, service: ServiceTerms, readiness: Readiness) -> int | None:
        """Returns for how many more seconds the contract accepts a batch under these terms (`SnapshotReader.anchorable_for`).
        The block is that of `readiness`."""
        return self._reader.anchorable_for(self._operator, *service, readiness.number)

    def _judged(self, pool: Digest, block: int) -> bool:
        found = self._reader.pool(pool, block) if any(pool) else None
        return found is not None and found.seatable

    def _most(self, snapshot: Snapshot, params: ParamSet) -> int:
        if snapshot.me.free_wei < params.money.min_operator_stake:
            return 0
        return min(snapshot.me.free_wei // params.money.receipt_collateral, params.shares.max_batch)

    def _listed(self, epoch: int, key: EpochOnChain) -> bool:
        """Returns whether the address book has this key epoch with the shards that the chain names. If it has not, the operator
        accepts no request, but still anchors signed receipts."""
        records = [document.record for document in self._reader.network.epochs if document.record.epoch == epoch]
        listed = any(names_holders(each, key.shards, key.threshold) for each in records)
        if epoch and not listed:
            telemetry.log("operator.epoch_not_listed", epoch=epoch)
        return listed


class DisputePages:
    """The reader of disputes, over the chain client. Implements `disputes.DisputeReader`."""

    def __init__(self, reader: SnapshotReader, operator: Address) -> None:
        self._reader = reader
        self._pages = SnapshotPages(reader, operator, int(reader.network.deploy_block))

    def head(self) -> int:
        """Returns the number of the newest block."""
        return self._reader.head()

    def cases(self, block: int) -> Snapshot:
        """Returns a snapshot with every dispute that can still change."""
        return self._pages.read_cases(block)

    def terms(self, batch_id: int, block: int) -> tuple[int, int]:
        """Returns the number of the first receipt of a batch, and the bond in wei of a demand about the batch. Raises `TryAgain`
        if the block has no such batch."""
        found = self._reader.batch(batch_id, block)
        if found is None:
            raise TryAgain("chain", f"no batch {batch_id} at block {block}")
        _, batch = found
        return batch.first_seq, self._reader.params(batch.params_version, block).money.demand_bond


class BatchPages:
    """The reader of batches and demands, over the chain client. Implements `batcher.BatchReader`."""

    def __init__(self, reader: SnapshotReader, operator: Address) -> None:
        self._reader = reader
        self._operator = operator

    def head(self) -> int:
        """Returns the number of the newest block."""
        return self._reader.head()

    def snapshot(self, block: int) -> Snapshot:
        """Returns the snapshot for this operator, without disputes."""
        return self._reader.snapshot(self._operator, block)

    def anchored(self, from_batch: int, block: int) -> tuple[AnchoredBatch, ...]:
        """Returns the next batches of all operators from number `from_batch` on. One call returns as many batches as the chain
        client reads at once."""
        return self._reader.anchored(from_batch, block)

    def demanded_envelopes(self, receipts: tuple[Digest, ...], block: int) -> dict[Digest, int]:
        """Returns the open demands for the envelopes of these receipts: for each demanded receipt the deadline of the demand."""
        return self._open(DemandKind.ENVELOPE, receipts, receipts, block)

    def demanded_anchors(self, receipts: tuple[Digest, ...], block: int) -> dict[Digest, int]:
        """Returns the open demands to anchor these receipts: for each demanded receipt the deadline of the demand."""
        domain = self._reader.network.demands_domain
        return self._open(DemandKind.ANCHOR, receipts, tuple(anchor_subject(domain, each) for each in receipts), block)

    def _open(
        self, kind: DemandKind, receipts: tuple[Digest, ...], subjects: tuple[Digest, ...], block: int
    ) -> dict[Digest, int]:
        demands = self._reader.demands(subjects, block)
        return {
            name: demand.deadline
            for name, demand in zip(receipts, demands, strict=True)
            if demand.kind is kind and demand.state is DemandState.OPEN
        }

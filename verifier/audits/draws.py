"""Whether anybody was drawn to audit a receipt: the draw is public, and who was drawn cannot audit what is missing."""

from typing import NamedTuple

from bytewise.ports import ChainView
from bytewise.protocol.court.sortition import audit_is_drawn
from bytewise.protocol.decisions.snapshot import Docket
from bytewise.protocol.records.receipt import BatchHeader
from bytewise.protocol.units import Address, Digest
from kms.shard.chain_view import BEACON_DELAY_BLOCKS


class _Batch(NamedTuple):
    batch_id: int
    block: int


class Draws:
    """Draws of batches in open windows."""

    def __init__(self, chain: ChainView) -> None:
        self._chain = chain
        self._stakes: dict[_Batch, tuple[tuple[Address, int], ...]] = {}
        self._drawn: dict[_Batch, dict[tuple[Digest, Digest], bool]] = {}
        """By receipt and beacon: as often as it is asked, and whatever stays missing, a draw is computed once."""
        self._beacons: dict[tuple[int, Digest], Digest] = {}
        """By number of the beacon's block and hash of the docket's: a block's hash fixes all its ancestors."""

    def has(self, receipt_id: Digest, header: BatchHeader, docket: Docket) -> bool:
        """Whether anybody was drawn to audit the receipt; False while its beacon is not there."""
        batch, at = docket.batch(header.batch_id), header.block + BEACON_DELAY_BLOCKS
        if batch is None or at > docket.number:
            return False
        beacon, known = self._beacon(at, docket), self._known(header, docket)
        if (receipt_id, beacon) not in known:
            params = self._chain.params(batch.params_version, docket.number)
            rate, unit = params.shares.audit_rate_bps, params.money.audit_unit
            stakes = self._stakes_of(header, docket)
            drawn = any(audit_is_drawn(beacon, receipt_id, who, rate, stake // unit) for who, stake in stakes)
            known[(receipt_id, beacon)] = drawn
        return known[(receipt_id, beacon)]

    def _known(self, header: BatchHeader, docket: Docket) -> dict[tuple[Digest, Digest], bool]:
        key = _Batch(header.batch_id, header.block)
        if key not in self._drawn:
            self._drawn = {each: found for each, found in self._drawn.items() if docket.is_open(each.batch_id)}
            self._drawn[key] = {}
        return self._drawn[key]

    def _beacon(self, at: int, docket: Docket) -> Digest:
        key = at, docket.block_hash
        if key not in self._beacons:
            self._beacons = {each: found for each, found in self._beacons.items() if each[1] == docket.block_hash}
            self._beacons[key] = self._chain.block_hash(at)
        return self._beacons[key]

    def _stakes_of(self, header: BatchHeader, docket: Docket) -> tuple[tuple[Address, int], ...]:
        key = _Batch(header.batch_id, header.block)
        if key not in self._stakes:
            self._stakes = {each: found for each, found in self._stakes.items() if docket.is_open(each.batch_id)}
            self._stakes[key] = self._chain.auditors(header.environment, header.block, docket.number)
        return self._stakes[key]

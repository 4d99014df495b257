"""What auditors of release logs read of the chain, from the one block of these tests."""

from collections.abc import Sequence
from dataclasses import replace

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.decisions.snapshot import AnchoredBatch, Case, Docket, Holdings, Seat
from bytewise.protocol.errors.actors import RpcRefused
from bytewise.protocol.keys.epochs import EpochState
from bytewise.protocol.records.receipt import BatchHeader
from bytewise.protocol.units import Address, Digest
from chain.deployment.params import DEVNET
from tests.dockets import POOL, docket, holdings
from tests.unit.kms.memory_chain import NOW, VOTER, MemoryChain


class Court:
    """The disputes and batches of a chain in memory, all disputes in their first round; what is set is so at its block 100."""

    def __init__(self, chain: MemoryChain) -> None:
        self._chain = chain
        self.clock = NOW
        self.pool = POOL
        self.forgets = False
        self.stake = DEVNET.money.audit_unit * chain.audit_seats[VOTER.address]

    def case(self, dispute: Digest, block: int, receipt_id: Digest) -> Case | None:
        return self._chain.disputes.get(dispute)

    def members(self, dispute: Digest, round_number: int, block: int) -> tuple[Seat, ...]:
        return self._chain.disputes[dispute].members if round_number == 1 else ()

    def batch(self, batch_id: int, block: int) -> tuple[BatchHeader, AnchoredBatch] | None:
        header = self._chain.batches.get(batch_id)
        if header is None:
            return None
        operator, end = header.operator, self._chain.window_end
        return header, AnchoredBatch(batch_id, operator, header.first_seq, 1, end, False, False, False, 0)

    def params(self, version: int, block: int) -> ParamSet:
        return replace(DEVNET, shares=replace(DEVNET.shares, audit_rate_bps=self._chain.audit_rate_bps))

    def stake_at(self, account: Address, stake_block: int, block: int) -> int:
        return self.stake if account == VOTER.address else 0

    def block_hash(self, number: int) -> Digest:
        assert self._chain.beacon is not None
        return self._chain.beacon

    def pool_of(self, environment: Digest, block: int) -> Digest:
        return POOL

    def numbers_at(self, timestamp: int, block: int) -> Sequence[int]:
        return range(100, 101 if timestamp == self._chain.facts.timestamp else 100)

    def docket(self, who: Address, block: int) -> Docket:
        if self.forgets:
            raise RpcRefused("eth_call", "missing trie node")
        return docket(clock=self.clock)

    def holdings(self, who: Address, block: int) -> Holdings:
        return holdings(pool=self.pool)

    def epoch_state(self, epoch: int, block: int) -> EpochState:
        return self._chain.facts.epoch_state

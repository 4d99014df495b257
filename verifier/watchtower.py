"""The watchtower without keys: challenges on the posted results of publicly drawn auditors alone (design section 3)."""

from typing import NamedTuple

from bytewise.ports import ChainView, Sender
from bytewise.protocol.actions import Action, OpenDispute
from bytewise.protocol.decide import AuditedReceipt, WatchPolicy, decide_watchtower
from bytewise.protocol.dispute import Snapshot
from bytewise.protocol.errors import TryAgain
from bytewise.protocol.messages import AuditResult
from bytewise.protocol.units import Address, Digest
from bytewise.service import telemetry
from kms.chain_view import BEACON_DELAY_BLOCKS
from verifier.records import Records


class Draw(NamedTuple):
    """What draws the auditors of one batch."""

    beacon: Digest
    weights: tuple[tuple[Address, int], ...]


class Watchtower:
    """Collects posted audits and opens disputes. What it knows is read from the chain again at every start."""

    def __init__(self, chain: ChainView, records: Records, me: Address, from_block: int, policy: WatchPolicy) -> None:
        self._chain = chain
        self._records = records
        self._me = me
        self._first_block = from_block
        self._next_block = from_block
        self._last: tuple[int, Digest] | None = None
        self._policy = policy
        self._posted: dict[Digest, list[AuditResult]] = {}
        self._draws: dict[int, Draw] = {}
        self._disputed: set[Digest] = set()

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Reads new audit results, then says what to challenge."""
        self._read(snapshot)
        self._disputed |= {dispute.receipt_id for dispute in snapshot.disputes}
        audited = self._audited(snapshot)
        if not audited:
            return ()
        balance = self._chain.balance(self._me, snapshot.number)
        return decide_watchtower(snapshot, audited, self._disputed, balance, self._policy)

    def open(self, action: OpenDispute, sender: Sender) -> None:
        """Sends the challenge with the receipt and its path to the root."""
        live = self._records.find(action.receipt_id)
        if live is None:
            raise TryAgain("archive", f"receipt {action.receipt_id.hex()} was not seen yet")
        signed, batch = live.seen.signed, live.seen.batch_id
        sender.open_dispute(signed.receipt, signed.signature, batch, live.seen.proof, action.bond_wei)

    def _read(self, snapshot: Snapshot) -> None:
        if self._last is not None and self._chain.block_hash(self._last[0]) != self._last[1]:
            telemetry.log("watchtower.reread", from_block=self._first_block)
            self._next_block = self._first_block
            self._posted.clear()
            self._draws.clear()
        if self._next_block > snapshot.number:
            return
        for result, _signature in self._chain.audits(self._next_block, snapshot.number):
            self._posted.setdefault(result.receipt_id, []).append(result)
            telemetry.log("audit.seen", receipt=result.receipt_id, verifier=result.verifier, result=result.result)
        self._next_block = snapshot.number + 1
        self._last = (snapshot.number, snapshot.block_hash)

    def _audited(self, snapshot: Snapshot) -> tuple[AuditedReceipt, ...]:
        found = []
        for live in self._records.live:
            receipt_id, header = live.seen.receipt_id, live.header
            at = header.block + BEACON_DELAY_BLOCKS
            if receipt_id not in self._posted or receipt_id in self._disputed or at > snapshot.number:
                continue
            if header.batch_id not in self._draws:
                weights = self._chain.weights(header.block, snapshot.number)
                self._draws[header.batch_id] = Draw(self._chain.block_hash(at), weights)
            beacon, weights = self._draws[header.batch_id]
            found.append(AuditedReceipt(receipt_id, header.anchored_at, beacon, weights, tuple(self._posted[receipt_id])))
        return tuple(found)

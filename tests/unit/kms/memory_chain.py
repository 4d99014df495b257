"""The chain that shards read in these tests: one settable block. Nothing here reaches the simulator of enclaves."""

from dataclasses import dataclass, replace

from bytewise.protocol import merkle
from bytewise.protocol.court.commitments import claim_of
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Case as DisputeCase
from bytewise.protocol.decisions.snapshot import Seat
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.jobs import Contracts
from bytewise.protocol.keys.epochs import AuditDrawing, ChainFacts, EpochDocument, EpochState
from bytewise.protocol.records.receipt import BatchHeader, Receipt
from bytewise.protocol.records.seal import Payload
from bytewise.protocol.records.statements import Ticket
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U32, U64, U256, ZERO_DIGEST, Address, Blob, Digest
from kms.shard.share_rotation import SharesInForce, shares_in_force
from tests.dockets import case as dispute_of

CHAIN_ID = 31337
CONTRACTS = Contracts(U256(CHAIN_ID), Address("0x" + "a1" * 20), Address("0x" + "d1" * 20), Address("0x" + "e1" * 20))
OPERATOR, VOTER, OTHER_VOTER, CLIENT = (LocalSigner(bytes([n]) * 32) for n in (1, 2, 3, 4))
AUDIT_RATE_BPS = 10_000
AUDIT_SEATS = {VOTER.address: 100, OTHER_VOTER.address: 1}
"""Audit seats of the verifiers of this world."""
WINDOW_S = 600
NOW = 1_800_000_000
"""Chain time of the one block."""


@dataclass
class MachineClock:
    """A shard's own clock, which a test sets."""

    seconds: int = NOW

    def now(self) -> int:
        return self.seconds


@dataclass
class Case:
    """One receipt with everything that belongs to it."""

    payload: Payload
    receipt: Receipt
    receipt_signature: Blob
    envelope: bytes
    id: Digest


class MemoryChain:
    """`KeyView` over one settable block; `facts` is what every read gives, `disputes` and `batches` by id."""

    def __init__(self, document: EpochDocument, policy: Digest) -> None:
        self.disputes: dict[Digest, DisputeCase] = {}
        self.beacon: Digest | None = Digest(b"\x07" * 32)
        self.audit_seats = dict(AUDIT_SEATS)
        self.audit_rate_bps = AUDIT_RATE_BPS
        self.window_end = NOW - 100 + WINDOW_S
        self.batches: dict[int, BatchHeader] = {}
        self.away = False
        self.facts = ChainFacts(
            number=100, timestamp=NOW, clock=NOW, policy=policy, is_verifier=True, case=None, drawing=None,
            epoch_state=EpochState.ACTIVE,
            assurance=document.record.assurance, public_key=document.record.public_key,
            commitments=Blob(b"".join(document.commitments)),
            holders=tuple(each.address for each in document.record.shards), hybrid=document.record.hybrid,
        )  # fmt: skip

    def read(self, ticket: Ticket, batch_id: int) -> ChainFacts:
        return replace(
            self.facts, case=self.disputes.get(ticket.subject), drawing=self.drawing(ticket.voter, batch_id),
            is_verifier=ticket.voter in AUDIT_SEATS,
        )  # fmt: skip

    def shares(self, epoch: int) -> SharesInForce:
        if self.away:
            raise TryAgain("node", "not there")
        return shares_in_force(self.facts)

    def time(self) -> int:
        """Of the one block."""
        return self.facts.timestamp

    def drawing(self, voter: Address, batch_id: int) -> AuditDrawing | None:
        """What draws the auditors of a batch."""
        batch = self.batches.get(batch_id)
        if batch is None or self.beacon is None:
            return None
        return AuditDrawing(batch, self.window_end, self.beacon, self.audit_rate_bps, self.audit_seats.get(voter, 0))

    def open(self, case: Case, phase: Phase = Phase.COMMIT, round_number: int = 1, seat_mask: int = 0b111) -> Digest:
        """A dispute about the case in which VOTER has seats; returns its id."""
        identifier = Digest(case.id[::-1])
        member = Seat(VOTER.address, seat_mask, ZERO_DIGEST, ZERO_DIGEST)
        self.disputes[identifier] = dispute_of(
            id=identifier, receipt_id=case.id, operator=case.receipt.operator,
            claim=claim_of(case.receipt.tokens_hash, case.receipt.out_hash),
            phase=phase, round=round_number, round_seed=Digest(b"\x08" * 32),
            commit_end=NOW + 50,
            reveal_end=NOW + 110, members=(member,),
        )  # fmt: skip
        return identifier

    def anchor(self, case: Case, batch_id: int = 0) -> tuple[Digest, ...]:
        """A batch of the case and one other leaf; returns the proof."""
        leaves = (merkle.batch_leaf(case.id, case.receipt.seq), Digest(b"\x05" * 32))
        receipt = case.receipt
        self.batches[batch_id] = BatchHeader(
            batch_id, receipt.operator, U64(1), U32(2), merkle.batch_root(leaves), ZERO_DIGEST, receipt.environment,
            receipt.model_id, receipt.key_epoch, "eigenda:standard:0x00", U64(NOW - 100), U64(90),
        )  # fmt: skip
        return merkle.batch_proof(leaves, 0)

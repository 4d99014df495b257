"""Demands on a chain in memory: what was demanded, how it stands, and the windows that stand still meanwhile."""

import functools
from dataclasses import replace

from bytewise.protocol.decisions.demands import DemandKind, DemandRecord, DemandState
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.records.receipt import Receipt, SignedLeaf, SignedReceipt, list_subject, receipt_id
from bytewise.protocol.units import Address, Blob, Digest
from tests.world import ANCHOR, DEMANDS, signer

CURE_S = 60
_NOBODY = Address("0x" + "00" * 20)
NOTHING = DemandRecord(DemandKind.NONE, DemandState.NONE, _NOBODY, _NOBODY, 0, 0, 0, 0, 0, 0)
"""What the chain says about a subject that nobody demanded."""


@functools.cache
def subject_of_list(batch_id: int) -> Digest:
    """Subject of a demand for a batch's list: a chain that shows all its batches at every look needs it at every look."""
    return list_subject(DEMANDS, batch_id)


class Claims:
    """The part of a chain that demands are on. `timestamp` and `number` are the chain's."""

    timestamp: int
    number: int

    def __init__(self) -> None:
        self.claims: dict[Digest, tuple[int, DemandRecord]] = {}
        """By subject, with the block of each demand."""
        self.ended: dict[Digest, int] = {}
        """When windows went on."""
        self.answers: dict[Digest, Blob] = {}
        self.leaves: dict[Digest, tuple[SignedLeaf, ...]] = {}
        self.refused: dict[Digest, str] = {}
        """Why the chain takes no demand that a receipt be anchored, by receipt."""
        self.owing: set[Digest] = set()
        """Ended demands of whose penalty the chain would take something now."""
        self.paid: set[Digest] = set()
        """Those whose penalty was taken in full."""
        self.unreported: dict[tuple[Address, int], str] = {}
        """Why the chain takes no report about an operator's number."""
        self.reports: list[tuple[tuple[Address, int], int]] = []
        """Each time that something was taken for equivocation, operator and number, with its block."""
        self.skip_reports: list[tuple[tuple[Address, int], int]] = []
        """Each time that something was taken for a skipped number, with its block."""
        self.expiries: list[tuple[Digest, int]] = []
        """Each time that a demand was ended without an answer, with its block."""
        self.deferred: list[tuple[int, Digest, int]] = []
        """Slash, pot and block of each payment that was deferred."""
        self.arrived: set[int | Digest] = set()
        """Slashes that would be paid, and pots that would be shared, now."""
        self.life: int | None = None
        """Blocks for which a record of stake counts, where EigenLayer holds it."""
        self.records: list[tuple[Address, int, int]] = []
        """Account, block and wei of each record."""
        self.staked: dict[Address, int] = {}
        """What EigenLayer holds now."""
        self.unslashed: list[tuple[Address, Digest, int]] = []
        """Account, reference and block of each slash that EigenLayer refused."""
        self.yielding: set[Digest] = set()
        """References for which a retry would take something now."""
        self._watched()

    def _watched(self) -> None:
        """What a node gives, and what it was asked."""
        self.readable = True
        """Whether a node gives events of reports and ends."""
        self.reads: list[tuple[int, int]] = []
        """Blocks of which it gave them."""
        self.trials: list[Digest] = []
        """Receipts for which it was asked."""

    def demand(self, subject: Digest, kind: DemandKind, by: Address, bond: int, batch_id: int = 0) -> None:
        """Somebody demands."""
        assert subject not in self.claims, "a subject is demanded once"
        now = self.timestamp
        record = DemandRecord(kind, DemandState.OPEN, by, signer("operator").address, batch_id, 0, now, now + CURE_S, 1, bond)
        self.claims[subject] = self.number + 1, record
        self.number += 1

    def end(self, subject: Digest, state: DemandState) -> None:
        """It is answered, or ended because nobody did."""
        block, record = self.claims[subject]
        self.claims[subject] = block, replace(record, state=state)
        self.ended[subject] = min(self.timestamp, record.deadline)
        if state is DemandState.EXPIRED:
            self.end_again(subject)

    def anchor_demand_refused(self, who: Address, signed: SignedReceipt, bond_wei: int, block: int) -> str | None:
        self.trials.append(receipt_id(ANCHOR, signed.receipt))
        return self.refused.get(self.trials[-1])

    def expiry_refused(self, who: Address, subject: Digest, block: int) -> str | None:
        self.trials.append(subject)
        if subject in self.paid:
            return "AlreadyPunished"
        return None if subject in self.owing else "NothingToSlash"

    def report_refused(
        self, who: Address, first: Receipt, first_signature: Blob, second: Receipt, signature: Blob, block: int
    ) -> str | None:
        self.trials.append(receipt_id(ANCHOR, first))
        return self.unreported.get((first.operator, int(first.seq)))

    def skip_refused(
        self, who: Address, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], block: int
    ) -> str | None:
        self.trials.append(receipt_id(ANCHOR, receipt))
        return self.unreported.get((receipt.operator, int(receipt.seq)))

    def reported(self, from_block: int, to_block: int) -> tuple[tuple[Address, int], ...]:
        self._read(from_block, to_block)
        return tuple(each for each, block in self.reports if from_block <= block <= to_block)

    def skipped(self, from_block: int, to_block: int) -> tuple[tuple[Address, int], ...]:
        self._read(from_block, to_block)
        return tuple(each for each, block in self.skip_reports if from_block <= block <= to_block)

    def deferred_payments(self, from_block: int, to_block: int) -> tuple[tuple[int, Digest], ...]:
        self._read(from_block, to_block)
        return tuple((slash, ref) for slash, ref, block in self.deferred if from_block <= block <= to_block)

    def collect_refused(self, who: Address, slash_id: int, block: int) -> str | None:
        self.trials.append(Digest(slash_id.to_bytes(32, "big")))
        return None if slash_id in self.arrived else "PaymentShort"

    def sharing_refused(self, who: Address, ref: Digest, block: int) -> str | None:
        self.trials.append(ref)
        return None if ref in self.arrived else "NotArrived"

    def record_life(self, block: int) -> int | None:
        return self.life

    def stake_records(self, account: Address, from_block: int, to_block: int) -> tuple[tuple[int, int], ...]:
        self._read(from_block, to_block)
        return tuple((block, wei) for who, block, wei in self.records if who == account and from_block <= block <= to_block)

    def recordable(self, account: Address, block: int) -> int:
        return self.staked.get(account, 0)

    def refused_slashes(self, from_block: int, to_block: int) -> tuple[tuple[Address, Digest], ...]:
        self._read(from_block, to_block)
        return tuple((who, ref) for who, ref, block in self.unslashed if from_block <= block <= to_block)

    def retry_refused(self, account: Address, ref: Digest, block: int) -> str | None:
        self.trials.append(ref)
        return None if ref in self.yielding else "nothing would be taken"

    def end_again(self, subject: Digest) -> None:
        """Something more is taken for a demand that nobody answered."""
        self.expiries.append((subject, self.number))

    def report(self, operator: Address, seq: int) -> None:
        """Something is taken for an operator's number."""
        self.reports.append(((operator, seq), self.number))

    def expired(self, from_block: int, to_block: int) -> tuple[Digest, ...]:
        self._read(from_block, to_block)
        return tuple(each for each, block in self.expiries if from_block <= block <= to_block)

    def _read(self, from_block: int, to_block: int) -> None:
        if not self.readable:
            raise TryAgain("chain", "no events now")
        self.reads.append((from_block, to_block))

    def demanded(self, from_block: int, to_block: int) -> tuple[Digest, ...]:
        return tuple(subject for subject, (block, _) in self.claims.items() if from_block <= block <= to_block)

    def demands(self, subjects: tuple[Digest, ...], block: int) -> tuple[DemandRecord, ...]:
        return tuple(self.claims[subject][1] if subject in self.claims else NOTHING for subject in subjects)

    def answered(self, subject: Digest, from_block: int, to_block: int) -> Blob | None:
        return self.answers.get(subject)

    def answered_leaves(self, subject: Digest, from_block: int, to_block: int) -> tuple[SignedLeaf, ...] | None:
        return self.leaves.get(subject)

    def held(self, subject: Digest) -> int:
        """Seconds for which a demand held a window."""
        if subject not in self.claims:
            return 0
        record = self.claims[subject][1]
        return self.ended.get(subject, min(self.timestamp, record.deadline)) - record.opened_at

    def list_state(self, batch_id: int) -> dict[str, int]:
        """How the demand for a batch's list stands, as batches show it."""
        subject = subject_of_list(batch_id)
        claim = self.claims.get(subject)
        state = DemandState.NONE if claim is None else claim[1].state
        is_open = state is DemandState.OPEN
        return {
            "list_demanded": is_open, "list_deadline": claim[1].deadline if claim is not None and is_open else 0,
            "list_answered": state is DemandState.ANSWERED or subject in self.answers,
            "is_void": state is DemandState.EXPIRED,
        }  # fmt: skip

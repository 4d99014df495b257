"""Handles disputes against this operator. It logs them, makes sure that the committee finds the envelope, and appeals if a
person ordered an appeal.

An honest operator can lose a dispute only if the committee does not find the envelope.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Protocol

from bytewise.ports import BlobStore
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Dispute, Snapshot
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.errors.actors import BadCertificate, CallerError
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.merkle import batch_tree
from bytewise.protocol.records.receipt import SignedReceipt, batch_leaves
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Address, Digest
from bytewise.service import metrics, telemetry
from bytewise.service.clock import monotonic_s
from bytewise.storage.duties import Duties
from bytewise.storage.receipt_store import ReceiptStore

APPEAL = "appeal"
"""Kind of the duty that `bytewise dispute appeal` stores. The subject of the duty is the dispute."""
OVER = frozenset({Phase.FINAL, Phase.AIRGAP, Phase.APPEAL})
"""Phases in which no committee fetches the envelope, unless an appeal begins another round."""
SERVE_BUDGET_S = 2.0
"""Seconds of wall time that one step spends on looking for envelopes on DA. The operator's other duties must not wait longer."""


class DisputeReader(Protocol):
    """The part of the chain that `OperatorDisputes` reads."""

    def head(self) -> int:
        """Returns the number of the newest block."""
        ...

    def cases(self, block: int) -> Snapshot:
        """Returns a snapshot with every dispute that can still change."""
        ...

    def terms(self, batch_id: int, block: int) -> tuple[int, int]:
        """Returns the number of the first receipt of a batch, and the bond in wei of a demand about the batch."""
        ...


class DisputeSender(Protocol):
    """The part of a sender that `OperatorDisputes` uses."""

    def appeal(self, dispute: Digest, bond_wei: int) -> None:
        """Appeals a verdict. An appeal asks for the next round of the dispute."""
        ...

    def demand_envelope(self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], bond_wei: int) -> None:
        """Demands the envelope of this operator's own receipt. The operator then answers the demand with a new locator. A
        committee uses a new locator only if it is the answer to a demand."""
        ...


class OperatorDisputes:
    """The part of an operator that handles the disputes against it at each block."""

    def __init__(
        self, reader: DisputeReader, sender: DisputeSender, receipt_store: ReceiptStore, blobs: BlobStore, orders: Duties,
        operator: Address, anchor: Domain, monotonic: Callable[[], float] = monotonic_s,
        observe: Callable[[Snapshot], None] = lambda _: None,
    ) -> None:  # fmt: skip
        """Calls `observe` in each step with the snapshot of that step, which has every dispute that can still change. `orders`
        stores the appeals that a person ordered."""
        self._observe = observe
        self._reader = reader
        self._sender = sender
        self._receipt_store = receipt_store
        self._blobs = blobs
        self._orders = orders
        self._operator = operator
        self._anchor = anchor
        self._monotonic = monotonic
        self._number = -1
        self._said: dict[Digest, tuple[int, Phase, Verdict]] = {}
        self._served: set[tuple[Digest, int]] = set()
        """Finished pairs of a dispute and a round. In each, the committee can fetch the envelope, or the operator can do
        nothing more."""

    def step(self) -> None:
        """Handles this operator's disputes at the newest block, once for each block. If the time for envelopes runs out
        (`SERVE_BUDGET_S`), the next call handles the remaining disputes."""
        head = self._reader.head()
        if head == self._number:
            return
        snapshot = self._reader.cases(head)
        self._observe(snapshot)
        own = {case.id: case for case in snapshot.disputes if case.operator == self._operator}
        self._forget(own)
        for case in own.values():
            self._say(case)
        self._appeal(own, snapshot)
        until, proofs = self._monotonic() + SERVE_BUDGET_S, cache(self._proofs)
        for case in own.values():
            if case.phase in OVER or (case.id, case.round) in self._served:
                continue
            if self._monotonic() >= until:
                return
            self._serve(case, snapshot, proofs)
        self._number = head

    def _forget(self, own: Mapping[Digest, Dispute]) -> None:
        self._said = {name: told for name, told in self._said.items() if name in own}
        self._served = {key for key in self._served if key[0] in own}

    def _say(self, case: Dispute) -> None:
        now = (case.round, case.phase, case.verdict)
        if self._said.get(case.id) == now:
            return
        if case.id not in self._said:
            metrics.DISPUTES_AGAINST.inc()
        self._said[case.id] = now
        facts = {"dispute": case.id, "receipt": case.receipt_id, "round": case.round, "phase": case.phase.name}
        telemetry.log("dispute.against_us", verdict=case.verdict.name, **facts)
        if case.phase is Phase.APPEAL and case.verdict is not Verdict.UPHELD:
            metrics.DISPUTES_TO_APPEAL.inc()
            telemetry.log("dispute.can_be_appealed", bond_wei=str(case.appeal_bond_wei), until=case.appeal_end, **facts)

    def _appeal(self, own: Mapping[Digest, Dispute], snapshot: Snapshot) -> None:
        """Appeals the disputes for which a person ordered an appeal. Only a person can decide about an appeal, because the
        operator does not keep the client's text (ADR-024)."""
        for order in self._orders.pending():
            case = own.get(Digest(order.subject))
            if order.kind != APPEAL or case is None:
                continue
            if case.appealed:
                self._orders.done(APPEAL, case.id, "appealed")
            elif case.phase is Phase.APPEAL:
                self._sender.appeal(case.id, case.appeal_bond_wei)
            elif snapshot.clock > order.deadline:
                self._orders.miss(APPEAL, case.id, "its time was over")
                telemetry.log("dispute.not_appealed", dispute=case.id)

    def _proofs(self, first_seq: int) -> Sequence[tuple[Digest, ...]]:
        return batch_tree(batch_leaves(self._anchor, self._receipt_store.leaves(first_seq))).proofs

    def _serve(self, case: Dispute, snapshot: Snapshot, proofs: Callable[[int], Sequence[tuple[Digest, ...]]]) -> None:
        """Makes sure that the committee finds the envelope: at its first locator, or at the locator in the answer to a demand.

        The committee uses a new locator only if it is the answer to a demand. So the operator itself demands the envelope, and
        `BatchDuties` answers. The contract then credits the bond to the operator. This works only while the receipt's window is
        open. `proofs` returns the proofs of the batch with the given first number.
        """
        signed, envelope = self._receipt_store.receipt(case.receipt_id), self._receipt_store.envelope(case.receipt_id)
        if signed is None or envelope is None:
            telemetry.log("dispute.no_envelope", dispute=case.id, receipt=case.receipt_id)
        elif not self._is_served(signed) and self._blobs.put(envelope) != signed.locator:
            first, bond = self._reader.terms(case.batch_id, snapshot.number)
            proof = proofs(first)[signed.receipt.seq - first]
            telemetry.log("dispute.envelope_moved", dispute=case.id, receipt=case.receipt_id)
            self._sender.demand_envelope(signed, case.batch_id, proof, bond)
        self._served.add((case.id, case.round))

    def _is_served(self, signed: SignedReceipt) -> bool:
        wanted = signed.receipt.envelope_hash
        try:
            self._blobs.get(signed.locator, lambda data: labelled(Label.ENVELOPE, data) == wanted)
        except (Unavailable, BadCertificate, CallerError) as error:
            telemetry.log_error("dispute.envelope_not_served", error, receipt_seq=signed.receipt.seq)
            return False
        return True

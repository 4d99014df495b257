"""Takes a signed audit result through its steps until its bounty is paid (ADR-021).

The node posts the result at once, and opens it after the challenge window. The bounty is paid once another verifier has opened
the same answer: then the two agree. An audit changes its state when the chain shows the step. It does not change when the step is
planned, because a sender drops a transaction that waits too long.
"""

from collections.abc import Iterable
from typing import NamedTuple

from bytewise.ports import AuditSender, AuditView
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import ClaimBounty, OpenAudit, PostAudit
from bytewise.protocol.decisions.audits import AuditDuty, AuditStage
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.digests import out_hash, sha256
from bytewise.protocol.records.statements import AuditOutcome
from bytewise.protocol.units import Address, Digest, unhex
from bytewise.service import metrics, telemetry
from bytewise.storage.archive import ENDED_AUDITS, LightAudit, LightAudits
from verifier.watch.records import LiveReceipt, Records

PENDING, SIGNED, POSTED, OPENED, AGREED = "PENDING", "SIGNED", "POSTED", "OPENED", "AGREED"
"""States of an audit. An audit is POSTED, OPENED or AGREED only after the chain showed that."""
DONE, FAILED = ENDED_AUDITS
"""States in which an audit has ended."""

AGREEMENT = 2
"""Number of verifiers that must have opened the same answer before a bounty is paid."""
CLAIMS_AT_ONCE = 16
"""Most bounties of one result that are claimed at one time, oldest first. Matches and mismatches are counted separately. Each
claim is decided again in every block until it is paid."""


class StageLimit(NamedTuple):
    """The limit of the time for which an audit stays in one state. The time ends `seconds` of the protocol clock after the
    audit's deadline. Then the audit gets the state `state`, with the reason `why`."""

    seconds: int
    state: str
    why: str


_MINUTES, _DAY = 600, 86_400
STAGE_LIMITS = {
    PENDING: StageLimit(_MINUTES, FAILED, "its window was over before it was judged"),
    SIGNED: StageLimit(_MINUTES, FAILED, "its window was over before it was published"),
    POSTED: StageLimit(_DAY, FAILED, "what it found could not be shown"),
    OPENED: StageLimit(_MINUTES, DONE, "nobody showed the same"),
    # The bounty pool gets money with every batch, and its hourly limit lets the bounties of a day through within a day.
    AGREED: StageLimit(_DAY, FAILED, "its bounty was not paid"),
}
"""Limits by state. At first the deadline of an audit is the end of its window. From the state OPENED on, it is the time of the
opening. After a dispute it is the end of the dispute."""


LOOK_S = 10
"""Seconds of the protocol clock between two questions to the chain whether other verifiers opened the same answer. An opened
audit waits ten minutes for them. With a question in every block, a node with three audits a minute would ask about thirty audits
in each block."""

SLOT_S = 60
"""Seconds of the protocol clock in one slot of deadlines. Audits whose windows end in the same slot are not ordered by their
deadline."""


def own_order(rows: Iterable[LightAudit], salt: bytes) -> list[LightAudit]:
    """Returns the audits in the order in which this verifier runs them.

    They are ordered by the slot in which their windows end, then by a hash with the secret `salt`. The hash gives each verifier
    another order. Otherwise an operator, which can influence the id of its receipt, could make all verifiers audit that receipt
    last. Then perhaps no verifier could post a result before the window ends or a dispute begins.
    """
    return sorted(rows, key=lambda row: (row.deadline // SLOT_S, sha256(salt + row.receipt_id)))


class Bounties:
    """The audits of one verifier, from the draw to the bounty. `Auditor` runs their enclave jobs."""

    def __init__(self, chain: AuditView, records: Records, audits: LightAudits, verifier: Address, salt: bytes) -> None:
        """`salt` is secret random bytes of this verifier, which decide the order of its audits (`own_order`)."""
        self._chain = chain
        self._records = records
        self._audits = audits
        self._verifier = verifier
        self._salt = salt
        self._open_epochs: dict[int, bool] = {}  # at the block of the last step
        self._looked: dict[Digest, int] = {}  # time of the last question whether others opened the same answer

    def duties(self, snapshot: Snapshot) -> list[AuditDuty]:
        """Reads the chain's state of each audit, and returns the audits that need a step."""
        pending = own_order(self._audits.audits(PENDING), self._salt)
        opened = self._audits.audits(OPENED)
        # Most audits of a node are opened and wait for others, so only those whose question is due are read from the database.
        looked = [row for row in opened if self._is_look_due(row, snapshot.clock)]
        rows = [*pending, *(row for state in (SIGNED, POSTED) for row in self._audits.audits(state)), *looked]
        metrics.AUDIT_COVERAGE.set(self._audits.coverage(snapshot.clock - _DAY, snapshot.clock))
        names = {row.receipt_id for row in opened}
        self._looked = {receipt: at for receipt, at in self._looked.items() if receipt in names}
        self._open_epochs = {}
        due = [self._duty(row, snapshot) for row in rows]
        waiting = (duty is None or duty.is_open for row, duty in zip(rows, due, strict=True) if row.state == PENDING)
        metrics.AUDIT_QUEUE.set(sum(waiting))
        claims = [self._duty(row, snapshot) for row in self._claimable(snapshot)]
        return [duty for duty in due if duty is not None and not duty.agreed] + [duty for duty in claims if duty is not None]

    def post(self, action: PostAudit, sender: AuditSender) -> None:
        """Plans the transaction that publishes the stored result."""
        row = self._row(action.result.receipt_id)
        assert row.signature is not None, "decided from this row"
        sender.post_audit(action.result, row.signature, action.batch_id)

    def collect(self, action: OpenAudit | ClaimBounty, sender: AuditSender) -> None:
        """Plans the transaction that opens the commitment of a published result, or the transaction that claims the bounty of an
        opened result."""
        row, live = self._row(action.receipt_id), self._records.find(action.receipt_id)
        assert row.result is not None and live is not None, "decided from this row"
        if isinstance(action, OpenAudit):
            tokens_hash, trace_root, salt = _opening(row)
            sender.open_audit(row.receipt_id, row.result.verifier, tokens_hash, trace_root, salt)
        else:
            sender.claim_bounty(live.seen.signed, live.seen.proof, row.result)

    def _claimable(self, snapshot: Snapshot) -> list[LightAudit]:
        """Returns the audits whose bounty may be claimed now. No bounty is claimed while its receipt is disputed, and the time of
        the dispute does not count against the audit's deadline."""
        in_court = {case.receipt_id for case in snapshot.disputes if case.phase is not Phase.FINAL}
        agreed = self._audits.audits(AGREED)
        for row in agreed:
            if row.receipt_id in in_court and snapshot.clock > row.deadline:
                self._audits.extend(row.receipt_id, snapshot.clock)
        sure: list[LightAudit] = []
        doubts: list[LightAudit] = []
        for row in (each for each in agreed if each.receipt_id not in in_court):
            is_doubt = row.result is not None and row.result.result == AuditOutcome.MISMATCH.value
            (doubts if is_doubt else sure).append(row)
        # Matches and mismatches have separate places: mismatches that no dispute ever confirms must not block the payment of
        # matches.
        return sure[:CLAIMS_AT_ONCE] + doubts[:CLAIMS_AT_ONCE]

    def _duty(self, row: LightAudit, snapshot: Snapshot) -> AuditDuty | None:
        live = self._records.find(row.receipt_id)
        if live is None:
            self._patience(row, snapshot)
            return None
        row = self._advanced(self._extended(row, live, snapshot), live, snapshot)
        if row.state in (DONE, FAILED) or not self._patience(row, snapshot):
            return None
        stage = _STAGES[row.state]
        header = live.header
        is_open = stage is not AuditStage.NOTHING or self._is_open(int(header.key_epoch), snapshot.number)
        block, is_agreed = int(header.block), row.state == AGREED
        return AuditDuty(row.receipt_id, header.batch_id, block, row.result, stage, agreed=is_agreed, is_open=is_open)

    def _is_open(self, epoch: int, block: int) -> bool:
        if epoch not in self._open_epochs:
            self._open_epochs[epoch] = self._chain.is_open_for_audits(epoch, block)
        return self._open_epochs[epoch]

    def _extended(self, row: LightAudit, live: LiveReceipt, snapshot: Snapshot) -> LightAudit:
        """Returns the audit with a later deadline if its window now ends later, because a pause or a demand stopped the window's
        clock."""
        end = snapshot.window_end(row.receipt_id, live.header.batch_id)
        if row.state not in (PENDING, SIGNED, POSTED) or end <= row.deadline:
            return row
        self._audits.extend(row.receipt_id, end)
        return row._replace(deadline=end)

    def _advanced(self, row: LightAudit, live: LiveReceipt, snapshot: Snapshot) -> LightAudit:
        """Returns the audit in the state that the chain shows now. The chain is not asked about a posted audit before its window
        is over."""
        if row.state == SIGNED or row.state == AGREED or (row.state == POSTED and snapshot.clock > row.deadline):
            state = self._shown(
                row, self._chain.audit_stage(row.receipt_id, live.header.batch_id, self._verifier, snapshot.number)
            )
        elif row.state == OPENED and self._is_look_due(row, snapshot.clock) and self._is_agreed(row, live, snapshot):
            state = AGREED
        else:
            return row
        if state == row.state:
            return row
        self._audits.mark(row.receipt_id, state)
        telemetry.log("audit.moved", receipt=row.receipt_id, state=state)
        deadline = row.deadline
        if state == OPENED:
            # After a late opening, other verifiers still have the full time to open the same answer.
            deadline = max(deadline, snapshot.clock)
            self._audits.extend(row.receipt_id, deadline)
        return row._replace(state=state, deadline=deadline)

    def _shown(self, row: LightAudit, stage: AuditStage) -> str:
        assert row.result is not None, "signed"
        if stage is AuditStage.PAID or (stage is not AuditStage.NOTHING and row.result.result == AuditOutcome.NONE.value):
            return DONE  # a result without a finding opens nothing
        if stage is AuditStage.OPENED:
            return row.state if row.state == AGREED else OPENED
        return POSTED if stage is AuditStage.POSTED else SIGNED

    def _is_look_due(self, row: LightAudit, clock: int) -> bool:
        """Returns whether to ask the chain now if other verifiers opened the same answer: the first time, then every `LOOK_S`
        seconds, and once more before the audit ends without them."""
        last = self._looked.get(row.receipt_id)
        is_last_chance = clock > row.deadline + STAGE_LIMITS[OPENED].seconds
        return last is None or not last <= clock < last + LOOK_S or is_last_chance

    def _is_agreed(self, row: LightAudit, live: LiveReceipt, snapshot: Snapshot) -> bool:
        tokens_hash, trace_root, _ = _opening(row)
        found = out_hash(tokens_hash, trace_root)
        self._looked[row.receipt_id] = snapshot.clock
        return self._chain.agreeing(row.receipt_id, live.header.batch_id, found, snapshot.number) >= AGREEMENT

    def _patience(self, row: LightAudit, snapshot: Snapshot) -> bool:
        """Returns whether the audit may stay longer in its state. If not, the audit gets the next state and the reason of its
        limit."""
        limit = STAGE_LIMITS[row.state]
        if snapshot.clock <= row.deadline + limit.seconds:
            return True
        self._audits.mark(row.receipt_id, limit.state, limit.why)
        telemetry.log("audit.given_up", receipt=row.receipt_id, state=row.state, why=limit.why)
        return False

    def _row(self, receipt_id: Digest) -> LightAudit:
        found = self._audits.find(receipt_id)
        assert found is not None, "decided from this row"
        return found


_STAGES = {
    PENDING: AuditStage.NOTHING, SIGNED: AuditStage.NOTHING, POSTED: AuditStage.POSTED, OPENED: AuditStage.OPENED,
    AGREED: AuditStage.OPENED,
}  # fmt: skip


def _opening(row: LightAudit) -> tuple[Digest, Digest, Digest]:
    """Returns tokens hash, trace root and salt of a signed result."""
    return (
        Digest(unhex(row.opening["tokens_hash"])),
        Digest(unhex(row.opening["trace_root"])),
        Digest(unhex(row.opening["salt"])),
    )

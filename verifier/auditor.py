"""Light audits of this verifier: draws, jobs, signed results (design section 10).

The draw is public: anyone can repeat it from the hash of a block that nobody knew when the batch was posted.
"""

import functools
from collections.abc import Callable, Sequence

from bytewise.ports import ChainView, EnclaveJobs
from bytewise.protocol.actions import Action, RunAudit
from bytewise.protocol.decide import AuditDuty, decide_auditor
from bytewise.protocol.dispute import Snapshot
from bytewise.protocol.environment import Environment
from bytewise.protocol.jobs import JobResult
from bytewise.protocol.messages import AuditResult, Outcome
from bytewise.protocol.network import Network
from bytewise.protocol.preflight import Preflight, Record, preflight
from bytewise.protocol.signing import Signer, typed_digest
from bytewise.protocol.sortition import audit_is_drawn
from bytewise.protocol.units import Blob, Digest, hex0x
from bytewise.service import telemetry
from bytewise.storage.archive import Audits
from bytewise.storage.journal import Journal
from kms.chain_view import BEACON_DELAY_BLOCKS
from verifier.audit import conclude
from verifier.records import Live, Records
from verifier.tickets import audit_right, run_job
from verifier.worker import AUDIT, Finished, Worker

PENDING, SIGNED, POSTED, FAILED = "PENDING", "SIGNED", "POSTED", "FAILED"
"""States of an audit; POSTED means that the outbox has it."""

MAX_ATTEMPTS = 3
"""Jobs per audit: a third failure is no longer chance."""
RETRY_PAUSE_S = 5
"""Chain time between two of them: an enclave that restarts needs some seconds."""


class Auditor:
    """Runs the audits that fall to this verifier."""

    def __init__(
        self, chain: ChainView, network: Network, records: Records, audits: Audits, journal: Journal, signer: Signer,
        enclave: EnclaveJobs, worker: Worker, rng: Callable[[int], bytes], margin_s: int, ticket_ttl_s: int,
    ) -> None:  # fmt: skip
        self._chain = chain
        self._network = network
        self._records = records
        self._audits = audits
        self._journal = journal
        self._signer = signer
        self._enclave = enclave
        self._worker = worker
        self._rng = rng
        self._margin_s = margin_s
        self._ticket_ttl_s = ticket_ttl_s
        self._beacons: dict[int, Digest] = {}
        self._drawn: set[Digest] = set()
        self._last: tuple[int, Digest] | None = None
        self._attempts: dict[Digest, int] = {}
        self._not_before: dict[Digest, int] = {}

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Looks for new draws, then says what to do about all audits."""
        self._forget_another_branch(snapshot)
        for live in self._records.live:
            self._draw(live, snapshot)
        running = {subject for kind, subject, _ in self._worker.busy() if kind == "audit"}
        running |= {receipt for receipt, moment in self._not_before.items() if snapshot.timestamp < moment}
        return decide_auditor(snapshot, self._duties(), running, self._margin_s)

    def start(self, action: RunAudit, snapshot: Snapshot) -> None:
        """Queues the enclave job of one audit; `Unavailable` while something that it needs is missing."""
        self._not_before[action.receipt_id] = snapshot.timestamp + RETRY_PAUSE_S
        case = self._records.case(action.receipt_id, snapshot)
        right = audit_right(action.receipt_id, snapshot.timestamp + self._ticket_ttl_s)
        job = functools.partial(run_job, self._enclave, self._signer, self._network.contracts, case, right)
        self._worker.submit(AUDIT, ("audit", action.receipt_id, 0), job)

    def finish(self, finished: Finished, snapshot: Snapshot) -> None:
        """Signs the result of a job, or counts a failure."""
        receipt_id = finished.key[1]
        outcome = finished.outcome
        unclear = not isinstance(outcome, JobResult) or outcome.outcome == Outcome.NO_KEY.value
        self._attempts[receipt_id] = self._attempts.get(receipt_id, 0) + 1
        if unclear and self._attempts[receipt_id] < MAX_ATTEMPTS:
            self._not_before[receipt_id] = snapshot.timestamp + RETRY_PAUSE_S
            return
        if isinstance(outcome, JobResult):
            self._sign(outcome, snapshot)
        else:
            self._audits.mark(receipt_id, FAILED, f"{type(outcome).__name__} after {MAX_ATTEMPTS} attempts")
            telemetry.log("audit.failed", receipt=receipt_id, error=type(outcome).__name__)

    def signature_of(self, result: AuditResult) -> Blob:
        """The stored signature of a signed result."""
        found = self._audits.find(result.receipt_id)
        assert found is not None and found.signature is not None, "decided from this row"
        return found.signature

    def posted(self, receipt_id: Digest) -> None:
        """The outbox has taken the result."""
        self._audits.mark(receipt_id, POSTED)
        telemetry.log("audit.posted", receipt=receipt_id)

    def _duties(self) -> Sequence[AuditDuty]:
        rows = [*self._audits.audits(PENDING), *self._audits.audits(SIGNED)]
        found = ((row, self._records.find(row.receipt_id)) for row in rows)
        return [
            AuditDuty(row.receipt_id, live.header.anchored_at, row.result, row.state == POSTED)
            for row, live in found
            if live is not None
        ]

    def _forget_another_branch(self, snapshot: Snapshot) -> None:
        # A beacon of blocks that left the chain draws nobody: shards would refuse the ticket.
        if self._last is not None and self._chain.block_hash(self._last[0]) != self._last[1]:
            self._beacons.clear()
            self._drawn.clear()
        self._last = (snapshot.number, snapshot.block_hash)

    def _draw(self, live: Live, snapshot: Snapshot) -> None:
        """Whatever the check found: a receipt that nobody could audit because of a small fault would still become final."""
        receipt_id, header = live.seen.receipt_id, live.header
        at = header.block + BEACON_DELAY_BLOCKS
        if receipt_id in self._drawn or at > snapshot.number:
            return
        if header.batch_id not in self._beacons:
            self._beacons[header.batch_id] = self._chain.block_hash(at)
        weights = dict(self._chain.weights(header.block, snapshot.number))
        seats = weights.get(self._signer.address, 0) // snapshot.params.audit_unit_wei
        rate = snapshot.params.audit_rate_bps
        if audit_is_drawn(self._beacons[header.batch_id], receipt_id, self._signer.address, rate, seats):
            self._audits.add(receipt_id, header.anchored_at + snapshot.params.window_s)
            telemetry.log("audit.drawn", receipt=receipt_id, batch=header.batch_id)
        self._drawn.add(receipt_id)

    def _sign(self, job: JobResult, snapshot: Snapshot) -> None:
        live = self._records.find(job.receipt_id)
        if live is None:
            return  # the chain took the batch back while the enclave worked
        place = self._records.environment(live.header.environment, snapshot.number)
        found = conclude(
            job, live.seen.signed.receipt, self._checklist(job, live, place, snapshot), place.profile,
            Digest(self._rng(32)), snapshot.timestamp,
        )  # fmt: skip
        body = {"result": found.result.result, "cause": found.cause.value, "commitment": hex0x(found.result.commitment)}
        self._journal.append("audit.sign", job.receipt_id, body)
        opening = {
            "cause": found.cause.value, "salt": hex0x(found.salt), "tokens_hash": hex0x(job.tokens_hash),
            "trace_root": hex0x(job.trace_root),
        }  # fmt: skip
        signature = self._signer.sign(typed_digest(self._network.disputes_domain, found.result))
        self._audits.sign_once(found.result, signature, opening)
        telemetry.log("audit.signed", receipt=job.receipt_id, result=found.result.result, cause=found.cause.value)

    def _checklist(self, job: JobResult, live: Live, place: Environment, snapshot: Snapshot) -> Preflight:
        opened = {Outcome.EXECUTED: True, Outcome.CANNOT_EXECUTE: True, Outcome.INVALID: False}.get(Outcome(job.outcome))
        return preflight(
            Record(
                receipt=live.seen.signed.receipt, header=live.header, environment=place, policy=snapshot.policy,
                window_s=snapshot.params.window_s,
                assurance=self._chain.epoch(live.header.key_epoch, snapshot.number).assurance,
                opened=opened, executed=job.outcome == Outcome.EXECUTED.value,
            )
        )  # fmt: skip

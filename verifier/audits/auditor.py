"""Light audits of this verifier: draw, job and signed result (design sections 10 and 11). `bounties` takes results to the chain.

The draw is public. Anyone can repeat it from the hash of a block that nobody knew when the batch was posted. The pure functions
`attribute` and `conclude` decide what a job's result means for the operator.

`AuditSortition` finds out whether any verifier was drawn to audit a receipt. A node that makes demands needs to know that,
because nobody can audit missing bytes.
"""

import enum
import functools
from collections.abc import Callable
from typing import NamedTuple, Protocol

from bytewise.ports import AuditSender, AuditView, BlockView, TermsView
from bytewise.protocol.address_book import Network
from bytewise.protocol.court.sortition import BEACON_DELAY_BLOCKS, audit_is_drawn, beacon_is_known, may_audit, seats_in_audit_draw
from bytewise.protocol.decisions.actions import Action, ClaimBounty, OpenAudit, PostAudit, RunAudit
from bytewise.protocol.decisions.audits import decide_auditor
from bytewise.protocol.decisions.snapshot import FINAL_AFTER, Snapshot
from bytewise.protocol.errors.actors import SignerAway
from bytewise.protocol.jobs import JobResult
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.preflight import Preflight, PreflightSubject, preflight
from bytewise.protocol.records.receipt import BatchHeader, Receipt
from bytewise.protocol.records.statements import AuditOutcome, AuditResult, CannotReason, Outcome, audit_commitment
from bytewise.protocol.records.trace import differing_fields
from bytewise.protocol.signing import Signer, typed_preimage
from bytewise.protocol.units import U8, U64, Address, Digest, hex0x
from bytewise.service import metrics, telemetry
from bytewise.storage.archive import LightAudits
from bytewise.storage.journal import Journal
from verifier.audits.audit_hints import AuditHint, audit_salt
from verifier.audits.bounties import FAILED, Bounties
from verifier.jobs.job import AUDIT, EnclaveAway, FinishedJob, JobCase, JobOrder, JobPool, audit_right, run_job
from verifier.watch.records import LiveReceipt, Records


class AuditChain(BlockView, TermsView, AuditView, Protocol):
    """The part of the chain that an auditor reads."""


class Cause(enum.StrEnum):
    """The cause of a difference between a job's result and the receipt, or `NOTHING` if they are equal. The auditor finds the
    cause before it acts on the result."""

    NOTHING = "match"
    OPERATOR = "operator"
    ENVIRONMENT = "environment drift"
    RECORD = "record too thin"
    VERIFIER = "verifier"


class AuditConclusion(NamedTuple):
    """The public result of a light audit, with its cause and with the salt that later opens its commitment."""

    result: AuditResult
    cause: Cause
    salt: Digest


def attribute(job: JobResult, receipt: Receipt, checklist: Preflight, profile: str) -> Cause:
    """Returns the cause of a difference between a job's result and the receipt. The enclave reports a difference only if a second
    backend has reproduced it. `checklist` is the preflight of the receipt: the difference accuses the operator only if the
    receipt is complete enough."""
    match Outcome(job.outcome):
        case Outcome.EXECUTED:
            if not differing_fields(receipt, job.tokens_hash, job.trace_root):
                return Cause.NOTHING
            return Cause.RECORD if checklist.too_thin_for(profile) else Cause.OPERATOR
        case Outcome.INVALID:
            return Cause.OPERATOR
        case Outcome.CANNOT_EXECUTE:
            foreign = (CannotReason.PROFILE_UNKNOWN, CannotReason.ENVIRONMENT)
            return Cause.ENVIRONMENT if CannotReason(job.code) in foreign else Cause.VERIFIER
        case Outcome.UNAVAILABLE | Outcome.NO_KEY:
            return Cause.VERIFIER


def conclude(
    job: JobResult, receipt: Receipt, checklist: Preflight, profile: str, salt: Digest, audited_at: int
) -> AuditConclusion:
    """Returns the unsigned audit result of a job, with its cause. `salt` is the salt of the result's commitment, and `audited_at`
    is the time of the block that was read."""
    cause = attribute(job, receipt, checklist, profile)
    words = {Cause.NOTHING: AuditOutcome.MATCH, Cause.OPERATOR: AuditOutcome.MISMATCH}
    word = words.get(cause, AuditOutcome.NONE)
    commitment = audit_commitment(job.receipt_id, job.voter, job.tokens_hash, job.trace_root, salt)
    return AuditConclusion(AuditResult(job.receipt_id, job.voter, U8(word), commitment, U64(audited_at)), cause, salt)


class _Batch(NamedTuple):
    batch_id: int
    block: int


class AuditSortition:
    """The public audit draw over all verifiers. It finds out whether any verifier was drawn to audit a receipt whose window is
    open."""

    def __init__(self, chain: AuditChain) -> None:
        self._chain = chain
        self._stakes: dict[_Batch, tuple[tuple[Address, int], ...]] = {}
        self._drawn: dict[_Batch, dict[tuple[Digest, Digest], bool]] = {}
        """Results of draws by batch, then by receipt and beacon. True means that a verifier was drawn. Each draw is computed only
        once."""
        self._beacons: dict[tuple[int, Digest], Digest] = {}
        """Beacons by the number of the beacon's block and the hash of the snapshot's block. That hash fixes all earlier blocks,
        so an entry is never wrong."""

    def has(self, receipt_id: Digest, header: BatchHeader, snapshot: Snapshot) -> bool:
        """Returns whether any verifier was drawn to audit the receipt. Returns False while the beacon of its batch does not
        exist."""
        batch, at = snapshot.batch(header.batch_id), header.block + BEACON_DELAY_BLOCKS
        if batch is None or at > snapshot.number:
            return False
        beacon, known = self._beacon(at, snapshot), self._known(header, snapshot)
        if (receipt_id, beacon) not in known:
            params = self._chain.params(batch.params_version, snapshot.number)
            rate, unit = params.shares.audit_rate_bps, params.money.audit_unit
            members = self._stakes_of(header, snapshot)
            seats = [(who, seats_in_audit_draw(stake, unit, is_member=True)) for who, stake in members]
            drawn = any(audit_is_drawn(beacon, receipt_id, who, rate, number) for who, number in seats)
            known[(receipt_id, beacon)] = drawn
        return known[(receipt_id, beacon)]

    def _known(self, header: BatchHeader, snapshot: Snapshot) -> dict[tuple[Digest, Digest], bool]:
        key = _Batch(header.batch_id, header.block)
        if key not in self._drawn:
            self._drawn = {each: found for each, found in self._drawn.items() if snapshot.has_open(each.batch_id)}
            self._drawn[key] = {}
        return self._drawn[key]

    def _beacon(self, at: int, snapshot: Snapshot) -> Digest:
        key = at, snapshot.block_hash
        if key not in self._beacons:
            self._beacons = {each: found for each, found in self._beacons.items() if each[1] == snapshot.block_hash}
            self._beacons[key] = self._chain.block_hash(at)
        return self._beacons[key]

    def _stakes_of(self, header: BatchHeader, snapshot: Snapshot) -> tuple[tuple[Address, int], ...]:
        key = _Batch(header.batch_id, header.block)
        if key not in self._stakes:
            self._stakes = {each: found for each, found in self._stakes.items() if snapshot.has_open(each.batch_id)}
            self._stakes[key] = self._chain.auditors(header.environment, header.block, snapshot.number)
        return self._stakes[key]


MAX_ATTEMPTS = 3
"""Number of failed jobs after which an audit ends as failed. A third failure is no longer chance."""
RETRY_PAUSE_S = 5
"""Seconds of chain time between two jobs for one audit: enough for an enclave to restart."""
LONGEST_KEY_PAUSE_S = 120
"""Most seconds of chain time until a new job asks again for a key that shards refused. The pause doubles each time. Shards wait
until the draw is in a final block, which takes seconds on one chain and a quarter of an hour on another."""


class Auditor:
    """The part of a node that runs the audits for which this verifier was drawn."""

    def __init__(
        self, chain: AuditChain, network: Network, records: Records, audits: LightAudits, journal: Journal, signer: Signer,
        pool: JobPool, rng: Callable[[int], bytes], margin_s: int, hand_over: Callable[[AuditHint], None] | None = None,
    ) -> None:  # fmt: skip
        self._chain = chain
        self._network = network
        self._records = records
        self._audits = audits
        self._bounties = Bounties(chain, records, audits, signer.address, rng(32))
        self._journal = journal
        self._signer = signer
        self._pool = pool
        self._rng = rng
        self._margin_s = margin_s
        self._beacons: dict[int, Digest] = {}
        self._stakes: dict[tuple[int, int], int] = {}
        self._drawn: set[Digest] = set()
        self._last: tuple[int, Digest] | None = None
        self._hand_over = hand_over
        self._attempts: dict[Digest, int] = {}
        """Jobs that failed, by receipt."""
        self._keyless: dict[Digest, int] = {}
        """Jobs that ended without a key, by receipt."""
        self._not_before: dict[Digest, int] = {}

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Computes the draws of new receipts, then returns the next action of each audit."""
        self._forget_another_branch(snapshot)
        self._forget_closed()
        for live in self._records.live:
            self._draw(live, snapshot)
        running = {subject for kind, subject, _ in self._pool.busy() if kind == "audit"}
        running |= {receipt for receipt, moment in self._not_before.items() if snapshot.timestamp < moment}
        return decide_auditor(snapshot, self._bounties.duties(snapshot), running, self._margin_s)

    def start(self, action: RunAudit, snapshot: Snapshot) -> None:
        """Queues the enclave job of one audit. While the enclave is away, or after an error, the next try is `RETRY_PAUSE_S`
        seconds later. Ends the audit as failed if this account may no longer audit the batch. Raises `Unavailable` while data for
        the job are missing."""
        self._not_before[action.receipt_id] = snapshot.timestamp + RETRY_PAUSE_S
        if self._pool.away():
            return
        case = self._records.case(action.receipt_id, snapshot)
        if not self._may_audit(case.header, snapshot):
            self._audits.mark(action.receipt_id, FAILED, "this account left the pool, or joined it after the batch")
            return
        # The ticket is valid as long as the window is open, because the job may wait for an enclave until then.
        right = audit_right(action.receipt_id, snapshot.window_end(action.receipt_id, case.header.batch_id) + 1)
        job = functools.partial(run_job, signer=self._signer, contracts=self._network.contracts, case=case, right=right)
        key, left = ("audit", action.receipt_id, 0), self._time_left_s(case, snapshot)
        self._pool.submit(JobOrder(AUDIT, key, action.receipt_id, left, job))

    def finish(self, finished: FinishedJob, snapshot: Snapshot) -> None:
        """Signs the result of a finished job, or counts a failed attempt. If no other attempt follows (`MAX_ATTEMPTS`, or too
        little time), ends the audit as failed after an error, and signs the result of a job that got no key.

        A job that found no enclave, or no signer for its ticket, does not count as an attempt. If the shards released no key for
        a job, the audit gets another job while the window allows it. The shards may only have been early: they release nothing
        before the draw is in a final block.
        """
        receipt_id = finished.key[1]
        if isinstance(finished.outcome, EnclaveAway | SignerAway):
            self._not_before[receipt_id] = snapshot.timestamp + RETRY_PAUSE_S
            return
        outcome = finished.outcome
        if self._is_tried_again(receipt_id, outcome, snapshot):
            return
        if isinstance(outcome, JobResult):
            self._sign(outcome, snapshot)
        else:
            self._audits.mark(receipt_id, FAILED, f"{type(outcome).__name__} after {MAX_ATTEMPTS} attempts")
            metrics.AUDITS.labels(outcome="failed").inc()
            telemetry.log("audit.failed", receipt=receipt_id, error=type(outcome).__name__)

    def _is_tried_again(self, receipt_id: Digest, outcome: object, snapshot: Snapshot) -> bool:
        """Counts a job that failed or got no key, and sets the pause before the next job. Returns whether another job follows."""
        keyless = isinstance(outcome, JobResult) and outcome.outcome == Outcome.NO_KEY.value
        live = self._records.find(receipt_id)
        if live is None or (isinstance(outcome, JobResult) and not keyless):
            return not isinstance(outcome, JobResult)  # a batch that the chain took back may return
        pause_s = RETRY_PAUSE_S
        if keyless:
            asked = self._keyless[receipt_id] = self._keyless.get(receipt_id, 0) + 1
            pause_s = min(RETRY_PAUSE_S << min(asked - 1, 8), LONGEST_KEY_PAUSE_S)
        # Until the draw is in a final block, even honest shards give no key, so this is no failure.
        if not keyless or snapshot.number > live.header.block + BEACON_DELAY_BLOCKS + FINAL_AFTER:
            self._attempts[receipt_id] = self._attempts.get(receipt_id, 0) + 1
        end = snapshot.window_end(receipt_id, live.header.batch_id)
        if self._attempts.get(receipt_id, 0) >= MAX_ATTEMPTS or snapshot.clock + pause_s + self._margin_s >= end:
            return False
        self._not_before[receipt_id] = snapshot.timestamp + pause_s
        return True

    def post(self, action: PostAudit, sender: AuditSender) -> None:
        """Plans the transaction that publishes the stored result."""
        self._bounties.post(action, sender)

    def collect(self, action: OpenAudit | ClaimBounty, sender: AuditSender) -> None:
        """Plans the transaction that opens the commitment of a published result, or the transaction that claims the bounty of an
        opened result."""
        self._bounties.collect(action, sender)

    def _time_left_s(self, case: JobCase, snapshot: Snapshot) -> float:
        return float(snapshot.window_end(case.receipt_id, case.header.batch_id) - self._margin_s - snapshot.clock)

    def _forget_another_branch(self, snapshot: Snapshot) -> None:
        # A beacon of another branch of the chain draws nobody: shards would refuse the ticket.
        if self._last is not None and self._chain.block_hash(self._last[0]) != self._last[1]:
            self._beacons.clear()
            self._stakes.clear()
            self._drawn.clear()
        self._last = (snapshot.number, snapshot.block_hash)

    def _forget_closed(self) -> None:
        """Forgets the receipts whose window is over."""
        live = {each.seen.receipt_id for each in self._records.live}
        batches = {each.header.batch_id for each in self._records.live}
        self._drawn &= live
        self._beacons = {batch: kept for batch, kept in self._beacons.items() if batch in batches}
        self._stakes = {key: kept for key, kept in self._stakes.items() if key[0] in batches}
        self._attempts = {receipt: kept for receipt, kept in self._attempts.items() if receipt in live}
        self._keyless = {receipt: kept for receipt, kept in self._keyless.items() if receipt in live}
        self._not_before = {receipt: kept for receipt, kept in self._not_before.items() if receipt in live}

    def _draw(self, live: LiveReceipt, snapshot: Snapshot) -> None:
        """Computes this verifier's draw for a receipt, whatever the check of the receipt found. Without an audit, a receipt with
        a small fault would become final."""
        receipt_id, header = live.seen.receipt_id, live.header
        at = header.block + BEACON_DELAY_BLOCKS
        if receipt_id in self._drawn or not beacon_is_known(int(header.block), snapshot.number):
            return
        if header.batch_id not in self._beacons:
            self._beacons[header.batch_id] = self._chain.block_hash(at)
        batch = snapshot.batch(header.batch_id)
        if batch is None:
            return
        params = self._chain.params(batch.params_version, snapshot.number)
        unit, is_member = params.money.audit_unit, self._may_audit(header, snapshot)
        seats = seats_in_audit_draw(self._stake(header, snapshot), unit, is_member)
        rate = params.shares.audit_rate_bps
        if audit_is_drawn(self._beacons[header.batch_id], receipt_id, self._signer.address, rate, seats):
            self._audits.add(receipt_id, snapshot.window_end(receipt_id, header.batch_id))
            metrics.AUDITS_DRAWN.inc()
            telemetry.log("audit.drawn", receipt=receipt_id, batch=header.batch_id)
        self._drawn.add(receipt_id)

    def _may_audit(self, header: BatchHeader, snapshot: Snapshot) -> bool:
        """Returns whether shards and contract accept this account as an auditor of the batch."""
        judging = self._chain.pool_of(header.environment, snapshot.number)
        return may_audit(snapshot.me.pool, snapshot.me.joined_at, judging, header.block)

    def _stake(self, header: BatchHeader, snapshot: Snapshot) -> int:
        """Returns this account's stake in wei at the block of a batch. One call reads it for all receipts of the batch."""
        key = header.batch_id, header.block
        if key not in self._stakes:
            self._stakes[key] = self._chain.stake_at(self._signer.address, header.block, snapshot.number)
        return self._stakes[key]

    def _sign(self, job: JobResult, snapshot: Snapshot) -> None:
        live = self._records.find(job.receipt_id)
        if live is None:
            return  # the chain took the batch back while the enclave worked
        place = self._records.environment(live.header.environment, snapshot.number)
        assurance = self._chain.epoch(live.header.key_epoch, snapshot.number).assurance
        nonce = Digest(self._rng(32))
        found = conclude(
            job, live.seen.signed.receipt, self._checklist(job, live, place, snapshot, assurance), place.profile,
            audit_salt(nonce, job.outcome, job.code), snapshot.timestamp,
        )  # fmt: skip
        body = {"result": found.result.result, "cause": found.cause.value, "commitment": hex0x(found.result.commitment)}
        self._journal.append("audit.sign", job.receipt_id, body)
        opening = {
            "cause": found.cause.value, "salt": hex0x(found.salt), "tokens_hash": hex0x(job.tokens_hash),
            "trace_root": hex0x(job.trace_root),
        }  # fmt: skip
        signature = self._signer.sign_preimage(typed_preimage(self._network.disputes_domain, found.result))
        self._audits.sign_once(found.result, signature, opening)
        if self._hand_over is not None and found.cause is Cause.OPERATOR:
            hint = AuditHint(found.result, signature, job.outcome, job.code, job.tokens_hash, job.trace_root, nonce)
            self._hand_over(hint)
        result, cause = found.result.result, found.cause.value
        metrics.AUDITS.labels(outcome=AuditOutcome(result).name.lower()).inc()
        telemetry.log("audit.signed", receipt=job.receipt_id, result=result, cause=cause, assurance=assurance)

    def _checklist(self, job: JobResult, live: LiveReceipt, place: Environment, snapshot: Snapshot, assurance: str) -> Preflight:
        opened = {Outcome.EXECUTED: True, Outcome.CANNOT_EXECUTE: True, Outcome.INVALID: False}.get(Outcome(job.outcome))
        return preflight(
            PreflightSubject(
                receipt=live.seen.signed.receipt, header=live.header, environment=place, policy=snapshot.policy,
                window_s=self._chain.params(snapshot.params_version, snapshot.number).times.window,
                assurance=assurance, opened=opened, executed=job.outcome == Outcome.EXECUTED.value, attested=bool(job.quote),
            )
        )  # fmt: skip

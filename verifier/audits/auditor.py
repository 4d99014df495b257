"""Light audits of this verifier: draws, jobs and signed results; `bounties` brings those to the chain (design section 10).

The draw is public: anyone can repeat it from the hash of a block that nobody knew when the batch was posted.
"""

import functools
from collections.abc import Callable

from bytewise.ports import ChainView, EnclaveJobs, Sender
from bytewise.protocol.address_book import Network
from bytewise.protocol.court.sortition import audit_is_drawn
from bytewise.protocol.decisions.actions import Action, ClaimBounty, OpenAudit, PostAudit, RunAudit
from bytewise.protocol.decisions.audits import decide_auditor
from bytewise.protocol.decisions.snapshot import Docket
from bytewise.protocol.jobs import JobResult
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.preflight import Preflight, Record, preflight
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.signing import Signer, typed_digest
from bytewise.protocol.units import Digest, hex0x
from bytewise.service import telemetry
from bytewise.storage.archive import Audits
from bytewise.storage.journal import Journal
from kms.shard.chain_view import BEACON_DELAY_BLOCKS
from verifier.audits.audit import Cause, conclude
from verifier.audits.audit_hints import Tip
from verifier.audits.bounties import FAILED, Bounties
from verifier.jobs.enclave_presence import EnclaveAway
from verifier.jobs.tickets import audit_right, run_job
from verifier.jobs.worker import AUDIT, Finished, Worker
from verifier.watch.records import Live, Records

MAX_ATTEMPTS = 3
"""Jobs per audit: a third failure is no longer chance."""
RETRY_PAUSE_S = 5
"""Chain time between two of them: an enclave that restarts needs some seconds."""


class Auditor:
    """Runs the audits that fall to this verifier."""

    def __init__(
        self, chain: ChainView, network: Network, records: Records, audits: Audits, journal: Journal, signer: Signer,
        enclave: EnclaveJobs, worker: Worker, rng: Callable[[int], bytes], margin_s: int, ticket_ttl_s: int,
        hand_over: Callable[[Tip], None] | None = None,
    ) -> None:  # fmt: skip
        self._chain = chain
        self._network = network
        self._records = records
        self._audits = audits
        self._bounties = Bounties(chain, records, audits, signer.address)
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
        self._hand_over = hand_over
        self._attempts: dict[Digest, int] = {}
        self._not_before: dict[Digest, int] = {}

    def step(self, docket: Docket) -> tuple[Action, ...]:
        """Looks for new draws, then says what to do about all audits."""
        self._forget_another_branch(docket)
        self._forget_closed()
        for live in self._records.live:
            self._draw(live, docket)
        running = {subject for kind, subject, _ in self._worker.busy() if kind == "audit"}
        running |= {receipt for receipt, moment in self._not_before.items() if docket.timestamp < moment}
        return decide_auditor(docket, self._bounties.duties(docket), running, self._margin_s)

    def start(self, action: RunAudit, docket: Docket) -> None:
        """Queues the enclave job of one audit unless the enclave is away; `Unavailable` while something it needs is missing."""
        self._not_before[action.receipt_id] = docket.timestamp + RETRY_PAUSE_S
        if self._worker.away():
            return
        case = self._records.case(action.receipt_id, docket)
        right = audit_right(action.receipt_id, docket.clock + self._ticket_ttl_s)
        job = functools.partial(run_job, self._enclave, self._signer, self._network.contracts, case, right)
        self._worker.submit(AUDIT, ("audit", action.receipt_id, 0), job)

    def finish(self, finished: Finished, docket: Docket) -> None:
        """Signs the result of a job, or counts a failure; where there was no enclave nothing was tried."""
        receipt_id = finished.key[1]
        if isinstance(finished.outcome, EnclaveAway):
            self._not_before[receipt_id] = docket.timestamp + RETRY_PAUSE_S
            return
        outcome = finished.outcome
        unclear = not isinstance(outcome, JobResult) or outcome.outcome == Outcome.NO_KEY.value
        self._attempts[receipt_id] = self._attempts.get(receipt_id, 0) + 1
        if unclear and self._attempts[receipt_id] < MAX_ATTEMPTS:
            self._not_before[receipt_id] = docket.timestamp + RETRY_PAUSE_S
            return
        if isinstance(outcome, JobResult):
            self._sign(outcome, docket)
        else:
            self._audits.mark(receipt_id, FAILED, f"{type(outcome).__name__} after {MAX_ATTEMPTS} attempts")
            telemetry.log("audit.failed", receipt=receipt_id, error=type(outcome).__name__)

    def post(self, action: PostAudit, sender: Sender) -> None:
        """Publishes the stored result."""
        self._bounties.post(action, sender)

    def collect(self, action: OpenAudit | ClaimBounty, sender: Sender) -> None:
        """Shows what the result committed to, or claims the bounty for it."""
        self._bounties.collect(action, sender)

    def _forget_another_branch(self, docket: Docket) -> None:
        # A beacon of blocks that left the chain draws nobody: shards would refuse the ticket.
        if self._last is not None and self._chain.block_hash(self._last[0]) != self._last[1]:
            self._beacons.clear()
            self._drawn.clear()
        self._last = (docket.number, docket.block_hash)

    def _forget_closed(self) -> None:
        """What is known of receipts whose window is over."""
        live = {each.seen.receipt_id for each in self._records.live}
        batches = {each.header.batch_id for each in self._records.live}
        self._drawn &= live
        self._beacons = {batch: kept for batch, kept in self._beacons.items() if batch in batches}
        self._attempts = {receipt: kept for receipt, kept in self._attempts.items() if receipt in live}
        self._not_before = {receipt: kept for receipt, kept in self._not_before.items() if receipt in live}

    def _draw(self, live: Live, docket: Docket) -> None:
        """Whatever the check found: a receipt that nobody could audit because of a small fault would still become final."""
        receipt_id, header = live.seen.receipt_id, live.header
        at = header.block + BEACON_DELAY_BLOCKS
        if receipt_id in self._drawn or at > docket.number:
            return
        if header.batch_id not in self._beacons:
            self._beacons[header.batch_id] = self._chain.block_hash(at)
        batch = docket.batch(header.batch_id)
        if batch is None:
            return
        params = self._chain.params(batch.params_version, docket.number)
        stake = self._chain.stake_at(self._signer.address, header.block, docket.number)
        seats, rate = stake // params.money.audit_unit, params.shares.audit_rate_bps
        if audit_is_drawn(self._beacons[header.batch_id], receipt_id, self._signer.address, rate, seats):
            self._audits.add(receipt_id, batch.window_end)
            telemetry.log("audit.drawn", receipt=receipt_id, batch=header.batch_id)
        self._drawn.add(receipt_id)

    def _sign(self, job: JobResult, docket: Docket) -> None:
        live = self._records.find(job.receipt_id)
        if live is None:
            return  # the chain took the batch back while the enclave worked
        place = self._records.environment(live.header.environment, docket.number)
        assurance = self._chain.epoch(live.header.key_epoch, docket.number).assurance
        found = conclude(
            job, live.seen.signed.receipt, self._checklist(job, live, place, docket, assurance), place.profile,
            Digest(self._rng(32)), docket.timestamp,
        )  # fmt: skip
        body = {"result": found.result.result, "cause": found.cause.value, "commitment": hex0x(found.result.commitment)}
        self._journal.append("audit.sign", job.receipt_id, body)
        opening = {
            "cause": found.cause.value, "salt": hex0x(found.salt), "tokens_hash": hex0x(job.tokens_hash),
            "trace_root": hex0x(job.trace_root),
        }  # fmt: skip
        signature = self._signer.sign(typed_digest(self._network.disputes_domain, found.result))
        self._audits.sign_once(found.result, signature, opening)
        if self._hand_over is not None and found.cause is Cause.OPERATOR:
            tip = Tip(found.result, signature, job.outcome, job.code, job.tokens_hash, job.trace_root, found.salt)
            self._hand_over(tip)
        result, cause = found.result.result, found.cause.value
        telemetry.log("audit.signed", receipt=job.receipt_id, result=result, cause=cause, assurance=assurance)

    def _checklist(self, job: JobResult, live: Live, place: Environment, docket: Docket, assurance: str) -> Preflight:
        opened = {Outcome.EXECUTED: True, Outcome.CANNOT_EXECUTE: True, Outcome.INVALID: False}.get(Outcome(job.outcome))
        return preflight(
            Record(
                receipt=live.seen.signed.receipt, header=live.header, environment=place, policy=docket.policy,
                window_s=self._chain.params(docket.params_version, docket.number).times.window,
                assurance=assurance, opened=opened, executed=job.outcome == Outcome.EXECUTED.value,
            )
        )  # fmt: skip

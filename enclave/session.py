"""One job from its first message to its result: prepare a transport key, verify the ticket, judge, quote (design section 7).

Nothing of a job outlives its session. What is logged names events and ids, never what an envelope held.
"""

import gc
from collections.abc import Callable
from functools import partial

from bytewise.crypto.hpke import transport_keypair
from bytewise.ports import KeySource, Quoter
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import TicketRefused
from bytewise.protocol.errors.reasons import TicketFlaw
from bytewise.protocol.evidence.claims import Evidence, ResultQuote, ResultStatement, host_claims_of, result_report_data
from bytewise.protocol.jobs import JOB_LIMIT_S, JobResult, Prepared, RunJob
from bytewise.protocol.records.environment import PROFILE_EXACT_1
from bytewise.protocol.records.statements import transport_key_hash
from bytewise.protocol.units import U8, Blob, Digest
from bytewise.service import telemetry
from enclave.judge import Judgement, JudgingEngine, judge, verify_job
from enclave.shard_dialer import Switchboard


class Bench:
    """What all jobs of one enclave process share."""

    def __init__(
        self, engine: JudgingEngine, model_id: Digest, keys: KeySource, quoter: Quoter, chain_id: int,
        rng: Callable[[int], bytes], profile: str = PROFILE_EXACT_1, switchboard: Switchboard | None = None,
        unfenced: tuple[str, ...] = (), instance: Digest | None = None, limit_s: int = JOB_LIMIT_S,
        transport: Callable[[], tuple[bytes, Blob]] | None = None,
    ) -> None:  # fmt: skip
        """`switchboard`: by which `keys` reach shards, told of each conversation; None if they need none. `unfenced`: fences
        that do not hold around this process. `instance`: name of the enclave, which its processes share; None draws one.
        `limit_s`: longest that one conversation may take. `transport`: secret and public half of a job's transport key, the
        secret empty where it is the business of `keys`; None draws both here."""
        self.engine = engine
        self.model_id = model_id
        self.keys = keys
        self.quoter = quoter
        self.chain_id = chain_id
        self.rng = rng
        self.profile = profile
        self.switchboard = switchboard or Switchboard()
        self.unfenced = unfenced
        self.instance = Digest(rng(32)) if instance is None else instance
        self.limit_s = limit_s
        self.transport = transport or partial(transport_keypair, rng)


class Session:
    """One job: `prepare`, then `run`."""

    def __init__(self, bench: Bench, receipt_id: Digest) -> None:
        self._bench = bench
        self._receipt_id = receipt_id
        self._secret, self._public = bench.transport()

    def prepare(self) -> Prepared:
        """The fresh transport key of this job."""
        return Prepared(self._bench.instance, self._public, self._bench.limit_s, self._bench.unfenced)

    def run(self, job: RunJob) -> JobResult:
        """The result of the job that was prepared, with its quote; a `Fault` if it is another job or inconsistent."""
        identifier = verify_job(job, self._bench.chain_id)
        for what, have, want in (
            ("receipt", identifier, self._receipt_id),
            ("transport key", job.ticket.transport_key_hash, transport_key_hash(self._public)),
            ("instance", job.ticket.instance, self._bench.instance),
        ):
            if have != want:
                raise TicketRefused(f"ticket is for another {what}", TicketFlaw.OTHER_JOB)
        telemetry.log("enclave.job", receipt=identifier, subject=job.ticket.subject, round=job.ticket.round)
        bench = self._bench
        judgement = judge(job, identifier, bench.keys, self._secret, bench.engine, bench.model_id, bench.profile)
        gc.collect()  # the payload's cycles, if any, go now and not at the next job
        telemetry.log(
            "enclave.judged", receipt=identifier, outcome=judgement.outcome.name, code=judgement.code,
            verify_passes=judgement.verify_passes,
        )  # fmt: skip
        return self._quoted(job, identifier, judgement)

    def _quoted(self, job: RunJob, identifier: Digest, found: Judgement) -> JobResult:
        ticket = job.ticket
        statement = ResultStatement(
            chain_id=job.contracts.chain_id, contract=job.contracts.disputes, subject=ticket.subject, round=ticket.round,
            receipt_id=identifier, voter=ticket.voter, outcome=U8(found.outcome), code=U8(found.code),
            tokens_hash=found.tokens_hash, trace_root=found.trace_root, round_digest=found.round_digest,
            verify_passes=found.verify_passes, premises=host_claims_of(job),
        )  # fmt: skip
        evidence = decode(Evidence, self._bench.quoter.quote(result_report_data(statement)))
        return JobResult(
            subject=ticket.subject, round=ticket.round, receipt_id=identifier, voter=ticket.voter,
            outcome=statement.outcome, code=statement.code, tokens_hash=found.tokens_hash, trace_root=found.trace_root,
            round_digest=found.round_digest, quote=Blob(encode(ResultQuote(statement, evidence))),
        )  # fmt: skip

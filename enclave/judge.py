"""The vote function, cases 2 to 5 of design section 9. It finds the vote of a seat about a receipt whose bytes are available.

The duty process handles case 1, in which the bytes are missing. The order of the cases is part of the protocol: the first case
that applies is the vote.
"""

from typing import NamedTuple, Protocol

from bytewise.ports import Engine, KeySource
from bytewise.protocol.errors.actors import CannotExecute, NoKey, TicketRefused
from bytewise.protocol.errors.branches import TicketFlaw
from bytewise.protocol.errors.records import Defect, ForeignChain, MalformedValue, OutsideLimits
from bytewise.protocol.jobs import RunJob
from bytewise.protocol.records import trace
from bytewise.protocol.records.environment import PROFILE_EXACT_1
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.records.request import Request
from bytewise.protocol.records.seal import Payload, envelope_hash, verify_opening
from bytewise.protocol.records.statements import CannotReason, Outcome, TicketKind
from bytewise.protocol.records.trace import Verification, differing_fields
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import ZERO_DIGEST, Digest


class JobOutcome(NamedTuple):
    """The seat's finding, with the number of verification passes that the engine needed for it. Digests are zero unless the
    engine executed the request."""

    outcome: Outcome
    code: int = 0
    tokens_hash: Digest = ZERO_DIGEST
    trace_root: Digest = ZERO_DIGEST
    round_digest: Digest = ZERO_DIGEST
    verify_passes: int = 0


class JudgingEngine(Engine, Protocol):
    """An engine that can ask a second backend when its result differs from the operator's answer."""

    def confirm(self, request: Request, verification: Verification) -> Verification:
        """Returns the verification if it found no difference, or if a second backend finds the same answer as this engine. Raises
        `CannotExecute` if the second backend finds another answer or cannot run, and `TryAgain` if it gives no result."""
        ...


def verify_job(job: RunJob, chain_id: int) -> Digest:
    """Returns the receipt id of a job after two checks: the job's chain is this one, and its parts belong together. If a check
    fails, raises a `Fault`, which accuses the duty process that sent the job."""
    if job.contracts.chain_id != chain_id:
        raise ForeignChain(job.contracts.chain_id, chain_id)
    identifier = receipt_id(Domain(job.contracts.chain_id, job.contracts.anchor), job.receipt)
    kind = int(job.ticket.kind)
    if kind not in (TicketKind.DISPUTE, TicketKind.AUDIT):
        raise TicketRefused(f"kind {kind}", TicketFlaw.UNKNOWN_KIND)
    subject = identifier if kind == TicketKind.AUDIT else job.ticket.subject
    for what, have, want in (
        ("receipt", job.ticket.receipt_id, identifier),
        ("subject", job.ticket.subject, subject),
        ("epoch of the ticket", job.ticket.key_epoch, job.receipt.key_epoch),
        ("epoch record", job.epoch.epoch, job.receipt.key_epoch),
        ("environment", job.environment.digest, job.receipt.environment),
    ):
        if have != want:
            raise TicketRefused(f"job names another {what}", TicketFlaw.OTHER_JOB)
    if envelope_hash(job.envelope) != job.receipt.envelope_hash:
        raise MalformedValue("job", "other envelope bytes than the receipt names")
    return identifier


def judge_job(
    job: RunJob, identifier: Digest, keys: KeySource, transport_secret: bytes, engine: JudgingEngine, model_id: Digest,
    profile: str = PROFILE_EXACT_1,
) -> JobOutcome:  # fmt: skip
    """Judges a verified job with the engine, and returns the outcome.

    The engine runs the artifact `model_id` under the arithmetic profile `profile`. An error that is no outcome of the vote
    function is raised to the caller. The seat then casts no vote.
    """
    try:
        plaintext = keys.open(job, transport_secret)
        payload = verify_opening(job.receipt, identifier, plaintext, job.environment, job.anchored_at)
    except Defect as defect:
        return JobOutcome(Outcome.INVALID, defect.code)
    except NoKey:
        return JobOutcome(Outcome.NO_KEY)
    if job.environment.profile != profile:
        return JobOutcome(Outcome.CANNOT_EXECUTE, CannotReason.PROFILE_UNKNOWN)
    if model_id != job.receipt.model_id:
        return JobOutcome(Outcome.CANNOT_EXECUTE, CannotReason.MODEL_MISSING)
    try:
        verification = _execute(job, payload, engine)
    except CannotExecute as error:
        reason = next((each for each in error.values if isinstance(each, CannotReason)), CannotReason.BACKEND)
        return JobOutcome(Outcome.CANNOT_EXECUTE, reason)
    except (MemoryError, OutsideLimits):
        # The limits of the registered environment were checked above. A request that still does not fit exceeds a limit of this
        # engine.
        return JobOutcome(Outcome.CANNOT_EXECUTE, CannotReason.RESOURCES)
    return _executed(job, verification)


def _execute(job: RunJob, payload: Payload, engine: JudgingEngine) -> Verification:
    # The sealed output hashes to the receipt's tokensHash (`verify_opening`), so no divergence means that both fields are equal.
    verification = engine.verify(payload.request, payload.output, job.receipt.out_hash)
    if verification.divergence is None:
        return verification
    # A wrong conviction is the worst error of a seat, so a second backend must find the same divergence first.
    return engine.confirm(payload.request, verification)


def _executed(job: RunJob, verification: Verification) -> JobOutcome:
    truth = verification.truth
    tokens_hash, root = truth.output.tokens_hash, truth.trace_root
    assert (verification.divergence is None) == (not differing_fields(job.receipt, tokens_hash, root))
    # An audit has no round, so no member could copy the work of another. The digest would only add a secret to protect.
    is_dispute = TicketKind(job.ticket.kind) is TicketKind.DISPUTE
    digest = trace.round_digest(job.round_seed, job.ticket.subject, truth.leaves) if is_dispute else ZERO_DIGEST
    return JobOutcome(Outcome.EXECUTED, 0, tokens_hash, root, digest, verification.verify_passes)

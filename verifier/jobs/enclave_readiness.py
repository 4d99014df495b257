"""Checks whether the node's enclaves answer, and whether the network's appraisal policy accepts their evidence.

If the policy does not approve the enclave's measurement, no shard gives the enclave a key. Nothing else shows that before the
first job. So this module asks the enclave for evidence when `/readyz` is read or a job needs an enclave. It asks again only if
the last answer is older than a few minutes, or a few seconds after a failure. Each question uses up one process of the enclave,
because a process serves one conversation.

A node may have several enclaves. A job then goes to the enclave that fits best (ADR-018). Such an enclave answers, runs the model
of the receipt, and has evidence that the active policy accepts.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from bytewise.ports import Clock, EnclaveJobs
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import EvidenceRefused, TryAgain
from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy
from bytewise.protocol.jobs import EnclaveStatus, JobResult, Prepared, RunJob, status_report_data
from bytewise.protocol.units import Digest
from bytewise.service import metrics
from bytewise.service.clock import monotonic_s
from bytewise.service.readiness import Check, ReadinessRegistry
from bytewise.tee.appraisal import verify_evidence
from verifier.jobs.job import EnclaveAway, EnclaveUnsuited

EVERY_S, AFTER_FAILURE_S = 300.0, 10.0
"""Seconds until an enclave is asked again: after a good answer, and after a failure."""

CHECKS = ("enclave", "measurement", "collateral")
"""Names of the checks of one enclave."""
LASTS_S = 7 * 86_400
"""Seconds for which collateral must stay valid, so that a person has time to look at a renewal that fails."""

_LASTS = f"evidence that rests on collateral valid for at least {LASTS_S // 86_400} days"
_COLLATERAL_DO = "Renew it: `bytewise enclave collateral --once`; look at the log of the process collateral."
_APPROVED = "evidence that the appraisal policy in force accepts"
_ENCLAVE_DO = "Start the enclave, or correct the path of its job socket; look at its log."
_MEASUREMENT_DO = "Run the release and the model that the network has approved, or wait until this one is approved."


class StatusSource(Protocol):
    """A client of a job socket that gets the state of an enclave."""

    def status(self, nonce: Digest) -> EnclaveStatus:
        """Gets the state of the enclave, with evidence that binds the nonce. Raises `TryAgain` if the enclave is not there."""
        ...


class _EnclaveChecks(NamedTuple):
    at: float
    enclave: Check
    measurement: Check
    expires_at: int | None = None
    """Unix second at which the collateral of the evidence expires. None if no evidence was accepted, and for simulated evidence,
    which is made anew each time."""
    model_id: Digest | None = None


def collateral_check(expires_at: int | None, now: int) -> Check:
    """Returns a check that passes if the collateral of the enclave's evidence is valid for long enough. `expires_at` and `now`
    are Unix seconds; `expires_at` is None for simulated evidence, which passes."""
    if expires_at is None:
        return Check("collateral", True, "simulated evidence, nothing to renew", _LASTS, _COLLATERAL_DO)
    left_s = expires_at - now
    return Check("collateral", left_s >= LASTS_S, f"{left_s / 86_400:.1f} days", _LASTS, _COLLATERAL_DO)


class EnclaveReadiness:
    """The checks `enclave`, `measurement` and `collateral` of one enclave. The tick sets the policy, and `/readyz` reads the
    checks."""

    def __init__(
        self, source: StatusSource, is_working: Callable[[], bool], chain_id: int, clock: Clock, rng: Callable[[int], bytes],
        monotonic: Callable[[], float] = monotonic_s,
    ) -> None:  # fmt: skip
        """`is_working` returns whether a job runs. While a job runs, the enclave is there, and a question to the enclave would
        have to wait for the end of the job."""
        self._source = source
        self._is_working = is_working
        self._chain_id = chain_id
        self._clock = clock
        self._rng = rng
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._policy: AppraisalPolicy | None = None
        self._last: _EnclaveChecks | None = None
        self.last_model: Digest | None = None
        """Model that the enclave named in its last answer, or None if it never answered."""
        self._accepted_at = monotonic()
        """Monotonic time at which the policy last accepted evidence. At first it is the time of the start."""

    @property
    def evidence_age_s(self) -> float:
        """Seconds since the policy last accepted evidence of this enclave, or since the start if it never did."""
        return self._monotonic() - self._accepted_at

    def add_checks(self, readiness: ReadinessRegistry) -> None:
        """Adds the three checks of this enclave to the readiness of the process."""
        for name in CHECKS:
            readiness.add(name, functools.partial(self.check, name))

    def check(self, name: str) -> Check:
        """Returns one of the three checks by its name. If the enclave's last answer is old, the enclave is asked again. While a
        job runs, the last answer counts even if it is old."""
        seen = self._seen(self._is_working())
        return {"enclave": seen.enclave, "measurement": seen.measurement, "collateral": self._collateral(seen)}[name]

    def rank(self, model_id: Digest) -> tuple[bool, bool, bool]:
        """Returns how badly the enclave fits a job about a model. The enclave with the lowest rank fits best.

        The rank says whether the enclave is away, has another model, or is not approved. Only the thread that runs jobs may call
        this. No job is running then, so the enclave can be asked.
        """
        seen = self._seen(False)
        return not seen.enclave.ok, seen.model_id != model_id, not seen.measurement.ok

    def may_suit(self, model_id: Digest) -> bool:
        """Returns whether the enclave has the model and the policy did not refuse it, according to its last answer. Asks the
        enclave nothing."""
        last = self._last
        is_refused = last is not None and last.enclave.ok and not last.measurement.ok
        return self.last_model == model_id and not is_refused

    def note_policy(self, document: bytes) -> None:
        """Sets the active appraisal policy. `document` is its canonical bytes."""
        policy = decode(AppraisalPolicy, document)
        with self._lock:
            self._policy, self._last = policy, None

    def _seen(self, is_working: bool) -> _EnclaveChecks:
        with self._lock:
            last = self._last
            if last is not None and (is_working or self._monotonic() - last.at < self._pause_s(last)):
                return last
            found = self._ask()
            self._last = found
            return found

    @staticmethod
    def _pause_s(last: _EnclaveChecks) -> float:
        return EVERY_S if last.enclave.ok and last.measurement.ok else AFTER_FAILURE_S

    def _ask(self) -> _EnclaveChecks:
        nonce = Digest(self._rng(32))
        try:
            status = self._source.status(nonce)
        except BytewiseError as error:
            metrics.ENCLAVE_UP.set(0)
            away = Check("enclave", False, str(error), "an answer", _ENCLAVE_DO)
            unknown = Check("measurement", False, "the enclave does not answer", _APPROVED, _ENCLAVE_DO)
            return _EnclaveChecks(self._monotonic(), away, unknown)
        metrics.ENCLAVE_UP.set(1)
        self.last_model = status.model_id
        fences = f"without {', '.join(status.unfenced)}" if status.unfenced else "all fences"
        there = Check("enclave", True, f"model 0x{status.model_id.hex()[:8]}, {fences}", "an answer", _ENCLAVE_DO)
        return _EnclaveChecks(self._monotonic(), there, *self._appraised(status, nonce), status.model_id)

    def _collateral(self, seen: _EnclaveChecks) -> Check:
        if not seen.measurement.ok:
            return Check("collateral", False, "no evidence was accepted", _LASTS, _COLLATERAL_DO)
        return collateral_check(seen.expires_at, self._clock.now())

    def _appraised(self, status: EnclaveStatus, nonce: Digest) -> tuple[Check, int | None]:
        if self._policy is None:
            return Check("measurement", False, "the appraisal policy was not read yet", _APPROVED, _MEASUREMENT_DO), None
        try:
            found = verify_evidence(self._policy, status.evidence, status_report_data(nonce), self._clock.now(), self._chain_id)
        except (EvidenceRefused, Unavailable) as error:
            metrics.ATTESTATIONS.labels(result="refused").inc()
            return Check("measurement", False, str(error), _APPROVED, _MEASUREMENT_DO), None
        metrics.ATTESTATIONS.labels(result="accepted").inc()
        self._accepted_at = self._monotonic()
        value = f"0x{found.claims.measurement.hex()[:8]}, {found.assurance}, {found.claims.status.value}"
        expires_at = None if found.claims.simulated else found.claims.expires_at
        if expires_at is not None:
            metrics.COLLATERAL_EXPIRES.set(expires_at)
        return Check("measurement", True, value, _APPROVED, _MEASUREMENT_DO), expires_at


# Two enclaves of one node, side by side: the old and the new release during an upgrade, or two models.


class KnownEnclave(NamedTuple):
    """An enclave with its readiness."""

    jobs: EnclaveJobs
    state: EnclaveReadiness


class EnclaveChoice:
    """A client of several enclaves that gives each job to the enclave that fits best. Implements `bytewise.ports.EnclaveJobs` for
    the thread that runs jobs."""

    def __init__(self, enclaves: Sequence[KnownEnclave]) -> None:
        self._enclaves = enclaves
        self._chosen: EnclaveJobs | None = None

    def prepare(self, receipt_id: Digest, model_id: Digest) -> Prepared:
        """Returns a fresh transport key of the enclave that fits the job best.

        If that enclave takes no job, the next one is asked. If some enclaves are known to have the model, only these are asked,
        because another enclave would answer that it lacks the model. Raises `TryAgain` if no enclave takes the job. Raises
        `EnclaveUnsuited` instead if other enclaves were not asked.
        """
        self._chosen, last = None, TryAgain("enclave", "there is none")
        ranked = sorted(self._enclaves, key=lambda known: known.state.rank(model_id))
        having = [each for each in ranked if each.state.last_model == model_id]
        for each in having or ranked:
            try:
                prepared = each.jobs.prepare(receipt_id, model_id)
            except TryAgain as error:
                last = error
                continue
            self._chosen = each.jobs
            return prepared
        if 0 < len(having) < len(ranked):
            raise EnclaveUnsuited("enclave", f"the one with model 0x{model_id.hex()[:8]} is away: {last.values[-1]}")
        raise last

    def run(self, job: RunJob) -> JobResult:
        """Runs the prepared job in the chosen enclave and returns the result. Errors of the enclave pass through."""
        if self._chosen is None:
            raise TryAgain("enclave", "no prepared job")
        return self._chosen.run(job)

    def close(self) -> None:
        """Ends the conversation with the chosen enclave."""
        if self._chosen is not None:
            self._chosen.close()


class SuitableEnclave:
    """One or two enclaves that run jobs beside other enclaves of the node. Implements `bytewise.ports.EnclaveJobs` for a thread
    of the pool. This client takes a job only if one of its enclaves suits the job, because otherwise another enclave of the node
    may suit it. An enclave without the model would answer that it lacks the model, and that answer would become the vote."""

    def __init__(self, enclaves: Sequence[KnownEnclave]) -> None:
        self._enclaves = enclaves
        self._choice = EnclaveChoice(())

    def prepare(self, receipt_id: Digest, model_id: Digest) -> Prepared:
        """Returns a fresh transport key. Raises `EnclaveAway` if no enclave answers. Raises `EnclaveUnsuited` if every enclave
        that answers runs another model or is not approved by the policy."""
        ranked = [(each.state.rank(model_id), each) for each in self._enclaves]
        is_away, is_other, is_refused = min(rank for rank, _ in ranked)
        if is_away:
            raise EnclaveAway("enclave", "does not answer")
        if is_other:
            raise EnclaveUnsuited("enclave", f"runs another model than 0x{model_id.hex()[:8]}")
        if is_refused:
            raise EnclaveUnsuited("enclave", "its evidence is not accepted; see the check `measurement`")
        self._choice = EnclaveChoice([each for rank, each in ranked if not any(rank)])
        return self._choice.prepare(receipt_id, model_id)

    def run(self, job: RunJob) -> JobResult:
        """Runs the prepared job and returns its result."""
        return self._choice.run(job)

    def close(self) -> None:
        """Ends the conversation."""
        self._choice.close()


def add_enclave_checks(readiness: ReadinessRegistry, states: Sequence[EnclaveReadiness]) -> None:
    """Adds the checks of a node's enclaves to its readiness. A check passes if one enclave passes it, because other enclaves may
    come and go."""
    for name in CHECKS:
        readiness.add(name, functools.partial(_best, name, states))
    metrics.ATTESTATION_AGE.set_function(lambda: evidence_age_s(states))


def evidence_age_s(states: Sequence[EnclaveReadiness]) -> float:
    """Returns the seconds since evidence of any enclave of the node was accepted, or since the start if none was."""
    return min(each.evidence_age_s for each in states)


def _best(name: str, states: Sequence[EnclaveReadiness]) -> Check:
    found = [each.check(name) for each in states]
    best = next((each for each in found if each.ok), found[0])
    return best._replace(value=", and ".join(each.value for each in found))

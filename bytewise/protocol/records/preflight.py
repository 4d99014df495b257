"""The preflight checklist: says whether a record is complete enough to support a claim (design section 11).

It has the eleven points of `deterministic_run_preflight.v1`. Each point is PASS, FAIL or UNKNOWN. These results decide which
claim the record supports.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from bytewise.protocol.records.environment import PROFILE_EXACT_1, Environment
from bytewise.protocol.records.receipt import BatchHeader, Receipt
from bytewise.protocol.units import ZERO_DIGEST, Digest


class PointResult(enum.StrEnum):
    """Result of one point of the checklist."""

    PASS = "pass"
    """The data is recorded and consistent."""
    FAIL = "fail"
    """The data is missing or contradictory."""
    UNKNOWN = "unknown"
    """The data is not visible: it is sealed, or outside the protocol."""


class PreflightPoint(enum.StrEnum):
    """The eleven points, in the order of `deterministic_run_preflight.v1`."""

    INPUT = "input hash and prompt template hash are recorded"
    MODEL = "model identifier and digest are recorded"
    RUNTIME = "container digest, runtime and framework versions are recorded"
    HARDWARE = "architecture, driver and library versions are recorded"
    DECODING = "seed, sampling settings, temperature and stop rules are recorded"
    COMPARED = "output hash is compared under the same decode policy"
    ATTESTED = "an attestation or verifier reference is available"
    WINDOW = "the challenge window is explicit"
    POLICY = "the relying-party policy is named outside the model output"
    APPLICATION = "the application checks truth, safety, freshness and policy separately"
    CLAIMS = "production-readiness claims stay out unless separate evidence supports them"


@dataclass(frozen=True, slots=True)
class PreflightSubject:
    """The data from which the checklist is made."""

    receipt: Receipt
    """The receipt that is checked."""
    header: BatchHeader
    """Header of the receipt's batch."""
    environment: Environment | None
    """The registered environment, or None if its document is unknown."""
    policy: Digest
    """Appraisal policy in force."""
    window_s: int
    """Length of the challenge window in seconds."""
    assurance: str
    """Label of the key epoch on the chain; empty if unknown."""
    opened: bool | None
    """Whether an enclave found a complete request and answer in the envelope; None if no enclave opened it."""
    executed: bool
    """Whether an enclave computed the answer again under the same decode policy."""
    attested: bool | None = None
    """Whether there is evidence of the enclaves that checked the receipt. None if no enclave checked it, or its published
    evidence is not here."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """The checklist of one receipt."""

    marks: tuple[tuple[PreflightPoint, PointResult], ...]
    """Every point once, in order."""

    @property
    def failed(self) -> tuple[PreflightPoint, ...]:
        """Points with the result FAIL."""
        return tuple(point for point, mark in self.marks if mark is PointResult.FAIL)

    def too_thin_for(self, profile: str) -> tuple[PreflightPoint, ...]:
        """Returns the failed points that matter under this profile. With any of them, a mismatch proves nothing.

        Under `exact-1` the bytes depend only on model and request. The other records about the machine only help to investigate
        faults.
        """
        needed = {PreflightPoint.INPUT, PreflightPoint.MODEL, PreflightPoint.DECODING}
        if profile != PROFILE_EXACT_1:
            needed |= {PreflightPoint.RUNTIME, PreflightPoint.HARDWARE}
        return tuple(point for point in self.failed if point in needed)

    @property
    def claim(self) -> str:
        """The strongest claim that the record supports."""
        marks = dict(self.marks)
        before = (
            PreflightPoint.INPUT,
            PreflightPoint.MODEL,
            PreflightPoint.RUNTIME,
            PreflightPoint.HARDWARE,
            PreflightPoint.DECODING,
        )
        if any(marks[point] is PointResult.FAIL for point in before):
            return "an operator signed this; the record is too thin to replay it"
        if marks[PreflightPoint.COMPARED] is not PointResult.PASS:
            return "an operator signed a replayable record; nobody here has replayed it"
        if marks[PreflightPoint.ATTESTED] is not PointResult.PASS:
            return "the bytes were compared, by a machine without evidence"
        return "the recorded computation was compared byte for byte; nothing is said about truth or fitness"


def preflight(record: PreflightSubject) -> Preflight:
    """Makes the checklist of a receipt from public data and from the findings of an enclave."""
    receipt, environment = record.receipt, record.environment
    known = {None: PointResult.UNKNOWN, True: PointResult.PASS, False: PointResult.FAIL}
    marks = (
        (PreflightPoint.INPUT, _mark(receipt.req_hash != ZERO_DIGEST)),
        (PreflightPoint.MODEL, _mark(receipt.model_id == record.header.model_id != ZERO_DIGEST)),
        (PreflightPoint.RUNTIME, _of(environment, lambda e: bool(any(e.container) and e.libraries and e.profile))),
        (PreflightPoint.HARDWARE, _of(environment, lambda e: e.gpu_arch_id == receipt.gpu_arch and bool(e.driver))),
        (PreflightPoint.DECODING, known[record.opened]),
        (PreflightPoint.COMPARED, PointResult.PASS if record.executed else PointResult.UNKNOWN),
        (PreflightPoint.ATTESTED, known[record.attested]),
        (PreflightPoint.WINDOW, _mark(record.window_s > 0 and record.header.anchored_at > 0)),
        (PreflightPoint.POLICY, _mark(record.policy != ZERO_DIGEST)),
        (PreflightPoint.APPLICATION, PointResult.UNKNOWN),
        (PreflightPoint.CLAIMS, _mark(bool(record.assurance))),
    )
    return Preflight(marks)


def _mark(good: bool) -> PointResult:
    return PointResult.PASS if good else PointResult.FAIL


def _of(environment: Environment | None, test: Callable[[Environment], bool]) -> PointResult:
    return PointResult.UNKNOWN if environment is None else _mark(test(environment))

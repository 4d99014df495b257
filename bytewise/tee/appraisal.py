"""Appraises evidence: a pure function of policy, bytes, expected report data and time (design section 7; the verifier of RFC
9334).

Cheap checks come first, and the work is bounded. The order is: size, shape, policy, the platform's signatures under each rule of
the policy for this type of evidence, and then the claims. The order is the same for every type of evidence, so a simulated run
exercises the code that judges hardware.
"""

import hmac
from dataclasses import dataclass

from cryptography import x509
from cryptography.x509.oid import NameOID

from bytewise.protocol import digests
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.evidence import (
    EvidenceExpired,
    EvidenceFromFuture,
    EvidenceMalformed,
    EvidenceReplayed,
    EvidenceTooLarge,
    MeasurementRefused,
    TcbRefused,
    UntrustedRoot,
)
from bytewise.protocol.errors.records import ForeignChain, MalformedValue, NotCanonical, TooLarge, WrongFields
from bytewise.protocol.evidence.appraisal_policy import (
    TYPE_OF,
    AppraisalPolicy,
    EvidenceType,
    GpuUse,
    MeasurementRole,
    PlatformRule,
    TrustedMeasurement,
)
from bytewise.protocol.evidence.claims import (
    MAX_EVIDENCE_BYTES,
    MAX_EVIDENCE_MARKS,
    MAX_SIMULATED_LIFETIME_S,
    PLATFORM_ID_BYTES,
    SIMULATED_ROOT_NAME,
    Evidence,
    NamedEvidence,
    ResultQuote,
    gpu_nonce,
    has_report_data,
    named_evidence,
    quoted_report_data,
    result_report_data,
    signed_part,
)
from bytewise.protocol.units import Digest
from bytewise.tee.claims import Claims, GpuClaims
from bytewise.tee.dcap import verify_quote
from bytewise.tee.documents import UNREADABLE, issued_at
from bytewise.tee.gpu import verify_gpu
from bytewise.tee.snp import certificate_time, verify_report

# Roots that production trusts: fingerprints of the vendors' roots, compiled in. A policy can only choose among these roots (fence
# 1).

VENDOR_ROOTS: dict[EvidenceType, frozenset[str]] = {
    # Intel SGX Root CA: SHA-256 of the certificate.
    EvidenceType.TDX: frozenset({"44a0196b2b99f889b8e149e95b807a350e7424964399e885a7cbb8ccfab674d3"}),
    # ARK-Milan and ARK-Genoa: SHA-256 of the public key (SubjectPublicKeyInfo), because only the key signs.
    EvidenceType.SNP: frozenset(
        {
            "9f056bee44377e29308cb5ffa895bdfb62d18881fa6bed8d6f075b0204089cb9",
            "429a69c9422aa258ee4d8db5fcda9c6470ef15f8cd5a9cebd6cbc7d90b863831",
        }
    ),
    EvidenceType.SIMULATED: frozenset(),
}
"""SHA-256 in hex of each root in DER, by type of evidence. Later generations of AMD's processors have other roots, which need
an entry here."""


def is_vendor_root(kind: EvidenceType, root: bytes) -> bool:
    """Returns whether the root is a root of the vendor for this type of evidence."""
    return digests.sha256(root).hex() in VENDOR_ROOTS[kind]


# These checks keep simulated evidence and hardware apart inside the verifier (`research/kms.md` 6): fences 1, 2, 4 and 7.


def verify_hardware(rule: PlatformRule, claims: Claims) -> Claims:
    """Checks that claims come from real hardware, and returns them. Raises `EvidenceRefused` if the root of the rule is not a
    root of a vendor, even if the policy names it. Also raises `EvidenceRefused` if the claims have the simulator's mark or no
    platform id."""
    if not is_vendor_root(rule.type, rule.root):
        raise UntrustedRoot(f"root of the rule is not the vendor's for {rule.type.value}")
    if claims.simulated:
        raise EvidenceRefused("marked as simulated")
    if not any(claims.platform_id):
        raise EvidenceRefused("hardware without a platform id")
    return claims


def verify_simulated(policy: AppraisalPolicy, rule: PlatformRule, claims: Claims) -> Claims:
    """Checks that claims come from the simulator and that the policy allows it, and returns them. Raises `EvidenceRefused`
    otherwise.

    The policy's switch `insecure_accept_simulated` must be on, and the root must be marked as simulated. The claims must be
    marked as simulated, have no platform id and be valid for a short time only.
    """
    # The policy cannot be built without the switch. It is checked again here so that either check alone suffices.
    if not policy.insecure_accept_simulated:
        raise EvidenceRefused("simulated evidence without insecure_accept_simulated")
    if not _is_simulated_root(rule.root):
        raise UntrustedRoot("root of the rule is not marked as simulated")
    if not claims.simulated:
        raise EvidenceRefused("simulated evidence that is not marked as such")
    if claims.platform_id != bytes(PLATFORM_ID_BYTES):
        raise EvidenceRefused("simulated evidence with a platform id")
    if claims.expires_at - claims.issued_at > MAX_SIMULATED_LIFETIME_S:
        raise EvidenceRefused("simulated evidence that lives too long")
    return claims


def _is_simulated_root(der: bytes) -> bool:
    try:
        names = x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except UNREADABLE:
        return False
    return [name.value for name in names] == [SIMULATED_ROOT_NAME]


CLOCK_SKEW_S = 30
"""Number of seconds by which the time of issue of evidence may be ahead of this machine's clock."""

WRONG_REPORT_DATA = "report data does not bind this request"
"""Message for unexpected report data. The evidence is then for another session, end, role, statement or time. Report data are a
hash, so the message cannot name the difference."""

MAX_RESULT_QUOTE_BYTES = MAX_EVIDENCE_BYTES + 8192
"""Size in bytes of the largest published result quote that is parsed. A result quote contains evidence and a statement."""


@dataclass(frozen=True, slots=True)
class AppraisalResult:
    """Evidence that was accepted, with the facts that it proves."""

    type: EvidenceType
    """Type of the evidence."""
    named: NamedEvidence
    """Facts of the evidence that release records contain."""
    report_data: bytes
    """The 64 bytes of report data that the caller expected. The evidence binds them."""
    program: TrustedMeasurement
    """Entry of the policy for the program that runs."""
    rule: PlatformRule
    """Rule of the policy that the platform satisfies."""
    claims: Claims
    """Facts that the platform stated."""
    gpu: GpuClaims | None
    """The attested GPU; None if the evidence has none."""

    @property
    def evidence_hash(self) -> Digest:
        """Hash by which release records name the evidence."""
        return self.named.digest

    @property
    def assurance(self) -> str:
        """Label of the evidence, `hardware` or `simulated`. Every later output repeats it."""
        return self.named.assurance


def verify_evidence(
    policy: AppraisalPolicy, evidence: bytes, expected_report_data: bytes, now: int, chain_id: int,
    role: MeasurementRole = MeasurementRole.VERIFIER_ENCLAVE,
) -> AppraisalResult:  # fmt: skip
    """Judges evidence by the policy, for this role on this chain, at Unix second `now`. Returns the facts that the evidence
    proves. If the policy does not accept the evidence, raises a subclass of `EvidenceRefused` that names the reason."""
    return _appraise(policy, _parse(evidence), expected_report_data, now, chain_id, role)


def verify_result_quote(policy: AppraisalPolicy, quote: bytes, chain_id: int) -> ResultQuote:
    """Verifies a published result quote and returns its content. The evidence in the quote must bind the quote's statement.

    The evidence is judged at the time when its collateral was issued. SNP evidence has no collateral, so it is judged at the time
    that `certificate_time` returns. Raises `ForeignChain` if the quote is about another chain, and a subclass of
    `EvidenceRefused` for any other flaw.
    """
    document = decode_result_quote(quote)
    if document.statement.chain_id != chain_id:
        raise ForeignChain(document.statement.chain_id, chain_id)
    _appraise(policy, document.evidence, result_report_data(document.statement), None, chain_id, MeasurementRole.VERIFIER_ENCLAVE)
    return document


def decode_result_quote(quote: bytes) -> ResultQuote:
    """Returns the content of a result quote without verifying it. The content's member `policy` names the policy document by
    which a reader must judge the quote. Raises `EvidenceMalformed` if the bytes are not a result quote."""
    if len(quote) > MAX_RESULT_QUOTE_BYTES:
        raise EvidenceTooLarge(f"result quote of {len(quote)} bytes, at most {MAX_RESULT_QUOTE_BYTES}")
    try:
        return decode(ResultQuote, quote, 2 * MAX_EVIDENCE_MARKS)
    except (MalformedValue, NotCanonical, WrongFields) as error:
        raise _unread("result quote", error) from None


def _parse(evidence: bytes) -> Evidence:
    if len(evidence) > MAX_EVIDENCE_BYTES:
        raise EvidenceTooLarge(f"{len(evidence)} bytes, at most {MAX_EVIDENCE_BYTES}")
    try:
        return decode(Evidence, evidence, MAX_EVIDENCE_MARKS)
    except (MalformedValue, NotCanonical, WrongFields) as error:
        raise _unread("evidence", error) from None


def _unread(what: str, error: Fault) -> EvidenceMalformed:
    return (EvidenceTooLarge if isinstance(error, TooLarge) else EvidenceMalformed)(f"{what}: {error}")


def _appraise(
    policy: AppraisalPolicy, evidence: Evidence, expected: bytes, now: int | None, chain_id: int, role: MeasurementRole
) -> AppraisalResult:  # fmt: skip
    if chain_id not in policy.chain_ids:
        raise EvidenceRefused(f"policy is not for chain {chain_id}")
    if evidence.type not in policy.types:
        raise EvidenceRefused(f"type {evidence.type.value} is not allowed")
    bound = quoted_report_data(expected, evidence.gpu)
    if not has_report_data(evidence):
        raise EvidenceMalformed(f"quote of {len(evidence.quote)} bytes, too short for report data")
    # The report data are compared first, in the plain bytes, so that a peer with a copied quote causes no signature check.
    if bound not in signed_part(evidence):
        raise EvidenceReplayed(WRONG_REPORT_DATA)
    rule, claims = _accepted(policy, evidence, now)
    if not hmac.compare_digest(claims.report_data, bound):
        raise EvidenceReplayed(WRONG_REPORT_DATA)
    program = trusted_program(policy, evidence, claims, role)
    gpu = _gpu(program, evidence, expected, claims.issued_at if now is None else now)
    return AppraisalResult(evidence.type, named_evidence(evidence), expected, program, rule, claims, gpu)


def _accepted(policy: AppraisalPolicy, evidence: Evidence, now: int | None) -> tuple[PlatformRule, Claims]:
    # Several rules of a type differ in what they accept. The evidence must satisfy a single one of them. The last refusal is
    # reported.
    refused: EvidenceRefused = UntrustedRoot("no rule")
    for rule in policy.rules:
        if rule.type is evidence.type:
            try:
                return rule, _judged(policy, rule, evidence, now)
            except EvidenceRefused as error:
                refused = error
    raise refused


def _judged(policy: AppraisalPolicy, rule: PlatformRule, evidence: Evidence, now: int | None) -> Claims:
    claims = _verified(rule, evidence, now)
    if evidence.type is EvidenceType.SIMULATED:
        verify_simulated(policy, rule, claims)
    else:
        verify_hardware(rule, claims)
    if claims.status not in rule.statuses:
        raise TcbRefused(f"TCB status {claims.status.value}")
    denied = sorted(set(claims.advisories) & set(rule.refused_advisories))
    if denied or claims.evaluation < rule.min_evaluation:
        raise TcbRefused(f"advisories {denied}, evaluation {claims.evaluation} of at least {rule.min_evaluation}")
    if rule.platforms and claims.platform_id not in rule.platforms:
        raise TcbRefused(f"platform {claims.platform_id.hex()} is not listed")
    return claims


def _verified(rule: PlatformRule, evidence: Evidence, now: int | None) -> Claims:
    if evidence.type is EvidenceType.SNP:
        if evidence.certificates is None or evidence.collateral is not None:
            raise EvidenceMalformed("snp takes certificates and no collateral")
        at = certificate_time(rule, evidence.certificates) if now is None else now
        return verify_report(rule, evidence.quote, evidence.certificates, at)
    if evidence.collateral is None or evidence.certificates is not None:
        raise EvidenceMalformed(f"{evidence.type.value} takes collateral and no certificates")
    issued = issued_at(evidence.collateral)
    moment = issued if now is None else now
    if issued > moment + CLOCK_SKEW_S:
        raise EvidenceFromFuture(f"issued at {issued}, now {moment}")
    claims = verify_quote(rule, evidence.quote, evidence.collateral, max(moment, issued))
    if moment >= claims.expires_at or moment - claims.issued_at > rule.max_age_s:
        raise EvidenceExpired(f"at {min(claims.expires_at, claims.issued_at + rule.max_age_s)}, now {moment}")
    return claims


def trusted_program(policy: AppraisalPolicy, evidence: Evidence, claims: Claims, role: MeasurementRole) -> TrustedMeasurement:
    """Returns the policy's entry for the measured program in this role. Raises `MeasurementRefused` if there is none."""
    for entry in policy.measurements:
        if entry.measurement == claims.measurement and TYPE_OF[entry.platform] is evidence.type and entry.role is role:
            return entry
    raise MeasurementRefused(f"measurement {claims.measurement.hex()} is not trusted as {role.value}")


def _gpu(program: TrustedMeasurement, evidence: Evidence, expected: bytes, now: int) -> GpuClaims | None:
    if (program.gpu is GpuUse.ATTESTED) != bool(evidence.gpu):
        raise MeasurementRefused(f"program with GPU {program.gpu.value}, evidence {'with' if evidence.gpu else 'without'} one")
    return verify_gpu(evidence.gpu, gpu_nonce(expected), now) if evidence.gpu else None

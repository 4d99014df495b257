"""Judges evidence: a pure function of policy, bytes, expected report data and time (design section 7, RFC 9334 verifier).

`tdx` and `snp` have no appraiser in this version and are refused, whatever the policy allows.
"""

import datetime
import hmac

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors import EvidenceRefused, MalformedValue, NotCanonical, WrongFields
from bytewise.protocol.evidence import (
    MAX_EVIDENCE_BYTES,
    MAX_SIMULATED_LIFETIME_S,
    PLATFORM_ID_BYTES,
    SIMULATED_ROOT_NAME,
    AppraisalPolicy,
    Evidence,
    EvidenceBody,
    EvidenceType,
    ResultQuote,
    evidence_digest,
    result_report_data,
)

CLOCK_SKEW_S = 30
"""Evidence may be issued this far ahead of our clock."""


def verify_evidence(policy: AppraisalPolicy, evidence: bytes, expected_report_data: bytes, now: int, chain_id: int) -> Evidence:
    """The evidence, if the policy accepts it at unix second `now` on this chain; else `EvidenceRefused`."""
    parsed = _parse(evidence)
    body = parsed.body
    if chain_id not in policy.chain_ids:
        raise EvidenceRefused(f"policy is not for chain {chain_id}")
    if body.type not in policy.allowed_types:
        raise EvidenceRefused(f"type {body.type.value} is not allowed")
    _verify_platform(policy, parsed, now)
    if not hmac.compare_digest(body.report_data, expected_report_data):
        raise EvidenceRefused("report data does not bind this request")
    if body.debug:
        raise EvidenceRefused("debug is on")
    if (body.type, body.measurement) not in [(m.type, m.measurement) for m in policy.measurements]:
        raise EvidenceRefused(f"measurement {body.measurement.hex()} is not trusted")
    _verify_times(policy, body, now)
    return parsed


def verify_result_quote(policy: AppraisalPolicy, quote: bytes, chain_id: int) -> ResultQuote:
    """A published result quote whose evidence binds its statement, judged at the time it was issued."""
    try:
        document = decode(ResultQuote, quote)
    except (MalformedValue, NotCanonical, WrongFields) as error:
        raise EvidenceRefused(f"result quote: {error}") from None
    expected = result_report_data(document.statement)
    verify_evidence(policy, encode(document.evidence), expected, document.evidence.body.issued_at, chain_id)
    if document.statement.chain_id != chain_id:
        raise EvidenceRefused(f"result quote is for chain {document.statement.chain_id}")
    return document


def _parse(evidence: bytes) -> Evidence:
    if len(evidence) > MAX_EVIDENCE_BYTES:
        raise EvidenceRefused(f"{len(evidence)} bytes")
    try:
        return decode(Evidence, evidence)
    except (MalformedValue, NotCanonical, WrongFields) as error:
        raise EvidenceRefused(str(error)) from None


def _verify_platform(policy: AppraisalPolicy, evidence: Evidence, now: int) -> EvidenceBody:
    match evidence.body.type:
        case EvidenceType.SIMULATED:
            return _verify_simulated(policy, evidence, now)
        case EvidenceType.TDX | EvidenceType.SNP:
            raise EvidenceRefused(f"no appraiser for type {evidence.body.type.value} in this version")


def _verify_simulated(policy: AppraisalPolicy, evidence: Evidence, now: int) -> EvidenceBody:
    body = evidence.body
    # The policy cannot be built without the switch; it is asked again here so that either check alone suffices.
    if not policy.insecure_accept_simulated:
        raise EvidenceRefused("simulated evidence without insecure_accept_simulated")
    if body.platform_id != bytes(PLATFORM_ID_BYTES):
        raise EvidenceRefused("simulated evidence with a platform id")
    if body.expires_at - body.issued_at > MAX_SIMULATED_LIFETIME_S:
        raise EvidenceRefused("simulated evidence that lives too long")
    leaf = _verify_leaf(policy, evidence, now)
    key = leaf.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise EvidenceRefused("platform key is not P-256")
    try:
        key.verify(evidence.signature, evidence_digest(body), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise EvidenceRefused("signature of the platform does not verify") from None
    return body


def _verify_leaf(policy: AppraisalPolicy, evidence: Evidence, now: int) -> x509.Certificate:
    if len(evidence.certificates) != 1:
        raise EvidenceRefused(f"{len(evidence.certificates)} certificates instead of one leaf")
    leaf = _certificate(evidence.certificates[0])
    if not _valid_at(leaf, now):
        raise EvidenceRefused("platform certificate is not valid now")
    for trusted in policy.roots:
        root = _certificate(trusted.certificate)
        if trusted.type is evidence.body.type and _is_simulated_root(root) and _valid_at(root, now):
            try:
                leaf.verify_directly_issued_by(root)
                return leaf
            except (InvalidSignature, ValueError, TypeError):
                continue
    raise EvidenceRefused("platform certificate leads to no trusted root of its type")


def _verify_times(policy: AppraisalPolicy, body: EvidenceBody, now: int) -> EvidenceBody:
    if body.issued_at > now + CLOCK_SKEW_S:
        raise EvidenceRefused(f"issued at {body.issued_at}, now {now}")
    if now >= body.expires_at or now - body.issued_at > policy.max_age_s:
        raise EvidenceRefused(f"expired at {min(body.expires_at, body.issued_at + policy.max_age_s)}, now {now}")
    return body


def _certificate(der: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        raise EvidenceRefused("certificate does not parse") from None


def _valid_at(certificate: x509.Certificate, now: int) -> bool:
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    return certificate.not_valid_before_utc <= moment <= certificate.not_valid_after_utc


def _is_simulated_root(certificate: x509.Certificate) -> bool:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return [name.value for name in names] == [SIMULATED_ROOT_NAME]

"""What keeps simulated evidence and hardware apart inside the verifier (`research/kms.md` 6): fences 1, 2, 4 and 7."""

from cryptography import x509
from cryptography.x509.oid import NameOID

from bytewise.protocol.errors import EvidenceRefused, UntrustedRoot
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy, PlatformRule
from bytewise.protocol.evidence.claims import MAX_SIMULATED_LIFETIME_S, PLATFORM_ID_BYTES, SIMULATED_ROOT_NAME
from bytewise.tee.certificates import UNREADABLE
from bytewise.tee.claims import Claims
from bytewise.tee.roots import is_vendor_root


def verify_hardware(rule: PlatformRule, claims: Claims) -> Claims:
    """Claims of real hardware: under a vendor's own root, whatever the policy lists, and without the simulator's marks."""
    if not is_vendor_root(rule.type, rule.root):
        raise UntrustedRoot(f"root of the rule is not the vendor's for {rule.type.value}")
    if claims.simulated:
        raise EvidenceRefused("marked as simulated")
    if not any(claims.platform_id):
        raise EvidenceRefused("hardware without a platform id")
    return claims


def verify_simulated(policy: AppraisalPolicy, rule: PlatformRule, claims: Claims) -> Claims:
    """Claims of the simulator: by the switch, under a root that says so, marked, nameless and short-lived."""
    # The policy cannot be built without the switch; it is asked again here so that either check alone suffices.
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

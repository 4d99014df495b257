"""Whom production trusts: fingerprints of the vendors' roots, compiled in; a policy can only choose among them (fence 1)."""

from bytewise.protocol import digests
from bytewise.protocol.evidence.appraisal_policy import EvidenceType

VENDOR_ROOTS: dict[EvidenceType, frozenset[str]] = {
    # Intel SGX Root CA: SHA-256 of the certificate.
    EvidenceType.TDX: frozenset({"44a0196b2b99f889b8e149e95b807a350e7424964399e885a7cbb8ccfab674d3"}),
    # ARK-Milan and ARK-Genoa: SHA-256 of the public key (SubjectPublicKeyInfo), which is all that signs.
    EvidenceType.SNP: frozenset(
        {
            "9f056bee44377e29308cb5ffa895bdfb62d18881fa6bed8d6f075b0204089cb9",
            "429a69c9422aa258ee4d8db5fcda9c6470ef15f8cd5a9cebd6cbc7d90b863831",
        }
    ),
    EvidenceType.SIMULATED: frozenset(),
}
"""SHA-256 of each root in DER, in hex. Later generations of AMD's processors have roots of their own and need their line here."""


def is_vendor_root(kind: EvidenceType, root: bytes) -> bool:
    """Whether the root is the vendor's own for this type of evidence."""
    return digests.sha256(root).hex() in VENDOR_ROOTS[kind]

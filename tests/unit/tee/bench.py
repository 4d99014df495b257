"""One simulated root, platform, policy and quoter, for tests of appraisal."""

from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.evidence import (
    AppraisalPolicy,
    Evidence,
    EvidenceBody,
    EvidenceType,
    evidence_digest,
)
from bytewise.protocol.units import Blob
from bytewise.tee.appraisal import verify_evidence
from bytewise.tee_simulated.__main__ import simulated_policy
from bytewise.tee_simulated.quoter import SimulatedQuoter
from bytewise.tee_simulated.root import Platform, issue, make_root

CHAIN_ID = 31337
REPORT = b"\x42" * 64
ENTRY = "kms.client"
SIMULATED = EvidenceType.SIMULATED


class Bench:
    """A root, a platform, the policy that fits them, and a quoter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_root(folder / "root")
        issue(folder / "root", folder / "platform.key")
        self.platform = Platform(folder / "platform.key")
        self.policy = simulated_policy(folder / "root", CHAIN_ID, 1, ENTRY)
        self.quoter = SimulatedQuoter.of_this_program(folder / "platform.key", ENTRY)
        self.evidence = decode(Evidence, self.quoter.quote(REPORT))
        self.now = int(self.evidence.body.issued_at)

    def signed(self, body: EvidenceBody, platform: Platform | None = None) -> bytes:
        """Evidence over any body, signed by the platform."""
        platform = platform or self.platform
        signature = platform.key.sign(evidence_digest(body), ec.ECDSA(hashes.SHA256()))
        leaf = Blob(platform.certificate.public_bytes(Encoding.DER))
        return encode(Evidence(body, (leaf,), Blob(signature)))

    def appraise(self, evidence: bytes, policy: AppraisalPolicy | None = None, now: int | None = None) -> Evidence:
        """The appraisal under test."""
        return verify_evidence(policy or self.policy, evidence, REPORT, self.now if now is None else now, CHAIN_ID)

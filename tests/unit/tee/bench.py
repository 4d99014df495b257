"""One simulated root, platform, policy and quoter, for tests of appraisal."""

from dataclasses import replace
from pathlib import Path

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy, EvidenceType, PlatformRule
from bytewise.protocol.evidence.claims import Evidence
from bytewise.tee.appraisal import Appraised, verify_evidence
from bytewise.tee.collateral import issued_at
from bytewise.tee.measurement import measure
from bytewise.tee_simulated.__main__ import policy_for
from bytewise.tee_simulated.collateral import Verdict
from bytewise.tee_simulated.quoter import LIFETIME_S, SimulatedQuoter, source_root
from bytewise.tee_simulated.root import Platform, issue, make_root
from bytewise.tee_simulated.td_quote import TdBody, body_of

CHAIN_ID = 31337
REPORT = b"\x42" * 64
ENTRY = "enclave.release_client"
SIMULATED = EvidenceType.SIMULATED


class FixedClock:
    """Stands still."""

    def __init__(self, now: int) -> None:
        self._now = now

    def now(self) -> int:
        return self._now


class Bench:
    """A root, a platform, the policy that fits them, and a quoter whose clock stands still."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_root(folder / "root")
        issue(folder / "root", folder / "platform.key")
        self.platform = Platform(folder / "platform.key")
        self.program = measure(source_root(), ENTRY)
        self.policy = policy_for(self.program, self.program, folder / "root", CHAIN_ID, 1)
        started = SimulatedQuoter.of_this_program(folder / "platform.key", ENTRY).quote(REPORT)
        collateral = decode(Evidence, started).collateral
        assert collateral is not None
        self.now = issued_at(collateral)
        self.quoter = self.quoter_at(self.now)
        self.body = body_of(self.program, REPORT)
        self.evidence = self.quoter.evidence(self.body)

    def quoter_at(self, now: int, platform: Platform | None = None) -> SimulatedQuoter:
        """A quoter of this program at another time, or on another platform."""
        return SimulatedQuoter(platform or self.platform, self.program, FixedClock(now))

    def signed(
        self, body: TdBody, verdict: Verdict | None = None, lifetime_s: int = LIFETIME_S, ppid: bytes = bytes(16)
    ) -> bytes:
        """Evidence over any body, correctly signed."""
        return encode(self.quoter.evidence(body, verdict, lifetime_s, ppid))

    def with_rule(self, **changes: object) -> AppraisalPolicy:
        """The policy with its one rule changed."""
        rule: PlatformRule = replace(self.policy.rules[0], **changes)  # type: ignore[arg-type]
        return replace(self.policy, rules=(rule,))

    def appraise(self, evidence: bytes, policy: AppraisalPolicy | None = None, now: int | None = None) -> Appraised:
        """The appraisal under test."""
        return verify_evidence(policy or self.policy, evidence, REPORT, self.now if now is None else now, CHAIN_ID)

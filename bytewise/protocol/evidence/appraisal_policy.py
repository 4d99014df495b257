"""The appraisal policy: which evidence of which platform is accepted, and what its measurements mean (design section 7).

A policy is valid by construction: an unfenced simulator, an accepted revoked platform or a claim that a platform cannot give
cannot even be expressed. How a policy follows another is `bytewise.protocol.evidence.policy_updates`.
"""

import enum
from dataclasses import dataclass, field

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import LATER, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import U64, U256, Blob, Digest

TEST_CHAIN_IDS = frozenset({1337, 31337, 11155111, 17000, 560048})
"""Chains on which nothing is at stake, as `TestChains.sol` has them: simulated epochs may exist there (fence 4)."""

SNP_TCB_BYTES = 8
"""Length of an SNP TCB version: one security number per byte."""

MAX_OUT_OF_DATE_GRACE_S = 3 * 365 * 86_400
"""Longest grace. The level below the newest is some one to two years old when Intel calls it out of date."""

MAX_RULES = 32
"""Most rules, and most measurements, of one policy."""


class EvidenceType(enum.Enum):
    """How an enclave is attested."""

    TDX = "tdx"
    SNP = "snp"
    SIMULATED = "simulated"


class MeasurementRole(enum.Enum):
    """On whose behalf report data speaks, which makes evidence directional, and as what a trusted program may speak."""

    VERIFIER_ENCLAVE = "verifier-enclave"
    KEY_SHARD = "key-shard"


class TcbStatus(enum.Enum):
    """What the vendor says about the version of a platform's trusted parts; values as Intel writes them.

    The two of relaunch are no level's: a trust domain of TDX 1.5 was launched under what is out of date, and runs now under what
    is not.
    """

    UP_TO_DATE = "UpToDate"
    SW_HARDENING_NEEDED = "SWHardeningNeeded"
    CONFIGURATION_NEEDED = "ConfigurationNeeded"
    CONFIGURATION_AND_SW_HARDENING_NEEDED = "ConfigurationAndSWHardeningNeeded"
    OUT_OF_DATE = "OutOfDate"
    OUT_OF_DATE_CONFIGURATION_NEEDED = "OutOfDateConfigurationNeeded"
    RELAUNCH_ADVISED = "TDRelaunchAdvised"
    RELAUNCH_ADVISED_CONFIGURATION_NEEDED = "TDRelaunchAdvisedConfigurationNeeded"
    REVOKED = "Revoked"


class PlatformKind(enum.Enum):
    """Where an enclave runs: what a measurement can cover depends on it, not on the type of evidence alone."""

    SIMULATED = "simulated"
    TDX = "tdx"
    SNP = "snp"
    SNP_AWS = "snp-aws"
    SNP_AZURE = "snp-azure"


class Coverage(enum.Enum):
    """What is the same whenever a measurement is the same."""

    FIRMWARE = "firmware"
    KERNEL = "kernel"
    IMAGE = "image"
    PROGRAM = "program"


CAN_COVER: dict[PlatformKind, frozenset[Coverage]] = {
    PlatformKind.SIMULATED: frozenset({Coverage.PROGRAM}),
    PlatformKind.TDX: frozenset(Coverage),
    PlatformKind.SNP: frozenset(Coverage),
    PlatformKind.SNP_AWS: frozenset({Coverage.FIRMWARE}),
    PlatformKind.SNP_AZURE: frozenset({Coverage.FIRMWARE}),
}
"""What measurements of a platform can cover at all. Two different images on AWS have one SNP measurement (kms.md 2); on Azure it
is that of the provider's own layer, and the image is vouched for by a virtual TPM that we do not read."""

TYPE_OF = {
    PlatformKind.SIMULATED: EvidenceType.SIMULATED, PlatformKind.TDX: EvidenceType.TDX, PlatformKind.SNP: EvidenceType.SNP,
    PlatformKind.SNP_AWS: EvidenceType.SNP, PlatformKind.SNP_AZURE: EvidenceType.SNP,
}  # fmt: skip
"""Which evidence a platform gives."""


class GpuUse(enum.Enum):
    """Whether the program computes on a GPU, and what is known of it."""

    NONE = "none"
    ATTESTED = "attested"
    UNATTESTED = "unattested"
    """Makes an enclave simulated: no policy accepts it for hardware."""


@dataclass(frozen=True, slots=True)
class PlatformRule:
    """One kind of platform that is accepted. Whatever it does not name is refused."""

    type: EvidenceType
    """For which evidence."""
    root: Blob
    """Trust anchor: DER of the root certificate (`tdx`, `simulated`) or of the vendor's root public key (`snp`)."""
    statuses: tuple[TcbStatus, ...]
    """Accepted TCB statuses, in the order of `TcbStatus`; all others are refused, `REVOKED` always."""
    refused_advisories: tuple[str, ...]
    """Security advisories that are never accepted, whatever the status."""
    min_evaluation: int
    """Lowest accepted number of the vendor's TCB evaluation; 0 for `snp`, whose vendor has none."""
    min_tcb: Blob
    """`snp`: lowest accepted security number for each byte of the TCB version; empty for the others."""
    smt: bool
    """Whether several threads may share a core."""
    dynamic_platform: bool
    """Whether processors may have been added after registration (`tdx`)."""
    cached_keys: bool
    """Whether the platform's keys may be cached by its owner (`tdx`)."""
    platforms: tuple[Blob, ...]
    """Accepted platform ids (PPID or chip id); empty: any. A list limits what one broken machine is worth."""
    max_age_s: int
    """Oldest accepted collateral (`tdx`, `simulated`) or revocation list (`snp`), seconds since it was issued; 0, for `snp` only:
    no list is asked for."""
    out_of_date_grace_s: int | None = field(default=None, metadata=LATER)
    """`tdx`, `simulated`: how long what is out of date (the platform, its module or quoting enclave) is accepted if `statuses`
    name it, seconds since the date of its TCB level (`tcbDate`); None, as in policies of before this member: not at all."""

    def __post_init__(self) -> None:
        problem = _rule_problem(self)
        if problem:
            raise ConfigurationError(f"appraisal rule for {self.type.value}", problem)


@dataclass(frozen=True, slots=True)
class TrustedMeasurement:
    """A program that is trusted in one role: to receive keys, or to hold a share of them."""

    platform: PlatformKind
    """Where."""
    measurement: Digest
    """Its measurement (`bytewise.tee.claims`)."""
    covers: tuple[Coverage, ...]
    """What it covers; the platform must be able to, and the program must be among it, or the image that holds it."""
    statement: str
    """For people: what it covers and what it does not."""
    gpu: GpuUse
    """Whether evidence of a GPU has to come with it."""
    role: MeasurementRole = MeasurementRole.VERIFIER_ENCLAVE
    """As what it may speak: a shard's program gets no keys, an enclave's holds no share."""

    def __post_init__(self) -> None:
        problem = _measurement_problem(self)
        if problem:
            raise ConfigurationError("trusted measurement", problem)


@dataclass(frozen=True, slots=True)
class AppraisalPolicy:
    """Which evidence is accepted."""

    serial: U64
    """Strictly increasing; the chain and every shard refuse a lower one."""
    chain_ids: tuple[U256, ...]
    """Chains on which this policy may be used."""
    rules: tuple[PlatformRule, ...]
    """Accepted platforms: evidence must satisfy one."""
    measurements: tuple[TrustedMeasurement, ...]
    """Accepted programs."""
    insecure_accept_simulated: bool
    """The explicit switch without which `simulated` is refused."""

    def __post_init__(self) -> None:
        problem = _policy_problem(self)
        if problem:
            raise ConfigurationError("appraisal policy", problem)

    @property
    def digest(self) -> Digest:
        """The name under which the chain has it."""
        return policy_digest(encode(self))

    @property
    def types(self) -> frozenset[EvidenceType]:
        """Evidence for which there is a rule."""
        return frozenset(rule.type for rule in self.rules)


@dataclass(frozen=True, slots=True)
class SignedPolicy:
    """A policy and who approved it."""

    policy: AppraisalPolicy
    """What was approved."""
    signatures: tuple[Blob, ...]
    """Of governance keys over `approval_digest` of the policy."""


def policy_digest(document: bytes) -> Digest:
    """Digest of a policy's canonical bytes."""
    return digests.labelled(Label.POLICY, document)


def approval_digest(policy: AppraisalPolicy) -> Digest:
    """What a governance key signs: nothing else has this label."""
    return digests.labelled(Label.POLICY_APPROVAL, policy.digest)


def entry_digest(entry: PlatformRule | TrustedMeasurement) -> Digest:
    """Names an entry of a policy."""
    return digests.labelled(Label.POLICY_ENTRY, type(entry).__name__.encode(), encode(entry))


_OUT_OF_DATE = {TcbStatus.OUT_OF_DATE, TcbStatus.OUT_OF_DATE_CONFIGURATION_NEEDED}
"""Accepted only for as long as the rule's grace."""


def _rule_problem(rule: PlatformRule) -> str:
    order = list(TcbStatus)
    places = [order.index(status) for status in rule.statuses]
    if not rule.root or not rule.statuses or places != sorted(set(places)):
        return "no root, or statuses missing, repeated or out of order"
    if TcbStatus.REVOKED in rule.statuses:
        return "accepts a revoked platform"
    grace_s = rule.out_of_date_grace_s
    if grace_s is not None and not (1 <= grace_s <= MAX_OUT_OF_DATE_GRACE_S and _OUT_OF_DATE & set(rule.statuses)):
        return f"out_of_date_grace_s is for statuses that are out of date, and 1 to {MAX_OUT_OF_DATE_GRACE_S}"
    if rule.type is EvidenceType.SNP:
        fits = rule.statuses == (TcbStatus.UP_TO_DATE,) and len(rule.min_tcb) == SNP_TCB_BYTES
        return "" if fits and not rule.min_evaluation and rule.max_age_s >= 0 else "snp has a minimal TCB, and no other levels"
    if rule.min_tcb or rule.max_age_s <= 0 or rule.min_evaluation <= 0:
        return "no maximal age or evaluation number, or a minimal TCB of another type"
    return ""


def _measurement_problem(entry: TrustedMeasurement) -> str:
    if not entry.statement:
        return "no statement of what it covers"
    if not set(entry.covers) <= CAN_COVER[entry.platform]:
        beyond = sorted(each.value for each in set(entry.covers) - CAN_COVER[entry.platform])
        return f"{entry.platform.value} cannot cover {', '.join(beyond)}"
    if not {Coverage.PROGRAM, Coverage.IMAGE} & set(entry.covers):
        return "identifies neither a program nor an image that holds one"
    if entry.gpu is GpuUse.UNATTESTED and entry.platform is not PlatformKind.SIMULATED:
        return "a GPU without evidence makes an enclave simulated"
    return ""


def _policy_problem(policy: AppraisalPolicy) -> str:
    simulated = EvidenceType.SIMULATED
    if not (policy.chain_ids and policy.rules and policy.measurements):
        return "no chain id, rule or measurement"
    if max(len(policy.rules), len(policy.measurements), len(policy.chain_ids)) > MAX_RULES:
        return f"more than {MAX_RULES} entries"
    if (simulated in policy.types) != policy.insecure_accept_simulated:
        return "a rule for simulated evidence and insecure_accept_simulated must be set together"
    if not {TYPE_OF[entry.platform] for entry in policy.measurements} <= policy.types:
        return "a measurement of a platform without rule"
    if simulated in policy.types and not set(policy.chain_ids) <= TEST_CHAIN_IDS:
        return "simulated evidence on a chain that is no test chain"
    if simulated in policy.types and len(policy.types) > 1:
        return "simulated and hardware evidence in one policy"
    return ""

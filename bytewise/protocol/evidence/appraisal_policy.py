"""The appraisal policy: the accepted evidence of each platform, and the meaning of measurements (design section 7).

A policy object is always valid: the construction of an invalid one raises `ConfigurationError`. It accepts simulated evidence
only on test chains and never beside hardware evidence. It cannot accept a revoked platform, or a measurement that covers more
than its platform can. `bytewise.protocol.evidence.policy_updates` decides which policy may follow another.
"""

import enum
from dataclasses import dataclass, field

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import LATER, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import U64, U256, Blob, Digest

TEST_CHAIN_IDS = frozenset({1337, 31337, 11155111, 17000, 560048})
"""Ids of chains without real stake, as in `TestChains.sol`. Only these chains may have simulated key epochs (fence 4)."""

SNP_TCB_BYTES = 8
"""Length of an SNP TCB version: one security number in each byte."""

MAX_OUT_OF_DATE_GRACE_S = 3 * 365 * 86_400
"""Longest grace period in seconds. A TCB level is one to two years old when Intel calls it out of date."""

MAX_RULES = 32
"""Most rules of one policy. Measurements and chain ids have the same limit."""


class EvidenceType(enum.Enum):
    """Kind of attestation evidence."""

    TDX = "tdx"
    SNP = "snp"
    SIMULATED = "simulated"


class MeasurementRole(enum.Enum):
    """Role of a program. Evidence is given for one role, and a program is trusted in one role only."""

    VERIFIER_ENCLAVE = "verifier-enclave"
    KEY_SHARD = "key-shard"


class TcbStatus(enum.Enum):
    """The vendor's judgement of how current a platform's trusted parts are. Values are Intel's words.

    The two relaunch statuses concern one trust domain of TDX 1.5, not a TCB level. The domain was launched under a level that is
    out of date, and now runs under a level that is not.
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
    """Platform on which an enclave runs. The coverage of a measurement depends on it, not only on the type of evidence."""

    SIMULATED = "simulated"
    TDX = "tdx"
    SNP = "snp"
    SNP_AWS = "snp-aws"
    SNP_AZURE = "snp-azure"


class Coverage(enum.Enum):
    """Coverage of a measurement: the parts that are the same on all machines with this measurement."""

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
"""The coverage that measurements of each platform can have.

On AWS, two different images have one SNP measurement (kms.md 2). On Azure, the measurement covers the provider's own layer. A
virtual TPM vouches for the image there, and this program does not read it.
"""

TYPE_OF = {
    PlatformKind.SIMULATED: EvidenceType.SIMULATED, PlatformKind.TDX: EvidenceType.TDX, PlatformKind.SNP: EvidenceType.SNP,
    PlatformKind.SNP_AWS: EvidenceType.SNP, PlatformKind.SNP_AZURE: EvidenceType.SNP,
}  # fmt: skip
"""Type of evidence that each platform gives."""


class GpuUse(enum.Enum):
    """Whether the program computes on a GPU, and whether the GPU is attested."""

    NONE = "none"
    ATTESTED = "attested"
    UNATTESTED = "unattested"
    """The program computes on a GPU without evidence. This counts as simulated: no policy accepts it for hardware."""


@dataclass(frozen=True, slots=True)
class PlatformRule:
    """One accepted kind of platform. Everything that no rule names is refused."""

    type: EvidenceType
    """Type of evidence to which the rule applies."""
    root: Blob
    """Trust anchor: DER of the root certificate (`tdx`, `simulated`), or of the vendor's root public key (`snp`)."""
    statuses: tuple[TcbStatus, ...]
    """Accepted TCB statuses, in the order of `TcbStatus`. Every other status is refused, and `REVOKED` is never allowed here."""
    refused_advisories: tuple[str, ...]
    """Security advisories that are refused with any status."""
    min_evaluation: int
    """Lowest accepted evaluation number of the vendor's TCB data; 0 for `snp`, which has no such number."""
    min_tcb: Blob
    """Lowest accepted security number for each byte of the TCB version (`snp`). Empty for the other types."""
    smt: bool
    """Whether several threads may share a processor core."""
    dynamic_platform: bool
    """Whether processors may have been added after the platform's registration (`tdx`)."""
    cached_keys: bool
    """Whether the platform's owner may cache the platform's keys (`tdx`)."""
    platforms: tuple[Blob, ...]
    """Accepted platform ids (PPID or chip id); empty accepts all. A list limits the damage of one compromised machine."""
    max_age_s: int
    """Largest accepted age in seconds of collateral (`tdx`, `simulated`) or of the revocation list (`snp`). 0, for `snp` only,
    requires no revocation list."""
    out_of_date_grace_s: int | None = field(default=None, metadata=LATER)
    """Grace period in seconds for an out-of-date platform, module or quoting enclave (`tdx`, `simulated`). It starts at the date
    of the TCB level (`tcbDate`), and applies only if `statuses` names this status. With None nothing out-of-date is accepted, as
    in older policies."""

    def __post_init__(self) -> None:
        problem = _rule_problem(self)
        if problem:
            raise ConfigurationError(f"appraisal rule for {self.type.value}", problem)


@dataclass(frozen=True, slots=True)
class TrustedMeasurement:
    """A program that is trusted in one role: as an enclave that receives keys, or as a shard that has a share of them."""

    platform: PlatformKind
    """Platform on which the program runs."""
    measurement: Digest
    """Measurement of the program (`bytewise.tee.claims`)."""
    covers: tuple[Coverage, ...]
    """Coverage of the measurement: at most what the platform allows, and at least the program or the image that contains it."""
    statement: str
    """Description for people of what the measurement covers and what it does not cover."""
    gpu: GpuUse
    """Whether the program uses a GPU, and whether evidence of the GPU must come with it."""
    role: MeasurementRole = MeasurementRole.VERIFIER_ENCLAVE
    """Role of the program. A peer that expects the other role refuses evidence of this program."""

    def __post_init__(self) -> None:
        problem = _measurement_problem(self)
        if problem:
            raise ConfigurationError("trusted measurement", problem)


@dataclass(frozen=True, slots=True)
class AppraisalPolicy:
    """An appraisal policy: the accepted platforms and programs."""

    serial: U64
    """Serial number, which grows with each policy. The chain and every shard refuse another policy whose serial is not higher."""
    chain_ids: tuple[U256, ...]
    """Chains on which this policy may be used."""
    rules: tuple[PlatformRule, ...]
    """Accepted platforms. Evidence must satisfy one rule."""
    measurements: tuple[TrustedMeasurement, ...]
    """Accepted programs, by their measurements."""
    insecure_accept_simulated: bool
    """Whether `simulated` evidence is accepted. It must be set exactly if a rule accepts such evidence."""

    def __post_init__(self) -> None:
        problem = _policy_problem(self)
        if problem:
            raise ConfigurationError("appraisal policy", problem)

    @property
    def digest(self) -> Digest:
        """Digest by which the chain names the policy."""
        return policy_digest(encode(self))

    @property
    def types(self) -> frozenset[EvidenceType]:
        """Types of evidence for which there is a rule."""
        return frozenset(rule.type for rule in self.rules)


@dataclass(frozen=True, slots=True)
class SignedPolicy:
    """A policy with the signatures that approve it."""

    policy: AppraisalPolicy
    """The approved policy."""
    signatures: tuple[Blob, ...]
    """Signatures of governors over `approval_digest` of the policy."""


def policy_digest(document: bytes) -> Digest:
    """Returns the digest of a policy's canonical bytes."""
    return digests.labelled(Label.POLICY, document)


def approval_digest(policy: AppraisalPolicy) -> Digest:
    """Returns the digest that a governor signs. Its label is used for nothing else."""
    return digests.labelled(Label.POLICY_APPROVAL, policy.digest)


def entry_digest(entry: PlatformRule | TrustedMeasurement) -> Digest:
    """Returns the digest that identifies one entry of a policy."""
    return digests.labelled(Label.POLICY_ENTRY, type(entry).__name__.encode(), encode(entry))


_OUT_OF_DATE = {TcbStatus.OUT_OF_DATE, TcbStatus.OUT_OF_DATE_CONFIGURATION_NEEDED}
"""Statuses that are accepted only during the rule's grace period."""


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

"""What an enclave says about itself, the policy that judges it, and the 64 bytes that bind it to a purpose (design section 7)."""

import enum
from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors import ConfigurationError
from bytewise.protocol.jobs import Contracts
from bytewise.protocol.units import U8, U16, U64, U256, Address, Blob, Digest

SIMULATED_ROOT_NAME = "SIMULATED TEE ROOT - NOT INTEL/AMD"
"""Common name of every simulated root certificate (fence 1)."""

TEST_CHAIN_IDS = frozenset({1337, 31337, 11155111, 17000, 560048})
"""Chains on which simulated epochs may exist, as `KeyEpochs` has them (fence 4)."""

MAX_SIMULATED_LIFETIME_S = 600
"""Simulated evidence expires within minutes (fence 7)."""

PLATFORM_ID_BYTES = 16
"""Length of a platform id; all zero when simulated (fence 7)."""

MAX_EVIDENCE_BYTES = 64 * 1024
"""Largest evidence that is parsed; a TDX quote with its certificate chain has about 5 KB."""


class EvidenceType(enum.Enum):
    """How an enclave is attested."""

    TDX = "tdx"
    SNP = "snp"
    SIMULATED = "simulated"


class Role(enum.Enum):
    """On whose behalf report data speaks; makes evidence directional."""

    VERIFIER_ENCLAVE = "verifier-enclave"


@dataclass(frozen=True, slots=True)
class EvidenceBody:
    """The signed part of evidence."""

    type: EvidenceType
    """Of which type it claims to be."""
    measurement: Digest
    """What runs: for `simulated`, import closure, pinned constraints and Python version."""
    report_data: Blob
    """64 bytes chosen by the enclave."""
    debug: bool
    """Whether the enclave can be inspected; always refused."""
    platform_id: Blob
    """16 bytes; zero when simulated."""
    issued_at: U64
    """Unix seconds."""
    expires_at: U64
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A body, the platform's certificates and its signature."""

    body: EvidenceBody
    """What is attested."""
    certificates: tuple[Blob, ...]
    """DER, leaf first, without the root."""
    signature: Blob
    """ECDSA P-256 with SHA-256 by the leaf, DER, over the body's labelled hash."""


@dataclass(frozen=True, slots=True)
class TrustRoot:
    """A root certificate, trusted for one evidence type only."""

    type: EvidenceType
    """For which type."""
    certificate: Blob
    """DER."""


@dataclass(frozen=True, slots=True)
class TrustedMeasurement:
    """A program that may receive keys."""

    type: EvidenceType
    """On which platform."""
    measurement: Digest
    """Its measurement."""
    covers: str
    """What this platform's measurement covers, and what it does not."""


@dataclass(frozen=True, slots=True)
class AppraisalPolicy:
    """Which evidence is accepted. Valid by construction: an unfenced simulator cannot even be expressed."""

    serial: U64
    """Strictly increasing; the chain refuses a lower one."""
    chain_ids: tuple[U256, ...]
    """Chains on which this policy may be used."""
    allowed_types: tuple[EvidenceType, ...]
    """Accepted evidence types."""
    roots: tuple[TrustRoot, ...]
    """Trust anchors per type."""
    measurements: tuple[TrustedMeasurement, ...]
    """Accepted programs."""
    max_age_s: int
    """Oldest accepted evidence, seconds."""
    insecure_accept_simulated: bool
    """The explicit switch without which `simulated` is refused."""

    def __post_init__(self) -> None:
        problem = _policy_problem(self)
        if problem:
            raise ConfigurationError("appraisal policy", problem)

    @property
    def digest(self) -> Digest:
        """The name under which the chain has it."""
        return digests.labelled(Label.POLICY, encode(self))


@dataclass(frozen=True, slots=True)
class ResultStatement:
    """What a result quote says; with the quote it is published at the reveal, so that anyone can read it."""

    chain_id: U256
    """EIP-155 chain id."""
    contract: Address
    """`Disputes`."""
    subject: Digest
    """Dispute id, or receipt id for an audit."""
    round: U16
    """Round; 0 for an audit."""
    receipt_id: Digest
    """Receipt."""
    voter: Address
    """For whom."""
    outcome: U8
    """`Outcome`."""
    code: U8
    """Defect code or `CannotReason`."""
    tokens_hash: Digest
    """Recomputed, or zero."""
    trace_root: Digest
    """Recomputed, or zero."""
    round_digest: Digest
    """Or zero."""
    verify_passes: int
    """Teacher-forced passes that were run: 1 for an execution, 0 otherwise."""


@dataclass(frozen=True, slots=True)
class ResultQuote:
    """The result quote's document: a statement and evidence that binds it."""

    statement: ResultStatement
    """What is said."""
    evidence: Evidence
    """Who says it: its report data is `result_report_data` of the statement."""


def evidence_digest(body: EvidenceBody) -> Digest:
    """What a platform signs, and the name of evidence in release records: unsigned bytes cannot change it."""
    return digests.labelled(Label.EVIDENCE, encode(body))


def result_report_data(statement: ResultStatement) -> bytes:
    """64 bytes: labelled hash of the statement, then zeros."""
    return digests.labelled(Label.RESULT_QUOTE, encode(statement)).ljust(64, b"\0")


def release_report_data(
    role: Role, contracts: Contracts, transport_key: Blob, nonce: Digest, policy: Digest, key_epoch: int, ticket: Digest
) -> bytes:
    """64 bytes that bind evidence to one request for one key: who asks, with which key, for which ticket, now."""
    bound = digests.labelled(
        Label.REPORT_DATA, role.value.encode(), contracts.chain_id, contracts.key_epochs.encode(),
        transport_key, nonce, policy, key_epoch, ticket,
    )  # fmt: skip
    return bound.ljust(64, b"\0")


def _policy_problem(policy: AppraisalPolicy) -> str:
    simulated = EvidenceType.SIMULATED
    if not policy.allowed_types or not policy.chain_ids or not policy.measurements or policy.max_age_s <= 0:
        return "no type, chain id, measurement or maximal age"
    if any(not entry.covers for entry in policy.measurements):
        return "a measurement without a statement of what it covers"
    if (simulated in policy.allowed_types) != policy.insecure_accept_simulated:
        return "type simulated and insecure_accept_simulated must be set together"
    rooted = {root.type for root in policy.roots}
    if rooted != set(policy.allowed_types) or not {m.type for m in policy.measurements} <= rooted:
        return "roots, measurements and allowed types do not fit"
    if simulated in policy.allowed_types and not set(policy.chain_ids) <= TEST_CHAIN_IDS:
        return "simulated evidence on a chain that is no test chain"
    if simulated in policy.allowed_types and len(policy.allowed_types) > 1:
        return "simulated and hardware evidence in one policy"
    return ""

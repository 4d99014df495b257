"""What an enclave says about itself, the policy that judges it, and the 64 bytes that bind it to a purpose (design section 7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bytewise.protocol import digests
from bytewise.protocol.assurance import HARDWARE, SIMULATED
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.evidence.appraisal_policy import EvidenceType, policy_digest
from bytewise.protocol.jobs import EpochRecord, RunJob
from bytewise.protocol.units import U8, U16, U64, U256, ZERO_DIGEST, Address, Blob, Digest

# What an enclave is told and cannot know: the chain, in its host's words (design section 7).


@dataclass(frozen=True, slots=True)
class HostClaims:
    """What the host said of the chain, as far as nothing else in a result's statement binds it."""

    anchored_at: U64
    """Chain time of the receipt's batch: a request that had expired by then is a defect."""
    keys: Digest
    """`keys_digest` of the receipt's key epoch: with other keys or shards an envelope seems not to open."""
    policy: Digest
    """Appraisal policy under which the enclave asked shards."""
    round_seed: Digest
    """Seed of the round, which the round digest hashes; zero for an audit."""


class ChainClaims(NamedTuple):
    """What the chain says of the same."""

    anchored_at: int
    """Chain time of the batch."""
    keys: frozenset[Digest]
    """Those that were in force while the round ran."""
    policies: frozenset[Digest]
    """The same of policies."""
    round_seed: Digest
    """Seed of the round."""


def host_claims_of(job: RunJob) -> HostClaims:
    """What a job says of the chain."""
    return HostClaims(job.anchored_at, epoch_keys_digest(job.epoch), policy_digest(job.policy), job.round_seed)


def epoch_keys_digest(record: EpochRecord) -> Digest:
    """`keys_digest` of a key epoch as a job has it."""
    hybrid = record.hybrid.digest if record.hybrid else ZERO_DIGEST
    holders = [(shard.index, shard.address) for shard in record.shards]
    return keys_digest(record.epoch, record.public_key, record.threshold, holders, hybrid)


def keys_digest(epoch: int, public_key: bytes, threshold: int, holders: Sequence[tuple[int, Address]], hybrid: Digest) -> Digest:
    """Names all of a key epoch that the chain pins and an opening depends on; `hybrid`: of its ML-KEM keys, or zero."""
    accounts = [part for index, account in holders for part in (index, account.encode())]
    return digests.labelled(Label.EPOCH_KEYS, epoch, public_key, threshold, hybrid, *accounts)


def differing_claims(said: HostClaims, chain: ChainClaims) -> tuple[str, ...]:
    """Names of the premises that are not as the chain has them."""
    holds = {
        "anchored_at": said.anchored_at == chain.anchored_at,
        "keys": said.keys in chain.keys,
        "policy": said.policy in chain.policies,
        "round_seed": said.round_seed == chain.round_seed,
    }
    return tuple(name for name, true in holds.items() if not true)


SIMULATED_ROOT_NAME = "SIMULATED TEE ROOT - NOT INTEL/AMD"
"""Common name of every simulated root certificate (fence 1)."""

MAX_SIMULATED_LIFETIME_S = 600
"""Simulated evidence expires within minutes (fence 7)."""

PLATFORM_ID_BYTES = 16
"""Length of a simulated platform id, which is all zero (fence 7)."""

MAX_EVIDENCE_BYTES = 64 * 1024
"""Largest evidence that is parsed; that of a TDX platform with its collateral and a GPU's claims has about 35 KB."""

MAX_EVIDENCE_MARKS = 96
"""Most brackets, commas and backslashes in evidence: everything of a vendor's is written as hex."""

REPORT_DATA_BYTES = 64
"""What an enclave can have signed, on every platform."""

DCAP_HEADER_BYTES, TD_BODY_BYTES, DCAP_BODY_HEAD_BYTES = 48, 584, 6
SNP_SIGNED_BYTES, SNP_REPORT_BYTES = 0x2A0, 0x4A0


@dataclass(frozen=True, slots=True)
class Collateral:
    """What Intel, or the simulator in its place, says about a platform: without the root, which the policy names."""

    pck_ca: Blob
    """Certificate of the authority that issued the platform's key, DER."""
    tcb_signer: Blob
    """Certificate whose key signed `tcb_info` and `qe_identity`, DER."""
    root_crl: Blob
    """Certificates that the root revoked, DER."""
    pck_crl: Blob
    """Platform keys that `pck_ca` revoked, DER."""
    tcb_info: Blob
    """JSON as it was signed."""
    tcb_info_signature: Blob
    """64 bytes, r and s."""
    qe_identity: Blob
    """JSON as it was signed."""
    qe_identity_signature: Blob
    """64 bytes, r and s."""


@dataclass(frozen=True, slots=True)
class SnpCertificates:
    """Between AMD's root key and a report."""

    ask: Blob
    """Certificate of the key that signs those of chips, DER."""
    vcek: Blob
    """Certificate of the chip's key at its TCB version, DER."""
    crl: Blob
    """The vendor's revocation list, DER; empty where no rule asks for one."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a platform signed, and what it takes to verify it."""

    type: EvidenceType
    """How it is verified."""
    quote: Blob
    """DCAP quote (`tdx`, `simulated`) or attestation report (`snp`)."""
    collateral: Collateral | None
    """With `tdx` and `simulated`."""
    certificates: SnpCertificates | None
    """With `snp`."""
    gpu: Blob
    """Claims of a GPU's verifier that ran inside the enclave, JSON; empty without GPU. The quote's report data binds them."""


@dataclass(frozen=True, slots=True)
class NamedEvidence:
    """The part of evidence that its name in release records covers: unsigned bytes and collateral cannot change it."""

    type: EvidenceType
    """How it was verified."""
    signed: Blob
    """The bytes that the platform signed, without its signature."""
    gpu: Blob
    """Claims of a GPU's verifier, JSON; empty without GPU."""

    @property
    def digest(self) -> Digest:
        """The name."""
        return digests.labelled(Label.EVIDENCE, self.type.value.encode(), self.signed, self.gpu)

    @property
    def assurance(self) -> str:
        """`hardware` or `simulated`: what everything downstream has to say."""
        return SIMULATED if self.type is EvidenceType.SIMULATED else HARDWARE


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
    premises: HostClaims
    """What all this rests on and the host said: the statement is about the chain's receipt only if it is as the chain has it."""


@dataclass(frozen=True, slots=True)
class ResultQuote:
    """The result quote's document: a statement and evidence that binds it."""

    statement: ResultStatement
    """What is said."""
    evidence: Evidence
    """Who says it: its report data is `result_report_data` of the statement."""


def signed_part(evidence: Evidence) -> bytes:
    """The bytes of the quote that the platform signed; what follows them can be changed by anybody."""
    quote = evidence.quote
    if evidence.type is EvidenceType.SNP:
        return quote[:SNP_SIGNED_BYTES]
    if int.from_bytes(quote[:2], "little") == 5:
        head = DCAP_HEADER_BYTES + DCAP_BODY_HEAD_BYTES
        return quote[: head + int.from_bytes(quote[head - 4 : head], "little")]
    return quote[: DCAP_HEADER_BYTES + TD_BODY_BYTES]


def has_report_data(evidence: Evidence) -> bool:
    """Whether its quote is long enough for what a platform signs."""
    least = SNP_SIGNED_BYTES if evidence.type is EvidenceType.SNP else DCAP_HEADER_BYTES + TD_BODY_BYTES
    return len(signed_part(evidence)) >= least


def named_evidence(evidence: Evidence) -> NamedEvidence:
    """What is kept of evidence."""
    return NamedEvidence(evidence.type, Blob(signed_part(evidence)), evidence.gpu)


def evidence_digest(evidence: Evidence) -> Digest:
    """The name of evidence in release records."""
    return named_evidence(evidence).digest


def gpu_nonce(report_data: bytes) -> Digest:
    """What a GPU is asked to sign for evidence over these 64 bytes."""
    return digests.labelled(Label.GPU_NONCE, report_data)


def quoted_report_data(report_data: bytes, gpu: bytes) -> bytes:
    """The 64 bytes in the quote: `report_data` itself, or bound together with the GPU's claims where there are some."""
    if not gpu:
        return report_data
    return digests.labelled(Label.GPU_BINDING, report_data, gpu).ljust(REPORT_DATA_BYTES, b"\0")


def result_report_data(statement: ResultStatement) -> bytes:
    """64 bytes: labelled hash of the statement, then zeros."""
    return digests.labelled(Label.RESULT_QUOTE, encode(statement)).ljust(64, b"\0")

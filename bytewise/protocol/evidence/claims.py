"""Evidence of enclaves, the 64 bytes that bind it to a purpose, and the host's claims about the chain (design section 7)."""

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


@dataclass(frozen=True, slots=True)
class HostClaims:
    """Claims of the host about the chain, which the enclave cannot check.

    The enclave includes them in its result statement, so that readers of the chain can check them (`differing_claims`).
    """

    anchored_at: U64
    """Chain time of the receipt's batch. A request that expired before this time is a defect."""
    keys: Digest
    """Digest `keys_digest` of the receipt's key epoch. With wrong keys or shards, a good envelope would seem not to open."""
    policy: Digest
    """Digest of the appraisal policy under which the enclave asked the shards."""
    round_seed: Digest
    """Seed of the round, which the round digest hashes; zero for a light audit."""


class ChainClaims(NamedTuple):
    """The true values on the chain for the fields of `HostClaims`."""

    anchored_at: int
    """Chain time of the batch."""
    keys: frozenset[Digest]
    """All digests `keys_digest` that were in force while the round ran."""
    policies: frozenset[Digest]
    """Policy digests that were in force while the round ran."""
    round_seed: Digest
    """Seed of the round."""


def host_claims_of(job: RunJob) -> HostClaims:
    """Returns the host's claims about the chain that a job contains."""
    return HostClaims(job.anchored_at, epoch_keys_digest(job.epoch), policy_digest(job.policy), job.round_seed)


def epoch_keys_digest(record: EpochRecord) -> Digest:
    """Returns `keys_digest` of the key epoch in a job."""
    hybrid = record.hybrid.digest if record.hybrid else ZERO_DIGEST
    holders = [(shard.index, shard.address) for shard in record.shards]
    return keys_digest(record.epoch, record.public_key, record.threshold, holders, hybrid)


def keys_digest(epoch: int, public_key: bytes, threshold: int, holders: Sequence[tuple[int, Address]], hybrid: Digest) -> Digest:
    """Returns the digest of the facts about a key epoch that decide whether an envelope opens. The chain has all of these facts.

    `holders` are index and account of each shard. `hybrid` is the digest of the epoch's ML-KEM keys, or zero.
    """
    accounts = [part for index, account in holders for part in (index, account.encode())]
    return digests.labelled(Label.EPOCH_KEYS, epoch, public_key, threshold, hybrid, *accounts)


def differing_claims(claims: HostClaims, chain: ChainClaims) -> tuple[str, ...]:
    """Returns the names of the host claims that differ from the chain."""
    holds = {
        "anchored_at": claims.anchored_at == chain.anchored_at,
        "keys": claims.keys in chain.keys,
        "policy": claims.policy in chain.policies,
        "round_seed": claims.round_seed == chain.round_seed,
    }
    return tuple(name for name, true in holds.items() if not true)


SIMULATED_ROOT_NAME = "SIMULATED TEE ROOT - NOT INTEL/AMD"
"""Common name of every simulated root certificate (fence 1)."""

MAX_SIMULATED_LIFETIME_S = 600
"""Longest lifetime of simulated evidence in seconds (fence 7)."""

PLATFORM_ID_BYTES = 16
"""Length of a simulated platform id, whose bytes are all zero (fence 7)."""

MAX_EVIDENCE_BYTES = 64 * 1024
"""Largest evidence that is parsed. A TDX platform's evidence with collateral and GPU claims has about 35 KB."""

MAX_EVIDENCE_MARKS = 96
"""Most brackets, commas and backslashes in evidence. Vendor data is written as hex and adds none."""

REPORT_DATA_BYTES = 64
"""Bytes of report data that every platform signs for an enclave."""

DCAP_HEADER_BYTES, TD_BODY_BYTES, DCAP_BODY_HEAD_BYTES = 48, 584, 6
SNP_SIGNED_BYTES, SNP_REPORT_BYTES = 0x2A0, 0x4A0


@dataclass(frozen=True, slots=True)
class Collateral:
    """Intel's signed data about a platform, or the simulator's data in its place.

    It does not contain the root, because the policy names the root.
    """

    pck_ca: Blob
    """Certificate of the authority that issued the platform's key, DER."""
    tcb_signer: Blob
    """Certificate whose key signed `tcb_info` and `qe_identity`, DER."""
    root_crl: Blob
    """Revocation list of the root, DER."""
    pck_crl: Blob
    """Revocation list of `pck_ca` for platform keys, DER."""
    tcb_info: Blob
    """TCB levels of the platform, as JSON exactly as it was signed."""
    tcb_info_signature: Blob
    """Signature of `tcb_info`, 64 bytes: r and s."""
    qe_identity: Blob
    """Identity of the quoting enclave, as JSON exactly as it was signed."""
    qe_identity_signature: Blob
    """Signature of `qe_identity`, 64 bytes: r and s."""


@dataclass(frozen=True, slots=True)
class SnpCertificates:
    """Certificates between AMD's root key and an attestation report."""

    ask: Blob
    """Certificate of the key that signs certificates of chips, DER."""
    vcek: Blob
    """Certificate of the chip's key at its TCB version, DER."""
    crl: Blob
    """The vendor's revocation list, DER; empty if no rule requires one."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A platform's signed quote, and the data to verify it."""

    type: EvidenceType
    """Type of evidence. It decides how the evidence is verified."""
    quote: Blob
    """DCAP quote (`tdx`, `simulated`) or attestation report (`snp`)."""
    collateral: Collateral | None
    """Vendor data for `tdx` and `simulated`; None for `snp`."""
    certificates: SnpCertificates | None
    """Vendor certificates for `snp`; None for `tdx` and `simulated`."""
    gpu: Blob
    """JSON claims of a GPU verifier that ran inside the enclave; empty without GPU. The quote's report data binds them."""


@dataclass(frozen=True, slots=True)
class NamedEvidence:
    """The part of evidence whose digest is in release records.

    The parts that are left out, unsigned bytes and collateral, do not change the digest.
    """

    type: EvidenceType
    """Type of the evidence."""
    signed: Blob
    """Bytes that the platform signed, without its signature."""
    gpu: Blob
    """JSON claims of a GPU verifier; empty without GPU."""

    @property
    def digest(self) -> Digest:
        """Digest of the evidence, as release records contain it."""
        return digests.labelled(Label.EVIDENCE, self.type.value.encode(), self.signed, self.gpu)

    @property
    def assurance(self) -> str:
        """Assurance label to show with every result: `hardware` or `simulated`."""
        return SIMULATED if self.type is EvidenceType.SIMULATED else HARDWARE


@dataclass(frozen=True, slots=True)
class ResultStatement:
    """The statement of an enclave that a result quote binds.

    It is published with the quote at the reveal, so anyone can read it.
    """

    chain_id: U256
    """EIP-155 chain id."""
    contract: Address
    """Address of the contract `Disputes`."""
    subject: Digest
    """Dispute id, or receipt id for an audit."""
    round: U16
    """Number of the dispute's round; 0 for an audit."""
    receipt_id: Digest
    """Id of the receipt that was judged."""
    voter: Address
    """Account for which the enclave judged."""
    outcome: U8
    """Number of an `Outcome`."""
    code: U8
    """Defect code, or number of a `CannotReason`; 0 if the outcome needs neither."""
    tokens_hash: Digest
    """Recomputed tokens hash, or zero."""
    trace_root: Digest
    """Recomputed trace root, or zero."""
    round_digest: Digest
    """Hash over round seed, dispute and every trace leaf, or zero."""
    verify_passes: int
    """Number of passes of the claimed tokens through the model: 1 for an execution, 0 otherwise."""
    premises: HostClaims
    """Claims of the host on which the statement depends. The statement is about the receipt on the chain only if these claims
    agree with the chain."""


@dataclass(frozen=True, slots=True)
class ResultQuote:
    """A result quote: the statement of an enclave, and the evidence that binds it."""

    statement: ResultStatement
    """Statement of the enclave."""
    evidence: Evidence
    """Evidence whose report data is `result_report_data` of the statement."""


def signed_part(evidence: Evidence) -> bytes:
    """Returns the bytes of the quote that the platform signed. Anybody can change the bytes after them."""
    quote = evidence.quote
    if evidence.type is EvidenceType.SNP:
        return quote[:SNP_SIGNED_BYTES]
    if int.from_bytes(quote[:2], "little") == 5:
        head = DCAP_HEADER_BYTES + DCAP_BODY_HEAD_BYTES
        return quote[: head + int.from_bytes(quote[head - 4 : head], "little")]
    return quote[: DCAP_HEADER_BYTES + TD_BODY_BYTES]


def has_report_data(evidence: Evidence) -> bool:
    """Returns whether the quote is long enough to contain report data."""
    least = SNP_SIGNED_BYTES if evidence.type is EvidenceType.SNP else DCAP_HEADER_BYTES + TD_BODY_BYTES
    return len(signed_part(evidence)) >= least


def named_evidence(evidence: Evidence) -> NamedEvidence:
    """Returns the part of evidence that release records cover."""
    return NamedEvidence(evidence.type, Blob(signed_part(evidence)), evidence.gpu)


def evidence_digest(evidence: Evidence) -> Digest:
    """Returns the digest of evidence, as release records contain it."""
    return named_evidence(evidence).digest


def gpu_nonce(report_data: bytes) -> Digest:
    """Returns the nonce that a GPU must sign for evidence over these 64 bytes of report data."""
    return digests.labelled(Label.GPU_NONCE, report_data)


def quoted_report_data(report_data: bytes, gpu: bytes) -> bytes:
    """Returns the 64 bytes of report data that the quote contains. Without GPU claims they are `report_data` itself.

    With GPU claims they are a hash of `report_data` and the claims, then zeros.
    """
    if not gpu:
        return report_data
    return digests.labelled(Label.GPU_BINDING, report_data, gpu).ljust(REPORT_DATA_BYTES, b"\0")


def result_report_data(statement: ResultStatement) -> bytes:
    """Returns the 64 bytes of report data for a statement: its labelled hash, then zeros."""
    return digests.labelled(Label.RESULT_QUOTE, encode(statement)).ljust(64, b"\0")

"""Labelled hashes: every SHA-256, HMAC and key derivation has a label that names its purpose (design section 4).

`labelled(label, parts…) = SHA-256(len(label) ‖ label ‖ len(p1) ‖ p1 ‖ …)`, with lengths as 8 bytes big-endian; an integer part
is 8 bytes big-endian. No other module of `bytewise.protocol` calls a hash directly, except `signing` for keccak256.
"""

import enum
import hashlib
import hmac

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from eth_abi.abi import encode as abi_encode
from eth_utils.crypto import keccak

from bytewise.protocol.units import Digest


class Label(enum.Enum):
    """Purposes of hashes. Values are distinct, and none is a prefix of another."""

    REQUEST = "bytewise/v1/request"
    CLIENT_SIGNATURE = "bytewise/v1/client-signature"
    TOKENS = "bytewise/v1/tokens"
    OUTPUT_BLIND = "bytewise/v1/blind-output"
    TRACE_BLIND = "bytewise/v1/blind-trace"
    TRACE_LEAF = "bytewise/v1/trace-leaf"
    TRACE_NODE = "bytewise/v1/trace-node"
    TRACE_ROOT = "bytewise/v1/trace-root"
    ROUND = "bytewise/v1/round-digest"
    EXECUTION = "bytewise/v1/execution"
    SAMPLER = "bytewise/v1/sampler"
    CHOICE = "bytewise/v1/choice-seed"
    ENVIRONMENT = "bytewise/v1/environment"
    ARTIFACT = "bytewise/v1/artifact"
    CALIBRATION = "bytewise/v1/calibration-tokens"
    TEMPLATE = "bytewise/v1/chat-template"
    TOKENIZER = "bytewise/v1/tokenizer"
    ENVELOPE = "bytewise/v1/envelope"
    SEAL_CONTEXT = "bytewise/v1/seal-context"
    LIST = "bytewise/v1/receipt-list"
    POOL = "bytewise/v1/pool"
    AUDIT_DRAW = "bytewise/v1/audit-draw"
    TDH2_POINT = "bytewise/v1/tdh2-generator"
    TDH2_CHALLENGE = "bytewise/v1/tdh2-challenge"
    DLEQ_CHALLENGE = "bytewise/v1/dleq-challenge"
    HYBRID_KEYS = "bytewise/v1/hybrid-keys"
    HYBRID_SEED = "bytewise/v1/hybrid-seed"
    HYBRID_PART = "bytewise/v1/hybrid-part"
    HYBRID_SHARE = "bytewise/v1/hybrid-share"
    HYBRID_PARTS = "bytewise/v1/all-hybrid-parts"
    EVIDENCE = "bytewise/v1/evidence"
    CHANNEL = "bytewise/v1/channel-report-data"
    CHANNEL_ACCOUNT = "bytewise/v1/account-of-channel"
    RESULT_QUOTE = "bytewise/v1/result-quote"
    ENCLAVE_STATUS = "bytewise/v1/status-of-enclave"
    EPOCH_KEYS = "bytewise/v1/keys-of-epoch"
    MEASUREMENT = "bytewise/v1/measurement"
    TD_MEASUREMENT = "bytewise/v1/td-measurement"
    SNP_MEASUREMENT = "bytewise/v1/snp-measurement"
    GPU_NONCE = "bytewise/v1/gpu-nonce"
    GPU_BINDING = "bytewise/v1/gpu-binding"
    POLICY = "bytewise/v1/appraisal-policy"
    POLICY_APPROVAL = "bytewise/v1/approval-of-policy"
    POLICY_ENTRY = "bytewise/v1/entry-of-policy"
    TRANSPORT_KEY = "bytewise/v1/transport-key"
    PARTIAL = "bytewise/v1/sealed-partial"
    RELEASED_SHARE = "bytewise/v1/released-share"
    RELEASE_RIGHT = "bytewise/v1/release-right"
    RELEASE_GROUNDS = "bytewise/v1/grounds-of-release"
    SHARE_AT_REST = "bytewise/v1/share-at-rest"
    KEM_AT_REST = "bytewise/v1/kem-key-at-rest"
    ACCOUNT_AT_REST = "bytewise/v1/account-at-rest"
    STORAGE_KEY = "bytewise/v1/storage-key"
    CEREMONY = "bytewise/v1/ceremony-plan"
    CEREMONY_MESSAGE = "bytewise/v1/ceremony-message"
    CEREMONY_HEAD = "bytewise/v1/ceremony-head"
    CEREMONY_LOG = "bytewise/v1/ceremony-log"
    CEREMONY_STREAM = "bytewise/v1/ceremony-stream"
    CEREMONY_COMMIT = "bytewise/v1/ceremony-commit"
    CEREMONY_KNOWLEDGE = "bytewise/v1/ceremony-knowledge"
    CEREMONY_DEAL = "bytewise/v1/ceremony-deal"
    CEREMONY_HAND = "bytewise/v1/ceremony-hand"
    CEREMONY_EPHEMERAL = "bytewise/v1/ceremony-ephemeral"
    CEREMONY_COMPLAINT = "bytewise/v1/ceremony-complaint"
    CEREMONY_CANARY = "bytewise/v1/ceremony-canary"
    CEREMONY_TRANSCRIPT = "bytewise/v1/ceremony-transcript"
    CEREMONY_SEED = "bytewise/v1/ceremony-seed"
    ERASURE = "bytewise/v1/shares-erased-at-version"
    SHARD_BACKUP = "bytewise/v1/shard-backup"
    JOURNAL = "bytewise/v1/journal-entry"
    JOURNAL_KEYS = "bytewise/v1/keys-of-journal"
    JOURNAL_MLDSA = "bytewise/v1/ml-dsa-key-of-journal"
    PROTECTION = "bytewise/v1/protected-vote"
    KEY_DERIVATION = "bytewise/v1/deterministic-key"
    WEIGHTS = "bytewise/v1/model-make"
    RETRY = "bytewise/v1/retried-request"
    VECTORS = "bytewise/v1/profile-vectors"
    MODEL_VECTORS = "bytewise/v1/model-vectors"
    VECTOR_QUESTION = "bytewise/v1/question-of-vectors"
    CAPSULE_DEPLOYMENT = "bytewise/v1/deployment-of-capsule"
    CAPSULE_LAYOUT = "bytewise/v1/layout-of-capsule"
    ATTENTION_COMMITMENT = "bytewise/v1/commitment-to-attention-tests"
    ATTENTION_DRAW = "bytewise/v1/draw-of-attention-tests"


def sha256(data: bytes) -> Digest:
    """Returns the plain SHA-256, without a label. `labelled` returns the SHA-256 with a label."""
    return Digest(hashlib.sha256(data).digest())


class RunningSha256:
    """Plain SHA-256 of data that arrives in parts, only for artifact files."""

    def __init__(self) -> None:
        self._state = hashlib.sha256()

    def update(self, data: bytes | memoryview) -> None:
        """Appends data. Other threads can run during the call."""
        self._state.update(data)

    def digest(self) -> Digest:
        """Returns the digest of all data so far."""
        return Digest(self._state.digest())


def labelled(label: Label, *parts: bytes | int) -> Digest:
    """Returns the SHA-256 of the label and the parts, each after its length."""
    state = hashlib.sha256()
    for part in (label.value.encode(), *parts):
        raw = part.to_bytes(8, "big") if isinstance(part, int) else part
        state.update(len(raw).to_bytes(8, "big") + raw)
    return Digest(state.digest())


def keyed(label: Label, key: bytes, *parts: bytes | int) -> Digest:
    """Returns the HMAC-SHA256 (RFC 2104) of the label and the parts under a secret key. `labelled` describes their encoding."""
    message = bytearray()
    for part in (label.value.encode(), *parts):
        raw = part.to_bytes(8, "big") if isinstance(part, int) else part
        message += len(raw).to_bytes(8, "big") + raw
    return Digest(hmac.digest(key, bytes(message), "sha256"))


def derive(label: Label, secret: bytes, length: int = 32) -> bytes:
    """Derives `length` bytes from a secret by HKDF-SHA256 (RFC 5869), without salt and with the label as info."""
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=None, info=label.value.encode()).derive(secret)


def out_hash(tokens_hash: Digest, trace_root: Digest) -> Digest:
    """Returns keccak256(abi.encode(tokensHash, traceRoot)) of an answer. It covers tokens and computation (design section 4)."""
    return keccak256_abi(("bytes32", "bytes32"), (tokens_hash, trace_root))


def is_equal(tokens_hash: Digest, claimed_out_hash: Digest, found_tokens_hash: Digest, found_trace_root: Digest) -> bool:
    """Returns whether a re-execution equals the receipt, both in `tokens_hash` and in `out_hash`.

    The first two arguments are fields of the receipt, which the operator signed; the other two were recomputed. A receipt that
    combines altered tokens with the true `out_hash` is not equal (design section 9). `trace.differing_fields` says which field
    differs.
    """
    return found_tokens_hash == tokens_hash and out_hash(found_tokens_hash, found_trace_root) == claimed_out_hash


def keccak256_abi(kinds: tuple[str, ...], values: tuple[object, ...]) -> Digest:
    """Returns the keccak256 of Solidity's `abi.encode` of the values. `kinds` are their Solidity types."""
    return Digest(keccak(abi_encode(kinds, values)))


def keccak256(data: bytes) -> Digest:
    """Returns the keccak256 of data that contracts also hash."""
    return Digest(keccak(data))

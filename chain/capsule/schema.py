"""The file format `bytewise/capsule/v1`: RFC 8785 JSON, one object, read strictly and within limits.

A capsule repeats nothing that its proofs give: values of contracts are in trie nodes alone. `Claim` is the exception. It says in
words what the capsule shows, and a verification derives each of its fields again.
"""

import enum
import json
from dataclasses import dataclass
from typing import Any, NoReturn

from bytewise.crypto.checkpoint import JournalKeys
from bytewise.protocol import digests, encoding
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import TooLarge, WrongFields
from bytewise.protocol.keys.epochs import SignedRelease
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import Receipt
from bytewise.protocol.records.seal import Payload
from bytewise.protocol.units import U8, U64, U256, Address, Blob, Digest

FORMAT = "bytewise/capsule/v1"
MEDIA_TYPE = "application/vnd.bytewise.capsule.v1+json"
SUFFIX = ".capsule.json"

MAX_BYTES = 8 * 2**20
"""Largest capsule that is read."""
MAX_MARKS = 2**17
"""Most brackets, commas and backslashes in it (`encoding.MAX_MARKS`): a verdict with 255 votes and a long opening has a third."""


class Kind(enum.StrEnum):
    """What a capsule shows."""

    VERDICT = "verdict"
    """How a dispute about the receipt ended."""
    FINALITY = "finality"
    """Whether the undisputed receipt is accepted for good."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What the capsule shows. A verification derives every field again and compares."""

    receipt_id: Digest
    """EIP-712 digest of the receipt."""
    out_hash: Digest
    """What the operator claimed."""
    dispute: Digest
    """Id of the one dispute that the receipt can have."""
    verdict: str
    """Name of the verdict in lower case; `none` without a dispute."""
    decided_in: int
    """Round whose votes gave the verdict; 0 where none did."""
    replaced_by: Digest | None
    """`out_hash` that replaces the claimed one; null unless the verdict is `overturned`."""
    accepted: bool
    """Whether the receipt is accepted for good (`ReceiptAnchor.isFinal`) in this block."""
    assurance: str
    """Label of the receipt's key epoch on the chain: `simulated` or `hardware`."""
    chain_id: U256
    """EIP-155 chain id."""
    block: U64
    """Number of the block whose state the capsule proves."""
    block_hash: Digest
    """Hash of that block."""


@dataclass(frozen=True, slots=True)
class DeployedContract:
    """A contract of the deployment."""

    name: str
    """Name of the contract, such as `Disputes`."""
    address: Address
    """Its address."""
    code: Digest
    """keccak256 of its code, immutable values included."""


@dataclass(frozen=True, slots=True)
class CapsuleDeployment:
    """The part of an address book that a verification needs. A reader accepts it by its digest."""

    chain_id: U256
    """EIP-155 chain id."""
    contracts: tuple[DeployedContract, ...]
    """The contracts of `chain.capsule.deployment.CONTRACTS` in that order, then each stake tree."""
    layout: Digest
    """Digest of the storage layouts by which the contracts are read."""

    @property
    def digest(self) -> Digest:
        """The name by which a reader accepts the deployment."""
        return digests.labelled(Label.CAPSULE_DEPLOYMENT, encode(self))


@dataclass(frozen=True, slots=True)
class BlockWitness:
    """What a witness signs (EIP-712 under `Disputes`): its own node has this block, and the block is finalized."""

    number: U64
    """Number of the block."""
    block_hash: Digest
    """Hash of the block."""


@dataclass(frozen=True, slots=True)
class BeaconHeader:
    """A header of the beacon chain (`BeaconBlockHeader`)."""

    slot: U64
    """Its slot of 12 seconds."""
    proposer_index: U64
    """Number of the validator that proposed the block."""
    parent_root: Digest
    """Root of the block before."""
    state_root: Digest
    """Root of the state after the block."""
    body_root: Digest
    """Root of the block's body."""


@dataclass(frozen=True, slots=True)
class SyncCommittee:
    """A sync committee (`SyncCommittee`)."""

    keys: Blob
    """The members' public keys, each of 48 bytes."""
    aggregate: Blob
    """Their sum, 48 bytes."""


@dataclass(frozen=True, slots=True)
class CommitteeStep:
    """What the committee of one period signed (`LightClientUpdate`)."""

    attested: BeaconHeader
    """The block that was signed."""
    signature_slot: U64
    """Slot of the block that has the signature."""
    bits: Blob
    """Who signed, 64 bytes."""
    signature: Blob
    """Aggregate signature, 96 bytes."""
    finalized: BeaconHeader
    """The block that is finalized in the state of `attested`."""
    finality_branch: tuple[Digest, ...]
    """Merkle branch from it to that state."""
    following: SyncCommittee | None
    """The committee of the next period; null in the last step."""
    following_branch: tuple[Digest, ...]
    """Merkle branch from it to the state of `attested`; empty in the last step."""


@dataclass(frozen=True, slots=True)
class FinalityProof:
    """Leads from a beacon block that a reader trusts to the capsule's block."""

    checkpoint: BeaconHeader
    """The block to trust."""
    committee: SyncCommittee
    """The committee of its period."""
    committee_branch: tuple[Digest, ...]
    """Merkle branch from it to the state of `checkpoint`."""
    steps: tuple[CommitteeStep, ...]
    """One for each period up to that of the capsule's block."""
    execution_branch: tuple[Digest, ...]
    """Merkle branch from the hash of the capsule's block to the body of the last finalized block."""


@dataclass(frozen=True, slots=True)
class StorageNodes:
    """Trie nodes of one contract's storage."""

    contract: Address
    """Address of the contract."""
    nodes: tuple[Blob, ...]
    """Nodes, each once, none that no read needs."""


@dataclass(frozen=True, slots=True)
class StateProof:
    """Nodes that lead from the state root to every value that the verification reads (EIP-1186)."""

    accounts: tuple[Blob, ...]
    """Nodes of the state trie."""
    storage: tuple[StorageNodes, ...]
    """Nodes of storage tries."""


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """Where the receipt is anchored."""

    batch_id: U64
    """Number of the batch."""
    proof: tuple[Digest, ...]
    """Siblings from the receipt's leaf to the root of the batch."""


@dataclass(frozen=True, slots=True)
class RevealedVote:
    """What a member revealed. Its voter and its seats are in the state."""

    seat: int
    """The first of the voter's seats."""
    outcome: U8
    """`Outcome`."""
    code: U8
    """Defect code or `CannotReason`; 0 otherwise."""
    tokens_hash: Digest
    """Recomputed tokens hash, or zero."""
    trace_root: Digest
    """Recomputed trace root, or zero."""
    round_digest: Digest
    """Hash over round seed, dispute and every leaf, or zero."""


@dataclass(frozen=True, slots=True)
class CertifiedVote:
    """What the signers of a certificate said together. Their seats are in the state."""

    outcome: U8
    """`Outcome`."""
    code: U8
    """Defect code or `CannotReason`; 0 otherwise."""
    tokens_hash: Digest
    """Recomputed tokens hash, or zero."""
    trace_root: Digest
    """Recomputed trace root, or zero."""
    round_digest: Digest
    """Hash over round seed, dispute and every leaf, or zero."""


@dataclass(frozen=True, slots=True)
class RoundVotes:
    """All votes of one round that were revealed."""

    round: int
    """1, 2, …"""
    votes: tuple[RevealedVote, ...]
    """Directly revealed votes, ascending by seat."""
    certificate: CertifiedVote | None
    """The certificate of the round, or null."""


@dataclass(frozen=True, slots=True)
class LogProof:
    """Shows that a transaction of an earlier block emitted a log: a `Revealed` event with its quote."""

    block: U64
    """Number of the block."""
    transaction: int
    """Index of the transaction in the block."""
    log: int
    """Index of the log among those of the transaction."""
    nodes: tuple[Blob, ...]
    """Nodes of the block's trie of transaction receipts."""


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One entry of a node's journal."""

    number: U64
    """Its number in the journal."""
    at: U64
    """Unix second of the record, by the node's clock."""
    kind: str
    """What it is about, such as `vote.protected`."""
    subject: Blob
    """Id of the receipt or of its dispute."""
    body: str
    """Canonical JSON."""
    previous: Digest
    """Digest of the entry before it; zero before entry 0."""
    signature: Blob
    """Ed25519 signature of its digest."""
    proof: tuple[Digest, ...]
    """Hashes from the entry to the root of the checkpoint, from left to right."""


@dataclass(frozen=True, slots=True)
class JournalPart:
    """What one node recorded about the receipt and its dispute, each intent before the node acted on it."""

    keys: JournalKeys
    """Public keys of the journal."""
    checkpoint: str
    """The signed note of the checkpoint that the entries are proven to, with the signatures of its witnesses."""
    entries: tuple[JournalRecord, ...]
    """Entries, ascending by number, at least one."""


@dataclass(frozen=True, slots=True)
class Capsule:
    """The file."""

    format: str
    """Always `FORMAT`."""
    kind: Kind
    """What it shows."""
    claim: Claim
    """The same in words."""
    deployment: CapsuleDeployment
    """Whose contracts."""
    header: Blob
    """RLP of the header of the claim's block."""
    witnesses: tuple[Blob, ...]
    """Signatures of `BlockWitness`."""
    finality: FinalityProof | None
    """Signatures of sync committees, or null."""
    state: StateProof
    """Proofs of everything that is read of the contracts."""
    receipt: Receipt
    """The receipt."""
    signature: Blob
    """The operator's signature of it."""
    membership: BatchPlace
    """Where it is anchored."""
    environment: Environment | None
    """The environment that the receipt names, or null."""
    rounds: tuple[RoundVotes, ...]
    """Every drawn round of the dispute, in order."""
    opening: Payload | None
    """Request, answer and client signature, disclosed by somebody who holds them; else null."""
    log_headers: tuple[Blob, ...]
    """RLP of the headers of the earlier blocks that logs are in, ascending."""
    logs: tuple[LogProof, ...]
    """Proofs of `Revealed` events, in the order of the chain."""
    releases: tuple[SignedRelease, ...]
    """Records of key shards about this receipt."""
    journals: tuple[JournalPart, ...]
    """Parts of nodes' journals, each journal once."""


class Rejected(Exception):
    """A file is no capsule. The first value is the name of the failure, the second says why."""


def read_capsule(data: bytes) -> Capsule:
    """The capsule in these bytes. `Rejected` with a failure of `chain.capsule.report.Failure` for any other bytes.

    Limits are checked before anything is parsed.
    """
    if len(data) > MAX_BYTES:
        raise Rejected("capsule.tooLarge", f"{len(data)} bytes, at most {MAX_BYTES}")
    try:
        value = encoding.parse(data, MAX_MARKS)
    except TooLarge as error:
        raise Rejected("capsule.tooLarge", str(error.values[0])) from None
    except Fault as error:
        name = "capsule.notCanonical" if _is_json(data) else "capsule.malformed"
        raise Rejected(name, str(error.values[0])) from None
    if not isinstance(value, dict) or not isinstance(value.get("format"), str):
        raise Rejected("capsule.malformed", "an object with a member `format` is expected")
    if value["format"] != FORMAT:
        raise Rejected("capsule.unknownVersion", f"format {value['format'][:60]!r}, this program reads {FORMAT}")
    try:
        return decode(Capsule, data, MAX_MARKS)
    except WrongFields as error:
        raise Rejected("capsule.unknownMember", str(error)) from None
    except Fault as error:
        raise Rejected("capsule.malformed", str(error)) from None


def _is_json(data: bytes) -> bool:
    """Whether the bytes are JSON in any form."""
    try:
        json.loads(data.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def as_json(capsule: Capsule) -> dict[str, Any]:
    """The capsule as plain JSON data."""
    return encoding.to_json(capsule)

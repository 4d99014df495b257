"""The file format `bytewise/capsule/v1`: one JSON object in the canonical form of RFC 8785, read strictly and within limits.

A capsule repeats no value that its proofs give: values of contracts are only in trie nodes. `Claim` is the exception. It names
the facts that the capsule shows, and a verification derives each of its fields again.
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
from bytewise.protocol.keys.release_log import SignedRelease
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
"""Largest number of brackets, commas and backslashes in a capsule (`encoding.MAX_MARKS`). A verdict with 255 votes and a long
opening has a third of it."""


class Kind(enum.StrEnum):
    """The kind of fact that a capsule shows."""

    VERDICT = "verdict"
    """The capsule shows how a dispute about the receipt ended."""
    FINALITY = "finality"
    """The capsule shows whether the undisputed receipt is accepted for good."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The facts that the capsule shows. A verification derives every field again and compares."""

    receipt_id: Digest
    """EIP-712 digest of the receipt."""
    out_hash: Digest
    """The `out_hash` that the operator signed."""
    dispute: Digest
    """Id of the one dispute that the receipt can have."""
    verdict: str
    """Name of the verdict in lower case; `none` without a dispute."""
    decided_in: int
    """Round whose votes gave the verdict; 0 if no round gave it."""
    replaced_by: Digest | None
    """`out_hash` that replaces the claimed one; null unless the verdict is `overturned`."""
    accepted: bool
    """Whether the receipt is accepted for good in the claim's block (`ReceiptAnchor.isFinal`)."""
    assurance: str
    """Label of the receipt's key epoch on the chain: `simulated` or `hardware`."""
    chain_id: U256
    """EIP-155 chain id."""
    block: U64
    """Number of the block whose state the capsule proves."""
    block_hash: Digest
    """Hash of the block with number `block`."""


@dataclass(frozen=True, slots=True)
class DeployedContract:
    """A contract of the deployment."""

    name: str
    """Name of the contract, such as `Disputes`."""
    address: Address
    """Address of the contract."""
    code: Digest
    """keccak256 of the contract's code, immutable values included."""


@dataclass(frozen=True, slots=True)
class CapsuleDeployment:
    """The part of an address book that a verification needs. A reader states which deployments it accepts by their digests."""

    chain_id: U256
    """EIP-155 chain id."""
    contracts: tuple[DeployedContract, ...]
    """The contracts of `chain.capsule.facts.CONTRACTS` in that order, then each stake tree."""
    layout: Digest
    """Digest of the storage layouts by which the contracts are read."""

    @property
    def digest(self) -> Digest:
        """Digest by which a reader names the deployment."""
        return digests.labelled(Label.CAPSULE_DEPLOYMENT, encode(self))


@dataclass(frozen=True, slots=True)
class BlockWitness:
    """The statement that a witness signs (EIP-712 under `Disputes`): its own node has this block, and the block is finalized."""

    number: U64
    """Number of the block."""
    block_hash: Digest
    """Hash of the block."""


@dataclass(frozen=True, slots=True)
class BeaconHeader:
    """A header of the beacon chain (`BeaconBlockHeader`)."""

    slot: U64
    """Slot of the block; a slot is 12 seconds."""
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
    """A sync committee of the beacon chain (`SyncCommittee`)."""

    keys: Blob
    """The members' public keys, each of 48 bytes."""
    aggregate: Blob
    """Sum of the members' public keys, 48 bytes."""


@dataclass(frozen=True, slots=True)
class CommitteeStep:
    """A beacon block that the committee of one period signed, with proofs (`LightClientUpdate`)."""

    attested: BeaconHeader
    """The block that was signed."""
    signature_slot: U64
    """Slot of the block that contains the signature."""
    bits: Blob
    """Bits of the members that signed, 64 bytes."""
    signature: Blob
    """Aggregate signature, 96 bytes."""
    finalized: BeaconHeader
    """The block that is finalized in the state of `attested`."""
    finality_branch: tuple[Digest, ...]
    """Merkle branch from `finalized` to the state of `attested`."""
    following: SyncCommittee | None
    """The committee of the next period; null in the last step."""
    following_branch: tuple[Digest, ...]
    """Merkle branch from `following` to the state of `attested`; empty in the last step."""


@dataclass(frozen=True, slots=True)
class FinalityProof:
    """Signatures that lead from a beacon block that a reader trusts to the capsule's block."""

    checkpoint: BeaconHeader
    """The beacon block that the reader must trust."""
    committee: SyncCommittee
    """The sync committee of the checkpoint's period."""
    committee_branch: tuple[Digest, ...]
    """Merkle branch from `committee` to the state of `checkpoint`."""
    steps: tuple[CommitteeStep, ...]
    """One step for each period, up to the period of the capsule's block."""
    execution_branch: tuple[Digest, ...]
    """Merkle branch from the hash of the capsule's block to the body of the last finalized block."""


@dataclass(frozen=True, slots=True)
class StorageNodes:
    """Trie nodes of one contract's storage."""

    contract: Address
    """Address of the contract."""
    nodes: tuple[Blob, ...]
    """Trie nodes, each once, and only those that a read needs."""


@dataclass(frozen=True, slots=True)
class StateProof:
    """Nodes that lead from the state root to every value that the verification reads (EIP-1186)."""

    accounts: tuple[Blob, ...]
    """Nodes of the state trie."""
    storage: tuple[StorageNodes, ...]
    """Nodes of storage tries."""


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """The place at which the receipt is anchored."""

    batch_id: U64
    """Number of the batch."""
    proof: tuple[Digest, ...]
    """Siblings from the receipt's leaf to the root of the batch."""


@dataclass(frozen=True, slots=True)
class RevealedVote:
    """The content of a vote that a member revealed. The contracts' state has the voter and its seats."""

    seat: int
    """The first of the voter's seats."""
    outcome: U8
    """Number of the vote's `Outcome`."""
    code: U8
    """Defect code or `CannotReason`; 0 otherwise."""
    tokens_hash: Digest
    """Tokens hash that the member computed again, or zero."""
    trace_root: Digest
    """Trace root that the member computed again, or zero."""
    round_digest: Digest
    """Hash over round seed, dispute and every leaf, or zero."""


@dataclass(frozen=True, slots=True)
class CertifiedVote:
    """The content that the signers of a certificate agreed on. The contracts' state has their seats."""

    outcome: U8
    """Number of the finding's `Outcome`."""
    code: U8
    """Defect code or `CannotReason`; 0 otherwise."""
    tokens_hash: Digest
    """Tokens hash that the signers computed again, or zero."""
    trace_root: Digest
    """Trace root that the signers computed again, or zero."""
    round_digest: Digest
    """Hash over round seed, dispute and every leaf, or zero."""


@dataclass(frozen=True, slots=True)
class RoundVotes:
    """The revealed votes and the certificate of one round."""

    round: int
    """Number of the round, from 1."""
    votes: tuple[RevealedVote, ...]
    """Votes that members revealed directly, ascending by seat."""
    certificate: CertifiedVote | None
    """The certificate of the round, or null."""


@dataclass(frozen=True, slots=True)
class LogProof:
    """A proof that a transaction emitted a log: a `Revealed` event with its quote."""

    block: U64
    """Number of the block."""
    transaction: int
    """Index of the transaction in the block."""
    log: int
    """Index of the log among the logs of the transaction."""
    nodes: tuple[Blob, ...]
    """Nodes of the block's trie of transaction receipts."""


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One entry of a node's journal, with its proof."""

    number: U64
    """Number of the entry in the journal."""
    at: U64
    """Unix second at which the entry was written, by the node's clock."""
    kind: str
    """Kind of the entry, such as `vote.protected`."""
    subject: Blob
    """Id of the receipt or of its dispute, which the entry is about."""
    body: str
    """Content of the entry as canonical JSON."""
    previous: Digest
    """Digest of the previous entry; zero in entry 0."""
    signature: Blob
    """Ed25519 signature of the entry's digest."""
    proof: tuple[Digest, ...]
    """Hashes from the entry to the root of the checkpoint, from left to right."""


@dataclass(frozen=True, slots=True)
class JournalPart:
    """The entries that one node wrote about the receipt and its dispute. A node writes each intent before it acts on it."""

    keys: JournalKeys
    """Public keys of the journal."""
    checkpoint: str
    """The signed note of the checkpoint to which the entries are proven, with the signatures of its witnesses."""
    entries: tuple[JournalRecord, ...]
    """At least one entry, ascending by number."""


@dataclass(frozen=True, slots=True)
class Capsule:
    """The content of a capsule file."""

    format: str
    """Always `FORMAT`."""
    kind: Kind
    """The kind of fact that the capsule shows."""
    claim: Claim
    """The facts that the capsule shows, by name."""
    deployment: CapsuleDeployment
    """The contracts that the capsule reads."""
    header: Blob
    """RLP of the header of the claim's block."""
    witnesses: tuple[Blob, ...]
    """Signatures of `BlockWitness`."""
    finality: FinalityProof | None
    """Signatures of sync committees, or null."""
    state: StateProof
    """Proofs of every storage word that is read from the contracts."""
    receipt: Receipt
    """The receipt that the capsule is about."""
    signature: Blob
    """The operator's signature of the receipt."""
    membership: BatchPlace
    """The place at which the receipt is anchored."""
    environment: Environment | None
    """The environment that the receipt names, or null."""
    rounds: tuple[RoundVotes, ...]
    """Every drawn round of the dispute, in order."""
    opening: Payload | None
    """Request, answer and client signature, disclosed by somebody who has them; else null."""
    log_headers: tuple[Blob, ...]
    """RLP of the headers of earlier blocks with proven logs, ascending by number."""
    logs: tuple[LogProof, ...]
    """Proofs of `Revealed` events, in the order of the chain."""
    releases: tuple[SignedRelease, ...]
    """Release records of key shards about this receipt."""
    journals: tuple[JournalPart, ...]
    """Parts of nodes' journals, each journal once."""


class Rejected(Exception):
    """Exception for a file that is no capsule. The first value is the name of the failure, the second is the reason."""


def read_capsule(data: bytes) -> Capsule:
    """Parses a capsule. Raises `Rejected` if the bytes are no capsule. The error has the value of a
    `chain.capsule.report.Failure`, which names the reason.

    Size limits are checked before anything is parsed.
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
    """Returns whether the bytes are JSON, canonical or not."""
    try:
        json.loads(data.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def as_json(capsule: Capsule) -> dict[str, Any]:
    """Returns the capsule as plain JSON data."""
    return encoding.to_json(capsule)

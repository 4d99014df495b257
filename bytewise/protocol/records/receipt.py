"""The public record of one answer, and how a batch publishes it (design sections 4 and 5)."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bytewise.protocol import digests, merkle
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.records import (
    ForeignChain,
    ListMismatch,
    MalformedValue,
    MerkleProofMismatch,
    RootMismatch,
    SequenceBroken,
    UnknownEnvironment,
)
from bytewise.protocol.signing import Domain, typed_digest, verify_signature
from bytewise.protocol.units import U8, U32, U64, U256, ZERO_ADDRESS, Address, Blob, Digest


class Mode(enum.IntEnum):
    """Which part of the operator sees the plaintext: only its enclave, or the operator itself."""

    TEE = 1
    PLAIN = 2


class ClientMode(enum.IntEnum):
    """Which party assembled prompt and seed: the client with its own key, or the gateway for the client."""

    SIGNED = 1
    DELEGATED = 2


@dataclass(frozen=True, slots=True)
class Receipt:
    """EIP-712 `Receipt` under `ReceiptAnchor`, signed by the operator. The DA locator is not part of the receipt."""

    operator: Address
    """Account whose stake is bonded."""
    seq: U64
    """The operator's receipt number: 1, 2, 3, … without gaps."""
    req_hash: Digest
    """Labelled hash of the Request."""
    tokens_hash: Digest
    """Labelled hash of the Output."""
    out_hash: Digest
    """keccak256(abi.encode(tokens_hash, trace_root)), which byte equality compares."""
    model_id: Digest
    """Digest of the artifact."""
    environment: Digest
    """Digest of the registered environment."""
    gpu_arch: Digest
    """Architecture label, as bytes32."""
    key_epoch: U64
    """Key epoch whose public key sealed the envelope."""
    envelope_hash: Digest
    """Labelled hash of the envelope bytes."""
    issued_at: U64
    """Unix seconds by the operator's clock; for information only."""
    anchor_by: U64
    """Unix seconds of chain time by which its batch must be posted."""
    mode: U8
    """`Mode`."""
    client_mode: U8
    """`ClientMode`."""
    enclave_key: Address
    """Key of the operator enclave that co-signs in mode `tee`; zero in mode `plain`."""
    chain_id: U256
    """EIP-155 chain id."""


@dataclass(frozen=True, slots=True)
class EmptyLeaf:
    """A signed placeholder for a sequence number that was lost in a crash (design section 5)."""

    operator: Address
    """Account whose stake is bonded."""
    seq: U64
    """The lost number."""
    chain_id: U256
    """EIP-155 chain id."""


@dataclass(frozen=True, slots=True)
class SignedReceipt:
    """A receipt with the operator's signature and the current locator of its envelope."""

    receipt: Receipt
    """The record."""
    signature: Blob
    """65-byte signature over the receipt id."""
    locator: str
    """Where the envelope is, e.g. `eigenda:standard:0x…`. It may change without a new signature."""

    @property
    def record(self) -> Receipt:
        """The record that is signed."""
        return self.receipt


@dataclass(frozen=True, slots=True)
class SignedEmptyLeaf:
    """A number that its operator skips. No receipt with it can be anchored; receipts with later numbers can."""

    empty_leaf: EmptyLeaf
    """The number."""
    signature: Blob
    """65-byte signature of the operator over the leaf's id."""

    @property
    def record(self) -> EmptyLeaf:
        """The record that is signed."""
        return self.empty_leaf


ListEntry = SignedReceipt | SignedEmptyLeaf
"""One leaf of a batch as its list holds it."""


@dataclass(frozen=True, slots=True)
class SignedLeaf:
    """A leaf of a batch as the answer to a demand for its list shows it, without a locator."""

    record: Receipt | EmptyLeaf
    """The record of which the root is made."""
    signature: Blob
    """65-byte signature of the operator over its id."""


@dataclass(frozen=True, slots=True)
class ReceiptList:
    """The list to which the locator of a batch points."""

    operator: Address
    """Operator of the batch."""
    first_seq: U64
    """Number of the first entry."""
    entries: tuple[SignedReceipt | SignedEmptyLeaf, ...]
    """Receipts and skipped numbers, in order of their numbers."""

    @property
    def list_hash(self) -> Digest:
        """Labelled hash of the canonical list."""
        return digests.labelled(Label.LIST, encode(self))


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """A batch as the chain shows it: the posted header and what the chain added."""

    batch_id: int
    """Number given by the chain."""
    operator: Address
    """Operator that posted it."""
    first_seq: U64
    """Number of its first receipt."""
    count: U32
    """How many receipts."""
    root: Digest
    """Merkle root over (receipt id, seq)."""
    list_hash: Digest
    """Hash of the list bytes."""
    environment: Digest
    """Environment of every receipt in it."""
    model_id: Digest
    """Model of every receipt in it."""
    key_epoch: U64
    """Epoch of every receipt in it."""
    locator: str
    """Locator of the list."""
    anchored_at: U64
    """Chain time of the posting, at which the window starts."""
    block: U64
    """Block of the posting."""


class BatchMember(NamedTuple):
    """A leaf of a batch with its id and its path to the root."""

    receipt_id: Digest
    signed: ListEntry
    proof: tuple[Digest, ...]


def receipt_id(anchor: Domain, receipt: Receipt | EmptyLeaf) -> Digest:
    """EIP-712 digest under `ReceiptAnchor`. It identifies the receipt everywhere."""
    return typed_digest(anchor, receipt)


def anchor_subject(demands: Domain, identifier: Digest) -> Digest:
    """Subject of a demand that a receipt be anchored. `demands` is `Network.demands_domain`."""
    kinds = ("string", "uint256", "address", "bytes32")
    return digests.keccak256_abi(kinds, ("anchor", demands.chain_id, demands.contract, identifier))


def list_subject(demands: Domain, batch_id: int) -> Digest:
    """Subject of a demand for the list of a batch."""
    kinds = ("string", "uint256", "address", "uint64")
    return digests.keccak256_abi(kinds, ("list", demands.chain_id, demands.contract, batch_id))


def verify_receipt(anchor: Domain, signed: ListEntry | SignedLeaf) -> Digest:
    """Returns the id of a receipt or empty leaf, if it is of this chain and has a valid operator signature; otherwise raises the
    fault."""
    receipt = signed.record
    if receipt.chain_id != anchor.chain_id:
        raise ForeignChain(receipt.chain_id, anchor.chain_id)
    identifier = receipt_id(anchor, receipt)
    verify_signature("receipt", identifier, signed.signature, receipt.operator)
    return identifier


def verify_modes(receipt: Receipt) -> Receipt:
    """Returns the receipt if the contract accepts its modes and its enclave key (`LeafLib.checkModes`); otherwise raises
    `MalformedValue`."""
    if (receipt.mode, receipt.enclave_key) != (Mode.PLAIN.value, plain_enclave_key()):
        # Mode tee needs a co-signature of the operator's enclave. Version 0 has no field for it.
        raise MalformedValue("mode", f"{receipt.mode} with enclave key {receipt.enclave_key}")
    if receipt.client_mode not in (ClientMode.SIGNED.value, ClientMode.DELEGATED.value):
        raise MalformedValue("client mode", str(receipt.client_mode))
    return receipt


def batch_leaves(anchor: Domain, entries: Sequence[ListEntry]) -> tuple[Digest, ...]:
    """Leaves of a batch, in order."""
    return tuple(merkle.batch_leaf(receipt_id(anchor, e.record), e.record.seq) for e in entries)


def verify_list(anchor: Domain, header: BatchHeader, listed: ReceiptList) -> tuple[BatchMember, ...]:
    """Returns the leaves of a list that agrees with its batch header in every respect; otherwise raises the fault."""
    for what, have, want in (
        ("hash", listed.list_hash, header.list_hash),
        ("operator", listed.operator, header.operator),
        ("first number", listed.first_seq, header.first_seq),
        ("count", len(listed.entries), header.count),
    ):
        if have != want:
            raise ListMismatch(header.batch_id, what)
    identifiers = []
    for offset, entry in enumerate(listed.entries):
        verify_entry(header, entry.record, header.first_seq + offset)
        identifiers.append(verify_receipt(anchor, entry))
    leaves = [merkle.batch_leaf(name, entry.record.seq) for name, entry in zip(identifiers, listed.entries, strict=True)]
    root, proofs = merkle.batch_tree(leaves)
    if root != header.root:
        raise RootMismatch(root.hex(), header.batch_id, header.root.hex())
    return tuple(BatchMember(*each) for each in zip(identifiers, listed.entries, proofs, strict=True))


def verify_entry(header: BatchHeader, receipt: Receipt | EmptyLeaf, expected_seq: int) -> Receipt | EmptyLeaf:
    """Returns the record if its operator and number (and a receipt's environment, model and epoch) are those of its batch;
    otherwise raises the fault."""
    if receipt.operator != header.operator or receipt.seq != expected_seq:
        raise SequenceBroken(receipt.operator, receipt.seq, expected_seq)
    if isinstance(receipt, EmptyLeaf):
        return receipt
    for what, have, want in (
        ("environment", receipt.environment, header.environment),
        ("model", receipt.model_id, header.model_id),
        ("key epoch", receipt.key_epoch, header.key_epoch),
    ):
        if have != want:
            raise UnknownEnvironment(what, have, want)
    return receipt


def verify_place(header: BatchHeader, identifier: Digest, seq: int, proof: Sequence[Digest]) -> Digest:
    """Returns the id if the record with it is number `seq` of the batch, by a proof to the root; otherwise raises the fault.

    A tree of `count` leaves has no longer proof. Without this limit the root could stand for more leaves than the batch has.
    """
    last = header.first_seq + header.count - 1
    if not header.first_seq <= seq <= last:
        raise SequenceBroken(header.operator, seq, f"{header.first_seq} to {last}")
    leaf = merkle.batch_leaf(identifier, seq)
    if len(proof) > (header.count - 1).bit_length():
        raise MerkleProofMismatch(leaf.hex(), header.root.hex())
    merkle.verify_batch_proof(header.root, leaf, proof)
    return identifier


def plain_enclave_key() -> Address:
    """`enclaveKey` of a receipt in mode plain."""
    return ZERO_ADDRESS

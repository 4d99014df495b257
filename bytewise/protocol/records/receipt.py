"""The receipt, which is the public record of one answer, and how a batch publishes it (design sections 4 and 5)."""

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
    """Mode of a receipt.

    It says whether only the operator's enclave sees the plaintext (TEE) or the operator itself does (PLAIN).
    """

    TEE = 1
    PLAIN = 2


class ClientMode(enum.IntEnum):
    """Client mode of a receipt.

    It says whether the client assembled prompt and seed (SIGNED) or the operator's gateway did (DELEGATED).
    """

    SIGNED = 1
    DELEGATED = 2


@dataclass(frozen=True, slots=True)
class Receipt:
    """The record of one answer that the operator signs, as EIP-712 data under `ReceiptAnchor`.

    It does not contain the DA locator.
    """

    operator: Address
    """Account of the operator, whose stake can be slashed for this receipt."""
    seq: U64
    """The operator's receipt number: 1, 2, 3, … without gaps."""
    req_hash: Digest
    """Labelled hash of the `Request`."""
    tokens_hash: Digest
    """Labelled hash of the `Output`."""
    out_hash: Digest
    """keccak256(abi.encode(tokens_hash, trace_root)). It covers tokens and computation."""
    model_id: Digest
    """Digest of the artifact."""
    environment: Digest
    """Digest of the registered environment."""
    gpu_arch: Digest
    """Name of the GPU architecture, as bytes32."""
    key_epoch: U64
    """Key epoch whose public key sealed the envelope."""
    envelope_hash: Digest
    """Labelled hash of the envelope bytes."""
    issued_at: U64
    """Unix seconds by the operator's clock; for information only."""
    anchor_by: U64
    """Chain time in Unix seconds until which the batch of this receipt must be posted."""
    mode: U8
    """Number of a `Mode`."""
    client_mode: U8
    """Number of a `ClientMode`."""
    enclave_key: Address
    """Key of the operator enclave that co-signs in mode `tee`; zero in mode `plain`."""
    chain_id: U256
    """EIP-155 chain id."""


@dataclass(frozen=True, slots=True)
class EmptyLeaf:
    """A placeholder that an operator signs in place of a receipt that it lost or can no longer post (design section 5)."""

    operator: Address
    """Account of the operator, whose stake can be slashed."""
    seq: U64
    """The skipped number."""
    chain_id: U256
    """EIP-155 chain id."""


@dataclass(frozen=True, slots=True)
class SignedReceipt:
    """A receipt with the operator's signature and the current locator of its envelope."""

    receipt: Receipt
    """The receipt that is signed."""
    signature: Blob
    """65-byte signature over the receipt id."""
    locator: str
    """Place of the envelope on DA, e.g. `eigenda:standard:0x…`. It may change without a new signature."""

    @property
    def record(self) -> Receipt:
        """The record that is signed."""
        return self.receipt


@dataclass(frozen=True, slots=True)
class SignedEmptyLeaf:
    """A signed statement that an operator skips a receipt number.

    Once it is anchored, no receipt with this number can be anchored; receipts with later numbers can.
    """

    empty_leaf: EmptyLeaf
    """Record with the skipped number."""
    signature: Blob
    """65-byte signature of the operator over the empty leaf's id."""

    @property
    def record(self) -> EmptyLeaf:
        """The record that is signed."""
        return self.empty_leaf


ListEntry = SignedReceipt | SignedEmptyLeaf
"""One entry of a list: a signed receipt, or a signed empty leaf in its place."""


@dataclass(frozen=True, slots=True)
class SignedLeaf:
    """A signed receipt or empty leaf without a locator, as the answer to an availability demand for a list shows it."""

    record: Receipt | EmptyLeaf
    """The receipt or empty leaf, from which the leaf of the batch is made."""
    signature: Blob
    """65-byte signature of the operator over the record's id."""


@dataclass(frozen=True, slots=True)
class ReceiptList:
    """The list of a batch. The locator in the batch header points to it."""

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
    """The header of a batch on the chain: what the operator posted, and what the chain added."""

    batch_id: int
    """Number that the chain gave to the batch."""
    operator: Address
    """Operator that posted the batch."""
    first_seq: U64
    """Number of the batch's first receipt."""
    count: U32
    """Number of receipts and empty leaves in the batch."""
    root: Digest
    """Merkle root over the leaves of the batch, each made of receipt id and number."""
    list_hash: Digest
    """Hash of the bytes of the list."""
    environment: Digest
    """Environment of every receipt in the batch."""
    model_id: Digest
    """Model of every receipt in the batch."""
    key_epoch: U64
    """Key epoch of every receipt in the batch."""
    locator: str
    """Locator of the list."""
    anchored_at: U64
    """Chain time of the posting, at which the challenge window starts."""
    block: U64
    """Block of the posting."""


class BatchMember(NamedTuple):
    """One entry of a batch's list with its id and its Merkle proof."""

    receipt_id: Digest
    signed: ListEntry
    proof: tuple[Digest, ...]


def receipt_id(anchor: Domain, receipt: Receipt | EmptyLeaf) -> Digest:
    """Returns the EIP-712 digest of a receipt or empty leaf under `ReceiptAnchor`. This id identifies it everywhere."""
    return typed_digest(anchor, receipt)


def anchor_subject(demands: Domain, identifier: Digest) -> Digest:
    """Returns the hash that identifies the availability demand to anchor this receipt (the demand's subject).

    `demands` is `Network.demands_domain`.
    """
    kinds = ("string", "uint256", "address", "bytes32")
    return digests.keccak256_abi(kinds, ("anchor", demands.chain_id, demands.contract, identifier))


def list_subject(demands: Domain, batch_id: int) -> Digest:
    """Returns the hash that identifies the availability demand for the list of this batch (the demand's subject).

    `demands` is `Network.demands_domain`.
    """
    kinds = ("string", "uint256", "address", "uint64")
    return digests.keccak256_abi(kinds, ("list", demands.chain_id, demands.contract, batch_id))


def verify_receipt(anchor: Domain, signed: ListEntry | SignedLeaf) -> Digest:
    """Returns the id of a signed receipt or empty leaf.

    Raises `ForeignChain` if it is for another chain, and `BadSignature` if its operator did not sign it.
    """
    receipt = signed.record
    if receipt.chain_id != anchor.chain_id:
        raise ForeignChain(receipt.chain_id, anchor.chain_id)
    identifier = receipt_id(anchor, receipt)
    verify_signature("receipt", identifier, signed.signature, receipt.operator)
    return identifier


def verify_modes(receipt: Receipt) -> Receipt:
    """Returns the receipt if the contract accepts its modes and its enclave key (`LeafLib.checkModes`).

    Otherwise raises `MalformedValue`.
    """
    if (receipt.mode, receipt.enclave_key) != (Mode.PLAIN.value, plain_enclave_key()):
        # Mode tee needs a co-signature of the operator's enclave. Version 0 has no field for it.
        raise MalformedValue("mode", f"{receipt.mode} with enclave key {receipt.enclave_key}")
    if receipt.client_mode not in (ClientMode.SIGNED.value, ClientMode.DELEGATED.value):
        raise MalformedValue("client mode", str(receipt.client_mode))
    return receipt


def batch_leaves(anchor: Domain, entries: Sequence[ListEntry]) -> tuple[Digest, ...]:
    """Returns the Merkle leaves of a batch's entries, in order."""
    return tuple(merkle.batch_leaf(receipt_id(anchor, e.record), e.record.seq) for e in entries)


def verify_list(anchor: Domain, header: BatchHeader, listed: ReceiptList) -> tuple[BatchMember, ...]:
    """Returns the entries of a list with their proofs, if the list agrees with its batch header in every respect.

    Otherwise raises a `Fault`.
    """
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
    """Returns the record if it fits the header of its batch. Otherwise raises a `Fault`.

    Operator and number must fit; for a receipt also environment, model and key epoch.
    """
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
    """Returns `identifier` if the proof shows that the record with this id is number `seq` of the batch. Otherwise raises a
    `Fault`.

    The proof may have at most as many siblings as a tree of `header.count` leaves allows. Without this limit, the root could
    stand for more leaves than the batch has.
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
    """Returns the `enclaveKey` of every receipt in mode plain: the zero address."""
    return ZERO_ADDRESS

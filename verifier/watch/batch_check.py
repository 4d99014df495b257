"""Checks the public records of a batch, without any decryption (the CHECK tier of design section 10). The functions are pure.

A list is judged as a whole: if the Merkle proof of one leaf fails, no leaf counts as proven.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bytewise.protocol import merkle
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import AnchoredLate, ListMismatch, MalformedValue, UnknownEnvironment, UnknownKeyEpoch
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import (
    BatchHeader,
    EmptyLeaf,
    Receipt,
    ReceiptList,
    SignedLeaf,
    SignedReceipt,
    receipt_id,
    verify_entry,
    verify_list,
    verify_modes,
)
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import ZERO_DIGEST, Digest

LOCATOR_PREFIX = "eigenda:"
"""Prefix of every locator of version 1. Each such locator names a DA certificate."""


MAX_ENTRY_BYTES = 8 * 1024
"""Most bytes of a list for each of its receipts. Record and signature take 1.5 kB, a locator up to 6 kB."""


class CheckedReceipt(NamedTuple):
    """A receipt of a batch whose list fits the batch. It has the receipt's path to the root, and the receipt's fault if there is
    one."""

    receipt_id: Digest
    signed: SignedReceipt
    proof: tuple[Digest, ...]
    fault: Fault | None
    is_lapse: bool = False
    """Whether the fault is only a lapse. The contract accepts a receipt with a lapse, and no committee convicts the operator for
    it. Every other fault is a defect."""


class SkippedNumber(NamedTuple):
    """An empty leaf of a batch whose list fits the batch. With an empty leaf the operator declares that no receipt has the leaf's
    number."""

    leaf: EmptyLeaf
    proof: tuple[Digest, ...]
    """Path from the leaf to the root."""


class CheckedBatch(NamedTuple):
    """The receipts and the skipped numbers of a batch, both ordered by number."""

    receipts: tuple[CheckedReceipt, ...]
    skipped: tuple[SkippedNumber, ...]


def verify_batch(
    anchor: Domain, header: BatchHeader, data: bytes, environment: Environment, epochs: frozenset[int]
) -> CheckedBatch:
    """Checks a batch by its list. Returns the receipts of the batch, each with its own fault if it has one, and the numbers that
    the batch skips.

    Raises a fault of the list itself. That fault concerns the list's size, bytes, signature, sequence, header, chain, epoch,
    environment, model or root. `environment` is the registered document of the header's environment. `epochs` are the key epochs
    that the chain knows.
    """
    if len(data) > header.count * MAX_ENTRY_BYTES:
        raise ListMismatch(header.batch_id, "size")
    members = verify_list(anchor, header, decode(ReceiptList, data))
    if header.key_epoch not in epochs:
        raise UnknownKeyEpoch(header.key_epoch)
    if environment.digest != header.environment:
        raise UnknownEnvironment("environment", environment.digest.hex(), header.environment.hex())
    receipts = tuple(
        CheckedReceipt(name, signed, proof, *_fault(header, name, signed, environment))
        for name, signed, proof in members
        if isinstance(signed, SignedReceipt)
    )
    return CheckedBatch(receipts, _skipped((signed.record, proof) for _, signed, proof in members))


def verify_leaves(
    anchor: Domain, header: BatchHeader, leaves: Sequence[SignedLeaf], data: bytes, environment: Environment
) -> CheckedBatch:
    """Checks a batch whose list does not fit, by the leaves that the operator showed to answer a demand. Returns the receipts of
    the batch, each with its own fault if it has one, and the numbers that the batch skips.

    The contract has already checked numbers, signatures and root. If the root differs all the same, the chain node is wrong, and
    the function raises `TryAgain`. `data` is the bytes of the list; a receipt's locator is taken from them if they contain the
    receipt.
    """
    identifiers = [receipt_id(anchor, each.record) for each in leaves]
    nodes = [merkle.batch_leaf(name, each.record.seq) for name, each in zip(identifiers, leaves, strict=True)]
    tree = merkle.batch_tree(nodes) if nodes else None
    if tree is None or tree.root != header.root:
        raise TryAgain("chain", f"the answer for the list of batch {header.batch_id} has another root")
    locators, found = _locators(data), []
    for place, (identifier, leaf) in enumerate(zip(identifiers, leaves, strict=True)):
        if isinstance(leaf.record, EmptyLeaf):
            continue
        entry = SignedReceipt(leaf.record, leaf.signature, locators.get(leaf.signature, ""))
        try:
            verify_entry(header, leaf.record, header.first_seq + place)
            fault, is_lapse = _fault(header, identifier, entry, environment)
        except Fault as error:
            fault, is_lapse = error, False
        found.append(CheckedReceipt(identifier, entry, tree.proofs[place], fault, is_lapse))
    return CheckedBatch(tuple(found), _skipped((each.record, proof) for each, proof in zip(leaves, tree.proofs, strict=True)))


def _skipped(leaves: Iterable[tuple[Receipt | EmptyLeaf, tuple[Digest, ...]]]) -> tuple[SkippedNumber, ...]:
    return tuple(SkippedNumber(leaf, proof) for leaf, proof in leaves if isinstance(leaf, EmptyLeaf))


def _locators(data: bytes) -> Mapping[bytes, str]:
    try:
        entries = decode(ReceiptList, data).entries
        return {each.signature: each.locator for each in entries if isinstance(each, SignedReceipt)}
    except Fault:
        return {}


def _fault(header: BatchHeader, identifier: Digest, entry: SignedReceipt, environment: Environment) -> tuple[Fault | None, bool]:
    """Returns the first defect of a receipt, or its first lapse if it has no defect, and whether that fault is a lapse."""
    defect = _defect(entry.receipt, environment)
    lapse = None if defect is not None else _lapse(header, identifier, entry)
    return defect or lapse, lapse is not None


def _defect(receipt: Receipt, environment: Environment) -> Fault | None:
    if receipt.gpu_arch != environment.gpu_arch_id:
        return UnknownEnvironment("architecture", receipt.gpu_arch.hex(), environment.gpu_arch)
    if ZERO_DIGEST in (receipt.req_hash, receipt.tokens_hash, receipt.out_hash, receipt.envelope_hash):
        return MalformedValue("receipt", "a zero digest")
    try:
        verify_modes(receipt)
    except MalformedValue as fault:
        return fault
    return None


def _lapse(header: BatchHeader, identifier: Digest, entry: SignedReceipt) -> Fault | None:
    receipt = entry.receipt
    if receipt.anchor_by < header.anchored_at:
        return AnchoredLate(identifier.hex(), header.anchored_at, receipt.anchor_by)
    # The operator's signature of a receipt does not cover the locator.
    if not entry.locator.startswith(LOCATOR_PREFIX):
        return MalformedValue("locator", entry.locator[:60])
    if receipt.issued_at > receipt.anchor_by:
        return MalformedValue("issued_at", f"{receipt.issued_at} is after anchor_by, {receipt.anchor_by}")
    return None

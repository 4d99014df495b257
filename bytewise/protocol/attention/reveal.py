"""The reveal of a schedule of attention tests: everything that proves which receipts were tests, in one file.

The commitment to the schedule is a stop string of an ordinary request that the fund sends to its own operator. The request's
hash is in an anchored receipt, called the carrier. The commitment is therefore older than the carrier's batch. No public data
shows that there is a commitment.

The carrier must be the operator's first receipt, and its request must contain only one commitment. A fund with many commitments
could later reveal the one that excuses its frauds. Proofs are checked against batch headers, which the reader takes from the
chain.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bytewise.protocol.attention.schedule import COMMITMENT_PREFIX, AttentionTerms, FraudKind, FraudSchedule
from bytewise.protocol.errors.actors import RevealRefused
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.records.receipt import (
    BatchHeader,
    Receipt,
    SignedEmptyLeaf,
    SignedReceipt,
    verify_entry,
    verify_place,
    verify_receipt,
)
from bytewise.protocol.records.request import Output, Request
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Digest

REVEAL_VERSION = 1
CARRIER_SEQ = 1
"""Number of the carrier: the receipt whose request contains the commitment."""


@dataclass(frozen=True, slots=True)
class ProvenReceipt:
    """A receipt, or the signed placeholder of a skipped number (empty leaf), with its Merkle proof in an anchored batch."""

    signed: SignedReceipt | SignedEmptyLeaf
    """The receipt or empty leaf with the operator's signature."""
    batch_id: int
    """Number of the batch that contains it."""
    proof: tuple[Digest, ...]
    """Siblings of the leaf from the bottom up."""


@dataclass(frozen=True, slots=True)
class RevealedAnswer:
    """The fund's question and the false answer, so that anyone can run the request again."""

    request: Request
    """Question of the fund."""
    output: Output
    """The false answer."""


@dataclass(frozen=True, slots=True)
class RevealedFraud:
    """One receipt that the schedule makes false, or the empty leaf with its number."""

    place: ProvenReceipt
    """The receipt in its batch."""
    answer: RevealedAnswer | None
    """Opening of the receipt, or None if the fund did not keep it. Then only a verdict shows that the answer was false."""


@dataclass(frozen=True, slots=True)
class AttentionReveal:
    """The whole reveal, in the form of a file."""

    version: int
    """Format version, always 1."""
    terms: AttentionTerms
    """Public part of the schedule."""
    key: Digest
    """Key of the schedule. It is no longer a secret."""
    carrier: ProvenReceipt
    """The receipt whose request contains the commitment."""
    carrier_request: Request
    """Request of the carrier."""
    frauds: tuple[RevealedFraud, ...]
    """Every scheduled receipt of the range, in order."""

    @property
    def schedule(self) -> FraudSchedule:
        """The schedule that the revealed terms and key determine."""
        return FraudSchedule(self.terms, self.key)


class AttentionTest(NamedTuple):
    """One proven test: a receipt that the schedule makes false."""

    receipt_id: Digest
    receipt: Receipt
    batch_id: int
    kind: FraudKind
    answer: RevealedAnswer | None
    """Opening of the receipt, checked against it; None if the reveal has none."""


def verify_reveal(reveal: AttentionReveal, anchor: Domain, headers: Mapping[int, BatchHeader]) -> tuple[AttentionTest, ...]:
    """Returns the tests that a reveal proves, in order. Raises `RevealRefused` if a proof fails.

    The carrier must be the operator's first receipt and contain one commitment, which fits the revealed terms and key. Its batch
    must end before the range begins. The reveal must show every scheduled number, as a receipt or as an empty leaf. `anchor` is
    the EIP-712 domain of `ReceiptAnchor`; `headers` are the batches of the chain by number. The caller checks that the range is
    over.
    """
    if reveal.version != REVEAL_VERSION:
        raise RevealRefused("version", f"{reveal.version}: this program reads {REVEAL_VERSION}")
    if reveal.terms.chain_id != anchor.chain_id:
        raise RevealRefused("terms", f"of chain {reveal.terms.chain_id}, this is {anchor.chain_id}")
    _verify_carrier(reveal, anchor, headers)
    scheduled, shown = list(reveal.schedule.frauds()), [int(each.place.signed.record.seq) for each in reveal.frauds]
    if shown != [seq for seq, _ in scheduled]:
        missing = sorted({seq for seq, _ in scheduled} - set(shown))
        raise RevealRefused("frauds", f"not the receipts that key and rate draw: {len(shown)} shown, {len(scheduled)} drawn, "
                                      f"the first missing is {missing[0] if missing else 'none'}")  # fmt: skip
    tests = []
    for (_, kind), fraud in zip(scheduled, reveal.frauds, strict=True):
        identifier = _verify_place(reveal.terms, fraud.place, anchor, headers)
        if isinstance(fraud.place.signed, SignedReceipt):
            receipt = fraud.place.signed.receipt
            _verify_answer(receipt, fraud.answer)
            tests.append(AttentionTest(identifier, receipt, fraud.place.batch_id, kind, fraud.answer))
    return tuple(tests)


def _verify_carrier(reveal: AttentionReveal, anchor: Domain, headers: Mapping[int, BatchHeader]) -> None:
    carrier, request = reveal.carrier, reveal.carrier_request
    _verify_place(reveal.terms, carrier, anchor, headers)
    if carrier.signed.record.seq != CARRIER_SEQ:
        raise RevealRefused("commitment", f"is in receipt {carrier.signed.record.seq}, not in the operator's first")
    header = headers[carrier.batch_id]
    if header.first_seq + header.count > reveal.terms.first:
        last = header.first_seq + header.count - 1
        raise RevealRefused("commitment", f"anchored with receipts up to {last}, after the range began at {reveal.terms.first}")
    if not isinstance(carrier.signed, SignedReceipt) or carrier.signed.receipt.req_hash != request.req_hash:
        raise RevealRefused("commitment", "its request is not that of its receipt")
    commitments = [each for each in request.decode.stop_strings if each.startswith(COMMITMENT_PREFIX)]
    if len(commitments) > 1:
        raise RevealRefused("commitment", f"is one of {len(commitments)}: an account has one")
    if commitments != [reveal.schedule.stop_string]:
        raise RevealRefused("commitment", "is to other terms or another key")


def _verify_place(
    terms: AttentionTerms, place: ProvenReceipt, anchor: Domain, headers: Mapping[int, BatchHeader]
) -> Digest:  # fmt: skip
    record = place.signed.record
    what = f"receipt {record.seq}"
    header = headers.get(place.batch_id)
    if header is None or not header.first_seq <= record.seq < header.first_seq + header.count:
        raise RevealRefused(what, f"the chain has no batch {place.batch_id} with this number")
    try:
        identifier = verify_receipt(anchor, place.signed)
        verify_entry(header, record, int(record.seq))
        verify_place(header, identifier, int(record.seq), place.proof)
    except Fault as error:
        raise RevealRefused(what, error) from None
    if record.operator != terms.operator:
        raise RevealRefused(what, f"of operator {record.operator}, the commitment is of {terms.operator}")
    return identifier


def _verify_answer(receipt: Receipt, answer: RevealedAnswer | None) -> None:
    if answer is None:
        return
    if (answer.request.req_hash, answer.output.tokens_hash) != (receipt.req_hash, receipt.tokens_hash):
        raise RevealRefused(f"receipt {receipt.seq}", "its opening is of another receipt")

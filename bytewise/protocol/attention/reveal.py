"""The reveal of a schedule of attention tests: everything that proves which receipts were tests, in one file.

The commitment is a stop string of an ordinary request of the fund to its own operator. That request's hash is in an anchored
receipt, so the commitment is older than its batch, and nothing public shows that it is there. It must be the one commitment in
the operator's first receipt: a fund that commits to many schedules could later reveal the one that excuses its frauds. Proofs
are checked against batch headers, which the reader takes from the chain.
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
"""Number of the receipt whose request carries the commitment."""


@dataclass(frozen=True, slots=True)
class ProvenReceipt:
    """A receipt, or an empty leaf in its place, with its path in an anchored batch."""

    signed: SignedReceipt | SignedEmptyLeaf
    """The leaf with its signature."""
    batch_id: int
    """Number of its batch."""
    proof: tuple[Digest, ...]
    """Siblings of the leaf from the bottom up."""


@dataclass(frozen=True, slots=True)
class RevealedAnswer:
    """What the fund asked and what it answered falsely, so that anyone can run the request again."""

    request: Request
    """The question."""
    output: Output
    """The false answer."""


@dataclass(frozen=True, slots=True)
class RevealedFraud:
    """One scheduled receipt."""

    place: ProvenReceipt
    """The receipt in its batch."""
    answer: RevealedAnswer | None
    """Its opening; None if the fund did not keep it. Then only a verdict shows that the answer was false."""


@dataclass(frozen=True, slots=True)
class AttentionReveal:
    """The whole reveal, as a file."""

    version: int
    """Always 1."""
    terms: AttentionTerms
    """What was announced."""
    key: Digest
    """The key of the schedule, no secret any more."""
    carrier: ProvenReceipt
    """The receipt whose request carries the commitment."""
    carrier_request: Request
    """That request."""
    frauds: tuple[RevealedFraud, ...]
    """Every scheduled receipt of the range, in order."""

    @property
    def schedule(self) -> FraudSchedule:
        """The schedule that was committed to."""
        return FraudSchedule(self.terms, self.key)


class AttentionTest(NamedTuple):
    """One proven test: a receipt that the schedule makes false."""

    receipt_id: Digest
    receipt: Receipt
    batch_id: int
    kind: FraudKind
    answer: RevealedAnswer | None
    """The opening, checked against the receipt."""


def verify_reveal(reveal: AttentionReveal, anchor: Domain, headers: Mapping[int, BatchHeader]) -> tuple[AttentionTest, ...]:
    """The tests of a reveal, in order; `RevealRefused` unless it proves them.

    It proves: the operator's first receipt carries the one commitment of its account, and its batch ended before the range
    begins; terms and key are those of the commitment; every scheduled number is shown, as a receipt or as a skipped number.
    `anchor` is the EIP-712 domain of `ReceiptAnchor`; `headers` are the batches of the chain by number. Whether the range is over
    is the reader's to check.
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

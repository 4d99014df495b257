"""Makes the reveal of a fund's attention tests from its schedule, the chain and the lists on DA."""

from collections.abc import Callable, Sequence

from bytewise.protocol.attention.reveal import (
    REVEAL_VERSION,
    AttentionReveal,
    ProvenReceipt,
    RevealedAnswer,
    RevealedFraud,
    verify_reveal,
)
from bytewise.protocol.attention.schedule import FraudSchedule
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import RevealRefused, TooEarly
from bytewise.protocol.records.receipt import BatchHeader, BatchMember, ReceiptList, SignedReceipt, verify_list
from bytewise.protocol.records.request import Request
from bytewise_client.connection import Connection
from chain.reads.attention import CourtFacts, verify_over

Openings = Callable[[int], RevealedAnswer | None]
"""Function that returns the opening of a false answer by its receipt number, or None if the opening was not stored."""


def make_reveal(
    connection: Connection, schedule: FraudSchedule, carrier: SignedReceipt, request: Request, opening: Openings
) -> AttentionReveal:  # fmt: skip
    """Makes the reveal of a schedule, with proofs from the lists of the operator's batches.

    `carrier` is the receipt whose request has the commitment to the schedule, and `request` is that request. Raises `TooEarly` if
    the operator has not anchored the last receipt of the schedule's range, or if a challenge window or a dispute is not over.
    Raises `RevealRefused` if the anchored receipts do not prove the schedule. Errors of the DA store pass through.
    """
    reader = connection.reader
    head = reader.head()
    terms = schedule.terms
    headers = {each.batch_id: each for each in reader.batches(int(reader.network.deploy_block), head)}
    own = [each for each in headers.values() if each.operator == terms.operator]
    leaves = _Leaves(connection, own)
    if leaves.last < terms.last:
        raise TooEarly("the end of the range", f"receipt {terms.last} is anchored", f"receipt {leaves.last}")
    frauds = []
    for seq, _ in schedule.frauds():
        place = leaves.place(seq)
        frauds.append(RevealedFraud(place, opening(seq) if isinstance(place.signed, SignedReceipt) else None))
    place = leaves.place(int(carrier.receipt.seq))
    reveal = AttentionReveal(REVEAL_VERSION, terms, schedule.key, place, request, tuple(frauds))
    tests = verify_reveal(reveal, connection.network.anchor_domain, headers)
    verify_over(reader, terms, tests, own, head)
    # Reads the disputes, and raises `TooEarly` while one of them runs.
    CourtFacts(reader, tests, int(reader.network.deploy_block), head)
    return reveal


class _Leaves:
    """The leaves of an operator's batches with their proofs. It reads each list once."""

    def __init__(self, connection: Connection, headers: Sequence[BatchHeader]) -> None:
        self._connection, self._headers = connection, headers
        self._members: dict[int, tuple[BatchMember, ...]] = {}

    @property
    def last(self) -> int:
        """The last anchored receipt number, or 0 if there is none."""
        return max((each.first_seq + each.count - 1 for each in self._headers), default=0)

    def place(self, seq: int) -> ProvenReceipt:
        """Returns the leaf with a receipt number and its proof. Raises `RevealRefused` if no batch has the number."""
        header = next((each for each in self._headers if each.first_seq <= seq < each.first_seq + each.count), None)
        if header is None:
            raise RevealRefused(f"receipt {seq}", "no batch has it")
        if header.batch_id not in self._members:
            listed = decode(ReceiptList, self._connection.da.get(header.locator))
            self._members[header.batch_id] = verify_list(self._connection.network.anchor_domain, header, listed)
        member = self._members[header.batch_id][seq - header.first_seq]
        return ProvenReceipt(member.signed, header.batch_id, member.proof)

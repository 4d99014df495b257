"""Attention tests as the chain shows them: the proofs of a reveal, the acts of every account about each test, and real frauds of
the fund's operator."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bytewise.protocol.attention.reveal import AttentionReveal, AttentionTest, verify_reveal
from bytewise.protocol.attention.schedule import AttentionTerms
from bytewise.protocol.attention.score import DrawnAudit, ScoredTest, SettledSeats
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.court.sortition import BEACON_DELAY_BLOCKS, audit_is_drawn, seats_in_audit_draw
from bytewise.protocol.decisions.audits import PostedAudit, results_in
from bytewise.protocol.decisions.snapshot import Dispute
from bytewise.protocol.digests import keccak256
from bytewise.protocol.encoding import MAX_DOCUMENT_BYTES, decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, RevealRefused, TooEarly
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.keys.epochs import EpochState
from bytewise.protocol.records.receipt import BatchHeader
from bytewise.protocol.records.statements import AuditOutcome, Verdict
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Address, Digest
from bytewise.service.files import read_regular_file
from chain.client.rpc import reading_answer
from chain.reads.history import CourtHistory, DisputeOpenedEvent
from chain.reads.reader import SnapshotReader

_MOVES = ("VerifierJoined", "VerifierLeft")

Rerun = Callable[[AttentionTest], bool | None]
"""A function that runs the request of a test again. It returns whether the answer differs, or None if the request cannot be
run."""


class RealFraud(NamedTuple):
    """A conviction of the fund's operator for a receipt that is no revealed test."""

    receipt_id: Digest
    verdict: Verdict


class ScoredRange(NamedTuple):
    """A reveal with all data that the chain has about its tests."""

    terms: AttentionTerms
    drawn: int
    """Number of receipts that the fund's key drew as tests, skipped numbers included."""
    records: tuple[ScoredTest, ...]
    real_frauds: tuple[RealFraud, ...]
    block: int
    """Block at which the chain was read."""


def read_reveal(path: Path) -> AttentionReveal:
    """Reads a reveal from a file. Raises `ConfigurationError` if the file cannot be read, and `RevealRefused` if it is no
    reveal."""
    try:
        content = read_regular_file(path, MAX_DOCUMENT_BYTES)
    except OSError as error:
        raise ConfigurationError(path.name, str(error.strerror)) from None
    try:
        return decode(AttentionReveal, content)
    except Fault as error:
        raise RevealRefused(path.name, error) from None


class JudgedReveals:
    """A cache of the results of `verify_reveal`. Its key is the reveal's content and the roots of the operator's batches.

    Verifying draws the tests of the whole range, which takes seconds for a large range.
    """

    def __init__(self) -> None:
        self._known: dict[Digest, tuple[AttentionTest, ...] | RevealRefused] = {}

    def tests(self, reveal: AttentionReveal, anchor: Domain, headers: Mapping[int, BatchHeader]) -> tuple[AttentionTest, ...]:
        """Returns or raises the result of `verify_reveal`. A reveal that was verified before is not verified again."""
        roots = [each.root for each in headers.values() if each.operator == reveal.terms.operator]
        name = keccak256(b"".join((encode(reveal), *roots)))
        if name not in self._known:
            try:
                self._known[name] = verify_reveal(reveal, anchor, headers)
            except RevealRefused as error:
                self._known[name] = error
        found = self._known[name]
        if isinstance(found, RevealRefused):
            raise found
        return found


def scored_range(
    reader: SnapshotReader, reveal: AttentionReveal, rerun: Rerun | None = None, only: Address | None = None,
    judged: JudgedReveals | None = None,
) -> ScoredRange:  # fmt: skip
    """Verifies a reveal against the chain, and reads what all accounts did about its tests.

    `only` restricts audits and seats to one account, which takes fewer calls. `judged` has the reveals that earlier calls
    verified. Raises `RevealRefused` if the reveal does not prove its tests, and `TooEarly` if the range, a window or a dispute
    is not over.
    """
    head, first = reader.head(), int(reader.network.deploy_block)
    headers = {each.batch_id: each for each in reader.batches(first, head)}
    # Check this before the draw, because the draw takes seconds for a large range.
    verify_anchored(reveal.terms, headers.values())
    tests = (judged or JudgedReveals()).tests(reveal, reader.network.anchor_domain, headers)
    verify_over(reader, reveal.terms, tests, headers.values(), head)
    facts = CourtFacts(reader, tests, first, head)
    audited = AuditDraws(reader, head, only)
    records = tuple(
        ScoredTest(
            test, audited.of(test, headers[test.batch_id], facts.replacement(test)), facts.seats(test, only),
            facts.challenger(test), facts.verdict(test), None if rerun is None else rerun(test),
            audited.is_void(headers[test.batch_id]),
        )
        for test in tests
    )  # fmt: skip
    return ScoredRange(reveal.terms, len(reveal.frauds), records, facts.real_frauds(reveal.terms.operator), head)


def verify_anchored(terms: AttentionTerms, headers: Iterable[BatchHeader]) -> None:
    """Raises `TooEarly` unless the last receipt of the range is anchored."""
    last = max((each.first_seq + each.count - 1 for each in headers if each.operator == terms.operator), default=0)
    if last < terms.last:
        raise TooEarly("the end of the range", f"receipt {terms.last} is anchored", f"receipt {last}")


def verify_over(
    reader: SnapshotReader, terms: AttentionTerms, tests: Sequence[AttentionTest], headers: Iterable[BatchHeader], head: int
) -> None:
    """Raises `TooEarly` unless the whole range is anchored, and the windows of its last batch and of all tests in it are
    over."""
    own = [each for each in headers if each.operator == terms.operator]
    verify_anchored(terms, own)
    clock = reader.snapshot(terms.operator, head).clock
    newest = [each.batch_id for each in own if each.first_seq <= terms.last < each.first_seq + each.count]
    ends = [found[1].window_end for batch in newest for found in [reader.batch(batch, head)] if found is not None]
    ends += [reader.window_end(test.receipt_id, test.batch_id, head) for test in tests]
    if clock <= max(ends, default=0):
        raise TooEarly("the end of all windows", max(ends) + 1, clock)


class CourtFacts:
    """The disputes and votes about tests. Creating it raises `TooEarly` if a dispute about a test has not ended."""

    def __init__(self, reader: SnapshotReader, tests: Sequence[AttentionTest], first: int, head: int) -> None:
        history, names = CourtHistory(reader), {test.receipt_id for test in tests}
        self._reader, self._head, self._names = reader, head, names
        self._opened = history.opened(first, head)
        self._cases = {each.receipt_id: each for each in self._opened if each.receipt_id in names}
        self._ended = {each.dispute: self._final(each) for each in self._cases.values()}
        disputes = {each.dispute for each in self._cases.values()}
        votes = {
            (each.vote.dispute, int(each.vote.round), each.vote.voter): each.vote
            for each in history.openings(first, head)
            if each.vote.dispute in disputes
        }
        self._seats: dict[Digest, list[SettledSeats]] = {}
        for each in history.seats(first, head):
            if each.dispute in disputes:
                vote = votes.get((each.dispute, each.round, each.voter))
                self._seats.setdefault(each.dispute, []).append(SettledSeats(each.voter, vote, each.standing))

    def _final(self, case: DisputeOpenedEvent) -> Dispute:
        found = self._reader.dispute(case.dispute, self._head, case.receipt_id)
        assert found is not None, "its event was read at the same block"
        if found.phase is not Phase.FINAL:
            raise TooEarly(f"the end of dispute 0x{case.dispute.hex()}", "its verdict", found.phase.name)
        return found

    def challenger(self, test: AttentionTest) -> Address | None:
        """Returns the account that disputed a test. Returns None if nobody did."""
        case = self._cases.get(test.receipt_id)
        return None if case is None else case.challenger

    def verdict(self, test: AttentionTest) -> Verdict:
        """Returns the verdict about a test; NONE if nobody disputed it."""
        case = self._cases.get(test.receipt_id)
        return Verdict.NONE if case is None else self._ended[case.dispute].verdict

    def replacement(self, test: AttentionTest) -> Digest | None:
        """Returns the out_hash by which a verdict replaced that of a test. Returns None if there is no such verdict."""
        case = self._cases.get(test.receipt_id)
        found = None if case is None else self._ended[case.dispute]
        return None if found is None or found.verdict is not Verdict.OVERTURNED else found.replacement

    def seats(self, test: AttentionTest, only: Address | None) -> tuple[SettledSeats, ...]:
        """Returns the settled seats of a test's dispute. `only` restricts them to one account."""
        case = self._cases.get(test.receipt_id)
        found = [] if case is None else self._seats.get(case.dispute, [])
        return tuple(each for each in found if only in (None, each.voter))

    def real_frauds(self, operator: Address) -> tuple[RealFraud, ...]:
        """Returns the convictions of the operator for receipts that are no tests."""
        frauds = []
        for each in self._opened:
            if each.operator != operator or each.receipt_id in self._names:
                continue
            found = self._reader.dispute(each.dispute, self._head, each.receipt_id)
            if found is not None and found.phase is Phase.FINAL and found.verdict in CONVICTIONS:
                frauds.append(RealFraud(each.receipt_id, found.verdict))
        return tuple(frauds)


class AuditDraws:
    """The drawn auditors of tests with their posted results. The members and stakes of a batch are read once."""

    def __init__(self, reader: SnapshotReader, head: int, only: Address | None) -> None:
        self._reader, self._head, self._only = reader, head, only
        self._posted: dict[Digest, list[PostedAudit]] = {}
        for post in reader.audits(int(reader.network.deploy_block), head):
            self._posted.setdefault(post.result.receipt_id, []).append(post)
        self._batches: dict[int, _AuditedBatch] = {}
        self._stakes: dict[tuple[int, Address], int] = {}

    def of(self, test: AttentionTest, header: BatchHeader, right: Digest | None = None) -> tuple[DrawnAudit, ...]:
        """Returns the drawn auditors of a test, and the verifiers that posted a result without being drawn.

        `right` is the out_hash of the true answer, or None if it is unknown. If the caller asks about one account, `only`, other
        auditors without a result are left out to save calls. They are included if `only` was drawn and posted nothing, because
        they are needed to judge its silence (`ScoredTest.is_audited`).
        """
        batch = self._batch(header)
        counted = results_in(self._posted.get(test.receipt_id, []), header.batch_id)
        posted = {who: AuditOutcome(each.result) for who, each in counted.items()}
        only = self._only
        if only is None or (only not in posted and self._is_drawn(test, batch, only)):
            asked = batch.members
        else:
            asked = batch.members & {only}
        drawn = sorted(who for who in asked if self._is_drawn(test, batch, who))
        return tuple(
            DrawnAudit(who, posted.get(who), posted.get(who) is AuditOutcome.MISMATCH and self._shows_mismatch(test, who, right))
            for who in (*drawn, *sorted(posted.keys() - set(drawn)))
        )

    def _shows_mismatch(self, test: AttentionTest, who: Address, right: Digest | None) -> bool:
        opened = self._reader.audit_opening(test.receipt_id, who, self._head)
        return opened is not None and opened != (test.receipt.tokens_hash, test.receipt.out_hash) and right in (None, opened[1])

    def is_void(self, header: BatchHeader) -> bool:
        """Returns whether the batch is void, because nobody could read its list."""
        return self._batch(header).is_void

    def _is_drawn(self, test: AttentionTest, batch: "_AuditedBatch", who: Address) -> bool:
        if who not in batch.members:
            return False
        key = (batch.header.batch_id, who)
        if key not in self._stakes:
            self._stakes[key] = self._reader.stake_at(who, batch.header.block, self._head)
        seats = seats_in_audit_draw(self._stakes[key], batch.params.money.audit_unit, is_member=True)
        return audit_is_drawn(batch.beacon, test.receipt_id, who, batch.params.shares.audit_rate_bps, seats)

    def _batch(self, header: BatchHeader) -> "_AuditedBatch":
        """Returns the values of a batch that decide its audits. They are read once."""
        if header.batch_id not in self._batches:
            found = self._reader.batch(header.batch_id, self._head)
            assert found is not None, "its header was read at the same block"
            self._batches[header.batch_id] = _AuditedBatch(
                header, self._reader.block_hash(header.block + BEACON_DELAY_BLOCKS),
                self._reader.params(found[1].params_version, self._head),
                auditors_in_window(self._reader, header, found[1].window_end, self._head), found[1].is_void,
            )  # fmt: skip
        return self._batches[header.batch_id]


class _AuditedBatch(NamedTuple):
    """The values that decide which verifiers audit the receipts of a batch."""

    header: BatchHeader
    beacon: Digest
    params: ParamSet
    members: frozenset[Address]
    is_void: bool


def auditors_in_window(reader: SnapshotReader, header: BatchHeader, window_end: int, head: int) -> frozenset[Address]:
    """Returns the verifiers that could post audits of a batch during its whole challenge window (`Audits.post`).

    They were in the pool of the batch's environment from the batch's block to the end of the window. The set is empty if the
    batch's key epoch was compromised before the window ended. The registry stores only the present pool of an account. So a
    verifier that left after the window is found by its first event after the batch, without state of old blocks, which few nodes
    have.
    """
    pool = reader.pool_of(header.environment, head)
    members = {each.account for each in reader.verifiers(pool, head) if each.may_audit(pool, header.block)}
    end = reader.client.block(head).timestamp - reader.snapshot(header.operator, head).clock + window_end
    if _compromised_by(reader, header, end, head):
        return frozenset()
    seen = set[Address]()
    for log in reader.client.logs("Registry", reader.network.addresses.registry, _MOVES, header.block + 1, head):
        with reading_answer(log.event):
            who, left = Address(log.values["verifier"]), log.event == "VerifierLeft" and Digest(log.values["pool"]) == pool
        # The difference between chain time and protocol clock never shrinks, and `end` has the newest difference. So in a block
        # after `end` the clock was past the end of the window.
        if who not in seen and left and reader.client.block(log.block).timestamp > end:
            members.add(who)
        seen.add(who)
    return frozenset(members)


def _compromised_by(reader: SnapshotReader, header: BatchHeader, end: int, head: int) -> bool:
    """Returns whether the key epoch of a batch was compromised at a time up to `end`. After that, the contract takes no audit of
    the batch."""
    if reader.is_open_for_audits(int(header.key_epoch), head):
        return False
    # Receipts that were signed before a compromise may be anchored after it, so the events of all blocks are read.
    first, epochs = int(reader.network.deploy_block), reader.network.addresses.key_epochs
    for log in reader.client.logs("KeyEpochs", epochs, ("EpochMoved",), first, head):
        with reading_answer(log.event):
            ended = log.values["epoch"] == header.key_epoch and log.values["to"] == EpochState.COMPROMISED
        if ended and reader.client.block(log.block).timestamp <= end:
            return True
    return False

"""Statistics of a period: figures counted by hand on a small chain, bounds of the period, hostile periods, page and CSV."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.keys.release_log import SignedRelease, SignedTicket
from bytewise.protocol.records.statements import Outcome, Release, Ticket, TicketKind, Verdict
from bytewise.protocol.signing import Domain, LocalSigner, typed_digest
from bytewise.protocol.units import U8, U16, U64, U256, ZERO_DIGEST, Address, Digest
from dashboard.release_logs import ReleaseLogShelf
from dashboard.views.network import parameters, statistics
from dashboard.views.period import PeriodStatistics, measures, period_statistics
from dashboard.views.scene import Scene
from tests.fixtures.chain.devnet import SHARDS, VERIFIERS
from tests.fixtures.dashboard.indexed import Indexed, memory_index
from tests.fixtures.dashboard.memory_chain import ACCOUNTS, Made, MemoryChain, audit, digest
from tests.fixtures.dashboard.site import visited

NewDatabase = Callable[[], str]
A, B, ADA, BEN = ACCOUNTS[:4]
ONE, TWO, THREE, FOUR = (digest(number) for number in range(20, 24))
"""Receipts."""
CASE, OTHER_CASE = digest(1), digest(2)
LISTED, SEALED = digest(30), digest(31)
"""Subjects of demands."""
START = 1000
"""Time of the first block, Unix seconds; each later one is twelve seconds younger."""


def batch(number: int, operator: Address, receipts: int) -> Made:
    """A batch is anchored."""
    header = {"firstSeq": 1, "count": receipts, "root": digest(5), "listHash": digest(5), "environment": digest(9),
              "modelId": digest(8), "keyEpoch": 1, "locator": b"eigenda"}  # fmt: skip
    begun = {"paramsVersion": 1, "anchoredAt": 5, "startedAt": 5, "stoppedAtStart": 0}
    printed = {"batchId": number, "operator": operator, "header": header, "batch": begun}
    return "ReceiptAnchor", "BatchAnchored", printed


def shown(receipt: bytes, verifier: Address, out: bytes) -> Made:
    """Its digest is shown."""
    return "Audits", "AuditOpened", {"receiptId": receipt, "verifier": verifier, "outHash": out}


def demand(subject: bytes, kind: int, operator: Address) -> Made:
    """A demand."""
    printed = {"subject": subject, "kind": kind, "operator": operator, "by": BEN, "deadline": 60, "bond": 1}
    return "Demands", "Demanded", printed


def vote(case: bytes, voter: Address, outcome: Outcome) -> Made:
    """A member opens its vote."""
    printed = {"seatMask": 1, "outcome": int(outcome), "code": 0, "tokensHash": ZERO_DIGEST, "traceRoot": ZERO_DIGEST,
            "roundDigest": ZERO_DIGEST, "quoteHash": ZERO_DIGEST}  # fmt: skip
    return "Rounds", "Revealed", {"id": case, "round": 1, "voter": voter, "vote": printed, "quote": b""}


def final(case: bytes, verdict: Verdict) -> list[Made]:
    """A dispute ends."""
    amounts = dict.fromkeys(
        ("bond", "appealBond", "advanced", "slashed", "penalties", "perSeat", "toChallenger", "toAppellant", "toOperator",
         "toVerifiers", "repaid", "burned"), 1)  # fmt: skip
    account = {**amounts, "appellant": Address("0x" + "00" * 20)}
    return [
        ("Disputes", "Finalized", {"id": case, "verdict": int(verdict), "replacement": ZERO_DIGEST}),
        ("Settlement", "Ended", {"id": case, "account": account}),
    ]


def opened(case: bytes, receipt: bytes, operator: Address) -> Made:
    """A dispute."""
    printed = {"id": case, "receiptId": receipt, "operator": operator, "challenger": BEN, "batchId": 1, "altCommit": ZERO_DIGEST}
    return "Disputes", "DisputeOpened", printed


BLOCKS: tuple[list[Made], ...] = (
    [("Registry", "OperatorRegistered", {"operator": A, "endpoint": "a"}),
     ("Registry", "OperatorRegistered", {"operator": B, "endpoint": "b"}), batch(1, A, 10)],
    [audit(ONE, ADA, 1, 1), audit(ONE, BEN, 1, 1), audit(TWO, ADA, 2, 1), audit(TWO, BEN, 1, 1), audit(THREE, ADA, 2, 1),
     audit(FOUR, ADA, 3, 1)],
    [demand(LISTED, 1, A), demand(SEALED, 2, B), batch(2, B, 5)],
    [shown(ONE, ADA, digest(40)), shown(ONE, BEN, digest(40)), opened(CASE, TWO, A), shown(TWO, ADA, digest(41))],
    [("Demands", "Answered", {"subject": LISTED, "kind": 1, "by": A, "answer": b""}), opened(OTHER_CASE, ONE, B)],
    [vote(CASE, ADA, Outcome.EXECUTED), vote(CASE, BEN, Outcome.NO_KEY),
     ("Demands", "Expired", {"subject": SEALED, "kind": 2, "slashed": 7})],
    [*final(CASE, Verdict.OVERTURNED), ("ReceiptAnchor", "BatchVoided", {"batchId": 2}),
     ("Demands", "Skipped", {"operator": B, "seq": 9, "reporter": BEN, "slashed": 1})],
    [("Demands", "Demanded", demand(digest(32), 3, B)[2])],
)  # fmt: skip
"""What happens in block 1, 2, ...; block n has the time START + 12 n."""


@pytest.fixture
def index(new_database: NewDatabase) -> Indexed:
    """An index of the small chain."""
    return memory_index(new_database(), *BLOCKS)


def printed(index: Indexed, since: int | None = None, until: int | None = None, at: int | None = None) -> PeriodStatistics:
    """The statistics of a period."""
    with index.reader.snapshot(at) as snapshot:
        return period_statistics(Scene(snapshot, {}, START, 60, "0"), since, until)


def test_figures_are_those_counted_by_hand(index: Indexed) -> None:
    found = printed(index)
    audits = found.audits
    assert (audits.receipts_anchored, audits.receipts_audited, audits.receipts_audited_twice) == (15, 2, 2)
    assert (audits.coverage_bps, audits.audits, audits.match, audits.mismatch, audits.none) == (1333, 6, 3, 2, 1)
    assert (audits.opened, audits.agreeing, audits.disagreeing) == (3, 1, 1)
    # Nothing shows that THREE and FOUR are in the batch that their posts name, or that they exist.
    assert audits.unconnected == 2
    # Ben found TWO the same, and the committee overturned it; nobody disputed THREE.
    assert (audits.matches_refuted, audits.mismatches_refuted, audits.mismatches_open) == (1, 0, 1)
    a, b = found.operators
    assert (a.operator.account, a.batches, a.receipts, a.disputes, a.convictions, a.undecided) == (A, 1, 10, 1, 1, 0)
    assert (a.demands, a.demands_answered, a.median_answer_s, a.slowest_answer_s) == (1, 1, 24, 24)
    assert (b.receipts, b.void_batches, b.disputes, b.convictions, b.undecided, b.skipped) == (5, 1, 1, 0, 1, 1)
    assert (b.demands, b.demands_expired, b.median_answer_s) == (2, 1, None)
    assert [(each.kind, each.demands, each.answered, each.expired, each.open, each.answered_bps) for each in found.demands] == [
        ("list", 1, 1, 0, 0, 10_000), ("envelope", 1, 0, 1, 0, 0), ("anchor", 1, 0, 0, 1, None),
    ]  # fmt: skip
    # Ben's vote says that it got no key, and Ben did not show what it found of TWO: neither opened anything for sure.
    assert [(each.cause, each.openings, each.receipts) for each in found.openings] == [
        ("light audit", 3, 2), ("vote in round 1", 1, 1),
    ]  # fmt: skip


def test_posts_for_invented_receipts_are_no_audited_receipts(new_database: NewDatabase) -> None:
    """The contract asks for the receipt only when a bounty is claimed: a staked verifier may post any id."""
    chain = MemoryChain(1)
    invented = [digest(number) for number in range(60, 80)]
    chain.add([batch(1, A, 20), *(audit(each, ADA, 1 + place % 3, 1) for place, each in enumerate(invented))])
    chain.add([*(shown(each, ADA, digest(40)) for each in invented), opened(CASE, ONE, A), audit(ONE, BEN, 1, 2)])
    index = Indexed(new_database(), chain)
    index.follow()
    found = printed(index)
    assert (found.audits.audits, found.audits.unconnected) == (21, 21), "ONE is in batch 1, and its post names batch 2"
    assert (found.audits.receipts_audited, found.audits.coverage_bps, found.audits.receipts_audited_twice) == (0, 0, 0)
    assert (found.openings[0].openings, found.openings[0].receipts) == (0, 0)
    paid = {"receiptId": invented[0], "verifier": ADA, "amount": 9}
    chain.add([("Audits", "BountyPaid", paid)])
    index.follow()
    assert (printed(index).audits.unconnected, printed(index).audits.receipts_audited) == (20, 1)


def test_auditors_of_one_result_and_two_digests_disagree(new_database: NewDatabase) -> None:
    posted = [audit(ONE, ADA, 2, 1), audit(ONE, BEN, 2, 1), shown(ONE, ADA, digest(40)), shown(ONE, BEN, digest(41))]
    index = memory_index(new_database(), posted, [opened(CASE, ONE, A)])
    assert (printed(index).audits.agreeing, printed(index).audits.disagreeing) == (0, 1)


def test_a_receipt_without_final_verdict_refutes_nobody(index: Indexed) -> None:
    assert printed(index, at=6).audits.matches_refuted == 0 and printed(index, at=6).operators[0].convictions == 0


@pytest.mark.parametrize(
    ("since", "until", "batches", "audits"),
    [
        (None, START + 12, 0, 0), (None, START + 13, 1, 0), (START + 12, START + 24, 1, 0), (START + 13, None, 1, 6),
        (START + 24, START + 25, 0, 6), (START + 10**6, None, 0, 0), (None, 0, 0, 0),
    ],
)  # fmt: skip
def test_facts_count_in_the_period_in_which_they_began(
    index: Indexed, since: int | None, until: int | None, batches: int, audits: int
) -> None:
    found = printed(index, since, until)
    assert (sum(each.batches for each in found.operators), found.audits.audits) == (batches, audits)
    assert (found.period.first_block is None) == (batches == audits == 0 and (since is not None or until != START + 12))


def test_periods_side_by_side_sum_to_the_whole(index: Indexed) -> None:
    summed = ("audits", "match", "mismatch", "none", "opened", "receipts_anchored", "mismatches_open", "matches_refuted")
    whole = printed(index).audits
    for cut in range(START, START + 12 * len(BLOCKS) + 1, 6):
        parts = printed(index, None, cut).audits, printed(index, cut, None).audits
        for name in summed:
            assert sum(getattr(each, name) for each in parts) == getattr(whole, name), (cut, name)


def test_lines_have_every_figure(index: Indexed) -> None:
    found = printed(index)
    lines = {(line.topic, line.subject, line.measure): line.value for line in measures(found)}
    assert lines["operators", A, "median_answer_s"] == 24 and lines["openings", "light audit", "openings"] == 3
    assert lines["audits", "", "coverage_bps"] == 1333 and lines["demands", "anchor", "answered_bps"] is None


def test_later_settlement_moves_no_conviction_and_no_report(new_database: NewDatabase) -> None:
    again: Made = ("Demands", "Skipped", {"operator": B, "seq": 9, "reporter": BEN, "slashed": 1})
    later = [*[[]] * (86_400 // 12), [("Settlement", "Paid", {"id": CASE}), again], []]
    index = memory_index(new_database(), *BLOCKS, *later)
    with index.reader.snapshot() as snapshot:
        found = statistics(Scene(snapshot, {}, START, 60, "0"))
    assert (found.convictions_24h, found.convictions_30d) == (0, 1)
    assert [each.skipped for each in printed(index, START + 12 * (len(BLOCKS) + 1)).operators] == [0, 0]
    assert [each.skipped for each in printed(index).operators] == [0, 1]


@pytest.mark.parametrize(
    ("votes", "empty_blocks", "state"),
    [
        ([], 3, "voting"), ([(1, 5)], 3, "voting"), ([], 4, "defeated"), ([(0, 5), (1, 5)], 4, "defeated"),
        ([(0, 4), (1, 5)], 4, "ended: accepted if the votes reach the quorum"),
    ],
)  # fmt: skip
def test_vote_that_is_over_is_not_shown_as_running(
    new_database: NewDatabase, votes: list[tuple[int, int]], empty_blocks: int, state: str
) -> None:
    made = {"proposalId": 7, "proposer": A, "targets": [], "calldatas": [], "voteStart": 1, "voteEnd": 5, "description": "more"}
    cast = [{"voter": A, "proposalId": 7, "support": side, "weight": weight} for side, weight in votes]
    voted: list[Made] = [("BytewiseGovernor", "VoteCast", each) for each in cast]
    index = memory_index(new_database(), [("BytewiseGovernor", "ProposalCreated", made)], voted, *[[]] * empty_blocks)
    with index.reader.snapshot() as snapshot:
        (found,) = parameters(Scene(snapshot, {}, START, 60, "0")).proposals
    assert found.state == state


DOMAIN = Domain(U256(31337), Address("0x" + "77" * 20))
"""Of `KeyEpochs`."""
SHARES = SHARDS[:2]


def logged(folder: Path, shard: LocalSigner, decided: Sequence[tuple[int, int, bytes, LocalSigner | None, int]]) -> Path:
    """The copy of a shard's log: time, decision, receipt, voter (None: no ticket), round of the vote (0: an audit)."""
    previous, lines = ZERO_DIGEST, []
    for index, (at, decision, receipt, voter, round_) in enumerate(decided):
        kind = TicketKind.DISPUTE if round_ else TicketKind.AUDIT
        who = voter or VERIFIERS[0]
        ticket = Ticket(
            U8(kind), Digest(receipt), U16(round_), Digest(receipt), who.address, digest(60), digest(61), U64(1), U64(2**40)
        )
        right = SignedTicket(ticket, who.sign(typed_digest(DOMAIN, ticket)))
        record = Release(
            Digest(receipt), typed_digest(DOMAIN, ticket), U64(1), shard.address, who.address, digest(62), digest(60), previous,
            U64(index), U8(decision), U64(at),
        )  # fmt: skip
        previous = typed_digest(DOMAIN, record)
        lines.append(encode(SignedRelease(record, shard.sign(previous), right if voter else None)) + b"\n")
    file = folder / f"releases-1-{shard.address}.jsonl"
    file.write_bytes(b"".join(lines))
    file.with_suffix(".seen").write_text("1700")
    return file


def shelf(folder: Path) -> ReleaseLogShelf:
    """Copies of the logs of two shards."""
    ada, ben = VERIFIERS[:2]
    logged(folder, SHARES[0], [(1010, 1, ONE, ada, 0), (1020, 1, TWO, ada, 1), (1030, 2, TWO, ben, 1), (1090, 1, ONE, ben, 0)])
    logged(folder, SHARES[1], [(1011, 1, ONE, ada, 0), (1021, 1, TWO, ada, 1), (1040, 1, FOUR, None, 0)])
    found = ReleaseLogShelf(folder, DOMAIN)
    found.refresh()
    return found


def test_releases_by_cause_are_those_of_the_shards_logs(index: Indexed, tmp_path: Path) -> None:
    logs = shelf(tmp_path).seen
    with index.reader.snapshot() as snapshot:
        scene = Scene(snapshot, {}, START, 60, "0")
        whole = period_statistics(scene, None, None, logs).releases
        part = period_statistics(scene, 1011, 1090, logs).releases
        none = period_statistics(scene, None, None).releases
    assert none is None and whole is not None and part is not None
    assert [(each.cause, each.openings, each.receipts, each.released, each.refused) for each in whole.causes] == [
        ("light audit", 2, 1, 3, 0), ("vote in round 1", 1, 1, 2, 1), ("without a ticket", 1, 1, 1, 0),
    ]  # fmt: skip
    assert [(each.cause, each.released) for each in part.causes] == [
        ("light audit", 1), ("vote in round 1", 2), ("without a ticket", 1),
    ]  # fmt: skip
    assert whole.source.startswith("copies of 2 release logs") and whole.read_at is not None and whole.read_at.unix == 1700


def test_altered_copy_of_a_log_is_named_and_not_counted(tmp_path: Path) -> None:
    found = shelf(tmp_path)
    before = found.seen
    file = tmp_path / f"releases-1-{SHARES[1].address}.jsonl"
    whole, time = file.read_bytes(), file.with_suffix(".seen")
    copies = [(whole.replace(b'"decision":"1"', b'"decision":"2"', 1), b"1"), (b"{}\n", b"1"), (b"\xff\n", b"1"), (whole, b"x")]
    for altered, read_at in copies:
        file.write_bytes(altered)
        time.write_bytes(read_at)
        found.refresh()
        seen = found.seen
        assert before is not None and seen is not None and seen.version != before.version
        assert (seen.logs, seen.unreadable, len(seen.decisions)) == (1, (file.name,), 4)
    (tmp_path / "releases-x-0x12.jsonl").write_text("no copy")
    (tmp_path / "releases-1-0x12.jsonl").mkdir()
    found.refresh()
    assert found.seen == seen, "files of other names are left alone"
    empty = ReleaseLogShelf(tmp_path / "none", DOMAIN)
    assert empty.seen is None
    empty.refresh()
    assert empty.seen is not None and empty.seen.logs == 0


def test_statistics_say_which_source_a_figure_has(index: Indexed, tmp_path: Path) -> None:
    found = shelf(tmp_path)
    with visited(index.url, START + 12 * len(BLOCKS), found) as made:
        page = made.get("/statistics", params={"block": 3})
        assert "By the shards" in page.text and "copies of 2 release logs on this machine" in page.text
        assert "Source: the chain" in page.text and "immutable" not in page.headers["cache-control"]
        told = made.get("/api/v1/statistics/period").json()["data"]["releases"]["causes"]
        assert [each["released"] for each in told] == [3, 2, 1]
        rows = list(csv.DictReader(io.StringIO(made.get("/statistics.csv").text)))
        assert {"topic": "releases", "subject": "vote in round 1", "measure": "refused", "value": "1"} in rows
        tag = page.headers["etag"]
        assert made.get("/statistics", params={"block": 3}, headers={"if-none-match": tag}).status_code == 304
        (tmp_path / f"releases-1-{SHARES[1].address}.jsonl").unlink()
        found.refresh()
        assert made.get("/statistics", params={"block": 3}, headers={"if-none-match": tag}).status_code == 200


@pytest.fixture
def client(index: Indexed) -> Iterator[httpx2.Client]:
    """A visitor."""
    with visited(index.url, START + 12 * len(BLOCKS)) as made:
        yield made


def test_page_api_and_csv_say_the_same(client: httpx2.Client) -> None:
    query = {"since": "1970-01-01", "until": "1970-01-01T00:17:05Z"}
    page: dict[str, Any] = client.get("/statistics.json", params=query).json()
    data = client.get("/api/v1/statistics/period", params=query).json()["data"]
    rows = list(csv.DictReader(io.StringIO(client.get("/statistics.csv", params=query).text)))
    assert page["statistics"] == data and data["audits"]["audits"] == 6 and data["period"]["until"]["unix"] == START + 25
    printed = [{name: "" if value is None else str(value) for name, value in item.items()} for item in page["items"]]
    assert rows == printed
    html = client.get("/statistics", params=query).text
    assert "2 receipts were audited, counting those whose batch a dispute or a paid bounty shows, and 10 were" in html
    assert "20.0 %" in html and 'value="1970-01-01T00:17:05Z"' in html


def test_last_day_is_whole_and_empty_fields_of_the_form_bound_nothing(client: httpx2.Client) -> None:
    day = client.get("/statistics.json", params={"since": "", "until": "1970-01-01"}).json()["statistics"]
    assert day["audits"]["audits"] == 6 and day["period"]["since"] is None and day["period"]["until"]["unix"] == 86_400
    empty = client.get("/statistics", params={"since": "1970-01-02"})
    assert empty.status_code == 200 and "No event of this period up to block" in empty.text
    assert client.get("/api/v1/statistics/period", params={"until": "9999-12-31"}).status_code == 200, "the latest day"


@pytest.mark.parametrize(
    "query",
    [
        {"since": "2026-02-30"}, {"since": "yesterday"}, {"until": "2026-11-01' or 1=1"},
        {"since": "2026-11-02", "until": "2026-11-01"},
        {"since": "2026-11-01T24:00:00Z"}, {"since": "9999-12-31", "until": "0000-01-01"},
        {"until": "2026-11-01T12:00:00+02:00"},
    ],
)  # fmt: skip
def test_periods_that_no_calendar_has_are_refused(client: httpx2.Client, query: dict[str, str]) -> None:
    answer = client.get("/api/v1/statistics/period", params=query)
    assert answer.status_code == 400 and answer.json()["code"] == "bad_parameter" and answer.json()["detail"]
    assert client.get("/statistics", params=query).status_code == 400

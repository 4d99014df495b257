"""What pages say about a receipt, a batch and a dispute, on a small chain whose events the tests choose."""

from collections.abc import Callable, Sequence

import pytest

from bytewise.protocol.records.receipt import list_subject
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U256, ZERO_DIGEST, Address
from bytewise.storage.index.tables import BatchFact, DisputeFact
from dashboard.monitor import checks
from dashboard.monitor.findings import CheckReport
from dashboard.monitor.observation import MoneySource, Observation
from dashboard.monitor.settings import InvariantSettings
from dashboard.views import disputes, parties
from dashboard.views.records import BatchSummary, DisputeDetail
from dashboard.views.scene import Scene
from tests.fixtures.dashboard.indexed import MEMORY, Indexed
from tests.fixtures.dashboard.memory_chain import ACCOUNTS, PARAMS, TREE, Made, MemoryChain, digest

NewDatabase = Callable[[], str]
OPERATOR, CHALLENGER = ACCOUNTS[:2]
CASE, RECEIPT = digest(1), digest(20)
START = 1000
"""Time of the first block, Unix seconds; each later one is twelve seconds younger."""


def indexed(database: str, *blocks: Sequence[Made]) -> Indexed:
    """An index of a chain with these blocks."""
    chain = MemoryChain(1)
    for made in blocks:
        chain.add(made)
    index = Indexed(database, chain)
    index.follow()
    return index


def opened() -> Made:
    """A dispute."""
    return "Disputes", "DisputeOpened", {"id": CASE, "receiptId": RECEIPT, "operator": OPERATOR, "challenger": CHALLENGER,
                                         "batchId": 1, "altCommit": ZERO_DIGEST}  # fmt: skip


def seeded(round_: int = 1) -> Made:
    """A round begins."""
    return "Disputes", "SeedNamed", {"id": CASE, "round": round_, "level": round_, "seedBlock": 9, "rearms": 0}


def decided(verdict: Verdict, appeal_end: int, airgap_end: int) -> Made:
    """A verdict stands."""
    printed = {"id": CASE, "verdict": int(verdict), "appealEnd": appeal_end, "airgapEnd": airgap_end}
    return "Disputes", "Decided", printed


def final(verdict: Verdict) -> Made:
    """It stands for ever."""
    replacement = digest(40) if verdict is Verdict.OVERTURNED else ZERO_DIGEST
    return "Disputes", "Finalized", {"id": CASE, "verdict": int(verdict), "replacement": replacement}


def appealed() -> Made:
    """A larger committee is asked."""
    return "Disputes", "Appealed", {"id": CASE, "by": CHALLENGER, "bond": 1}


def indexed_detail(index: Indexed) -> DisputeDetail:
    """The dispute as its page shows it."""
    with index.reader.snapshot() as snapshot:
        (row,) = snapshot.all(DisputeFact)
        return disputes.detail(Scene(snapshot, {}, START, 60, "0"), row, {})


def ended(verdict: Verdict) -> list[Made]:
    """Its money is split."""
    names = ("bond", "appealBond", "advanced", "slashed", "penalties", "perSeat", "toChallenger", "toAppellant", "toOperator",
             "toVerifiers", "repaid", "burned")  # fmt: skip
    account = {**dict.fromkeys(names, 1), "appellant": Address("0x" + "00" * 20)}
    return [("Settlement", "Ended", {"id": CASE, "verdict": int(verdict), "account": account})]


# --- a receipt ---


def receipt_page(index: Indexed) -> tuple[str, str]:
    """Level and words of the receipt's page."""
    with index.reader.snapshot() as snapshot:
        found = parties.receipt(Scene(snapshot, {}, START, 60, "0"), RECEIPT)
    assert found is not None
    return found.level, found.words


@pytest.mark.parametrize(
    ("verdict", "level", "words"),
    [
        (Verdict.UPHELD, "upheld", "a committee confirmed it"),
        (Verdict.OVERTURNED, "overturned", "The replaced answer is below"),
        (Verdict.UNAVAILABLE, "overturned", "Do not rely on it"),
        (Verdict.DRAW, "void", "nobody could decide. It is void for ever"),
        (Verdict.REFUNDED, "void", "the guardian ended it and everybody got its money back. It is void for ever"),
    ],
)
def test_receipt_of_an_ended_dispute_is_shown_as_final(
    new_database: NewDatabase, verdict: Verdict, level: str, words: str
) -> None:
    said = receipt_page(indexed(new_database(), [opened(), seeded(), decided(verdict, 0, START + 12)], [final(verdict)]))
    assert said[0] == level and words in said[1] and "Wait" not in said[1]


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ([], "Wait for the verdict"),
        ([decided(Verdict.OVERTURNED, START + 99, START + 999)], "For now the receipt is wrong"),
        ([decided(Verdict.OVERTURNED, START + 99, START + 999)], "An appeal or a refund by the guardian can still change that"),
        ([decided(Verdict.UPHELD, 0, START + 999)], "For now the receipt is right. A refund by the guardian"),
        ([decided(Verdict.INVALID, START + 1, START + 999)], "A refund by the guardian can still change that"),
        ([decided(Verdict.DRAW, 0, START + 999)], "For now nobody could decide. A refund"),
        ([decided(Verdict.UPHELD, START + 99, START + 999), appealed(), seeded(2)], "a larger committee can still change that"),
    ],
)
def test_verdict_before_its_end_is_shown_for_now(new_database: NewDatabase, blocks: list[Made], words: str) -> None:
    level, said = receipt_page(indexed(new_database(), [opened(), seeded(), *blocks]))
    assert level == "disputed" and words in said


# --- a batch ---

WINDOW_S = 100
ENVIRONMENT, POOL = digest(9), digest(7)
RULES_OF_WINDOWS: list[Made] = [
    (
        "Params",
        "ParamsSet",
        {
            "version": 1,
            "hash": digest(5),
            "params": PARAMS
            | {
                "times": {"window": WINDOW_S},
                "committee": {"seats": [3, 5, 0], "tauNum": 2, "tauDen": 3},
            },
        },
    ),
    ("Registry", "PoolAdded", {"pool": POOL, "tree": TREE}),
    ("Registry", "ItemProposed", {"digest": ENVIRONMENT, "pool": POOL, "vectors": digest(5), "document": b"{}"}),
    ("Registry", "OperatorRegistered", {"operator": OPERATOR, "endpoint": "a"}),
]
LIST = list_subject(Domain(U256(MEMORY.chain_id), Address("0x" + "c0" * 20)), 1)


def anchored(at: int, clock: int, number: int = 1) -> Made:
    """A batch of one receipt, at a block's time and the protocol clock's."""
    header = {"firstSeq": number, "count": 1, "root": digest(5), "listHash": digest(5), "environment": ENVIRONMENT,
              "modelId": digest(8), "keyEpoch": 1, "locator": b"eigenda"}  # fmt: skip
    begun = {"paramsVersion": 1, "anchoredAt": at, "startedAt": clock, "stoppedAtStart": 0}
    return "ReceiptAnchor", "BatchAnchored", {"batchId": number, "operator": OPERATOR, "header": header, "batch": begun}


def paused(until: int) -> Made:
    """The guardian stops the clock."""
    return "Guardian", "Paused", {"until": until, "by": CHALLENGER}


def batch_of(index: Indexed) -> BatchSummary:
    """Batch 1 as its page shows it."""
    with index.reader.snapshot() as snapshot:
        (found,) = parties.batches(Scene(snapshot, {}, START, 60, "0"), snapshot.all(BatchFact, id=1))
    return found


@pytest.mark.parametrize(("empty_blocks", "state"), [(8, "open"), (9, "over")])
def test_window_after_a_past_pause_ends_once(new_database: NewDatabase, empty_blocks: int, state: str) -> None:
    blocks = [[*RULES_OF_WINDOWS, paused(START + 50)], [], [], [], [anchored(START + 60, START + 22)]]
    found = batch_of(indexed(new_database(), *blocks, *[[]] * empty_blocks))
    assert (found.window_end.unix, found.anchored_at.unix, found.state) == (START + 60 + WINDOW_S, START + 60, state)


def test_demanded_list_lengthens_the_window_and_is_shown(new_database: NewDatabase) -> None:
    demand = {"subject": LIST, "kind": 1, "operator": OPERATOR, "by": CHALLENGER, "deadline": START + 99, "bond": 1}
    asked: list[list[Made]] = [RULES_OF_WINDOWS, [anchored(START + 24, START + 24)], [("Demands", "Demanded", demand)], []]
    found = batch_of(indexed(new_database(), *asked))
    assert found.list_demanded and found.window_end.unix == START + 24 + WINDOW_S + 12
    answer: list[list[Made]] = [[("Demands", "Answered", {"subject": LIST, "kind": 1, "by": OPERATOR, "answer": b""})], [], []]
    found = batch_of(indexed(new_database(), *asked, *answer))
    assert not found.list_demanded and found.window_end.unix == START + 24 + WINDOW_S + 24


def test_stopped_pool_lengthens_the_window(new_database: NewDatabase) -> None:
    stopped: list[Made] = [anchored(START + 24, START + 24), ("Registry", "PoolStopped", {"pool": POOL, "since": START + 24})]
    blocks = [RULES_OF_WINDOWS, stopped, []]
    assert batch_of(indexed(new_database(), *blocks)).window_end.unix == START + 24 + WINDOW_S + 12
    resumed: list[Made] = [("Registry", "PoolResumed", {"pool": POOL, "stopped": 24})]
    assert batch_of(indexed(new_database(), *blocks, resumed, [], [])).window_end.unix == START + 24 + WINDOW_S + 24


def test_silence_after_a_past_pause_is_found(new_database: NewDatabase) -> None:
    batches = [[anchored(START + 12 * block, START + 12 * block - 600, block - 51)] for block in (52, 53, 54)]
    blocks = [[*RULES_OF_WINDOWS, paused(START + 612)], *[[]] * 50, *batches, *[[]] * 10]
    report = CheckReport()
    with indexed(new_database(), *blocks).reader.snapshot() as snapshot:
        scene, limits = Scene(snapshot, {}, START, 60, "0"), InvariantSettings(silent_s=60)
        checks.batches_follow(Observation(scene, None, MoneySource((), (), ""), (), limits), report)  # type: ignore[arg-type]
    assert [each.text for each in report.findings] == ["no batch for 120 s; its longest recent gap was 12 s"]


# --- acts of a dispute ---

MEMBERS = ACCOUNTS[2:5]
"""Holders of the seats 0, 1 and 2 of each round."""
COURT: list[Made] = [
    *RULES_OF_WINDOWS,
    *(("StakeTree", "UnitsSet", {"account": each, "place": place, "epoch": 1, "stake": 1, "units": 3})
      for place, each in enumerate(MEMBERS)), anchored(START + 12, START + 12), opened(), seeded(),
]  # fmt: skip
COMMIT_END, REVEAL_END = START + 20, START + 500


def seated(commit_end: int = COMMIT_END) -> list[Made]:
    """Each member has one seat, and may commit until then."""
    ends = {"commitEnd": commit_end, "revealEnd": REVEAL_END}
    return [
        ("Disputes", "SeatsDrawn", {"id": CASE, "round": 1, "from": 0, "places": (0, 1, 2)}),
        ("Disputes", "CommitOpened", {"id": CASE, "round": 1, "seed": CASE, "roundSeed": CASE, **ends}),
    ]


def committed(seat: int) -> Made:
    """A member commits on the chain."""
    return "Rounds", "Committed", {"id": CASE, "round": 1, "voter": MEMBERS[seat], "seatMask": 1 << seat, "commitment": CASE}


def rooted() -> Made:
    """A member posts a commit root."""
    return "Rounds", "CommitRootPosted", {"id": CASE, "round": 1, "root": CASE, "by": MEMBERS[0]}


def revealed(seat: int, outcome: Outcome, tokens: bytes = ZERO_DIGEST, code: int = 0) -> Made:
    """A member opens its vote."""
    vote = {"seatMask": 1 << seat, "outcome": int(outcome), "code": code, "tokensHash": tokens, "traceRoot": tokens,
            "roundDigest": ZERO_DIGEST, "quoteHash": ZERO_DIGEST}  # fmt: skip
    return "Rounds", "Revealed", {"id": CASE, "round": 1, "voter": MEMBERS[seat], "vote": vote, "quote": b""}


def allowed_acts(index: Indexed) -> dict[str, bool]:
    """Whether each act is allowed now, by its title."""
    return {each.title: each.allowed_now for each in indexed_detail(index).acts}


@pytest.mark.parametrize(
    ("root", "revealing", "counts"), [([], 2, True), ([], 1, False), ([rooted()], 2, False), ([rooted()], 3, True)]
)
def test_seats_under_a_root_may_still_open(new_database: NewDatabase, root: list[Made], revealing: int, counts: bool) -> None:
    opening = [revealed(seat, Outcome.NO_KEY) for seat in range(revealing)]
    acts = allowed_acts(indexed(new_database(), COURT, [*seated(), committed(0), committed(1), *root], [], opening))
    assert acts == {"Open a vote": not counts, "Count the seats": counts}


@pytest.mark.parametrize(
    ("made", "acts"),
    [
        ([], {"Draw seats": True, "Name another seed": False}),
        (seated(START + 400), {"Commit": False}),
        ([decided(Verdict.OVERTURNED, START + 199, START + 999)], {"Appeal": True, "Show that the challenger knew": True}),
        ([decided(Verdict.OVERTURNED, 0, START + 9)], {"Finish": False}),
        ([decided(Verdict.OVERTURNED, 0, START + 199)], {"Finish": False, "Show that the challenger knew": True}),
        ([decided(Verdict.UPHELD, 0, START + 9), final(Verdict.UPHELD), *ended(Verdict.UPHELD)], {"Pay bonds and shares": True}),
    ],
)
def test_pause_stops_the_acts_that_the_contract_stops(new_database: NewDatabase, made: list[Made], acts: dict[str, bool]) -> None:
    index = indexed(new_database(), COURT, *[[]] * 9, [*made, paused(START + 10_000)])
    assert allowed_acts(index) == acts


@pytest.mark.parametrize(
    ("verdict", "promised"),
    [(Verdict.OVERTURNED, True), (Verdict.INVALID, True), (Verdict.UNAVAILABLE, False)],
)
def test_share_of_the_slash_is_promised_for_a_found_fault(new_database: NewDatabase, verdict: Verdict, promised: bool) -> None:
    database, before = new_database(), [COURT, [decided(verdict, START + 99, START + 999)]]
    assert ("Show that the challenger knew" in allowed_acts(indexed(database, *before))) == promised
    knowing: list[Made] = [("Disputes", "AltOpened", {"id": CASE, "challenger": CHALLENGER})]
    why = " ".join(indexed_detail(indexed(new_database(), *before, knowing)).why)
    assert "had committed to" in why and ("share of the slash if the verdict stays" in why) == promised
    ending = " ".join(indexed_detail(indexed(new_database(), *before, knowing, [final(verdict)])).why)
    assert ("it gets its share of the slash." in ending) == promised
    refunded = " ".join(indexed_detail(indexed(new_database(), *before, knowing, [final(Verdict.REFUNDED)])).why)
    assert "had committed to" in refunded and "share of the slash" not in refunded

"""What pages say about a receipt, a batch and a dispute, on a small chain whose events the tests choose."""

import sys
from collections.abc import Callable, Sequence

import pytest

from bytewise.protocol.court.settlement import SeatOutcome
from bytewise.protocol.court.tally import key_of
from bytewise.protocol.digests import out_hash
from bytewise.protocol.records.receipt import list_subject
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U256, ZERO_DIGEST, Address, Digest
from bytewise.storage.index.tables import BatchFact, DisputeFact, OperatorFact, VerifierFact
from dashboard.monitor import checks
from dashboard.monitor.findings import CheckReport
from dashboard.monitor.observation import MoneySource, Observation
from dashboard.monitor.settings import InvariantSettings
from dashboard.views import disputes, parties
from dashboard.views.records import BatchSummary, DisputeDetail, MemberVote
from dashboard.views.scene import Scene
from tests.fixtures.dashboard.indexed import MEMORY, Indexed, memory_index
from tests.fixtures.dashboard.memory_chain import ACCOUNTS, PARAMS, TREE, Made, audit, digest
from tests.fixtures.dashboard.site import visited

NewDatabase = Callable[[], str]
OPERATOR, CHALLENGER = ACCOUNTS[:2]
CASE, RECEIPT = digest(1), digest(20)
START = 1000
"""Time of the first block, Unix seconds; each later one is twelve seconds younger."""


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


def findings(index: Indexed, check: Callable[[Observation, CheckReport], None]) -> list[str]:
    """What a check of the monitor finds."""
    report = CheckReport()
    with index.reader.snapshot() as snapshot:
        scene, limits = Scene(snapshot, {}, START, 60, "0"), InvariantSettings(silent_s=60)
        check(Observation(scene, None, MoneySource((), (), ""), (), limits), report)  # type: ignore[arg-type]
    return [each.text for each in report.findings]


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
    said = receipt_page(memory_index(new_database(), [opened(), seeded(), decided(verdict, 0, START + 12)], [final(verdict)]))
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
    level, said = receipt_page(memory_index(new_database(), [opened(), seeded(), *blocks]))
    assert level == "disputed" and words in said


# --- a batch ---

WINDOW_S = 100
ENVIRONMENT, POOL = digest(9), digest(7)
WINDOWS = PARAMS | {"times": {"window": WINDOW_S}, "committee": {"seats": [3, 5, 0], "tauNum": 2, "tauDen": 3}}
RULES_OF_WINDOWS: list[Made] = [
    ("Params", "ParamsSet", {"version": 1, "hash": digest(5), "params": WINDOWS}),
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
    found = batch_of(memory_index(new_database(), *blocks, *[[]] * empty_blocks))
    assert (found.window_end.unix, found.anchored_at.unix, found.state) == (START + 60 + WINDOW_S, START + 60, state)


@pytest.mark.parametrize(("until", "ended"), [(START + 300, False), (START + 300, True), (START + 10_000, False)])
def test_later_pause_moves_no_past_deadline(new_database: NewDatabase, until: int, ended: bool) -> None:
    """The window began after one pause and was over before the next one."""
    begun = [[*RULES_OF_WINDOWS, paused(START + 50)], [], [], [], [anchored(START + 60, START + 22)], *[[]] * 12]
    over: list[list[Made]] = [[paused(until)], *[[("Guardian", "Unpaused", {"stopped": 50, "by": CHALLENGER})]] * ended, []]
    assert batch_of(memory_index(new_database(), *begun, *over)).window_end.unix == START + 60 + WINDOW_S


def test_deadline_in_a_pause_is_after_its_end(new_database: NewDatabase) -> None:
    begun = [[*RULES_OF_WINDOWS, paused(START + 50)], [], [], [], [anchored(START + 60, START + 22)], [paused(START + 500)]]
    index = memory_index(new_database(), *begun)
    assert batch_of(index).window_end.unix == START + 500 + WINDOW_S - 12, "a block more changes nothing:"
    later = batch_of(memory_index(new_database(), *begun, [], []))
    assert later.window_end.unix == START + 500 + WINDOW_S - 12
    assert (
        batch_of(memory_index(new_database(), *begun, [("Guardian", "Unpaused", {"stopped": 50})])).window_end.unix == START + 172
    )


def test_demanded_list_lengthens_the_window_and_is_shown(new_database: NewDatabase) -> None:
    demand = {"subject": LIST, "kind": 1, "operator": OPERATOR, "by": CHALLENGER, "deadline": START + 99, "bond": 1}
    asked: list[list[Made]] = [RULES_OF_WINDOWS, [anchored(START + 24, START + 24)], [("Demands", "Demanded", demand)], []]
    found = batch_of(memory_index(new_database(), *asked))
    assert found.list_demanded and found.window_end.unix == START + 24 + WINDOW_S + 12
    answer: list[list[Made]] = [[("Demands", "Answered", {"subject": LIST, "kind": 1, "by": OPERATOR, "answer": b""})], [], []]
    found = batch_of(memory_index(new_database(), *asked, *answer))
    assert not found.list_demanded and found.window_end.unix == START + 24 + WINDOW_S + 24


def test_stopped_pool_lengthens_the_window(new_database: NewDatabase) -> None:
    stopped: list[Made] = [anchored(START + 24, START + 24), ("Registry", "PoolStopped", {"pool": POOL, "since": START + 24})]
    blocks = [RULES_OF_WINDOWS, stopped, []]
    assert batch_of(memory_index(new_database(), *blocks)).window_end.unix == START + 24 + WINDOW_S + 12
    resumed: list[Made] = [("Registry", "PoolResumed", {"pool": POOL, "stopped": 24})]
    assert batch_of(memory_index(new_database(), *blocks, resumed, [], [])).window_end.unix == START + 24 + WINDOW_S + 24


def test_silence_after_a_past_pause_is_found(new_database: NewDatabase) -> None:
    batches = [[anchored(START + 12 * block, START + 12 * block - 600, block - 51)] for block in (52, 53, 54)]
    stake = "StakeVault", "Deposited", {"account": OPERATOR, "amount": 9, "stake": 9}
    blocks = [[*RULES_OF_WINDOWS, stake, paused(START + 612)], *[[]] * 50, *batches, *[[]] * 10]
    found = findings(memory_index(new_database(), *blocks), checks.batches_follow)
    assert found == ["no batch for 120 s; the longest gap before it was 12 s"]


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


def revealed(seat: int, outcome: Outcome, tokens: bytes = ZERO_DIGEST, code: int = 0, steps: bytes = ZERO_DIGEST) -> Made:
    """A member opens its vote. `steps`: its round digest."""
    vote = {"seatMask": 1 << seat, "outcome": int(outcome), "code": code, "tokensHash": tokens, "traceRoot": tokens,
            "roundDigest": steps, "quoteHash": ZERO_DIGEST}  # fmt: skip
    return "Rounds", "Revealed", {"id": CASE, "round": 1, "voter": MEMBERS[seat], "vote": vote, "quote": b""}


def allowed_acts(index: Indexed) -> dict[str, bool]:
    """Whether each act is allowed now, by its title."""
    return {each.title: each.allowed_now for each in indexed_detail(index).acts}


@pytest.mark.parametrize(
    ("root", "revealing", "counts"), [([], 2, True), ([], 1, False), ([rooted()], 2, False), ([rooted()], 3, True)]
)
def test_seats_under_a_root_may_still_open(new_database: NewDatabase, root: list[Made], revealing: int, counts: bool) -> None:
    opening = [revealed(seat, Outcome.NO_KEY) for seat in range(revealing)]
    acts = allowed_acts(memory_index(new_database(), COURT, [*seated(), committed(0), committed(1), *root], [], opening))
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
    index = memory_index(new_database(), COURT, *[[]] * 9, [*made, paused(START + 10_000)])
    assert allowed_acts(index) == acts


@pytest.mark.parametrize(
    ("verdict", "promised"), [(Verdict.OVERTURNED, True), (Verdict.INVALID, True), (Verdict.UNAVAILABLE, False)]
)
def test_share_of_the_slash_is_promised_for_a_found_fault(new_database: NewDatabase, verdict: Verdict, promised: bool) -> None:
    database, before = new_database(), [COURT, [decided(verdict, START + 99, START + 999)]]
    assert ("Show that the challenger knew" in allowed_acts(memory_index(database, *before))) == promised
    knowing: list[Made] = [("Disputes", "AltOpened", {"id": CASE, "challenger": CHALLENGER})]
    why = " ".join(indexed_detail(memory_index(new_database(), *before, knowing)).why)
    assert "had committed to" in why and ("share of the slash if the verdict stays" in why) == promised
    ending = " ".join(indexed_detail(memory_index(new_database(), *before, knowing, [final(verdict)])).why)
    assert ("it gets its share of the slash." in ending) == promised
    refunded = " ".join(indexed_detail(memory_index(new_database(), *before, knowing, [final(Verdict.REFUNDED)])).why)
    assert "had committed to" in refunded and "share of the slash" not in refunded


# --- finality and periods of facts ---


def with_final_registration(database: str, *later: Sequence[Made]) -> Indexed:
    """An operator, a verifier, a batch and a dispute in final blocks, and later blocks that are not."""
    joined = {"verifier": MEMBERS[0], "pool": POOL, "platformId": digest(5), "measurement": digest(6)}
    return memory_index(database, [*COURT, *seated(), ("Registry", "VerifierJoined", joined)], *[[]] * 70, *later)


def shown_finality(index: Indexed) -> dict[str, str]:
    """Finality of the operator, the verifier, the batch and the receipt, as their pages show it."""
    with index.reader.snapshot() as snapshot:
        scene = Scene(snapshot, {}, START, 60, "0")
        (operator,) = parties.operators(scene, snapshot.all(OperatorFact))
        (verifier,) = parties.verifiers(scene, snapshot.all(VerifierFact))
        (batch,) = parties.batches(scene, snapshot.all(BatchFact))
        receipt = parties.receipt(scene, RECEIPT)
        assert receipt is not None
        states = operator.finality, verifier.finality, batch.finality, receipt.finality
        return dict(zip(("operator", "verifier", "batch", "receipt"), map(str, states), strict=True))


SETTLED = {"id": CASE, "round": 1, "from": 0, "perSeat": 1, "holders": MEMBERS, "standings": bytes((1, 1, 1)), "charges": ()}


@pytest.mark.parametrize(
    ("made", "pending"),
    [
        ([], []),
        ([decided(Verdict.INVALID, 0, START + 9), final(Verdict.INVALID), *ended(Verdict.INVALID)], ["operator", "receipt"]),
        ([("Settlement", "SeatsSettled", SETTLED)], ["verifier"]),
        ([("Ledger", "Credited", {"account": MEMBERS[0], "amount": 1, "reason": 3, "ref": CASE, "unlockAt": 9})], ["verifier"]),
        ([audit(digest(60), MEMBERS[0], 2)], ["verifier"]),
        ([("StakeTree", "UnitsSet", {"account": MEMBERS[1], "place": 1, "epoch": 2, "stake": 9, "units": 9})], ["verifier"]),
        ([("StakeVault", "Slashed", {"account": OPERATOR, "ref": digest(2), "want": 1, "taken": 1})], ["operator"]),
        ([("ReceiptAnchor", "BatchVoided", {"batchId": 1})], ["batch", "operator", "receipt"]),
        ([("Demands", "Demanded", {"subject": LIST, "kind": 1, "operator": OPERATOR, "by": CHALLENGER, "deadline": START + 9999,
                                   "bond": 1})], ["batch", "operator"]),
    ],
)  # fmt: skip
def test_record_is_as_final_as_its_newest_fact(new_database: NewDatabase, made: list[Made], pending: list[str]) -> None:
    index = with_final_registration(new_database(), made)
    found = shown_finality(index)
    assert sorted(name for name, state in found.items() if state == "pending") == pending
    assert {state for name, state in found.items() if name not in pending} <= {"finalized"}


def test_pages_of_operator_and_verifier_show_finality(new_database: NewDatabase) -> None:
    end = [decided(Verdict.INVALID, 0, START + 9), final(Verdict.INVALID), *ended(Verdict.INVALID)]
    index = with_final_registration(new_database(), end)
    with visited(index.url, START) as visitor:
        operator = visitor.get(f"/operators/{OPERATOR}").text
        assert 'This is <span class="finality pending">pending</span>' in operator and "Convicted 1 time." in operator
        assert 'This is <span class="finality finalized">finalized</span>' in visitor.get(f"/verifiers/{MEMBERS[0]}").text
        assert "Operators and committee members lost " in visitor.get("/").text


@pytest.mark.parametrize("document", [b"[" * 90_000, b'{"name":' * 90_000, ('["\u0122",' + "[" * 90_000).encode("utf-16")])
def test_deeply_nested_model_document_has_no_title(new_database: NewDatabase, document: bytes) -> None:
    """Anybody may propose a model. A library of the chain client raises the recursion limit, as in a dashboard."""
    assert sys.getrecursionlimit() >= 100_000
    proposed = {"digest": digest(8), "pool": ZERO_DIGEST, "vectors": ZERO_DIGEST, "document": document}
    index = memory_index(new_database(), [("Registry", "ItemProposed", proposed)])
    with visited(index.url, START) as visitor:
        assert visitor.get("/models").status_code == 200
        (item,) = visitor.get("/api/v1/models").json()["items"]
    assert item["title"] == ""


@pytest.mark.parametrize(
    ("later", "words"),
    [
        ([], "a larger committee decides anew."), ([seeded(2)], "a larger committee decides anew."),
        ([seeded(2), decided(Verdict.UPHELD, 0, START + 999)], "a larger committee decided anew."),
        ([final(Verdict.REFUNDED)], "appealed the verdict overturned."),
    ],
)  # fmt: skip
def test_appeal_is_said_to_be_decided_once_it_is(new_database: NewDatabase, later: list[Made], words: str) -> None:
    index = memory_index(new_database(), COURT, [decided(Verdict.OVERTURNED, START + 99, START + 999), appealed(), *later])
    assert indexed_detail(index).why[-1].endswith(words)


# --- votes of a dispute ---

TRUE, OTHER = digest(50), digest(51)
"""Tokens of the answer that the operator signed, and of another."""


def counted(verdict: Verdict, fault: tuple[Outcome, int, bytes] | None = None, **tally: int) -> Made:
    """The round is counted. `fault`: outcome, code and tokens of the largest group that contradicts the receipt."""
    out = out_hash(Digest(fault[2]), Digest(fault[2])) if fault and fault[0] is Outcome.EXECUTED else ZERO_DIGEST
    printed: dict[str, object] = {
        **dict.fromkeys(("equal", "lead", "unavailable", "noKey", "cannotExecute", "notRevealed", "absent", "leadVerdict"), 0),
        "leadKey": key_of(fault[0], fault[1], out) if fault else ZERO_DIGEST, "leadOutHash": out, **tally,
    }  # fmt: skip
    return "Disputes", "Settled", {"id": CASE, "round": 1, "verdict": int(verdict), "tally": printed}


def settled(*standings: SeatOutcome) -> Made:
    """All seats are paid or charged."""
    return "Settlement", "SeatsSettled", {"id": CASE, "round": 1, "from": 0, "perSeat": 1, "holders": MEMBERS, "charges": (),
                                          "standings": bytes(standings)}  # fmt: skip


def played(database: str, *made: Made) -> Indexed:
    """All members committed, and then this happened."""
    return memory_index(database, COURT, [*seated(), *(committed(seat) for seat in range(3))], [], made)


def members(index: Indexed) -> list[MemberVote]:
    """Members of the round by seat."""
    return sorted(indexed_detail(index).rounds[0].members, key=lambda each: each.seat_numbers)


EXECUTED, INVALID, UNAVAILABLE = Outcome.EXECUTED, Outcome.INVALID, Outcome.UNAVAILABLE


@pytest.mark.parametrize(
    ("votes", "verdict", "agree"),
    [
        ([revealed(0, UNAVAILABLE), revealed(1, EXECUTED, OTHER), revealed(2, Outcome.NO_KEY),
          counted(Verdict.UNAVAILABLE, (EXECUTED, 0, OTHER), lead=1, unavailable=1, noKey=1)], "mixed", [True, True, None]),
        ([revealed(0, UNAVAILABLE), revealed(1, UNAVAILABLE), revealed(2, EXECUTED, OTHER),
          counted(Verdict.UNAVAILABLE, (EXECUTED, 0, OTHER), lead=1, unavailable=2)], "withheld", [True, True, False]),
        ([revealed(0, INVALID, code=5), revealed(1, INVALID, code=5), revealed(2, INVALID, code=6),
          counted(Verdict.INVALID, (INVALID, 5, ZERO_DIGEST), lead=2)], "another defect", [True, True, False]),
        ([revealed(0, EXECUTED, OTHER), revealed(1, EXECUTED, OTHER), revealed(2, EXECUTED, OTHER, steps=OTHER),
          counted(Verdict.OVERTURNED, (EXECUTED, 0, OTHER), lead=2)], "another round digest", [True, True, False]),
        ([revealed(0, EXECUTED, TRUE), revealed(1, EXECUTED, TRUE), revealed(2, EXECUTED, TRUE, steps=OTHER),
          counted(Verdict.UPHELD, equal=2)], "the same, upheld", [True, True, False]),
        ([revealed(0, EXECUTED, TRUE), revealed(1, EXECUTED, TRUE), revealed(2, Outcome.CANNOT_EXECUTE, code=1),
          counted(Verdict.UPHELD, equal=2, cannotExecute=1)], "no finding", [True, True, None]),
    ],
)  # fmt: skip
def test_vote_is_with_the_verdict_as_the_court_counts_it(
    new_database: NewDatabase, votes: list[Made], verdict: str, agree: list[bool | None]
) -> None:
    index = played(new_database(), *votes)
    assert [each.agrees for each in members(index)] == agree, verdict
    assert len(findings(index, checks.votes_agree)) == agree.count(False)


def test_settled_seat_is_with_the_verdict_that_paid_it(new_database: NewDatabase) -> None:
    votes = [revealed(seat, EXECUTED, TRUE) for seat in range(3)]
    after = settled(SeatOutcome.WRONG, SeatOutcome.WRONG, SeatOutcome.RIGHT)
    index = played(new_database(), *votes, counted(Verdict.UPHELD, equal=3), after)
    assert [(each.agrees, each.agrees_with_round) for each in members(index)] == [(False, True), (False, True), (True, True)]
    assert findings(index, checks.votes_agree) == []
    calm = settled(SeatOutcome.WORKED, SeatOutcome.WORKED, SeatOutcome.NEUTRAL)
    assert {each.agrees for each in members(played(new_database(), *votes, counted(Verdict.UPHELD, equal=3), calm))} == {None}


@pytest.mark.parametrize(
    ("root", "did", "line", "finding"),
    [
        ([], ["did not commit", "did not reveal", "revealed"], "did not commit", "did not commit"),
        ([rooted()], ["did not reveal", "did not reveal", "revealed"], "did not reveal", "did not reveal under the commit root"),
    ],
)
def test_silent_seat_under_a_root_did_not_reveal(
    new_database: NewDatabase, root: list[Made], did: list[str], line: str, finding: str
) -> None:
    before: list[Made] = [*seated(), committed(1), committed(2), *root]
    counting = [revealed(2, EXECUTED, TRUE), counted(Verdict.NONE, equal=1, notRevealed=1, absent=1)]
    index = memory_index(new_database(), COURT, before, [], counting)
    assert [each.did for each in members(index)] == did
    tally = {each.label: each.seats for each in indexed_detail(index).rounds[0].tally}
    assert tally[line] == (2 if root else 1) and sum(tally.values()) == 3
    found = findings(index, checks.members_present)
    assert [each.split(") ")[1] for each in found] == [finding, "committed and did not reveal"]


def test_seats_that_may_still_open_have_not_voted(new_database: NewDatabase) -> None:
    index = memory_index(new_database(), COURT, [*seated(), committed(1), rooted()], [], [revealed(1, EXECUTED, TRUE)])
    assert [each.did for each in members(index)] == ["pending", "revealed", "pending"]
    silent = memory_index(new_database(), COURT, [*seated(), committed(1)], [], [])
    assert "So far 0 seats have voted" in " ".join(indexed_detail(silent).why)

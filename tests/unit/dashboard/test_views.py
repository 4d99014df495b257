"""What pages say about a receipt, a batch and a dispute, on a small chain whose events the tests choose."""

from collections.abc import Callable, Sequence

import pytest

from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import ZERO_DIGEST
from dashboard.views import parties
from dashboard.views.scene import Scene
from tests.fixtures.dashboard.indexed import Indexed
from tests.fixtures.dashboard.memory_chain import ACCOUNTS, Made, MemoryChain, digest

NewDatabase = Callable[[], str]
Told = Callable[[Scene], object]
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


# --- a receipt ---


def told(index: Indexed) -> tuple[str, str]:
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
def test_receipt_of_an_ended_dispute_is_told_as_final(
    new_database: NewDatabase, verdict: Verdict, level: str, words: str
) -> None:
    said = told(indexed(new_database(), [opened(), seeded(), decided(verdict, 0, START + 12)], [final(verdict)]))
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
def test_verdict_before_its_end_is_told_for_now(new_database: NewDatabase, blocks: list[Made], words: str) -> None:
    level, said = told(indexed(new_database(), [opened(), seeded(), *blocks]))
    assert level == "disputed" and words in said

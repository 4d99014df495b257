"""Posted results that `bytewise verify` counts, and the label that they give: those for the receipt's own batch."""

from types import SimpleNamespace
from typing import Any

import pytest

from bytewise.protocol.assurance import HARDWARE, SIMULATED
from bytewise.protocol.decisions.audits import AuditStage, PostedAudit
from bytewise.protocol.records.statements import AuditOutcome, AuditResult
from bytewise.protocol.units import U8, U64, ZERO_DIGEST, Address, Blob, Digest
from bytewise_client.checks import Standing, chain_standing, conclude
from bytewise_client.labels import Labels
from bytewise_client.receipt_search import Found, Search
from tests.fixtures.builders import World, signer
from tests.fixtures.snapshot_builders import word
from verifier.watch.batch_check import CheckedReceipt

WORLD = World()
FRIEND, OTHER = signer("friend").address, signer("other").address
MATCH, MISMATCH = AuditOutcome.MATCH, AuditOutcome.MISMATCH


class AuditChain:
    """A chain with batches 0 and 1, sealed to epochs of two labels, and posted results about one receipt."""

    def __init__(
        self, *posts: tuple[Address, int, AuditOutcome], paid: Address | None = None,
        labels: tuple[str, str] = (SIMULATED, HARDWARE),
    ) -> None:  # fmt: skip
        self.network = SimpleNamespace(deploy_block=0)
        self.reader = self.history = self
        self.posts, self.paid, self.labels = posts, paid, labels
        self.receipt = word("receipt")

    def opened(self, first: int, head: int) -> tuple[()]:
        return ()

    def batches(self, first: int, head: int) -> tuple[Any, ...]:
        return tuple(SimpleNamespace(batch_id=each, key_epoch=each + 1) for each in range(2))

    def epoch_on_chain(self, epoch: int, head: int) -> Any:
        return SimpleNamespace(assurance=self.labels[epoch - 1])

    def verify_final(self, *of: object) -> None:
        """Every receipt is final."""

    def audits(self, first: int, head: int) -> list[PostedAudit]:
        results = [(AuditResult(self.receipt, who, U8(said), ZERO_DIGEST, U64(1)), batch) for who, batch, said in self.posts]
        return [PostedAudit(result, Blob(b""), batch) for result, batch in results]

    def audit_stage(self, receipt: Digest, batch_id: int, verifier: Address, head: int) -> AuditStage:
        (*_, named) = [batch for who, batch, _ in self.posts if who == verifier]
        if named != batch_id:
            return AuditStage.NOTHING
        return AuditStage.PAID if verifier == self.paid else AuditStage.POSTED

    def standing(self, is_found: bool = True) -> Standing:
        """The state of the receipt, which is in batch 0."""
        header, listed = WORLD.batch((WORLD.sign(WORLD.receipt(1, request := WORLD.request(1), WORLD.engine.generate(request))),))
        found = Found(header, CheckedReceipt(self.receipt, listed.entries[0], (), None), WORLD.environment, 9)  # type: ignore[arg-type]
        return chain_standing(self, Search(found if is_found else None, (), (), 9), self.receipt)  # type: ignore[arg-type]


def test_results_of_one_verifier_count_once_and_the_last_counts() -> None:
    repeated = AuditChain(*[(FRIEND, 0, MATCH)] * 5).standing()
    assert repeated.audits == {"match": 1, "mismatch": 0, "none": 0}
    assert conclude([], repeated, None, None).reason.startswith("1 drawn auditors")
    changed = AuditChain((FRIEND, 0, MATCH), (OTHER, 0, MATCH), (FRIEND, 0, MISMATCH)).standing()
    assert changed.audits == {"match": 1, "mismatch": 1, "none": 0}


def test_results_for_another_batch_audit_no_receipt() -> None:
    lied = AuditChain((FRIEND, 1, MATCH), (OTHER, 1, MATCH)).standing()
    assert lied.audits == {"match": 0, "mismatch": 0, "none": 0}
    assert conclude([], lied, None, None).word == "INCONCLUSIVE"
    doubted = AuditChain((OTHER, 0, MATCH), (FRIEND, 1, MISMATCH)).standing()
    assert conclude([], doubted, None, None).word == "AUDITED", "nor doubts it"


def test_auditors_of_an_unknown_batch_are_not_called_drawn() -> None:
    unknown = AuditChain((FRIEND, 1, MATCH)).standing(is_found=False)
    end = conclude([], unknown, None, None)
    assert (end.word, end.exit) == ("INCONCLUSIVE", 3) and "drawn auditors" not in end.reason and "1 match" in end.reason


@pytest.mark.parametrize(
    ("chain", "label"),
    [
        (AuditChain((FRIEND, 1, MATCH)), ""),
        (AuditChain((FRIEND, 0, MATCH)), SIMULATED),
        (AuditChain((FRIEND, 1, MATCH), (OTHER, 0, MATCH)), SIMULATED),
        (AuditChain((OTHER, 0, MATCH), (FRIEND, 1, MATCH)), SIMULATED),
        (AuditChain((FRIEND, 1, MATCH), (OTHER, 0, MATCH), paid=FRIEND), HARDWARE),
        (AuditChain((FRIEND, 1, MATCH), labels=(HARDWARE, HARDWARE)), HARDWARE),
    ],
)
def test_post_for_a_hardware_batch_proves_no_hardware_label(chain: AuditChain, label: str) -> None:
    labels = Labels(chain, 9).of_receipts(chain.audits(0, 9), [], chain.batches(0, 9))  # type: ignore[arg-type]
    assert dict(labels) == {chain.receipt: label}

"""An operator that is disputed says so, can be found by its committee, and appeals when a person ordered it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Dispute, Snapshot
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.merkle import batch_leaf, verify_batch_proof
from bytewise.protocol.records.receipt import SignedReceipt, receipt_id
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import Digest
from bytewise.service import telemetry
from bytewise.storage.duties import DONE, MISSED, Duties
from bytewise.storage.engine import open_database
from serving.disputes import APPEAL, SERVE_BUDGET_S, OperatorDisputes
from tests.fixtures import snapshot_builders
from tests.fixtures.metric_values import value_of
from tests.fixtures.serving.batch_scene import ANCHOR, OPERATOR, BatchScene
from tests.fixtures.snapshot_builders import NOW, word
from tests.fixtures.work_counter import calls

BOND = 5
ENVELOPE = b"envelope"
DISPUTE = word("dispute")


@dataclass
class Accused:
    """A chain with disputes, a store, and a sender that keeps what was sent."""

    scene: BatchScene
    number: int = 1
    clock: int = NOW
    cases_: list[Dispute] = field(default_factory=list)
    sent: list[tuple[object, ...]] = field(default_factory=list)
    away: bool = False
    asked: int = 0
    passed_s: float = 0.0
    slow_s: float = 0.0
    """What DA takes for an answer."""

    def head(self) -> int:
        return self.number

    def cases(self, block: int) -> Snapshot:
        return replace(snapshot_builders.snapshot(*self.cases_, number=block), clock=self.clock)

    def terms(self, batch_id: int, block: int) -> tuple[int, int]:
        return 1, BOND

    def appeal(self, dispute: Digest, bond_wei: int) -> None:
        self.sent.append(("appeal", dispute, bond_wei))

    def demand_envelope(self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], bond_wei: int) -> None:
        self.sent.append(("demand", signed, batch_id, proof, bond_wei))

    def put(self, data: bytes) -> str:
        if self.away:
            raise TryAgain("da", "away")
        return self.scene.put(data)

    def get(self, locator: str, accept: Callable[[bytes], bool] | None = None) -> bytes:
        self.asked += 1
        self.passed_s += self.slow_s
        data = self.scene.blobs.get(locator)
        if self.away or data is None or (accept is not None and not accept(data)):
            raise TryAgain("da", "no blob")
        return data

    @property
    def orders(self) -> Duties:
        return Duties(open_database(f"sqlite:///{self.scene.folder / 'db'}"), self.scene)

    def part(self) -> OperatorDisputes:
        """As after a start."""
        return OperatorDisputes(
            self, self, self.scene.receipt_store, self, self.orders, OPERATOR.address, ANCHOR, lambda: self.passed_s
        )

    def step(self, part: OperatorDisputes) -> None:
        self.number += 1
        part.step()

    def accuse(self, **changes: object) -> SignedReceipt:
        """Three receipts are anchored, the second is disputed."""
        self.scene.issue(3, envelope_hash=labelled(Label.ENVELOPE, ENVELOPE))
        self.scene.batcher().tick()
        signed = self.scene.receipt_store.in_batch(1)[1]
        plain = {"id": DISPUTE, "receipt_id": receipt_id(ANCHOR, signed.receipt), "operator": OPERATOR.address}
        self.cases_ = [
            snapshot_builders.case(id=word("another")),
            snapshot_builders.case(**(plain | {"phase": Phase.COMMIT} | changes)),
        ]
        return signed


@pytest.fixture
def accused(tmp_path: Path) -> Iterator[Accused]:
    yield Accused(BatchScene(tmp_path))


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Events that are logged about disputes, each with its bond if it has one."""
    lines: list[str] = []

    def log(event: str, **fields: object) -> None:
        if event.startswith("dispute."):
            lines.append(" ".join((event, *(str(fields[name]) for name in ("bond_wei",) if name in fields))))

    monkeypatch.setattr(telemetry, "log", log)
    return lines


def test_dispute_is_logged_once_and_an_available_envelope_left_alone(accused: Accused, printed: list[str]) -> None:
    signed = accused.accuse()
    accused.scene.blobs[signed.locator] = ENVELOPE
    before, part = value_of("bytewise_disputes_against_us_total"), accused.part()
    for _ in range(3):
        accused.step(part)
    assert accused.sent == [] and accused.asked == 1
    assert value_of("bytewise_disputes_against_us_total") == before + 1
    assert printed == ["dispute.against_us"]


def test_envelope_lost_by_da_is_stored_again_and_its_new_locator_shown(accused: Accused) -> None:
    """The only way to name a place is the answer to a demand: an honest operator makes it itself, before absence convicts it."""
    signed, part = accused.accuse(), accused.part()
    accused.scene.blobs.clear()
    accused.away = True
    with pytest.raises(Unavailable):
        accused.step(part)
    accused.away = False
    accused.scene.blobs["elsewhere"] = b"so that the next place is another"
    accused.step(part)
    ((what, sent, batch_id, proof, bond),) = accused.sent
    assert (what, sent, batch_id, bond) == ("demand", signed, 0, BOND)
    leaf = batch_leaf(receipt_id(ANCHOR, signed.receipt), signed.receipt.seq)
    assert verify_batch_proof(accused.scene.sent[0].root, leaf, proof)  # type: ignore[arg-type]
    assert ENVELOPE in accused.scene.blobs.values()
    accused.step(part)
    assert len(accused.sent) == 1


def test_envelopes_of_one_batch_are_revealed_with_one_tree(accused: Accused) -> None:
    accused.accuse()
    names = [receipt_id(ANCHOR, each.receipt) for each in accused.scene.receipt_store.in_batch(1)]
    disputes = [replace(accused.cases_[1], id=word("dispute", name.hex()), receipt_id=name) for name in names]
    hashed = []
    for count in (1, 3):
        accused.scene.blobs = {"elsewhere": b"so that the next place is another"}
        accused.cases_, part = disputes[:count], accused.part()
        hashed.append(calls(lambda part=part: accused.step(part), "keccak"))  # type: ignore[misc]
    assert hashed[0] == hashed[1] and len(accused.sent) == 1 + 3


def test_next_envelope_is_checked_in_the_next_step_when_da_is_slow(accused: Accused) -> None:
    """A tick that asks about many, for as long as DA may take for each, signs what else is owed too late."""
    signed = accused.accuse()
    accused.scene.blobs[signed.locator] = ENVELOPE
    accused.cases_ += [replace(accused.cases_[1], id=word("dispute", i)) for i in range(2)]
    accused.slow_s = SERVE_BUDGET_S
    part = accused.part()
    accused.number += 1
    for asked in (1, 2, 3, 3):
        part.step()
        assert accused.asked == asked, "each once, and all at one block"


def test_envelope_with_an_unchanged_locator_needs_no_demand(accused: Accused) -> None:
    accused.accuse()
    accused.scene.blobs.clear()
    accused.step(accused.part())
    assert accused.sent == [] and ENVELOPE in accused.scene.blobs.values()


def test_receipt_missing_in_the_store_is_named(accused: Accused, printed: list[str]) -> None:
    accused.accuse(receipt_id=word("foreign"))
    accused.step(accused.part())
    assert accused.sent == [] and "dispute.no_envelope" in printed


def test_lost_round_is_logged_with_its_price_and_not_appealed_unasked(accused: Accused, printed: list[str]) -> None:
    accused.accuse(phase=Phase.APPEAL, verdict=Verdict.OVERTURNED, appeal_bond_wei=70, appeal_end=NOW + 20)
    accused.step(accused.part())
    assert "dispute.can_be_appealed 70" in printed
    assert accused.sent == [] and accused.asked == 0


def test_ordered_appeal_is_sent_while_there_is_time_and_recorded(accused: Accused) -> None:
    accused.accuse(phase=Phase.APPEAL, verdict=Verdict.OVERTURNED, appeal_bond_wei=70, appeal_end=NOW + 20)
    accused.orders.add(APPEAL, DISPUTE, NOW + 20)
    part = accused.part()
    accused.step(part)
    assert accused.sent == [("appeal", DISPUTE, 70)]
    accused.cases_ = [replace(accused.cases_[1], phase=Phase.SEED, appealed=True)]
    accused.scene.blobs.clear()
    accused.step(part)
    found = accused.orders.find(APPEAL, DISPUTE)
    assert found is not None and found.state == DONE
    assert accused.asked == 1, "another committee looks for the envelope"


def test_late_appeal_is_missed(accused: Accused) -> None:
    accused.accuse(phase=Phase.AIRGAP, verdict=Verdict.OVERTURNED)
    accused.orders.add(APPEAL, DISPUTE, NOW)
    part = accused.part()
    accused.step(part)
    accused.clock += 1
    accused.step(part)
    found = accused.orders.find(APPEAL, DISPUTE)
    assert found is not None and found.state == MISSED and accused.sent == []

"""The watchtower without keys: public draws, posted words, one dispute per fraud."""

from pathlib import Path

from bytewise.protocol.actions import OpenDispute
from bytewise.protocol.decide import WatchPolicy
from bytewise.protocol.dispute import Snapshot
from bytewise.protocol.messages import AuditOutcome, AuditResult
from bytewise.protocol.receipt import receipt_id
from bytewise.protocol.units import U8, U64, ZERO_DIGEST, Digest
from tests.unit.verifier.town import Town
from tests.world import ANCHOR, NOW, signer
from verifier.watchtower import Watchtower


def mismatch(town: Town, receipt: Digest, who: str) -> None:
    result = AuditResult(receipt, signer(who).address, U8(AuditOutcome.MISMATCH), ZERO_DIGEST, U64(NOW))
    town.chain.posted.append((town.chain.number + 1, result))


def test_the_watchtower_opens_one_dispute_after_the_second_mismatch(tmp_path: Path) -> None:
    town = Town(tmp_path)
    fraud = town.signed(1, cheat=True)
    town.anchor(fraud)
    identifier = receipt_id(ANCHOR, fraud.receipt)
    tower = Watchtower(town.chain, town.records, signer("tower").address, 1, WatchPolicy())

    def step() -> tuple[Snapshot, tuple[object, ...]]:
        seen = town.chain.pass_time(1)
        town.records.step(seen)
        return seen, tower.step(seen)

    assert step()[1] == ()
    mismatch(town, identifier, "voter")
    assert step()[1] == ()
    town.chain.pass_time(1)
    mismatch(town, identifier, "second")
    _, (action,) = step()
    assert action == OpenDispute(identifier, 100)
    tower.open(action, town.sender)
    assert town.sender.of("open") == [100]
    town.dispute(fraud)
    assert step()[1] == ()


def test_a_watchtower_that_starts_later_finds_the_same(tmp_path: Path) -> None:
    town = Town(tmp_path)
    fraud = town.signed(1, cheat=True)
    town.anchor(fraud)
    for who in ("voter", "second"):
        mismatch(town, receipt_id(ANCHOR, fraud.receipt), who)
    seen = town.chain.pass_time(1)
    town.records.step(seen)
    tower = Watchtower(town.chain, town.records, signer("tower").address, 1, WatchPolicy())
    assert [type(action) for action in tower.step(seen)] == [OpenDispute]

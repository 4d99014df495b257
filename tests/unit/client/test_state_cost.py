"""The state of a network costs as much for each receipt and seat of a large one as of a small one."""

from typing import Any

from bytewise.protocol.court.commitments import claim_of
from bytewise.protocol.decisions.audits import PostedAudit
from bytewise.protocol.records.statements import AuditOutcome, AuditResult
from bytewise.protocol.units import U8, U64, Blob, Digest, hex0x
from bytewise_client import network_state
from bytewise_client.network_state import seats_for
from tests.fixtures.builders import signer, word
from tests.fixtures.snapshot_builders import case
from tests.fixtures.work_counter import instructions

AUDITOR, OTHER = signer("auditor").address, signer("another auditor").address


def audit(receipt: Digest, verifier: Any = AUDITOR, result: AuditOutcome = AuditOutcome.MATCH) -> PostedAudit:
    """A result that was posted."""
    return PostedAudit(AuditResult(receipt, verifier, U8(result), word("commitment"), U64(1)), Blob(b""), 0)


def test_audits_are_counted_by_their_receipts() -> None:
    one, two, disputed = word("one"), word("two"), word("disputed")
    audits = [audit(one), audit(two), audit(one, OTHER, AuditOutcome.MISMATCH)]
    found = network_state._receipts(
        audits, [case(receipt_id=disputed), case(receipt_id=two)], {one: "a", two: "b", disputed: "c"}
    )
    assert [(each["receipt"], each["auditors"]) for each in found] == [
        (hex0x(one), {AUDITOR: "match", OTHER: "mismatch"}), (hex0x(two), {AUDITOR: "match"}), (hex0x(disputed), {}),
    ]  # fmt: skip
    assert found[0]["audits"] == {"none": 0, "match": 1, "mismatch": 1} and found[0]["verdict"] is None


def test_seats_are_counted_by_tokens_and_by_computation() -> None:
    said = ("tokens", "out"), ("tokens", "out"), ("other tokens", "out"), ("tokens", "other out")
    found: list[tuple[str | None, str | None]] = [(hex0x(word(tokens)), hex0x(word(out))) for tokens, out in said]
    members = [{"seats": 1, "tokens_hash": tokens, "out_hash": out} for tokens, out in (*found, (None, None))]
    told = {"claim": hex0x(claim_of(word("tokens"), word("out"))), "replacement": None, "members": members}
    assert seats_for(told) == 2
    assert seats_for(told | {"replacement": hex0x(word("other out"))}) == 1


def test_audited_receipt_costs_the_same_in_a_large_network() -> None:
    def work(receipts: int) -> float:
        names = [word("receipt", i) for i in range(receipts)]
        audits, labels = [audit(name) for name in names], dict.fromkeys(names, "hardware")
        return instructions(lambda: network_state._receipts(audits, [], labels)) / receipts

    assert work(200) <= 1.1 * work(20)

"""What `bytewise verify` concludes from what it has seen, without a network; which posted results it counts, with which label."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bytewise.da.conventions import certificate_of
from bytewise.protocol.assurance import HARDWARE, SIMULATED
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.audits import AuditStage, PostedAudit
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.records.answer import completion, receipt_members, several
from bytewise.protocol.records.receipt import Mode, SignedReceipt, receipt_id
from bytewise.protocol.records.statements import AuditOutcome, AuditResult, Verdict
from bytewise.protocol.units import U8, U64, ZERO_DIGEST, Address, Blob, Digest
from bytewise_client import checks, verification
from bytewise_client.checks import ReceiptCheck, Rerun, Standing, chain_standing, conclude, public_checks, without_list
from bytewise_client.connection import Accept, Connection
from bytewise_client.network_state import Labels
from bytewise_client.receipt_search import Found, Search
from bytewise_client.saved_answer import Comparison, parse_answer
from tests.fixtures.builders import ANCHOR, NOW, signer
from tests.fixtures.snapshot_builders import case, word
from tests.fixtures.verifier.enclave_in_memory import sealed
from tests.fixtures.verifier.verifier_fixture import NETWORK, WORLD
from verifier.watch.batch_check import CheckedReceipt, verify_batch

UPHELD = case(phase=Phase.FINAL, verdict=Verdict.UPHELD)
UNDISPUTED = Standing(True, "", None, {"match": 0, "mismatch": 0}, "")
SAME_BYTES = Rerun(None, "", "", ())
LOCATOR = "eigenda:standard:0x02ab"
DELAY_S = 60


def checked(locator: str = LOCATOR, blob: bytes = b"", named: bytes = b"", **changes: Any) -> dict[str, ReceiptCheck]:
    """Public checks of a changed receipt that is anchored at `NOW`, by name. DA gives `blob` in place of the sealed envelope; the
    receipt names the hash of `named` in its place."""
    request = WORLD.request(1)
    truth = WORLD.engine.generate(request)
    receipt, envelope = sealed(WORLD, WORLD.payload(request, truth.output), WORLD.receipt(1, request, truth, **changes))
    if named:
        receipt = replace(receipt, envelope_hash=labelled(Label.ENVELOPE, named))
    return _seen(WORLD.sign(receipt, locator), blob or envelope)


class Store:
    """DA with the same bytes under each locator of a known form."""

    def __init__(self, blob: bytes) -> None:
        self._blob = blob

    def get(self, locator: str, accept: Accept) -> bytes:
        certificate_of(locator)
        if not accept(self._blob):
            raise TryAgain("da", "gave other bytes")
        return self._blob


def _seen(entry: SignedReceipt, blob: bytes) -> dict[str, ReceiptCheck]:
    header, listed = WORLD.batch((entry,))
    (found,) = verify_batch(ANCHOR, header, encode(listed), WORLD.environment, frozenset({1})).receipts
    reader: Any = SimpleNamespace(epoch_on_chain=lambda *_: SimpleNamespace(assurance="simulated"))
    store: Any = Store(blob)
    nothing: Any = None
    connection = Connection(NETWORK, reader, nothing, nothing, store)
    return {each.name: each for each in public_checks(connection, Found(header, found, WORLD.environment, 1))}


@pytest.mark.parametrize(
    "changes", [{"anchor_by": U64(NOW - 1), "issued_at": U64(NOW - 2)}, {"issued_at": U64(NOW + 301)}, {"locator": "https://a"}]
)
def test_lapse_that_the_chain_accepts_decides_no_conclusion(changes: dict[str, Any]) -> None:
    seen = checked(**changes)
    assert seen["record"].result == "WARN" and "R-" in seen["record"].detail
    all_checks = list(seen.values())
    assert conclude(all_checks, UNDISPUTED, SAME_BYTES, None).word == "VERIFIED"
    assert conclude(all_checks, UNDISPUTED._replace(dispute=UPHELD), None, None).word == "UPHELD"
    assert conclude(all_checks, UNDISPUTED, None, None).word == "INCONCLUSIVE"


def test_defect_of_a_late_receipt_decides_the_conclusion() -> None:
    seen = checked(anchor_by=U64(NOW - 1), mode=U8(Mode.TEE))
    assert seen["record"].result == "FAIL" and "mode" in seen["record"].detail
    assert conclude(list(seen.values()), UNDISPUTED, SAME_BYTES, None).word == "DEFECTIVE"


def test_bytes_that_no_receipt_names_accuse_nobody() -> None:
    assert checked()["sealed envelope"].result == "PASS"
    for seen in (checked(blob=b"<html>captive portal</html>"), checked(locator="eigenda:standard:0xff")):
        assert seen["sealed envelope"].result == "UNKNOWN"
    assert checked(blob=b"{}", named=b"{}")["sealed envelope"].result == "FAIL"


def test_verdicts_of_others_do_not_cover_an_uncompared_text() -> None:
    audited = Standing(True, "", None, {"match": 1, "mismatch": 0}, "")
    uncompared = [Comparison(unchecked=[path]) for path in ("choices", "choices[0].message.content", "answers[1].choices")]
    ends = [conclude([], audited, None, shown) for shown in uncompared]
    ends += [without_list(audited._replace(dispute=UPHELD), ends[0], None, shown) for shown in uncompared]
    assert {(end.word, end.exit) for end in ends} == {("INCONCLUSIVE", 3)}
    assert all("was not compared" in end.reason for end in ends)
    assert conclude([], audited, None, None).exit == conclude([], audited, None, Comparison(unchecked=["service_tier"])).exit == 0
    assert without_list(audited._replace(dispute=UPHELD), ends[0], None, None).exit == 0


class OpenedModel:
    """A model whose re-execution always gives the same bytes (`Model` and `VerifyTokenizer`)."""

    def text(self, token_ids: tuple[int, ...], stop_strings: tuple[str, ...] = ()) -> str:
        return bytes(token_ids).decode(errors="replace")

    text_with_control = text

    @property
    def tokenizer(self) -> Any:
        return self

    def rerun(self, _receipt: Any, _payload: Any) -> Rerun:
        return SAME_BYTES


def whole_answer(seq: int) -> dict[str, Any]:
    """An answer as its client gets it."""
    request = WORLD.request(seq)
    truth = WORLD.engine.generate(request)
    signed = WORLD.sign(WORLD.receipt(seq, request, truth))
    payload = WORLD.payload(request, truth.output)
    words: Any = OpenedModel()
    return completion(receipt_id(ANCHOR, signed.receipt), signed, payload, WORLD.environment, words, "")


def named_only(seq: int) -> dict[str, Any]:
    return {"receipt": {"receipt_id": whole_answer(seq)["receipt"]["receipt_id"]}}


LIE = {"index": 1, "message": {"role": "assistant", "content": "a lie"}}


def connection_at(timestamp: int) -> Connection:
    """A connection to a chain that has this time and a longest anchoring delay."""
    reader: Any = SimpleNamespace(
        snapshot=lambda *_: SimpleNamespace(timestamp=timestamp, params_version=1),
        params=lambda *_: SimpleNamespace(times=SimpleNamespace(max_anchor_delay=DELAY_S)),
    )
    nothing: Any = None
    return Connection(NETWORK, reader, nothing, nothing, nothing)


@pytest.mark.parametrize("is_found", [True, False])
@pytest.mark.parametrize(
    ("file", "named"),
    [
        ({"choices": [LIE], "answers": [named_only(1)]}, 1),
        ({**several([whole_answer(1), whole_answer(2)]), "answers": [whole_answer(1), named_only(2)]}, 2),
        ({"choices": [LIE], **named_only(1)}, 1),
    ],
)
def test_file_with_an_uncompared_choice_is_not_verified(
    monkeypatch: pytest.MonkeyPatch, file: dict[str, Any], named: int, is_found: bool
) -> None:
    """Whatever the chain says about the receipt that the file names."""
    header, listed = WORLD.batch((WORLD.answered(1), WORLD.answered(2)))
    receipts = verify_batch(ANCHOR, header, encode(listed), WORLD.environment, frozenset({1})).receipts
    lists = {receipt_id(ANCHOR, each.signed.receipt): Found(header, each, WORLD.environment, 1) for each in receipts}

    def find_receipt(_connection: Connection, identifier: Digest, *_: object) -> Search:
        return Search(lists[identifier] if is_found else None, () if is_found else (TryAgain("da", "is away"),), (), 1)

    monkeypatch.setattr(verification, "find_receipt", find_receipt)
    monkeypatch.setattr(checks, "chain_standing", lambda *_: UNDISPUTED._replace(dispute=UPHELD))
    monkeypatch.setattr(checks, "completeness", lambda *_: None)
    monkeypatch.setattr(checks, "public_checks", lambda *_: [])
    saved, identifier = parse_answer(json.dumps(file).encode()), list(lists)[named - 1]
    found = verification.verify_answer(connection_at(NOW), saved, lambda _: OpenedModel())
    code = 3 if is_found else 5
    assert found.end.exit == code and "was not compared" in found.end.reason, found.end
    alone = verification.verify_receipt(connection_at(NOW), identifier, saved, lambda _: OpenedModel())
    assert alone.end.exit == code and "was not compared" in alone.end.reason, alone.end
    assert verification.verify_receipt(connection_at(NOW), identifier).end.word == "UPHELD"


@pytest.mark.parametrize(
    ("issued_at", "anchor_by", "is_named"),
    [
        (NOW, NOW + DELAY_S, False), (NOW, NOW + DELAY_S + 1, True), (NOW, 2**64 - 1, True),
        (NOW - 5, NOW + DELAY_S - 4, True), (NOW + 50, NOW + 50 + DELAY_S, True), (2**64 - 1, 2**64 - 1, True),
    ],
)  # fmt: skip
def test_promise_beyond_the_longest_delay_is_named(
    monkeypatch: pytest.MonkeyPatch, issued_at: int, anchor_by: int, is_named: bool
) -> None:
    request = WORLD.request(1)
    receipt = WORLD.receipt(1, request, WORLD.engine.generate(request), issued_at=U64(issued_at), anchor_by=U64(anchor_by))
    file = {"receipt": receipt_members(receipt_id(ANCHOR, receipt), WORLD.sign(receipt))}
    monkeypatch.setattr(verification, "find_receipt", lambda *_: Search(None, (), (), 1))
    monkeypatch.setattr(checks, "chain_standing", lambda *_: UNDISPUTED)
    found = verification.verify_answer(connection_at(NOW), parse_answer(json.dumps(file).encode()))
    assert found.end.exit == 4 and ("anchorBy" in found.end.reason) == is_named, found.end
    assert not is_named or f"anchorBy, {anchor_by}," in found.end.reason
    file["receipt"]["signed"]["signature"] = "0x" + "ab" * 65
    forged = verification.verify_answer(connection_at(NOW), parse_answer(json.dumps(file).encode()))
    assert "anchorBy" not in forged.end.reason, "and nothing is said about an operator that did not sign it"


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

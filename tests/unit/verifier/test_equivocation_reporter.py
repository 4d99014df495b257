"""An operator that signed two receipts with one number, or skipped one, is reported by whoever saw both, and nobody else is."""

import functools
import itertools
from dataclasses import replace

import pytest

from bytewise.protocol.decisions.actions import Action, ReportEquivocation, ReportSkipped
from bytewise.protocol.decisions.demands import DemandKind, DemandState
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.merkle import batch_leaf, batch_root, verify_batch_proof
from bytewise.protocol.records.receipt import (
    EmptyLeaf,
    ReceiptList,
    SignedEmptyLeaf,
    SignedLeaf,
    SignedReceipt,
    list_subject,
    receipt_id,
)
from bytewise.protocol.signing import LocalSigner, verify_signature
from bytewise.protocol.units import U32, U64, U256, Blob
from tests.fixtures.builders import ANCHOR, CHAIN_ID, DEMANDS, signer, word
from tests.fixtures.verifier.verifier_fixture import WORLD, VerifierFixture
from tests.fixtures.verifier.withholding import BOND, STRANGER, TOWER, hand_over
from verifier.disputes.equivocation_reporter import EquivocationReporter
from verifier.executor import ActionExecutor
from verifier.refusals import MAX_REMEMBERED_S, QUESTIONS_PER_STEP, REMEMBERED_S
from verifier.watch import leaf_index
from verifier.watch.leaf_index import LeafIndex, LeafLocation, LeafNumber
from verifier.watch.receipt_inbox import ReceiptInbox

WHO = WORLD.operator.address
ONE = ReportEquivocation(WHO, 1)


def reporter(setup: VerifierFixture) -> EquivocationReporter:
    """As after a start; clients' receipts lie beside the database."""
    inbox = ReceiptInbox(hand_over(setup), ANCHOR)
    return EquivocationReporter(setup.chain, 1, TOWER, setup.leaves, setup.archive, inbox)


def send(setup: VerifierFixture, part: EquivocationReporter, *actions: Action) -> None:
    ActionExecutor(setup.sender, setup.journal, None, None, None, None, part).perform_all(actions, setup.chain.now())


def test_receipt_other_than_the_anchored_one_is_reported(setup: VerifierFixture) -> None:
    anchored, given = setup.signed(1), setup.signed(1, cheat=True)
    setup.anchor(anchored, setup.signed(2))
    hand_over(setup, given)
    part = reporter(setup)
    assert part.step(setup.chain.now()) == (), "its list was not read yet"
    setup.records.step(setup.chain.now())
    assert part.step(setup.chain.now()) == (ONE,)
    send(setup, part, ONE)
    ((first, first_signature, second, signature),) = setup.sender.of("report")
    assert {first, second} == {anchored.receipt, given.receipt}
    for record, signed in ((first, first_signature), (second, signature)):
        verify_signature("receipt", receipt_id(ANCHOR, record), signed, WHO)
    setup.reopen()
    assert reporter(setup).step(setup.chain.now()) == (ONE,), "also after a restart"
    setup.journal.verify_journal()


def test_punished_operator_is_not_reported_again(setup: VerifierFixture) -> None:
    hand_over(setup, setup.signed(1), setup.signed(1, cheat=True))
    setup.chain.unreported[(WHO, 1)] = "AlreadyPunished"
    part = reporter(setup)
    for _ in range(3):
        assert part.step(setup.chain.pass_time(1)) == ()
    assert len(setup.chain.trials) == 1
    del setup.chain.unreported[(WHO, 1)]
    assert part.step(setup.chain.pass_time(REMEMBERED_S)) == (ONE,), "it had no stake, say, and has some now"
    setup.chain.report(WHO, 1)
    again = ReportEquivocation(WHO, 1, 1)
    assert part.step(setup.chain.pass_time(1)) == (again,), "some was taken, and there is more now: an act of its own"
    send(setup, part, ONE, again)
    assert len(setup.sender.of("report")) == 2


def test_honest_operators_are_not_reported(setup: VerifierFixture) -> None:
    receipts = [setup.signed(seq) for seq in (1, 2, 3)]
    setup.anchor(*receipts)
    setup.records.step(setup.chain.now())
    # The same receipt with another place of its envelope is the same receipt.
    hand_over(setup, *receipts, replace(receipts[0], locator="eigenda:standard:0x02"))
    assert reporter(setup).step(setup.chain.now()) == () and setup.chain.trials == []


def test_list_hiding_its_batch_is_a_proof_with_the_answer_to_its_demand(setup: VerifierFixture) -> None:
    shown, hidden, lost = setup.signed(1), setup.signed(1, cheat=True), setup.signed(2)
    empty = EmptyLeaf(WHO, U64(2), U256(CHAIN_ID))
    leaves = (SignedLeaf(hidden.receipt, hidden.signature), SignedLeaf(empty, WORLD.operator.sign(receipt_id(ANCHOR, empty))))
    nodes = [batch_leaf(receipt_id(ANCHOR, each.record), each.record.seq) for each in leaves]
    setup.anchor(shown, root=batch_root(nodes), count=U32(2))
    hand_over(setup, lost)
    subject, part = list_subject(DEMANDS, 0), reporter(setup)
    setup.records.step(setup.chain.now())
    assert part.step(setup.chain.now()) == (), "one list is no contradiction"
    setup.chain.demand(subject, DemandKind.LIST, STRANGER, BOND)
    setup.chain.leaves[subject] = leaves
    setup.chain.end(subject, DemandState.ANSWERED)
    setup.records.step(setup.chain.now())
    found = part.step(setup.chain.now())
    assert set(found) == {ONE, ReportSkipped(WHO, 2)}, "the other one is anchored as an empty leaf, and a client has it"
    send(setup, part, *found)
    ((receipt, signature, batch, proof),) = setup.sender.of("report skipped")
    assert (receipt, signature, batch) == (lost.receipt, lost.signature, 0)
    assert verify_batch_proof(setup.chain.headers[0].root, nodes[1], proof) and len(setup.sender.of("report")) == 1


def test_receipt_with_a_skipped_number_is_reported(setup: VerifierFixture) -> None:
    kept, lost, two = setup.signed(1), setup.signed(2), ReportSkipped(WHO, 2)
    empty = EmptyLeaf(WHO, U64(2), U256(CHAIN_ID))
    skipped = SignedEmptyLeaf(empty, WORLD.operator.sign(receipt_id(ANCHOR, empty)))
    header = setup.anchor(kept, skipped)
    part = reporter(setup)
    setup.records.step(setup.chain.now())
    assert part.step(setup.chain.now()) == () and setup.chain.trials == [], "nobody holds a receipt for it"
    hand_over(setup, kept, lost)
    assert part.step(setup.chain.now()) == (two,)
    send(setup, part, two)
    ((receipt, signature, batch, proof),) = setup.sender.of("report skipped")
    assert (receipt, signature, batch) == (lost.receipt, lost.signature, header.batch_id)
    assert verify_batch_proof(header.root, batch_leaf(receipt_id(ANCHOR, empty), 2), proof)
    setup.chain.skip_reports.append(((WHO, 2), setup.chain.number))
    assert part.step(setup.chain.pass_time(1)) == (ReportSkipped(WHO, 2, 1),), "another time is another act"
    setup.chain.unreported[(WHO, 2)] = "AlreadyPunished"
    assert part.step(setup.chain.pass_time(1)) == () and setup.sender.of("report") == [], "no equivocation"
    setup.reopen()
    part = reporter(setup)
    setup.records.step(setup.chain.now())
    assert part.step(setup.chain.now()) == (), "lists that were read before a restart are not read again"
    with pytest.raises(TryAgain, match="not seen since the start"):
        part.report(two, setup.sender)


def test_skipped_number_is_shown_in_the_current_batch() -> None:
    true, book = true_receipt(), LeafIndex(ANCHOR)
    book.note(true)
    for batch in (3, 4):
        book.note_skipped(LeafNumber(WHO, 1), LeafLocation(batch, (word("sibling"),)))
        assert book.skips.found == {(WHO, 1): (true.receipt, true.signature, batch, (word("sibling"),))}


def other(signed: SignedReceipt, name: str = "other", key: LocalSigner = WORLD.operator) -> SignedReceipt:
    """Another receipt with the same number, signed as well."""
    record = replace(signed.receipt, operator=key.address, out_hash=word(name))
    return SignedReceipt(record, key.sign(receipt_id(ANCHOR, record)), "eigenda:standard:0x02")


def note_list(book: LeafIndex, *entries: SignedReceipt, count: int = 1) -> None:
    """A list of the operator's batch, which begins with number 1."""
    header, _ = WORLD.batch(entries)
    book.note_list(replace(header, operator=WHO, first_seq=U64(1), count=U32(count)), encode(ReceiptList(WHO, U64(1), entries)))


@functools.cache
def true_receipt() -> SignedReceipt:
    request = WORLD.request(1)
    return WORLD.sign(WORLD.receipt(1, request, WORLD.engine.generate(request)), "eigenda:standard:0x02")


def test_only_signatures_of_the_operator_contradict_it() -> None:
    true = true_receipt()
    forged = replace(true, receipt=replace(true.receipt, out_hash=word("other")))
    book = LeafIndex(ANCHOR)
    book.note(true)
    note_list(book, forged)
    header, _ = WORLD.batch((true,))
    book.note_list(header, b"no list")
    assert book.doubles.found == {}
    note_list(book, other(true))
    assert list(book.doubles.found) == [(WHO, 1)]


def test_list_contradicts_only_its_own_operator_and_numbers() -> None:
    """Whoever posts a batch can put anything into its list: keys of a minute, and numbers without end."""
    true, stranger = true_receipt(), signer("a key of a minute")
    book = LeafIndex(ANCHOR)
    note_list(book, other(true, "one", stranger), other(true, "two", stranger), count=9)
    beyond = replace(true, receipt=replace(true.receipt, seq=U64(2)))
    note_list(book, other(beyond, "one"), other(beyond, "two"))
    note_list(book, true, other(true), other(true, "more"), count=1)
    assert book.doubles.found == {} and list(book._first) == [(WHO, 1)], "one entry for each receipt that the chain counted"


def test_a_flood_of_contradictions_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaf_index, "MAX_LEAVES", 60)
    monkeypatch.setattr(leaf_index, "MAX_PROOFS", 40)
    true, book = true_receipt(), LeafIndex(ANCHOR)
    for seq in range(1, 100):
        first = replace(true.receipt, seq=U64(seq))
        for record in (first, replace(first, out_hash=word("other"))):
            book.note(SignedReceipt(record, Blob(b""), ""))
        if seq in (7, 3):
            book.doubles.note_refused(LeafNumber(WHO, seq))
        if seq == 42:
            assert not {3, 7} & {each.seq for each in book.doubles.found} and 1 in {each.seq for each in book.doubles.found}
    for seq in range(200):
        book.note_skipped(LeafNumber(WHO, seq), LeafLocation(0, ()))
    assert len(book._first) == len(book._skipped) == 60 and len(book.doubles.found) == 40 and len(book.doubles._refused) <= 40
    assert len(book.skips.found) == 40


def test_true_contradiction_is_decided_behind_a_thousand_refused_ones(setup: VerifierFixture) -> None:
    true = true_receipt()
    for seq in range(2, 1002):
        first = replace(true.receipt, seq=U64(seq))
        setup.chain.unreported[(WHO, seq)] = "AlreadyPunished"
        for record in (first, replace(first, out_hash=word("other"))):
            setup.leaves.note(SignedReceipt(record, Blob(b""), ""))
    part = reporter(setup)
    # As long as blocks last that ask about 8 each: every one of them was refused, and the first are due again.
    assert {part.step(setup.chain.pass_time(12)) for _ in range(1000 // QUESTIONS_PER_STEP)} == {()}
    assert len({*setup.chain.trials}) == 1000, "each once before any of them a second time"
    setup.leaves.note(true)
    setup.leaves.note(other(true))
    assert part.step(setup.chain.pass_time(12)) == (ONE,)


def test_repeatedly_refused_report_is_retried_ever_less_often(setup: VerifierFixture) -> None:
    hand_over(setup, setup.signed(1), setup.signed(1, cheat=True))
    setup.chain.unreported[(WHO, 1)] = "AlreadyPunished"
    part, asked = reporter(setup), []
    for _ in range(6 * MAX_REMEMBERED_S // REMEMBERED_S):
        before = len(setup.chain.trials)
        part.step(setup.chain.pass_time(REMEMBERED_S))
        asked.append(len(setup.chain.trials) - before)
    waits = [b - a for a, b in itertools.pairwise(i for i, each in enumerate(asked) if each)]
    assert waits[:6] == [1, 2, 4, 8, 16, 16] and MAX_REMEMBERED_S == 16 * REMEMBERED_S


def test_a_report_that_cannot_be_counted_now_is_decided_later(setup: VerifierFixture) -> None:
    hand_over(setup, setup.signed(1), setup.signed(1, cheat=True))
    setup.chain.readable = False
    part = reporter(setup)
    assert part.step(setup.chain.pass_time(1)) == () and setup.chain.trials != []
    setup.chain.readable = True
    assert part.step(setup.chain.pass_time(1)) == (ONE,)

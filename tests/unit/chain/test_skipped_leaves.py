"""A list with a skipped number is checked without a duty for it, gives its path, and is shown to the chain as it is read."""

from bytewise.protocol.encoding import encode
from bytewise.protocol.merkle import batch_leaf, verify_batch_proof
from bytewise.protocol.records.receipt import EmptyLeaf, SignedEmptyLeaf, SignedLeaf, receipt_id
from bytewise.protocol.units import U64, U256
from chain.acts.actor import _leaf_values
from chain.client.artifacts import interface
from chain.reads.records import leaves
from tests.fixtures.builders import ANCHOR, World
from verifier.watch.batch_check import verify_batch, verify_leaves

WORLD = World()
LEAF = EmptyLeaf(WORLD.operator.address, U64(5), U256(ANCHOR.chain_id))
ENTRIES = (WORLD.answered(4), SignedEmptyLeaf(LEAF, WORLD.operator.sign(receipt_id(ANCHOR, LEAF))), WORLD.answered(6))


def test_check_gives_no_receipt_for_a_skipped_number() -> None:
    header, listed = WORLD.batch(ENTRIES)
    checked = verify_batch(ANCHOR, header, encode(listed), WORLD.environment, frozenset({1}))
    assert [each.signed for each in checked.receipts] == [ENTRIES[0], ENTRIES[2]]
    node = batch_leaf(receipt_id(ANCHOR, LEAF), LEAF.seq)
    shown = tuple(SignedLeaf(each.record, each.signature) for each in ENTRIES)
    # So does the answer to a demand, where the list does not fit its batch.
    for skipped in (checked.skipped, verify_leaves(ANCHOR, header, shown, b"", WORLD.environment).skipped):
        ((leaf, proof),) = skipped
        assert leaf == LEAF and verify_batch_proof(header.root, node, proof)


def test_answer_to_a_list_demand_shows_the_skipped_number_as_empty_leaf() -> None:
    shown = [_leaf_values(each.record) for each in ENTRIES], [each.signature for each in ENTRIES]
    arguments = interface("Demands").arguments("answerList", interface("Demands").call("answerList", 0, b"", *shown)[4:])
    assert leaves(arguments) == tuple(SignedLeaf(each.record, each.signature) for each in ENTRIES)

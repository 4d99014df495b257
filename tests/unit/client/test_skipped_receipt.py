"""What `bytewise verify` says of a saved receipt whose number its operator skipped."""

from dataclasses import replace
from pathlib import Path

from bytewise.protocol.encoding import encode
from bytewise.protocol.records.receipt import EmptyLeaf, ReceiptList, SignedEmptyLeaf, receipt_id
from bytewise.protocol.units import Blob
from bytewise.service.exit_codes import Exit
from bytewise_client.checks import not_found
from bytewise_client.connection import connected
from bytewise_client.receipt_search import find_receipt
from chain.client.address_book import write_network
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import FEE_WEI, OPERATORS, batch, word
from tests.fixtures.court.session import DisputeFixture
from tests.fixtures.verifier.verifier_fixture import BlobShelf


def test_saved_receipt_with_a_skipped_number_is_reported(anvil: Anvil, tmp_path: Path) -> None:
    court, shelf, key = DisputeFixture(anvil, tmp_path), BlobShelf(), OPERATORS[0]
    write_network(tmp_path / "network.json", court.network)
    domain = court.network.anchor_domain
    made = batch(court.network, key, 4, 2, anvil.client.head().timestamp, skipped=(4,))
    lost, kept = made.entries
    empty = EmptyLeaf(key.address, lost.receipt.seq, lost.receipt.chain_id)
    entries = (SignedEmptyLeaf(empty, key.sign(receipt_id(domain, empty))), kept)
    locator = shelf.put(encode(ReceiptList(key.address, made.header.first_seq, entries)))
    court.of(key).anchor(replace(made.header, locator=locator), FEE_WEI)
    court.pump()
    name = receipt_id(domain, lost.receipt)
    with connected(tmp_path / "network.json", [anvil.url], ["http://127.0.0.1:9"]) as network:
        connection = network._replace(da=shelf)  # type: ignore[arg-type]
        search = find_receipt(connection, name, lambda *_: None, lost)
        assert search.skipped_in is not None and search.skipped_in.batch_id == 1
        end = not_found(search)
        assert end.exit is Exit.NOT_FOUND and "batch 1 has an empty leaf there" in end.reason
        forged = replace(lost, signature=Blob(key.sign(word("another"))))
        assert find_receipt(connection, name, lambda *_: None, forged).skipped_in is None, "its operator signed no such thing"
        assert find_receipt(connection, name, lambda *_: None).skipped_in is None
        found = find_receipt(connection, receipt_id(domain, kept.receipt), lambda *_: None, kept).found
        assert found is not None and found.checked.signed == kept

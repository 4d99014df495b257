"""What `bytewise verify` says of a disputed receipt from the chain alone, while DA is away."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.units import hex0x
from bytewise_client.checks import chain_standing
from bytewise_client.connection import connected
from bytewise_client.receipt_search import Found, Search
from chain.client.address_book import write_network
from cli.__main__ import main
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import ENVIRONMENT, OPERATORS, batch, word
from tests.fixtures.court.session import TRUE, DisputeFixture
from verifier.watch.batch_check import CheckedReceipt

NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize(("verdict", "code"), [("OVERTURNED", 2), ("UPHELD", 0)])
def test_verdict_is_read_from_the_chain_while_da_is_unavailable(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str], verdict: str, code: int
) -> None:
    court = DisputeFixture(anvil, tmp_path)
    write_network(tmp_path / "network.json", court.network)
    receipt = court.batch.entries[0].receipt
    name = hex0x(receipt_id(court.network.anchor_domain, receipt))
    asked = ["verify", name, "--network", str(tmp_path / "network.json"), "--rpc", anvil.url, "--da", NOWHERE]
    court.open(0, word("guess"))
    assert main(asked) == 3
    assert "a dispute is running" in (bad_list := " ".join(capsys.readouterr().out.split())) and "do not fit" in bad_list
    # A second batch, whose list is named well.
    more = batch(court.network, OPERATORS[0], 4, 1, anvil.client.head().timestamp)
    price = court.reader.snapshot(OPERATORS[0].address, court.reader.head()).price_wei
    court.of(OPERATORS[0]).anchor(replace(more.header, locator="eigenda:standard:0x03ab"), price)
    court.pump()
    assert main(asked) == 5
    running = " ".join(capsys.readouterr().out.split())
    assert "a dispute is running" in running and "da_unavailable" in running and "SIMULATED" in running
    court.judged(TRUE if verdict == "OVERTURNED" else (receipt.tokens_hash, word("trace", receipt.seq)))
    capsys.readouterr()
    assert main(asked) == code
    told = " ".join(capsys.readouterr().out.split())
    assert f"{verdict}: " in told and "da_unavailable" in told and "None" not in told
    assert main([*asked, "--output", "json"]) == code
    state = json.loads(capsys.readouterr().out)
    with connected(tmp_path / "network.json", [anvil.url], [NOWHERE]) as connection:
        (header, *_), head = connection.reader.batches(0, connection.reader.head()), connection.reader.head()
        checked = CheckedReceipt(
            receipt_id(court.network.anchor_domain, receipt), court.batch.entries[0], court.batch.proofs[0], None
        )
        search = Search(Found(header, checked, ENVIRONMENT, head), (), (), head)
        standing = chain_standing(connection, search, checked.receipt_id)
    # Of a receipt whose list is read: one that was upheld has its window still.
    words = "never: the receipt is void" if verdict == "OVERTURNED" else "not yet: its challenge window is open"
    assert (standing.final, standing.open_reason) == (False, words)
    assert (state["result"], state["chain"]["verdict"], state["chain"]["final"]) == (verdict, verdict, None)

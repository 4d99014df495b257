"""`bytewise network list`: which address books a folder has, and what a node says of each network."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.units import U256
from bytewise.service.exit_codes import Exit
from chain.client.address_book import write_network
from cli.__main__ import main
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import word
from tests.fixtures.court.session import DisputeFixture

NOWHERE = "http://127.0.0.1:9"


def listed(folder: Path, rpc: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What the verb lists, as JSON."""
    assert main(["network", "list", str(folder), "--rpc", rpc, "--output", "json"]) == Exit.OK
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


def test_network_list_says_which_networks_the_node_has(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    network = DisputeFixture(anvil, tmp_path).network
    books = tmp_path / "books"
    (books / "run").mkdir(parents=True)
    write_network(books / "run" / "network.json", network)
    write_network(books / "else.json", replace(network, chain_id=U256(1)))
    other_code = replace(network.code[0], digest=word("other code"))
    write_network(books / "foreign.json", replace(network, code=(other_code, *network.code[1:])))
    (books / "answer.json").write_text('{"choices": []}')
    rows = listed(books, anvil.url, capsys)
    assert {Path(each["file"]).name: each["node"] for each in rows} == {
        "else.json": "is on another chain", "foreign.json": "has other contracts", "network.json": "has this network",
    }  # fmt: skip
    (own,) = (each for each in rows if each["node"] == "has this network")
    assert own["chain_id"] == network.chain_id and own["pools"] == len(network.pools) and own["reason"] == ""
    assert main(["network", "list", str(books), "--rpc", anvil.url]) == Exit.OK
    shown = capsys.readouterr().out
    assert all(each["reason"] in shown for each in rows) and shown.count("reason: ") == 2
    assert {each["node"] for each in listed(books, NOWHERE, capsys)} == {"does not answer"}
    for wrong in ("127.0.0.1:8545", "ftp://127.0.0.1"):
        assert main(["network", "list", str(books), "--rpc", wrong]) == Exit.USAGE
        assert f"{wrong} is no URL of a node" in capsys.readouterr().err


def test_folder_without_an_address_book_is_empty_and_a_missing_one_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    assert listed(tmp_path, NOWHERE, capsys) == []
    assert main(["network", "list", str(tmp_path)]) == Exit.OK and "no address books in" in capsys.readouterr().out
    assert main(["network", "list", str(tmp_path / "nowhere")]) == Exit.USAGE and "FOLDER" in capsys.readouterr().err

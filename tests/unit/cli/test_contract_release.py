"""Contracts that the address book knows, and with which this program was not built."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from chain.client.address_book import code_hashes, contracts_of_other_releases
from chain.client.artifacts import interface
from cli.node import chain_checks
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import deployed, reader


def test_contracts_of_another_release_are_named(anvil: Anvil) -> None:
    book = deployed(anvil)
    assert contracts_of_other_releases(anvil.client, book) == []
    where = book.addresses.audits
    (code,) = anvil.client.codes([where])
    assert interface("Audits").creates(code)
    assert not any(interface("Audits").creates(other) for other in (b"", code + b"\0", code[:-1] + b"\x77"))
    anvil.rpc("anvil_setCode", where, "0x" + code.hex() + "00")
    known = replace(book, code=code_hashes(anvil.client, [each.contract for each in book.code]))
    view: Any = SimpleNamespace(chain=anvil.client, reader=reader(anvil, known))
    found = chain_checks.contract_release(view)
    assert not found.ok and found.value.endswith(", not audits") and "Install the release" in found.advice
    view.reader = reader(anvil, book)
    anvil.rpc("anvil_setCode", where, "0x" + code.hex())
    assert chain_checks.contract_release(view).ok

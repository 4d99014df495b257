"""`bytewise verifier leave` and `bytewise operator leave`: what an account can take back now, and what only later."""

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bytewise.protocol.records.receipt import SignedReceipt
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import ZERO_DIGEST, Blob
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from bytewise.storage.engine import open_database
from bytewise.storage.receipt_store import IssuedReceipt, ReceiptStore
from chain.client.address_book import write_network
from chain.deployment.params import DEVNET, ETHER
from chain.reads.reader import RegistryDocuments
from chain.sending.keys import save_signer
from cli.__main__ import main
from cli.node.registration import leaving
from cli.node.roles import NodeRole
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import MEASUREMENT, OPERATORS, deployed, reader, receipt, word
from tests.fixtures.cli.operator_database import operator_file
from tests.fixtures.snapshot_builders import BLOCK, OTHER, holdings
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.verifier.node_file import node_file
from tests.fixtures.verifier.verifier_fixture import NETWORK

STAKE = 32 * ETHER
HOUR_S = 3600


def seen(folder: Path, **changes: Any) -> Any:
    """A node of an operator before a chain at second 500, whose protocol clock is at 1000."""
    (folder / "node.db").write_bytes(empty_database())
    values = {"clock": 1_000, "dueOf": {"nextUnlockAt": 1_060}, "unbondingOf": {"nextAt": 900}}
    facts = SimpleNamespace(
        holdings=lambda account, block: holdings(pool=ZERO_DIGEST, **changes), record_life=lambda block: None,
        params_version=lambda block: 1, params=lambda version, block: DEVNET,
    )  # fmt: skip
    chain = SimpleNamespace(
        head=lambda: SimpleNamespace(timestamp=500), call=lambda contract, at, function, *rest, block: values[function]
    )
    return SimpleNamespace(
        role=NodeRole.OPERATOR, account=OTHER, head=BLOCK, reader=facts, chain=chain, network=NETWORK,
        database=open_database(f"sqlite:///{folder / 'node.db'}"),
    )  # fmt: skip


def calls(view: Any) -> list[str]:
    return [str(each.call) for each in leaving(view)[0]]


def test_operator_asks_for_its_stake_after_its_receipts_are_anchored(tmp_path: Path) -> None:
    view = seen(tmp_path, stake_wei=9, credit_wei=5, credit_due_wei=2)
    steps, later = leaving(view)
    assert calls(view) == ["StakeVault.requestUnbond", "Ledger.withdraw"] and steps[0].call.arguments == (9,)
    assert [(each.amount_wei, each.what) for each in later] == [(9, "stake"), (3, "credit")]
    assert later[1].when.startswith("not before 1970-01-01 00:09:20 UTC")
    made = replace(receipt(OPERATORS[0], 1, 400), operator=OTHER)
    issued = IssuedReceipt(word("id"), SignedReceipt(made, Blob(b""), ""), b"", b"", int(made.anchor_by) + 100)
    ReceiptStore(view.database, SystemClock(), OTHER).issue(word("request"), [issued])
    assert calls(view) == ["Ledger.withdraw"] and "receipts 1 to 1" in leaving(view)[1][0].when
    view.chain.head = lambda: SimpleNamespace(timestamp=int(made.anchor_by) + 1)
    assert calls(view) == ["Ledger.withdraw"], "it is late, and whoever has it may demand it now"
    view.chain.head = lambda: SimpleNamespace(timestamp=int(made.anchor_by) + 101)
    assert calls(view) == ["StakeVault.requestUnbond", "Ledger.withdraw"], "no batch can have it any more"
    view.chain.head = lambda: SimpleNamespace(timestamp=int(made.anchor_by))
    view.reader.holdings = lambda account, block: holdings(pool=ZERO_DIGEST, stake_wei=9, last_seq=1)
    assert calls(view) == ["StakeVault.requestUnbond"], "its number is taken by an empty leaf"


def test_stake_that_is_bound_or_elsewhere_is_named_and_not_asked_for(tmp_path: Path) -> None:
    view = seen(tmp_path, unbonding_wei=7, unbond_due_wei=3)
    assert calls(view) == ["StakeVault.finishUnbond"]
    (bound,) = leaving(view)[1]
    assert bound.amount_wei == 4 and "no longer bind" in bound.when
    view.reader.holdings = lambda account, block: holdings(pool=ZERO_DIGEST, stake_wei=9)
    view.reader.record_life = lambda block: 10
    (elsewhere,) = leaving(view)[1]
    assert calls(view) == [] and elsewhere.amount_wei == 9 and "EigenLayer" in elsewhere.when


def test_account_leaves_in_steps_and_takes_its_stake_after_the_delay(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    network, key = deployed(anvil), LocalSigner(word("leaving account", tmp_path))
    anvil.automine(True)
    write_network(tmp_path / "network.json", network)
    save_signer(tmp_path / "account.key", key)
    url, court = f"sqlite:///{tmp_path / 'actor.db'}", reader(anvil, network)
    (tmp_path / "actor.db").write_bytes(empty_database())
    anvil.rpc("anvil_setBalance", key.address, hex(40 * ETHER))
    verifier = ["--config", str(node_file(tmp_path, url, anvil.url)), "--yes"]
    operator = ["operator", "leave", "--config", str(operator_file(tmp_path, url, anvil.url)), "--yes"]
    machine = ["--platform-id", "0x" + word("leaving machine").hex(), "--measurement", "0x" + MEASUREMENT.hex()]
    anvil.rpc("evm_setIntervalMining", 1)
    assert main(["verifier", "register", *verifier, "--stake", str(STAKE), *machine]) == Exit.OK
    anvil.rpc("evm_setIntervalMining", 0)
    anvil.automine(True)
    capsys.readouterr()
    assert main(["verifier", "leave", *verifier[:-1], "--dry-run", "--output", "json"]) == Exit.OK
    shown = json.loads(capsys.readouterr().out)
    assert [each["call"] for each in shown["steps"]] == ["Registry.quit", "StakeVault.requestUnbond"]
    assert court.holdings(key.address, court.head()).stake_wei == STAKE, "nothing was sent"
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for words, code, told in ((verifier[:-1], Exit.INTERRUPTED, "Send these transactions?"), (verifier, Exit.OK, "done: quit")):
        assert main(["verifier", "leave", *words, "--output", "json"]) == code
        printed = capsys.readouterr()
        assert json.loads(printed.out).keys() == shown.keys() and told in printed.err
    mine = court.holdings(key.address, court.head())
    assert (mine.pool, mine.stake_wei, mine.unbonding_wei) == (ZERO_DIGEST, 0, STAKE)
    assert main(operator) == Exit.OK
    assert "nothing can be done now" in capsys.readouterr().out, "nothing is asked for twice"
    anvil.pass_time(DEVNET.times.unbond_delay + HOUR_S)
    assert main(operator) == Exit.OK and "StakeVault.finishUnbond" in capsys.readouterr().out
    assert main(operator) == Exit.OK and "has left" in capsys.readouterr().out
    registering = ["operator", "register", *operator[2:], "--stake", "1"]
    for endpoint in ("https://one.example", "https://two.example"):
        assert main([*registering, "--endpoint", endpoint]) == Exit.OK
        assert RegistryDocuments(court).operators(court.head())[key.address] == endpoint
    capsys.readouterr()
    assert main([*registering, "--endpoint", endpoint]) == Exit.OK and "nothing to do" in capsys.readouterr().out

"""`bytewise dispute plan` on a real chain: figures of the stakes and parameters in force, and wrong input."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bytewise.protocol.attention.schedule import RATE_UNIT
from bytewise.protocol.economics.attention import FundTerms
from bytewise.protocol.economics.coverage import WatchTerms, coverage_at, locked_seconds
from bytewise.protocol.units import ZERO_DIGEST
from bytewise.service.exit_codes import Exit
from bytewise_client import network_state
from chain.client.address_book import write_network
from chain.deployment.params import DEVNET, ETHER
from chain.reads.records import Membership, PoolMember
from cli import network
from cli.__main__ import main
from cli.attention import plan as fund_plan
from cli.receipt import watch_plan
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import VERIFIERS, deployed
from tests.fixtures.snapshot_builders import POOL, holdings, snapshot, word

WRONG = (
    ["--fraud", "2"], ["--coverage", "1"], ["--ready", "0"], ["--receipts", "-1"], ["--receipts", "nan"], ["--gas-gwei", "-1"],
    ["--gas-gwei", "nan"], ["--interest", "nan"], ["--interest", "-0.1"], ["--mistakes", "inf"], ["--mismatches", "0"],
    ["--receipts", "1e308"],
)  # fmt: skip


def test_plan_has_the_stakes_and_parameters_in_force(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = tmp_path / "network.json"
    write_network(book, deployed(anvil))
    where = ["dispute", "plan", "--network", str(book), "--rpc", anvil.url, "--receipts", "1000", "--gas-gwei", "5"]
    assert main([*where, "--fraud", "0.01", "--mistakes", "3", "--output", "json"]) == Exit.OK
    (row,) = json.loads(capsys.readouterr().out)
    seats = [row["audit_seats"] // len(VERIFIERS)] * len(VERIFIERS)
    assert row["verifiers"] == len(VERIFIERS) and row["locked_s"] == locked_seconds(DEVNET)
    assert row["coverage"] == pytest.approx(coverage_at(DEVNET.shares.audit_rate_bps, seats, 2))
    assert int(row["bonds_wei"]) == row["open_at_once"] * DEVNET.required_bond and row["open_at_once"] > 0
    assert int(row["balance_wei"]) == int(row["bonds_wei"]) + int(row["gas_wei"])
    assert int(row["reward_wei"]) == DEVNET.money.slash_amount * DEVNET.shares.alpha_bps // 10_000 < ETHER * 100
    assert main(where) == Exit.OK
    text = capsys.readouterr().out
    assert "open at once" in text and "pool 0x" in text
    for wrong in WRONG:
        assert main([*where, *wrong]) == Exit.USAGE, wrong
        assert f"[R-55] {wrong[0]}: must " in capsys.readouterr().err, wrong
    assert main([*where, "--receipts", "1e18", "--fraud", "1", "--mistakes", "1e12"]) == Exit.USAGE
    assert "[R-55] --receipts, --fraud, --mistakes: " in capsys.readouterr().err


def left_pool() -> Any:
    """A reader of a pool with one member; another verifier has left it, and a third has moved to another pool."""
    pools = (POOL, ZERO_DIGEST, word("another pool"))
    members = tuple(
        PoolMember(each.address, place, 0, 10 * ETHER, Membership(pool, ZERO_DIGEST, ZERO_DIGEST, 1))
        for place, (each, pool) in enumerate(zip(VERIFIERS[:3], pools, strict=True))
    )
    return SimpleNamespace(
        head=lambda: 9, params_version=lambda block: 1, params=lambda version, block: DEVNET,
        verifiers=lambda pool, block: members, holdings=lambda who, block: holdings(stake_wei=10 * ETHER),
        pool=lambda digest, block: "added",
        network=SimpleNamespace(pools=(SimpleNamespace(digest=POOL),)),
        client=SimpleNamespace(head=lambda: SimpleNamespace(base_fee_wei=1)),
    )  # fmt: skip


def test_plans_leave_out_verifiers_that_left() -> None:
    (row,) = watch_plan._plans(left_pool(), WatchTerms(1000, 0.001, 0, 2, 0.9, 0.99), None, 0.03)
    assert row["verifiers"] == 1 and row["audit_seats"] == 10 * ETHER // DEVNET.money.audit_unit
    (fund,) = fund_plan._plans(left_pool(), FundTerms(RATE_UNIT // 100, 1000, 200 * ETHER, 0, 0.99))
    assert [each["account"] for each in fund["members"]] == [VERIFIERS[0].address]


def test_lists_say_which_verifiers_left(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = network._verifiers(left_pool())
    assert [each["is_member"] for each in rows] == [True, False, False]
    assert ["has left" in str(network._verifier_entry(each)[1]["pool"]) for each in rows] == [False, True, True]
    monkeypatch.setattr(network_state, "RegistryDocuments", lambda _: SimpleNamespace(operators=lambda _: [VERIFIERS[1].address]))
    accounts = network_state._accounts(left_pool(), snapshot())
    roles = ("verifier", "operator", "former verifier")
    assert {each["account"]: each["role"] for each in accounts} == {
        who.address: role for who, role in zip(VERIFIERS[:3], roles, strict=True)
    }

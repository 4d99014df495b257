"""`bytewise dispute plan` on a real chain: figures of the stakes and parameters in force, and wrong input."""

import json
from pathlib import Path

import pytest

from bytewise.protocol.economics.coverage import coverage_at, locked_seconds
from bytewise.service.exit_codes import Exit
from chain.client.address_book import write_network
from chain.deployment.params import DEVNET, ETHER
from cli.__main__ import main
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import VERIFIERS, deployed


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


@pytest.mark.parametrize(
    "wrong",
    [["--fraud", "2"], ["--coverage", "1"], ["--ready", "0"], ["--receipts", "-1"], ["--receipts", "nan"], ["--gas-gwei", "-1"],
     ["--receipts", "1e18", "--fraud", "1", "--mistakes", "1e12"]],
)  # fmt: skip
def test_wrong_plan_is_refused_in_one_line(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: list[str]
) -> None:
    book = tmp_path / "network.json"
    write_network(book, deployed(anvil))
    base = ["dispute", "plan", "--network", str(book), "--rpc", anvil.url, "--receipts", "1000"]
    assert main([*base, *wrong]) == Exit.USAGE
    err = capsys.readouterr().err
    assert "Traceback" not in err and err.strip()

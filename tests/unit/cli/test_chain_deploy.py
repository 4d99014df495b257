"""`bytewise chain deploy`: what cannot work is refused before anything is sent, and a run that stopped is gone on with."""

import dataclasses
import inspect
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from eth_account import Account

from bytewise.protocol.address_book import StakeSource
from bytewise.protocol.encoding import encode
from bytewise.protocol.units import U64
from bytewise.service.exit_codes import Exit
from bytewise.service.node_files.key_lock import hold_key
from bytewise.service.secret import write_secret
from chain.client.address_book import read_network, verify_code
from chain.deployment import deploy as deploying
from chain.deployment.deployment_check import MANAGER, MAX_AGE, SET, STRATEGY
from chain.deployment.draft import path_of, read_draft
from chain.deployment.plan import LEAST_LONG_DELAY_DAYS, LONG_DELAY_DAYS
from chain.sending.keys import save_signer
from chain.sending.transactions import TransactionCall, fee_limit, fees_at, send_all
from cli.__main__ import main
from cli.chain.deploy import StakeName, deploy, eigenlayer_settings
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil
from tests.fixtures.chain.devnet import POOL, signer
from tests.fixtures.cli.killed_deploy import Killed, stop_after

GIVEN = f"0x{POOL.hex()}"
NOBODY = "0x" + "0" * 40
POOR = signer(18)
STEPS = 35
"""Transactions of a deployment with one pool."""
GOVERNED = 26
"""Those after which every contract is there, governance too."""


@pytest.fixture
def cli(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The command on a chain of a few blocks: what it says, whose exit code must be the wanted one."""
    anvil.mine(2)

    def run(*options: str, wanted: Exit = Exit.OK, account: str | None = "0") -> str:
        capsys.readouterr()
        who = [] if account is None else ["--devnet-account", account]
        code = main(["chain", "deploy", "--chain-id", str(CHAIN_ID), "--rpc", anvil.url, *who, *options])
        captured = capsys.readouterr()
        said = " ".join((captured.out + captured.err).split())
        assert code == wanted, said
        return said

    return run


def test_impossible_deployment_is_refused_before_anything_is_sent(cli: Callable[..., str], anvil: Anvil, tmp_path: Path) -> None:
    book, zero = tmp_path / "network.json", "0x" + "00" * 32
    (tmp_path / "file").touch()
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    for options, words in (
        (["--pool", GIVEN, "--out", str(tmp_path / "none" / "x.json")], "--out: "),
        (["--pool", GIVEN, "--out", str(tmp_path / "file" / "x.json")], "is no folder: make it first"),
        (["--pool", GIVEN, "--out", str(tmp_path / "file")], "exists already"),
        (["--pool", GIVEN, "--out", str(tmp_path / "gone")], "exists already"),
        (["--pool", GIVEN, "--guardian", NOBODY], "--guardian: is the zero address"),
        (["--pool", GIVEN, "--curator", NOBODY], "--curator: is the zero address"),
        (["--pool", GIVEN, "--votes", NOBODY], "--votes: is the zero address"),
        (["--pool", GIVEN, "--votes", "0x12"], "--votes: 0x12 is none"),
        (["--pool", GIVEN, "--pool", GIVEN.upper().replace("X", "x")], f"--pool: {GIVEN} is given twice"),
        (["--pool", zero], "--pool: is zero"),
        ([part for i in range(129) for part in ("--pool", f"0x{i + 1:064x}")], "--pool: is given 129 times"),
        (["--pool", GIVEN, "--long-delay", str(LEAST_LONG_DELAY_DAYS - 1)], "--long-delay"),
    ):
        place = [] if "--out" in options else ["--out", str(book)]
        for plan in ([], ["--plan"]):
            assert words in cli(*options, *place, *plan, wanted=Exit.USAGE)
    assert anvil.client.nonce(signer(0).address) == 0 and not book.exists() and not path_of(book).exists()


def test_an_account_without_the_money_sends_nothing(cli: Callable[..., str], anvil: Anvil, tmp_path: Path) -> None:
    save_signer(tmp_path / "poor.key", POOR)
    anvil.rpc("anvil_setBalance", POOR.address, hex(10**16))
    options = ["--pool", GIVEN, "--key", str(tmp_path / "poor.key"), "--out", str(tmp_path / "n.json")]
    for plan in ([], ["--plan"]):
        said = cli(*options, *plan, wanted=Exit.USAGE, account=None)
        assert f"balance: {POOR.address} has 0.010000 ETH, this may take " in said and "send it the rest first" in said
    assert f"{STEPS} transactions" in said, "a plan says also what cannot be paid"
    assert anvil.client.nonce(POOR.address) == 0 and not path_of(tmp_path / "n.json").exists()
    gas, fee = int(said.partition(" gas, ")[0].rpartition(" ")[2].replace(",", "")), anvil.client.head().base_fee_wei
    for price, wanted in ((fees_at(fee).max_fee, Exit.USAGE), (fee_limit(fee) - 1, Exit.USAGE), (fee_limit(fee), Exit.OK)):
        anvil.rpc("anvil_setBalance", POOR.address, hex(gas * price))
        cli(*options, "--plan", wanted=wanted, account=None)
    anvil.rpc("anvil_setBalance", POOR.address, hex(10**18))
    with hold_key(tmp_path / "poor.key"):
        assert f"poor.key is used by process {os.getpid()}" in cli(*options, wanted=Exit.REFUSED, account=None)
        assert "gwei per gas: enough" in cli(*options, "--plan", account=None)
    assert anvil.client.nonce(POOR.address) == 0 and not path_of(tmp_path / "n.json").exists()
    stored, password = tmp_path / "poor.json", tmp_path / "password"
    write_secret(stored, json.dumps(Account.encrypt(POOR.secret, "right", kdf="pbkdf2", iterations=2)).encode())
    options[options.index("--key") + 1] = str(stored)
    for typed, wanted in (("wrong", Exit.USAGE), ("right", Exit.OK)):
        password.unlink(missing_ok=True)
        write_secret(password, typed.encode())
        said = cli(*options, "--password-file", str(password), wanted=wanted, account=None)
        assert ("the password is wrong" in said) == (typed == "wrong")
    assert anvil.client.nonce(POOR.address) == STEPS


def test_deployment_pays_no_higher_fee_than_was_checked(
    cli: Callable[..., str], anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = tmp_path / "network.json"
    options, planned = ["--pool", GIVEN, "--out", str(book)], deploying.planned_book

    def dearer(*values: Any) -> Any:
        anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(100 * anvil.client.head().base_fee_wei))
        anvil.mine()
        return planned(*values)

    monkeypatch.setattr(deploying, "planned_book", dearer)
    said = cli(*options, wanted=Exit.UNAVAILABLE)
    assert "give the same command again to go on" in said and anvil.client.nonce(signer(0).address) == 0
    monkeypatch.undo()
    assert f"goes on after 0 of {STEPS} transactions" in cli(*options)
    assert verify_code(anvil.client, read_network(book))


def test_book_that_another_run_wrote_meanwhile_is_kept(
    cli: Callable[..., str], anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run ended while this one asked for its password: its book is there when this one has the key."""
    book = tmp_path / "network.json"

    def slow(*options: Any) -> Any:
        book.write_text("of the other run")
        return eigenlayer_settings(*options)

    monkeypatch.setattr("cli.chain.deploy.eigenlayer_settings", slow)
    assert "exists already" in cli("--pool", GIVEN, "--out", str(book), wanted=Exit.USAGE)
    assert book.read_text() == "of the other run" and anvil.client.nonce(signer(0).address) == 0


def test_a_folder_that_may_not_be_written_is_named(
    tmp_path: Path, cli: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may write everywhere, whatever a folder's mode says.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    assert "nothing can be written in" in cli("--pool", GIVEN, "--out", str(tmp_path / "n.json"), wanted=Exit.USAGE)


@pytest.mark.parametrize("sent", [0, 5, STEPS - 1])
def test_killed_deployment_is_resumed(
    sent: int, cli: Callable[..., str], anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = tmp_path / "network.json"
    options = ["--pool", GIVEN, "--out", str(book)]
    stop_after(sent, monkeypatch)
    with pytest.raises(Killed):
        cli(*options)
    monkeypatch.undo()
    draft = read_draft(book)
    assert draft is not None and not book.exists() and anvil.client.nonce(signer(0).address) == sent
    # So old headers are refused by `RandaoSource`.
    anvil.rpc("anvil_mine", hex(300))
    assert "with other options or by another build" in cli("--out", str(book), wanted=Exit.USAGE)
    assert "with other options or by another build" in cli(*options, wanted=Exit.USAGE, account="1")
    assert f"{STEPS - sent} transactions" in cli(*options, "--plan")
    assert f"goes on after {sent} of {STEPS} transactions" in cli(*options)
    assert not path_of(book).exists() and anvil.client.nonce(signer(0).address) == STEPS
    network = read_network(book)
    assert network.addresses == draft.book.addresses and verify_code(anvil.client, network) == network
    assert main(["chain", "show", "--rpc", anvil.url, "--network", str(book)]) == Exit.OK


def test_deployment_that_ended_before_writing_the_book_writes_it(
    cli: Callable[..., str], anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = tmp_path / "network.json"
    options = ["--pool", GIVEN, "--out", str(book)]

    def killed(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(deploying, "verify_deployed", killed)
    with pytest.raises(Killed):
        cli(*options)
    monkeypatch.undo()
    assert f"goes on after {STEPS} of {STEPS}" in cli(*options)
    assert anvil.client.nonce(signer(0).address) == STEPS and verify_code(anvil.client, read_network(book))


def test_draft_that_cannot_be_resumed_gives_advice(
    cli: Callable[..., str], anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = tmp_path / "network.json"
    options = ["--pool", GIVEN, "--out", str(book)]
    stop_after(3, monkeypatch)
    with pytest.raises(Killed):
        cli(*options)
    monkeypatch.undo()
    send_all(anvil.client, [TransactionCall(signer(0), signer(1).address, b"", 1, 21_000)], 60)
    said = cli(*options, wanted=Exit.USAGE)
    assert "Guardian is not at 0x" in said and "to begin a new deployment" in said
    path_of(book).write_bytes(b"{}")
    assert "is no draft of a deployment" in cli(*options, wanted=Exit.USAGE)
    path_of(book).unlink()
    cli(*options)
    assert anvil.client.nonce(signer(0).address) == STEPS + 4


def test_draft_with_a_changed_address_book_is_not_resumed(
    cli: Callable[..., str], anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = tmp_path / "network.json"
    options = ["--pool", GIVEN, "--out", str(book)]
    stop_after(3, monkeypatch)
    with pytest.raises(Killed):
        cli(*options)
    monkeypatch.undo()
    draft, kept = read_draft(book), path_of(book).read_bytes()
    assert draft is not None
    at = draft.book.addresses
    for change in ({"deploy_block": U64(10**9)}, {"pools": ()}, {"addresses": dataclasses.replace(at, lens=at.ledger)}):
        changed = dataclasses.replace(draft.book, **change)
        path_of(book).write_bytes(encode(dataclasses.replace(draft, book=changed)))
        for plan in ([], ["--plan"]):
            said = cli(*options, *plan, wanted=Exit.USAGE)
            assert f"{path_of(book).name}: its address book was changed" in said and "to begin a new deployment" in said
    assert anvil.client.nonce(signer(0).address) == 3 and not book.exists()
    path_of(book).write_bytes(kept)
    cli(*options)
    assert read_network(book).deploy_block == draft.book.deploy_block


def test_no_deployment_begins_while_a_transaction_of_the_account_waits(
    cli: Callable[..., str], anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book, other = tmp_path / "network.json", tmp_path / "other.json"
    anvil.automine(False)
    monkeypatch.setattr(deploying, "send_all", lambda client, calls, *_: send_all(client, calls, 0.5))
    cli("--pool", GIVEN, "--out", str(other), "--guardian", signer(7).address, wanted=Exit.UNAVAILABLE)
    monkeypatch.undo()
    for plan in ([], ["--plan"]):
        said = cli("--pool", GIVEN, "--out", str(book), *plan, wanted=Exit.UNAVAILABLE)
        assert f"transactions of {signer(0).address} wait for a block" in said
    assert not path_of(book).exists()
    anvil.mine(1)
    anvil.automine(True)
    cli("--pool", GIVEN, "--out", str(other), "--guardian", signer(7).address)
    cli("--pool", GIVEN, "--out", str(book))
    assert anvil.client.nonce(signer(0).address) == 2 * STEPS


def test_contracts_of_another_run_are_not_taken_for_steps_of_this_one(
    cli: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.toml").write_text("[times]\nwindow = 240\n")
    runs = {
        "1": (["--params", str(tmp_path / "other.toml")], "the parameters of Params", 3),
        "2": (["--guardian", signer(7).address], f"whether {signer(2).address} is GUARDIAN", STEPS),
        "3": (["--curator", signer(7).address], f"whether {signer(3).address} is CURATOR", STEPS),
        "4": (["--votes", signer(7).address], f"the number of votes of {signer(4).address}", GOVERNED),
        "5": (["--long-delay", "40"], f"this command asks for {LONG_DELAY_DAYS * 86_400}", GOVERNED),
        "6": (["--pool", f"0x{'ab' * 32}"], "is no RandaoSource", 9),
    }
    for account, (options, words, sent) in runs.items():
        book, other = tmp_path / f"{account}.json", tmp_path / f"other-{account}.json"
        for out, chosen, steps in ((book, [], 0), (other, options, sent)):
            stop_after(steps, monkeypatch)
            if steps < STEPS:
                with pytest.raises(Killed):
                    cli("--pool", GIVEN, "--out", str(out), *chosen, account=account)
            else:
                cli("--pool", GIVEN, "--out", str(out), *chosen, account=account)
            monkeypatch.undo()
        said = cli("--pool", GIVEN, "--out", str(book), account=account, wanted=Exit.USAGE)
        assert words in said and "another run by this account has deployed at these addresses" in said
        assert not book.exists()
        cli("--pool", GIVEN, "--out", str(other), *options, "--plan", account=account) if sent < STEPS else None


def test_the_long_delay_is_the_one_asked_for_and_the_least_is_the_charters(
    cli: Callable[..., str], anvil: Anvil, tmp_path: Path
) -> None:
    for days in (LONG_DELAY_DAYS, LEAST_LONG_DELAY_DAYS):
        book = tmp_path / f"{days}.json"
        chosen = [] if days == LONG_DELAY_DAYS else ["--long-delay", str(days)]
        cli("--pool", GIVEN, "--out", str(book), *chosen)
        at = read_network(book).addresses
        assert anvil.client.call("TimelockController", at.long_timelock, "getMinDelay", block="latest") == days * 86_400
        least = anvil.client.call("Charter", at.charter, "LONG_DELAY", block="latest")
        assert (LEAST_LONG_DELAY_DAYS - 1) * 86_400 < least <= LEAST_LONG_DELAY_DAYS * 86_400


def test_options_have_the_names_and_bounds_of_the_deployment() -> None:
    """The options are written out, so that a help page need not import the deployment."""
    parameters = inspect.signature(deploy, eval_str=True).parameters
    about = {name: get_args(each.annotation)[1] for name, each in parameters.items() if get_args(each.annotation)}
    names = {about[each].default for each in ("allocation_manager", "strategy", "operator_set", "max_age")}
    assert names == {MANAGER, STRATEGY, SET, MAX_AGE}
    assert about["long_delay"].min == LEAST_LONG_DELAY_DAYS and parameters["long_delay"].default == LONG_DELAY_DAYS
    assert {each.value for each in StakeName} == {each.value for each in StakeSource}

"""`bytewise chain`: a deployment planned, made and looked at, by several nodes too; parameters shown and tried."""

import itertools
import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bytewise.protocol.address_book import Addresses, Network, PoolTree
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.exit_codes import Exit
from chain.client.address_book import code_hashes, contracts_of_other_releases, read_network, verify_code, write_network
from chain.client.artifacts import interface
from chain.deployment.calls import call_of
from chain.deployment.deploy import add_pool
from chain.deployment.lengths import MEASURED_BLOCKS
from chain.deployment.params import DEVNET, ETHER, complete_params, read_changes, with_changes
from chain.deployment.plan import LONG_DELAY_DAYS
from chain.sending.keys import save_signer
from chain.sending.transactions import send_all
from cli.__main__ import main
from cli.node.checks import chain as chain_checks
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil
from tests.fixtures.chain.devnet import POOL, deployed, reader, signer, word
from tests.fixtures.chain.lying_endpoints import fronts, gone, lies, refuses

DEPLOY = ["chain", "deploy", "--chain-id", str(CHAIN_ID), "--devnet-account", "0", "--pool", f"0x{POOL.hex()}"]


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).split())


def test_deployment_is_planned_made_and_checked(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    anvil.mine(2)
    book, rpc = tmp_path / "network.json", ["--rpc", anvil.url]
    assert main([*DEPLOY, *rpc, "--out", str(book), "--plan"]) == Exit.OK
    planned = printed(capsys)
    assert "35 transactions" in planned and f"pool 0x{POOL.hex()}, create StakeTree, bytes " in planned and not book.exists()
    assert anvil.client.nonce(signer(0).address) == 0
    assert main([*DEPLOY, *rpc, "--out", str(book)]) == Exit.OK
    assert "35 of 35 transactions are in blocks" in printed(capsys)
    assert all(each in planned for each in asdict(read_network(book).addresses).values()), "each address is in the plan, whole"
    assert main([*DEPLOY, *rpc, "--out", str(book)]) == Exit.USAGE
    where = [*rpc, "--network", str(book)]
    capsys.readouterr()
    assert main(["chain", "show", *where, "--output", "json"]) == Exit.OK
    state = json.loads(capsys.readouterr().out)
    network = read_network(book)
    assert state["roles"]["ADMIN"] == [network.addresses.long_timelock] and state["irregular"] == []
    assert state["long_delay_s"] == LONG_DELAY_DAYS * 86_400
    assert state["money_sums"] and state["params_version"] == 1 and len(state["contracts"]) == 25
    tree = network.pools[0].tree
    assert state["pools"] == [{"pool": f"0x{POOL.hex()}", "added": False, "tree": tree}]
    assert main(["chain", "show", *where]) == Exit.OK
    said = printed(capsys)
    assert "what moves stake waits 64 days" in said and f"bytewise chain call Registry addPool 0x{POOL.hex()} {tree}" in said
    verbs_work_before_the_curator_adds_the_pool(where, capsys)
    anvil.rpc("anvil_setBalance", network.addresses.stake_vault, "0x1")
    assert main(["chain", "show", *where]) == Exit.MISMATCH
    assert "DOES NOT SUM" in printed(capsys)
    anvil.rpc("anvil_setCode", network.addresses.disputes, "0x00")
    assert main(["chain", "show", *where]) == Exit.USAGE
    assert f"disputes at {network.addresses.disputes} has other code" in printed(capsys)


def verbs_work_before_the_curator_adds_the_pool(where: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Asserts it of every verb that reads the pools of a network."""
    receipts = ["dispute", "plan", "--receipts", "1000"]
    rate = ["attention", "plan", "--rate", "0.01", "--per-day", "1000", "--stake", "200"]
    empty: dict[str, Any] = {}
    for verb in (["verifier", "list"], ["network", "show"], receipts, rate):
        assert main([*verb, *where]) == Exit.OK, verb
        assert f"the curator has not added pool 0x{POOL.hex()} yet" in printed(capsys), verb
        assert main([*verb, *where, "--output", "json"]) == Exit.OK, verb
        empty[verb[0]] = json.loads(capsys.readouterr().out)
    assert empty["verifier"] == [] and empty["network"]["pools_not_added"] == [f"0x{POOL.hex()}"]
    ((disputes,), (tests,)) = empty["dispute"], empty["attention"]
    assert (disputes["verifiers"], disputes["added"]) == (0, False) and (tests["members"], tests["added"]) == ([], False)
    assert main(["verifier", "show", "0x12", *where]) == Exit.NOT_FOUND
    assert "Traceback" not in printed(capsys)


def test_address_book_with_exchanged_contracts_is_refused(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    anvil.mine(2)
    book, other = tmp_path / "network.json", f"0x{word('other pool').hex()}"
    assert main([*DEPLOY, "--pool", other, "--rpc", anvil.url, "--out", str(book)]) == Exit.OK
    network = read_network(book)

    def refused(swapped: Network) -> str:
        write_network(book, swapped)
        capsys.readouterr()
        assert main(["chain", "show", "--rpc", anvil.url, "--network", str(book)]) == Exit.USAGE
        return printed(capsys)

    at, names = network.addresses, [field.name for field in fields(Addresses)]
    for one, two in itertools.combinations(names, 2):
        changed_places = replace(at, **{one: getattr(at, two), two: getattr(at, one)})
        with pytest.raises(ConfigurationError, match="no book of one deployment"):
            verify_code(anvil.client, replace(network, addresses=changed_places))
    assert "lens works with" in refused(replace(network, addresses=replace(at, disputes=at.ledger, ledger=at.disputes)))
    first, second = network.pools
    swapped = replace(network, pools=(PoolTree(first.digest, second.tree), PoolTree(second.digest, first.tree)))
    send_all(anvil.client, [call_of(signer(0), network, add_pool(first.digest, first.tree))], 60)
    assert f"the tree of pool 0x{first.digest.hex()[:8]}… is {first.tree} to the registry" in refused(swapped)
    assert "is no StakeTree" in refused(replace(network, pools=(PoolTree(first.digest, at.params), second)))
    write_network(book, network)
    assert main(["chain", "show", "--rpc", anvil.url, "--network", str(book)]) == Exit.OK


REFUSED = (
    ("[times]\nunbond_delay = 600\n", "unbondDelay of 600 s is below the longest dispute"),
    ("[committee]\nseats = [15, 30, 0]\n", "seats is outside its bounds"),
    (f"[money]\nabsent_penalty = {ETHER // 40}\n", "noRevealPenalty is outside its bounds: it may not be below absentPenalty"),
    (f"[money]\nwrong_penalty = {ETHER // 60}\n", "wrongPenalty is outside its bounds: it may not be below noRevealPenalty"),
    (
        f"[money]\nunanchored_penalty = {8 * ETHER - 1}\n",
        "unanchoredPenalty is outside its bounds: it may not be below slashAmount",
    ),
    (f"[money]\ndemand_bond = {ETHER // 10}\n", "demandBond is outside its bounds: that of a list of maxBatch leaves"),
    ("[times]\nseed_time = 100\n", "seed_time + draw_time: is 130, needs 181"),
    ("[times]\nwindows = 1\n", "times.windows: no such parameter"),
    ("[times]\nwindow = true\n", "times.window: True is no int"),
    ("[time]\nwindow = 1\n", "time: one of"),
    ("not toml", "new.toml"),
)
"""Changes of the parameters that are not legal, and what is said of them."""


def test_parameters_are_shown_as_input_and_tried_before_a_vote(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    anvil.mine(2)
    book, file = tmp_path / "network.json", tmp_path / "new.toml"
    assert main([*DEPLOY, "--rpc", anvil.url, "--out", str(book)]) == Exit.OK
    where = ["chain", "params", "--rpc", anvil.url, "--network", str(book), "--block-s", "1"]
    capsys.readouterr()
    assert main(where) == Exit.OK
    file.write_text(capsys.readouterr().out)
    for version in ("2", "99999999999999"):
        assert main([*where, "--version", version]) == Exit.USAGE
        assert f"--version: is {version}: this network has versions 1 to 1" in printed(capsys)
    assert complete_params(read_changes(file)) == DEVNET
    file.write_text("[times]\nwindow = 240\n")
    assert main([*where, "--set", str(file), "--dry-run"]) == Exit.OK and printed(capsys) == "legal"
    assert main([*where, "--set", str(file)]) == Exit.OK
    assert f"target {read_network(book).addresses.params} calldata 0x" in printed(capsys)
    for content, words in REFUSED:
        file.write_text(content)
        assert main([*where, "--set", str(file), "--dry-run"]) == Exit.USAGE
        assert words in printed(capsys)
    anvil.rpc("anvil_mine", hex(MEASURED_BLOCKS), hex(12))
    file.write_text("[times]\nwindow = 120\n")
    assert main([*where[:-2], "--set", str(file), "--dry-run"]) == Exit.USAGE
    assert "max_anchor_delay + window + cure: is 240, needs 481" in printed(capsys)


def test_functions_of_a_contract_are_listed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chain", "call", "Guardian", "--output", "json"]) == Exit.OK
    assert "pause(uint64 duration)" in json.loads(capsys.readouterr().out)


def test_wrong_input_is_named(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--rpc", anvil.url, "--out", str(tmp_path / "network.json")]
    assert main([*DEPLOY, *out]) == Exit.USAGE and "needs two blocks" in printed(capsys)
    anvil.mine(2)
    assert main([*DEPLOY, *out, "--curator", "0x12"]) == Exit.USAGE and "0x12 is none" in printed(capsys)
    assert main([*DEPLOY, *out, "--pool", "0x12"]) == Exit.USAGE and "--pool" in printed(capsys)
    assert main([*DEPLOY[:4], *out]) == Exit.USAGE and "--key or --devnet-account" in printed(capsys)
    (tmp_path / "bad.toml").write_text("[committee]\ntau_num = 1\n")
    assert main([*DEPLOY, *out, "--params", str(tmp_path / "bad.toml")]) == Exit.USAGE
    assert "tau is outside its bounds" in printed(capsys)


def test_a_chain_with_money_needs_every_parameter(tmp_path: Path) -> None:
    assert with_changes(DEVNET, {"times": {"window": 7}}).times.window == 7
    with pytest.raises(ConfigurationError, match=r"missing committee.breaker_operators, .*times.window"):
        complete_params({"money": {}})


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


CURATOR = signer(0)


def test_sent_call_without_a_receipt_is_not_reported_as_undone(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_network(tmp_path / "network.json", deployed(anvil))
    feed = ["chain", "call", "Audits", "feed", "--value", "5", "--devnet-account", "1", "--send"]
    before = anvil.client.nonce(signer(1).address)
    with fronts(anvil, 1) as [node]:
        node.change = refuses("eth_getTransactionReceipt")
        asked = [*feed, "--network", str(tmp_path / "network.json"), "--rpc", node.url]
        assert main(asked) == Exit.UNAVAILABLE
    said = printed(capsys)
    assert "was sent, and may still get into a block" in said and "before you repeat" in said and "not done" not in said
    assert anvil.client.nonce(signer(1).address) == before + 1


def test_majority_of_several_nodes_decides_what_is_read_and_sent(anvil: Anvil, tmp_path: Path) -> None:
    """One that lies about the code, or about what a call would do, is outvoted; where no most agree, nothing is signed."""
    save_signer(tmp_path / "curator.key", CURATOR)
    item = f"0x{word('measurement').hex()}"
    network = deployed(anvil)
    write_network(tmp_path / "network.json", network)
    book = ["--network", str(tmp_path / "network.json")]
    asked = ["chain", "call", "Registry", "setMeasurement", item, "true", "--key", str(tmp_path / "curator.key"), "--send", *book]
    with fronts(anvil, 3) as nodes:
        three = [part for each in nodes for part in ("--rpc", each.url)]
        for lie in (lies("eth_getCode", lambda code: "0x00"), refuses("eth_call"), gone):
            nodes[0].change = lie
            before = anvil.client.nonce(CURATOR.address)
            assert main([*asked, *three]) == Exit.OK, lie
            assert anvil.client.nonce(CURATOR.address) == before + 1
        nodes[0].change = lies("eth_getCode", lambda code: "0x00")
        assert main([*asked, *three[:4]]) == Exit.UNAVAILABLE
        assert main([*asked, *three[2:4], *three[2:4]]) == Exit.USAGE, "one node, named twice"
        assert anvil.client.nonce(CURATOR.address) == before + 1
    assert anvil.client.call("Registry", network.addresses.registry, "isAllowed", word("measurement"), block="latest")

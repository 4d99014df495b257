"""`bytewise chain call` and the verbs of a vote, on a chain: what an office may do at once, and what takes a vote."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from eth_abi.abi import encode

from bytewise.protocol.units import Address
from bytewise.service.exit_codes import Exit
from chain.acts import proposals
from chain.acts.governed import set_money_mover
from chain.client.address_book import address_of
from chain.deployment import deploy
from chain.deployment.calls import ContractCall
from chain.deployment.plan import code
from chain.sending.keys import save_signer
from cli.__main__ import main
from tests.fixtures.chain.anvil import Anvil, running_anvil
from tests.fixtures.chain.devnet import signer, word
from tests.fixtures.chain.governance_cli import DELAYS, GUARDIAN, VOTER, GovernanceCli, founded_by_vote, passed


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Anvil, Path]]:
    """One deployment for all tests here, with short votes: guardian and curator are accounts of their own."""
    folder = tmp_path_factory.mktemp("network")
    with running_anvil() as anvil:
        founded_by_vote(anvil, folder)
        yield anvil, folder


@pytest.fixture
def governance(deployed: tuple[Anvil, Path], capsys: pytest.CaptureFixture[str]) -> GovernanceCli:
    return GovernanceCli(*deployed, capsys)


def test_empty_list_of_proposals_is_reported_as_such(governance: GovernanceCli) -> None:
    assert governance.printed("proposal", "list") == [] and re.fullmatch(
        r"no proposals up to block \d+", governance.run("proposal", "list")
    )


def test_guardian_pauses_by_key_and_elsewhere_by_multisignature(governance: GovernanceCli, tmp_path: Path) -> None:
    save_signer(tmp_path / "guardian.key", GUARDIAN)
    printed = governance.printed("call", "Guardian", "pause", "3600")
    assert (
        printed["from"] == GUARDIAN.address
        and printed["to"] == governance.network.addresses.guardian
        and printed["value"] == "0x0"
    )
    assert bytes.fromhex(printed["data"][2:]) == deploy.pause(3600).calldata
    assert governance.read("Guardian", "pausedUntil") == 0, "nothing was sent"
    said = governance.run("call", "Guardian", "pause", "3600", "--key", str(tmp_path / "guardian.key"), "--send")
    assert f"Guardian.pause may be called by {GUARDIAN.address}" in said and "done in block" in said
    assert governance.read("Guardian", "pausedUntil") > governance.anvil.client.head().timestamp
    assert "NotNow(paused=True)" in governance.run("call", "Guardian", "pause", "60", wanted=Exit.USAGE)
    sent = governance.printed("call", "Guardian", "unpause", "--key", str(tmp_path / "guardian.key"), "--send")
    assert sent["block"] == governance.anvil.client.head().number
    assert governance.anvil.rpc("eth_getTransactionByHash", sent["transaction"])["blockNumber"] == hex(sent["block"])
    assert governance.read("Guardian", "pausedUntil") == 0
    assert "CoolingDown" in governance.run("call", "Guardian", "pause", "60", wanted=Exit.USAGE)


def test_a_call_is_refused_before_anybody_signs_it(governance: GovernanceCli) -> None:
    def refused(*arguments: str) -> str:
        return governance.run(*arguments, wanted=Exit.USAGE)

    stranger = ["--from", signer(5).address]
    said = refused("call", "Guardian", "pause", "60", *stranger)
    assert f"Guardian.pause: refused for {signer(5).address}" in said and "AccessManagedUnauthorized" in said
    assert "is for SLASHER_ADMIN, which is a vote's" in refused("call", "Ledger", "setMover", signer(5).address, "true")
    assert "say who makes it" in refused("call", "Ledger", "withdraw")
    assert "NothingDue" in refused("call", "Ledger", "withdraw", *stranger)
    assert "BadStatus" in refused("call", "Registry", "close", f"0x{word('nothing').hex()}")
    assert "is none of Charter, AccessManager" in refused("call", "Guardien", "pause", "60")
    assert "name one function of Guardian: pause, refund" in refused("call", "Guardian", "stop", "60")
    assert "--from, --key and --devnet-account" in refused("call", "Guardian", "unpause", *stranger, "--devnet-account", "0")
    assert "needs the key of who sends" in refused("call", "Guardian", "unpause", *stranger, "--send")
    assert "0x12 is none" in refused("call", "Guardian", "unpause", "--from", "0x12")
    assert "pause(uint64 duration)" in governance.run("call", "Guardian")
    governance.anvil.rpc("anvil_setBalance", signer(6).address, "0x1")
    poor = ["call", "GovernanceToken", "delegate", signer(6).address, "--devnet-account", "6", "--send"]
    assert f"balance: {signer(6).address} has 1 wei, " in refused(*poor)


def test_impossible_call_is_a_usage_error_with_advice(governance: GovernanceCli) -> None:
    def refused(*arguments: str) -> str:
        return governance.run("call", "Ledger", "fund", *arguments, wanted=Exit.USAGE)

    rich, much = ["--from", VOTER.address], str(10**30)
    assert f"wei, {much} wei go with the call: send it the rest first" in refused(*rich, "--value", much)
    assert "--value" in refused(*rich, "--value", str(10**90))
    assert "10000000000000000 is none: below 2147483648" in refused("--devnet-account", "10000000000000000")
    own = ["--network", str(governance.folder / "network.json")]
    for url in ("nonsense", "ftp://127.0.0.1", "http://", "http://[", "http://127.0.0.1:99999"):
        assert main(["chain", "proposal", "list", "--rpc", url, *own]) == Exit.USAGE
    no_text = os.fsdecode(b"\xff")
    asked = ["proposal", "create", "Ledger", "setMover", VOTER.address, "true", *rich]
    assert "description: is no UTF-8" in governance.run(*asked, "--description", no_text, wanted=Exit.USAGE)


def test_a_vote_changes_parameters_and_a_longer_one_movers(governance: GovernanceCli, tmp_path: Path) -> None:
    voter = ["--devnet-account", "0"]
    change = tmp_path / "new.toml"
    change.write_text("[times]\nwindow = 240\n")
    asked = ["--params", str(change), "--block-s", "1", "--description", "a longer window"]
    assert "GovernorInsufficientProposerVotes" in governance.run(
        "proposal", "create", *asked, "--from", VOTER.address, wanted=Exit.USAGE
    )
    governance.run("call", "GovernanceToken", "delegate", VOTER.address, *voter, "--send")
    governance.blocks(1)
    number, listed = passed(governance, asked)
    assert len(listed["does"]) == 1 and listed["does"][0].startswith("Params.set(p={'times': {'window': 240")
    governance.run("proposal", "execute", number, *voter, "--send")
    assert governance.read("Params", "version") == 2
    assert "nothing of it waits" in governance.run("proposal", "execute", number, *voter, wanted=Exit.USAGE)

    mover = signer(7).address
    calls = tmp_path / "calls.json"
    listing = [
        {"contract": "Ledger", "function": "setMover", "arguments": [mover, True]},
        {"contract": "StakeVault", "function": "setMover", "arguments": [mover, "true"]},
    ]
    calls.write_text(json.dumps(listing))
    number, listed = passed(governance, ["--calls", str(calls), "--description", "a new settlement"])
    first = f"after {DELAYS.long_delay_s} s more: Ledger.setMover(who={mover}, allowed=True)"
    assert listed["does"] == [first, first.replace("Ledger", "StakeVault")]
    governance.run("proposal", "execute", number, *voter, "--send")
    assert "the long timelock holds it until" in governance.run("proposal", "execute", number, *voter, wanted=Exit.USAGE)
    assert not is_mover(governance, mover), "33 days for who wants to leave are not over"
    governance.anvil.pass_time(DELAYS.long_delay_s)
    assert "can be executed by the long timelock from" in governance.run("proposal", "list")
    governance.run("proposal", "execute", number)
    governance.run("proposal", "execute", number, *voter, "--send")
    assert is_mover(governance, mover)
    assert "nothing of it waits" in governance.run("proposal", "execute", number, *voter, wanted=Exit.USAGE)


def is_mover(governance: GovernanceCli, who: Address) -> bool:
    """Whether the ledger takes an account for a mover."""
    return bool(governance.read("Ledger", "isMover", who))


def test_refused_proposal_is_reported_with_the_contracts_reason(governance: GovernanceCli, tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        return governance.run(
            "proposal", "create", *arguments, "--description", "why", "--from", VOTER.address, wanted=Exit.USAGE
        )

    assert "one of them" in refused()
    assert "neither timelock may do this" in refused("Guardian", "pause", "60")
    assert "ZeroAddress" in refused("Ledger", "setMover", "0x" + "0" * 40, "true"), "not that the short timelock may not"
    assert "is none of Charter" in refused("Legder", "setMover", VOTER.address, "true")
    assert "name one function of Ledger: " in refused("Ledger")
    needs = governance.run(
        "proposal", "create", "Ledger", "setMover", VOTER.address, "true", "--from", VOTER.address, wanted=Exit.USAGE
    )
    assert "needs at least one call and a description" in needs
    assert "is not on this network" in governance.run("proposal", "vote", "17", "for", wanted=Exit.USAGE)
    assert "is none of for, against, abstain" in governance.run("proposal", "vote", "17", "yes", wanted=Exit.USAGE)
    (tmp_path / "calls.json").write_text('[{"contract": "Ledger"}]')
    assert "calls.json[0]: is no {" in refused("--calls", str(tmp_path / "calls.json"))


def test_wei_of_a_listed_call_are_proposed(governance: GovernanceCli, tmp_path: Path) -> None:
    governance.run("call", "GovernanceToken", "delegate", VOTER.address, "--devnet-account", "0", "--send")
    governance.blocks(1)
    # The timelock that would make it must have them while it is tried.
    governance.anvil.rpc("anvil_setBalance", governance.network.addresses.short_timelock, "0x5")
    (tmp_path / "calls.json").write_text('[{"contract": "Ledger", "function": "fund", "arguments": [], "value": 5}]')
    asked = ["--calls", str(tmp_path / "calls.json"), "--description", "a gift"]
    assert governance.printed("proposal", "create", *asked, "--from", VOTER.address)["does"] == "Ledger.fund() with 5 wei"


def test_proposal_text_is_shown_without_control_characters(governance: GovernanceCli) -> None:
    governance.run("call", "GovernanceToken", "delegate", VOTER.address, "--devnet-account", "0", "--send")
    governance.blocks(1)
    mine = ["--devnet-account", "0", "--send"]
    words = ["--description", "\x1b[2Jnothing to see"]
    number = governance.printed("proposal", "create", "Registry", "setCourt", VOTER.address, *words, "--from", VOTER.address)[
        "proposal"
    ]
    governance.run("proposal", "create", "Registry", "setCourt", VOTER.address, *words, *mine)
    said = governance.run("proposal", "list")
    assert "\x1b" not in said and "[2Jnothing to see" in said
    assert "GovernorUnableToCancel" in governance.run(
        "proposal", "cancel", number, "--from", signer(5).address, wanted=Exit.USAGE
    )
    governance.run("proposal", "cancel", number, *mine)
    assert "is CANCELED: nothing" in governance.run("proposal", "vote", number, "for", *mine, wanted=Exit.USAGE)


def proposed_as_bytes(governance: GovernanceCli, target: str, calldata: bytes, description: bytes) -> str:
    """The voter proposes with words that need not be text; the proposal's number."""
    asked = ([address_of(governance.network, target)], [0], [calldata], description)
    data = code(proposals.GOVERNOR).selector("propose") + encode(["address[]", "uint256[]", "bytes[]", "bytes"], asked)
    to = address_of(governance.network, proposals.GOVERNOR)
    governance.anvil.rpc("eth_sendTransaction", {"from": VOTER.address, "to": to, "data": "0x" + data.hex()})
    governance.blocks(1)
    number: str = governance.printed("proposal", "list")[0]["proposal"]
    return number


def test_description_that_is_no_text_is_shown_and_voted_on_like_others(governance: GovernanceCli) -> None:
    voter, chosen = ["--devnet-account", "0", "--send"], signer(8).address
    governance.run("call", "GovernanceToken", "delegate", VOTER.address, *voter)
    governance.blocks(1)
    calldata = proposals.delegate(chosen).calldata
    number = proposed_as_bytes(governance, "GovernanceToken", calldata, b"pay \xff\x1b me")
    assert governance.printed("proposal", "list")[0]["description"] == "pay \\xff\x1b me"
    assert "description pay \\xff\N{REPLACEMENT CHARACTER} me" in governance.run("proposal", "list")
    governance.blocks(DELAYS.delay_blocks + 1)
    governance.run("proposal", "vote", number, "for", *voter)
    governance.blocks(DELAYS.period_blocks + 1)
    governance.run("proposal", "queue", number, *voter)
    governance.anvil.pass_time(DELAYS.short_delay_s)
    governance.run("proposal", "execute", number, *voter)
    assert governance.read("GovernanceToken", "delegates", governance.network.addresses.short_timelock) == chosen
    other = proposed_as_bytes(governance, "GovernanceToken", calldata, b"\xff again")
    assert other != number
    governance.run("proposal", "cancel", other, *voter)
    assert governance.printed("proposal", "list")[0]["state"] == "CANCELED"


def test_batch_no_timelock_would_accept_is_shown_as_its_calls(governance: GovernanceCli) -> None:
    governance.run("call", "GovernanceToken", "delegate", VOTER.address, "--devnet-account", "0", "--send")
    governance.blocks(1)
    one, zero, salt = VOTER.address, bytes(32), word("salt")
    uneven = ContractCall("LongTimelock", "scheduleBatch", ([one, one], [0], [b""], zero, salt, 5)).calldata
    proposed_as_bytes(governance, "LongTimelock", uneven, b"uneven")
    (does,) = governance.printed("proposal", "list")[0]["does"]
    assert does.startswith(f"LongTimelock.scheduleBatch(targets=('{one}', '{one}'), values=(0,)")
    after = ContractCall("LongTimelock", "scheduleBatch", ([one], [1], [b""], word("before"), salt, 5)).calldata
    proposed_as_bytes(governance, "LongTimelock", after, b"after another")
    assert governance.printed("proposal", "list")[0]["does"] == [
        f"after 5 s more and batch 0x{word('before').hex()}: {one} 0x with 1 wei"
    ]


def test_the_wrappers_say_what_the_command_line_says(governance: GovernanceCli) -> None:
    printed = governance.printed(
        "proposal", "create", "Ledger", "setMover", VOTER.address, "true", "--description", "d", "--from", VOTER.address
    )
    assert set_money_mover(VOTER.address, allowed=True).calldata.hex() in printed["data"]

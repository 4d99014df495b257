"""`bytewise chain call` and the verbs of a vote, on a chain: what an office may do at once, and what takes a vote.

The last votes change how votes are held, and who may hold them. A file of calls is proposed as it is, or refused with the place
that is wrong.
"""

import json
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import encode

from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.actors import ConfigurationError, KeyInUse
from bytewise.protocol.units import Address
from bytewise.service.exit_codes import Exit
from bytewise.service.node_files.key_lock import verify_unused
from chain.acts import governed, proposals
from chain.client.address_book import address_of
from chain.client.quorum import QuorumClient
from chain.client.rpc import ChainClient
from chain.deployment import deploy
from chain.deployment.calls import ContractCall, estimated_call
from chain.deployment.plan import code
from chain.sending.keys import save_signer
from chain.sending.transactions import fee_limit
from cli.__main__ import main
from cli.chain.proposal import read_calls
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil, running_anvil
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


@pytest.fixture
def voting(governance: GovernanceCli) -> GovernanceCli:
    """The same, whose voter has its votes."""
    governance.run("call", "GovernanceToken", "delegate", VOTER.address, "--devnet-account", "0", "--send")
    governance.blocks(1)
    return governance


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
    governance.anvil.rpc("evm_setAutomine", False)
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(
            governance.printed, "call", "Guardian", "unpause", "--key", str(tmp_path / "guardian.key"), "--send"
        )
        try:
            assert _is_in_use(tmp_path / "guardian.key"), "a node that starts now would sign with the same nonce"
        finally:
            governance.anvil.rpc("evm_setAutomine", True)
        sent = sending.result(60)
    assert sent["block"] == governance.anvil.client.head().number
    assert governance.anvil.rpc("eth_getTransactionByHash", sent["transaction"])["blockNumber"] == hex(sent["block"])
    assert governance.read("Guardian", "pausedUntil") == 0
    assert "CoolingDown" in governance.run("call", "Guardian", "pause", "60", wanted=Exit.USAGE)


def _is_in_use(key: Path) -> bool:
    """Whether a process uses the key within ten seconds."""
    for _ in range(200):
        try:
            verify_unused(key)
        except KeyInUse:
            return True
        threading.Event().wait(0.05)
    return False


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
    client, act = governance.anvil.client, ContractCall("GovernanceToken", "delegate", (signer(6).address,))
    gas = estimated_call(client, governance.network, signer(6), act).gas
    most = gas * fee_limit(client.head().base_fee_wei)  # fees may be raised so far
    assert f"balance: {signer(6).address} has 1 wei, {most} may go with the call and for its gas" in refused(*poor)


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


def test_wei_of_a_listed_call_are_proposed(voting: GovernanceCli, tmp_path: Path) -> None:
    # The timelock that would make it must have them while it is tried.
    voting.anvil.rpc("anvil_setBalance", voting.network.addresses.short_timelock, "0x5")
    (tmp_path / "calls.json").write_text('[{"contract": "Ledger", "function": "fund", "arguments": [], "value": 5}]')
    asked = ["--calls", str(tmp_path / "calls.json"), "--description", "a gift"]
    assert voting.printed("proposal", "create", *asked, "--from", VOTER.address)["does"] == "Ledger.fund() with 5 wei"


def test_proposal_text_is_shown_without_control_characters(voting: GovernanceCli) -> None:
    mine = ["--devnet-account", "0", "--send"]
    words = ["--description", "\x1b[2Jnothing to see"]
    number = voting.printed("proposal", "create", "Registry", "setCourt", VOTER.address, *words, "--from", VOTER.address)[
        "proposal"
    ]
    voting.run("proposal", "create", "Registry", "setCourt", VOTER.address, *words, *mine)
    said = voting.run("proposal", "list")
    assert "\x1b" not in said and "[2Jnothing to see" in said
    assert "GovernorUnableToCancel" in voting.run("proposal", "cancel", number, "--from", signer(5).address, wanted=Exit.USAGE)
    voting.run("proposal", "cancel", number, *mine)
    assert "is CANCELED: nothing" in voting.run("proposal", "vote", number, "for", *mine, wanted=Exit.USAGE)


def proposed_as_bytes(governance: GovernanceCli, target: str, calldata: bytes, description: bytes) -> str:
    """The voter proposes with words that need not be text; the proposal's number."""
    asked = ([address_of(governance.network, target)], [0], [calldata], description)
    data = code(proposals.GOVERNOR).selector("propose") + encode(["address[]", "uint256[]", "bytes[]", "bytes"], asked)
    to = address_of(governance.network, proposals.GOVERNOR)
    governance.anvil.rpc("eth_sendTransaction", {"from": VOTER.address, "to": to, "data": "0x" + data.hex()})
    governance.blocks(1)
    number: str = governance.printed("proposal", "list")[0]["proposal"]
    return number


def test_description_that_is_no_text_is_shown_and_voted_on_like_others(voting: GovernanceCli) -> None:
    voter, chosen = ["--devnet-account", "0", "--send"], signer(8).address
    calldata = proposals.delegate(chosen).calldata
    number = proposed_as_bytes(voting, "GovernanceToken", calldata, b"pay \xff\x1b me")
    assert voting.printed("proposal", "list")[0]["description"] == "pay \\xff\x1b me"
    assert "description pay \\xff\N{REPLACEMENT CHARACTER} me" in voting.run("proposal", "list")
    voting.blocks(DELAYS.delay_blocks + 1)
    voting.run("proposal", "vote", number, "for", *voter)
    voting.blocks(DELAYS.period_blocks + 1)
    voting.run("proposal", "queue", number, *voter)
    voting.anvil.pass_time(DELAYS.short_delay_s)
    voting.run("proposal", "execute", number, *voter)
    assert voting.read("GovernanceToken", "delegates", voting.network.addresses.short_timelock) == chosen
    other = proposed_as_bytes(voting, "GovernanceToken", calldata, b"\xff again")
    assert other != number
    voting.run("proposal", "cancel", other, *voter)
    assert voting.printed("proposal", "list")[0]["state"] == "CANCELED"


def test_batch_no_timelock_would_accept_is_shown_as_its_calls(voting: GovernanceCli) -> None:
    one, zero, salt = VOTER.address, bytes(32), word("salt")
    uneven = ContractCall("LongTimelock", "scheduleBatch", ([one, one], [0], [b""], zero, salt, 5)).calldata
    proposed_as_bytes(voting, "LongTimelock", uneven, b"uneven")
    (does,) = voting.printed("proposal", "list")[0]["does"]
    assert does.startswith(f"LongTimelock.scheduleBatch(targets=('{one}', '{one}'), values=(0,)")
    after = ContractCall("LongTimelock", "scheduleBatch", ([one], [1], [b""], word("before"), salt, 5)).calldata
    proposed_as_bytes(voting, "LongTimelock", after, b"after another")
    assert voting.printed("proposal", "list")[0]["does"] == [
        f"after 5 s more and batch 0x{word('before').hex()}: {one} 0x with 1 wei"
    ]


def test_the_wrappers_say_what_the_command_line_says(governance: GovernanceCli) -> None:
    printed = governance.printed(
        "proposal", "create", "Ledger", "setMover", VOTER.address, "true", "--description", "d", "--from", VOTER.address
    )
    assert governed.set_money_mover(VOTER.address, allowed=True).calldata.hex() in printed["data"]


def test_every_act_on_the_governor_can_be_proposed(voting: GovernanceCli) -> None:
    at = voting.network.addresses
    acts = [
        governed.set_voting_delay(10), governed.set_voting_period(100), governed.set_proposal_threshold(1),
        governed.set_quorum_percent(5),
        governed.relay_from_governor(at.governance_token, 0, proposals.delegate(VOTER.address).calldata),
    ]  # fmt: skip
    for act in acts:
        assert proposals.timelock_for(voting.anvil.client, voting.network, [act]) == "ShortTimelock", act.function
    several = QuorumClient([ChainClient(voting.anvil.url, CHAIN_ID) for _ in range(3)], 2)
    assert proposals.timelock_for(several, voting.network, acts[:1]) == "ShortTimelock"


def test_proposal_the_governor_would_refuse_later_is_refused_before_it(voting: GovernanceCli) -> None:
    def refused(*arguments: str) -> str:
        asked = ["BytewiseGovernor", *arguments, "--description", "why", "--from", VOTER.address]
        return voting.run("proposal", "create", *asked, wanted=Exit.USAGE)

    assert "OutOfBounds(setting=" in refused("setVotingPeriod", "0")
    assert "OutOfBounds" in refused("updateQuorumNumerator", "51") and "OutOfBounds" in refused("setVotingDelay", "302401")
    assert "OutOfBounds" in refused("setProposalThreshold", str(10**30))
    nothing_to_send = refused("relay", VOTER.address, "1", "0x")
    assert "neither timelock may do this" in nothing_to_send and "Panic" not in nothing_to_send


class Unbending(ChainClient):
    """A node that overlooks what a call wants changed."""

    def rpc(self, method: str, *params: Any) -> Any:
        return super().rpc(method, *params[:2])


def test_node_that_simulates_on_its_own_state_only_is_named(voting: GovernanceCli) -> None:
    with pytest.raises(ConfigurationError, match="no eth_call on a changed state"):
        proposals.timelock_for(Unbending(voting.anvil.url, CHAIN_ID), voting.network, [governed.set_voting_delay(10)])


def test_vote_removing_a_timelock_proposer_does_not_stop_others(voting: GovernanceCli) -> None:
    """A vote that points contracts elsewhere leaves the address book as good as it was: an emergency finds its tools working."""
    role = "0x" + keccak256(b"PROPOSER_ROLE").hex()
    asked = ["LongTimelock", "revokeRole", role, voting.network.addresses.short_timelock, "--description", "movers stay"]
    number, _ = passed(voting, asked)
    voting.run("proposal", "execute", number, "--devnet-account", "0", "--send")
    voting.anvil.pass_time(DELAYS.long_delay_s)
    voting.run("proposal", "execute", number, "--devnet-account", "0", "--send")
    assert "done in block" in voting.run("call", "Guardian", "pause", "3600", "--devnet-account", "1", "--send")
    assert "all money sums to the wei" in voting.run("show")


def test_vote_changes_the_voting_parameters(voting: GovernanceCli, tmp_path: Path) -> None:
    listing = [
        {"contract": "BytewiseGovernor", "function": "setVotingDelay", "arguments": [1]},
        {"contract": "ShortTimelock", "function": "updateDelay", "arguments": [4 * 86_400]},
        {"contract": "BytewiseGovernor", "function": "setProposalThreshold", "arguments": [10**20]},
        {"contract": "BytewiseGovernor", "function": "updateQuorumNumerator", "arguments": [7]},
    ]
    (tmp_path / "calls.json").write_text(json.dumps(listing))
    number, listed = passed(voting, ["--calls", str(tmp_path / "calls.json"), "--description", "quicker, and by more"])
    assert listed["does"][0] == "BytewiseGovernor.setVotingDelay(newVotingDelay=1)"
    voting.run("proposal", "execute", number, "--devnet-account", "0", "--send")
    found = [voting.read("BytewiseGovernor", name) for name in ("votingDelay", "proposalThreshold", "quorumNumerator")]
    assert found == [1, 10**20, 7], "each call was its own of the queue"
    timelock = voting.network.addresses.short_timelock
    assert voting.anvil.client.call("TimelockController", timelock, "getMinDelay", block="latest") == 4 * 86_400


MOVER = signer(7).address
CALL = '{"contract": "Ledger", "function": "setMover", "arguments": ["' + MOVER + '", true]'
WRONG = {
    "nothing": "calls.json: is no JSON: ",
    "[" * 100_000: "is no JSON: ",
    '{"contract": "Ledger"}': "is no JSON list of calls",
    '[{"contract": "Ledger"}]': "calls.json[0]: is no {",
    "[" + CALL + '}, ["Ledger"]]': "calls.json[1]: is no {",
    "[" + CALL + ', "valeu": 5}]': "calls.json[0]: is no {",
    "[" + CALL + ', "value": "5"}]': "calls.json[0].value: is no whole number",
    "[" + CALL + ', "value": true}]': "calls.json[0].value: is no whole number",
    "[" + CALL + ', "value": -5}]': "calls.json[0].value: is no number of wei",
    "[" + CALL + ', "function": "deposit"}]': "repeated key",
    CALL.replace('"setMover"', '["setMover"]').join("[]").replace("]]", "]}]"): "calls.json[0].function: is no text",
    '[{"contract": "Guardian", "function": "pause", "arguments": "7"}]': "calls.json[0].arguments: is no list",
    '[{"contract": "Guardian", "function": "pause", "arguments": {"7": 1}}]': "calls.json[0].arguments: is no list",
    '[{"contract": "Guardian", "function": "pause", "arguments": {}}]': "calls.json[0].arguments: is no list",
}


@pytest.mark.parametrize("content", WRONG)
def test_malformed_list_of_calls_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "calls.json"
    file.write_text(content)
    with pytest.raises(ConfigurationError) as refused:
        read_calls(file)
    assert WRONG[content] in str(refused.value)


def test_list_of_calls_keeps_its_values_and_wei(tmp_path: Path) -> None:
    file = tmp_path / "calls.json"
    file.write_text("[" + CALL + '}, {"value": 5, "arguments": [], "function": "fund", "contract": "Ledger"}]')
    assert read_calls(file) == [ContractCall("Ledger", "setMover", (MOVER, True)), ContractCall("Ledger", "fund", (), 5)]
    with pytest.raises(ConfigurationError, match="No such file"):
        read_calls(tmp_path / "none")

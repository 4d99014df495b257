"""`bytewise chain proposal create` for acts on the governor itself: what it takes only while it carries out their own
proposal."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.errors.actors import (
    ConfigurationError,
)
from bytewise.service.exit_codes import Exit
from chain.acts import governed, proposals
from chain.client.quorum import QuorumClient
from chain.client.rpc import ChainClient
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil, running_anvil
from tests.fixtures.chain.governance_cli import VOTER, GovernanceCli, founded_by_vote, passed


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Anvil, Path]]:
    """One deployment for all tests here, whose voter has its votes."""
    folder = tmp_path_factory.mktemp("network")
    with running_anvil() as anvil:
        founded_by_vote(anvil, folder)
        yield anvil, folder


@pytest.fixture
def governance(deployed: tuple[Anvil, Path], capsys: pytest.CaptureFixture[str]) -> GovernanceCli:
    at = GovernanceCli(*deployed, capsys)
    at.run("call", "GovernanceToken", "delegate", VOTER.address, "--devnet-account", "0", "--send")
    at.blocks(1)
    return at


def test_vote_changes_the_voting_parameters(governance: GovernanceCli, tmp_path: Path) -> None:
    listing = [
        {"contract": "BytewiseGovernor", "function": "setVotingDelay", "arguments": [1]},
        {"contract": "ShortTimelock", "function": "updateDelay", "arguments": [4 * 86_400]},
        {"contract": "BytewiseGovernor", "function": "setProposalThreshold", "arguments": [10**20]},
        {"contract": "BytewiseGovernor", "function": "updateQuorumNumerator", "arguments": [7]},
    ]
    (tmp_path / "calls.json").write_text(json.dumps(listing))
    number, listed = passed(governance, ["--calls", str(tmp_path / "calls.json"), "--description", "quicker, and by more"])
    assert listed["does"][0] == "BytewiseGovernor.setVotingDelay(newVotingDelay=1)"
    governance.run("proposal", "execute", number, "--devnet-account", "0", "--send")
    found = [governance.read("BytewiseGovernor", name) for name in ("votingDelay", "proposalThreshold", "quorumNumerator")]
    assert found == [1, 10**20, 7], "each call was its own of the queue"
    timelock = governance.network.addresses.short_timelock
    assert governance.anvil.client.call("TimelockController", timelock, "getMinDelay", block="latest") == 4 * 86_400


def test_every_act_on_the_governor_can_be_proposed(governance: GovernanceCli) -> None:
    at = governance.network.addresses
    acts = [
        governed.set_voting_delay(10),
        governed.set_voting_period(100),
        governed.set_proposal_threshold(1),
        governed.set_quorum_percent(5),
        governed.relay_from_governor(at.governance_token, 0, proposals.delegate(VOTER.address).calldata),
    ]
    for act in acts:
        assert proposals.timelock_for(governance.anvil.client, governance.network, [act]) == "ShortTimelock", act.function
    several = QuorumClient([ChainClient(governance.anvil.url, CHAIN_ID) for _ in range(3)], 2)
    assert proposals.timelock_for(several, governance.network, acts[:1]) == "ShortTimelock"


def test_proposal_the_governor_would_refuse_later_is_refused_before_it(governance: GovernanceCli) -> None:
    def refused(*arguments: str) -> str:
        asked = ["BytewiseGovernor", *arguments, "--description", "why", "--from", VOTER.address]
        return governance.run("proposal", "create", *asked, wanted=Exit.USAGE)

    assert "OutOfBounds(setting=" in refused("setVotingPeriod", "0")
    assert "OutOfBounds" in refused("updateQuorumNumerator", "51") and "OutOfBounds" in refused("setVotingDelay", "302401")
    assert "OutOfBounds" in refused("setProposalThreshold", str(10**30))
    nothing_to_send = refused("relay", VOTER.address, "1", "0x")
    assert "neither timelock may do this" in nothing_to_send and "Panic" not in nothing_to_send


class Unbending(ChainClient):
    """A node that overlooks what a call wants changed."""

    def rpc(self, method: str, *params: Any) -> Any:
        return super().rpc(method, *params[:2])


def test_node_that_simulates_on_its_own_state_only_is_named(governance: GovernanceCli) -> None:
    with pytest.raises(ConfigurationError, match="no eth_call on a changed state"):
        proposals.timelock_for(Unbending(governance.anvil.url, CHAIN_ID), governance.network, [governed.set_voting_delay(10)])

"""A vote that points contracts elsewhere leaves the address book as good as it was: an emergency finds its tools working."""

from pathlib import Path

import pytest

from bytewise.protocol.digests import keccak256
from tests.fixtures.chain.anvil import running_anvil
from tests.fixtures.chain.governance_cli import DELAYS, VOTER, GovernanceCli, founded_by_vote, passed


def test_vote_removing_a_timelock_proposer_does_not_stop_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running_anvil() as anvil:
        founded_by_vote(anvil, tmp_path)
        desk = GovernanceCli(anvil, tmp_path, capsys)
        desk.run("call", "GovernanceToken", "delegate", VOTER.address, "--devnet-account", "0", "--send")
        desk.blocks(1)
        role = "0x" + keccak256(b"PROPOSER_ROLE").hex()
        asked = ["LongTimelock", "revokeRole", role, desk.network.addresses.short_timelock, "--description", "movers stay"]
        number, _ = passed(desk, asked)
        desk.run("proposal", "execute", number, "--devnet-account", "0", "--send")
        anvil.pass_time(DELAYS.long_delay_s)
        desk.run("proposal", "execute", number, "--devnet-account", "0", "--send")
        assert "done in block" in desk.run("call", "Guardian", "pause", "3600", "--devnet-account", "1", "--send")
        assert "all money sums to the wei" in desk.run("show")

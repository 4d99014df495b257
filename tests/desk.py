"""The command line of offices in front of a deployment with short votes, and a whole vote on it."""

import json
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.address_book import Network
from bytewise.service.exit_codes import Exit
from chain.client.address_book import address_of, read_network, write_network
from chain.deployment.deploy import deploy, survey
from chain.deployment.params import DEVNET
from chain.deployment.plan import DEVNET_SHAPE, Vote
from cli.__main__ import main
from tests.anvil import Anvil
from tests.devnet import POOL, signer

GUARDIAN, CURATOR, VOTER = signer(1), signer(2), signer(0)
DELAYS = Vote(GUARDIAN.address, CURATOR.address, VOTER.address, delay_blocks=2, period_blocks=8)


class Desk:
    """The command line in front of one deployment."""

    def __init__(self, anvil: Anvil, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.anvil, self.folder, self._capsys = anvil, folder, capsys
        self._where = ["--rpc", anvil.url, "--network", str(folder / "network.json")]

    @property
    def network(self) -> Network:
        """The address book."""
        return read_network(self.folder / "network.json")

    def run(self, *arguments: str, wanted: Exit = Exit.OK) -> str:
        """What a verb says, on one line; its exit code must be the wanted one."""
        self._capsys.readouterr()
        code = main(["chain", *arguments, *self._where])
        captured = self._capsys.readouterr()
        said = " ".join((captured.out + captured.err).split())
        assert code == wanted, said
        return said

    def told(self, *arguments: str) -> Any:
        """What a verb says to other programs."""
        self._capsys.readouterr()
        assert main(["chain", *arguments, *self._where, "--output", "json"]) == Exit.OK
        return json.loads(self._capsys.readouterr().out)

    def read(self, contract: str, function: str, *arguments: Any) -> Any:
        """A view."""
        return self.anvil.client.call(contract, address_of(self.network, contract), function, *arguments, block="latest")

    def blocks(self, count: int) -> None:
        """Blocks pass, a second each."""
        self.anvil.mine(count)


def passed(desk: Desk, propose: list[str]) -> tuple[str, Any]:
    """A proposal that the voter made and carried, queued: its number and what the list says of it."""
    voter = ["--devnet-account", "0"]
    number = desk.told("propose", *propose, "--from", VOTER.address)["proposal"]
    desk.run("propose", *propose, *voter, "--send")
    assert "is PENDING: its vote begins after block" in desk.run("vote", number, "for", *voter, wanted=Exit.USAGE)
    desk.blocks(DELAYS.delay_blocks + 1)
    stranger = desk.run("vote", number, "for", "--from", signer(5).address, wanted=Exit.USAGE)
    assert f"{signer(5).address} had none" in stranger
    desk.run("vote", number, "for", *voter, "--send")
    assert "GovernorAlreadyCastVote" in desk.run("vote", number, "against", *voter, wanted=Exit.USAGE)
    assert "is ACTIVE" in desk.run("queue", number, *voter, wanted=Exit.USAGE)
    desk.blocks(DELAYS.period_blocks + 1)
    desk.run("queue", number, *voter, "--send")
    assert "the short timelock holds it until" in desk.run("execute", number, *voter, wanted=Exit.USAGE)
    desk.anvil.pass_time(DELAYS.short_delay_s)
    (listed,) = [each for each in desk.told("proposals") if each["proposal"] == number]
    assert listed["state"] == "QUEUED" and listed["votes"] == {"for": str(DELAYS.supply), "against": "0", "abstain": "0"}
    return number, listed


def founded_by_vote(anvil: Anvil, folder: Path) -> None:
    """Deploys a network with short votes; its address book is `network.json` there."""
    anvil.mine(2)
    site = survey(anvil.client, VOTER.address, DEVNET, DEVNET_SHAPE, [POOL], DELAYS)
    write_network(folder / "network.json", deploy(anvil.client, VOTER, site))

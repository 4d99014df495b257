"""`bytewise pool` on anvil with a real store: from the deployment to the last wei, false pools, wrong input."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bytewise.da.client import DaClient
from bytewise.da.settings import StoreSettings
from bytewise.da.store import build_app
from bytewise.protocol import digests
from bytewise.protocol.court.commitments import dispute_id
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.encoding import encode
from bytewise.protocol.records.receipt import ReceiptList, receipt_id
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import hex0x
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from chain.client.address_book import write_network
from chain.deployment.params import DEVNET
from cli.__main__ import main
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import OPERATORS, batch, deployed, mine, word
from tests.fixtures.court.session import TRUE, DisputeFixture
from tests.fixtures.dashboard.site import served

BOND, REWARD = DEVNET.required_bond, DEVNET.money.slash_amount * DEVNET.shares.alpha_bps // 10_000
STARTER, SECOND, STRANGER = 14, 15, 16
"""Accounts of anvil."""


class PoolCommands(DisputeFixture):
    """A court with a store, and the commands of its users."""

    def __init__(self, anvil: Anvil, folder: Path, da: str, capsys: pytest.CaptureFixture[str]) -> None:
        network = deployed(anvil, DEVNET)
        made = batch(network, OPERATORS[0], 1, 3, anvil.client.head().timestamp)
        listed = encode(ReceiptList(made.header.operator, made.header.first_seq, made.entries))
        with DaClient((da,), 20) as client:
            locator = client.put(listed)
        super().__init__(anvil, folder, network=network, batch=replace(made, header=replace(made.header, locator=locator)))
        self._book, self._capsys = folder / "network.json", capsys
        write_network(self._book, network)
        self._da, self.receipt = da, receipt_id(network.anchor_domain, made.entries[0].receipt)
        self.dispute = dispute_id(self.domain, self.receipt)

    def run(self, verb: str, *options: object, who: int = STARTER, code: Exit = Exit.OK, send: bool = True) -> str:
        """Output of a verb, as one line."""
        shared = ["--network", self._book, "--rpc", self.anvil.url, "--devnet-account", who, *(["--send"] if send else [])]
        store = ["--da", self._da] if verb in ("create", "challenge") else []
        self._capsys.readouterr()
        ended = main(["pool", verb, *map(str, [*options, *shared, *store])])
        said = self._capsys.readouterr()
        assert ended == code, said
        return " ".join((said.out + said.err).split())

    def printed(self, verb: str, *options: object, **more: Any) -> dict[str, Any]:
        """The same as JSON."""
        found = json.loads(self.run(verb, *options, "--output", "json", **more))
        assert isinstance(found, dict)
        return found

    def shown(self) -> dict[str, Any]:
        """What `bytewise dispute show` says."""
        self._capsys.readouterr()
        where = ["--network", str(self._book), "--rpc", self.anvil.url]
        assert main(["dispute", "show", hex0x(self.dispute)[:10], *where]) == Exit.OK
        table = self._capsys.readouterr().out
        assert ("back if convicted" in table) == ("FINAL" not in table)
        assert main(["dispute", "show", hex0x(self.dispute)[:10], *where, "--output", "json"]) == Exit.OK
        found = json.loads(self._capsys.readouterr().out)
        assert isinstance(found, dict)
        return found

    def overturned(self, then: Any) -> None:
        """Everybody finds another output; `then` happens while the verdict may be appealed."""
        case = self.until(Phase.COMMIT)
        votes = [self.vote(case, each.voter, TRUE) for each in case.members]
        self.commit(votes)
        mine(self.anvil, 2)
        self.reveal(votes)
        self.until(Phase.APPEAL)
        then()
        assert self.until(Phase.FINAL).verdict is Verdict.OVERTURNED
        self.settled()


@pytest.fixture
def court(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[PoolCommands]:
    """A network with one anchored batch whose list is at a store."""
    with served(build_app(StoreSettings(tmp_path / "blobs", 0), SystemClock())) as da:
        yield PoolCommands(anvil, tmp_path, da, capsys)


def test_pool_is_made_filled_used_and_shared_by_commands(court: PoolCommands, tmp_path: Path) -> None:
    secret, answer = tmp_path / "salt", hex0x(digests.out_hash(*TRUE))
    options = (hex0x(court.receipt), "--answer", answer, "--secret", secret)
    tried = court.printed("create", *options, send=False)
    assert court.anvil.client.codes([tried["pool"]]) == [b""] and "block" not in tried
    pool = court.printed("create", *options)["pool"]
    assert pool == tried["pool"] and secret.stat().st_mode & 0o777 == 0o600
    assert hex0x(court.receipt) in (shown := court.run("show", pool)) and "collecting" in shown
    court.run("join", pool, "--value", BOND // 2)
    court.run("join", pool, "--value", BOND, who=SECOND)
    court.run("leave", pool, who=SECOND)
    state = court.printed("show", pool, who=SECOND)
    assert (state["state"], state["missing_wei"], state["your_part_wei"]) == ("collecting", str(BOND - BOND // 2), "0")
    court.run("challenge", pool, who=SECOND)
    assert court.printed("show", pool)["state"] == "challenged"
    court.until(Phase.COMMIT)
    case = court.shown()
    end = court.case().commit_end
    assert (case["phase"], case["phase_end"], case["bond_wei"]) == ("COMMIT", end, str(BOND))
    assert case["time_left_s"] == max(0, end - court.snapshot().clock) and case["reward_wei"] == str(REWARD)
    assert "refused" in court.run("leave", pool, code=Exit.USAGE)
    assert "refused" in court.run("reveal", pool, "--secret", secret, code=Exit.USAGE), "before the verdict"
    court.overturned(lambda: court.run("reveal", pool, "--secret", secret, who=STRANGER))
    court.anvil.pass_time(DEVNET.times.withdraw_delay + 3600)
    assert court.shown()["money"]["to_challenger_wei"] == str(back := BOND + REWARD)
    for who, part in ((STARTER, BOND // 2), (SECOND, BOND - BOND // 2)):
        assert court.printed("show", pool, who=who)["your_claim_wei"] == str(part * back // BOND)
        court.run("claim", pool, who=who)
        assert court.printed("show", pool, who=who)["your_claim_wei"] == "0"
    assert "refused" in court.run("claim", pool, who=STRANGER, code=Exit.USAGE)
    assert court.anvil.client.balance(pool, "latest") < 2, "all but rounding"
    court.everything_is_accounted_for()


def test_another_challenge_sends_contributors_home(court: PoolCommands) -> None:
    pool = court.printed("create", hex0x(court.receipt))["pool"]
    court.run("join", pool, "--value", BOND)
    court.open(0, word("guess"))
    said = court.run("show", pool)
    assert "challenged by another" in said and "bytewise pool leave" in said
    assert "refused" in court.run("challenge", pool, code=Exit.USAGE)
    court.run("leave", pool)
    assert court.anvil.client.balance(pool, "latest") == 0


def test_wrong_input_is_named_and_sends_nothing(court: PoolCommands, tmp_path: Path) -> None:
    known, elsewhere = hex0x(court.receipt), court.network.addresses.ledger
    for verb in ("show", "leave", "challenge", "claim"):
        assert "send it no money" in court.run(verb, elsewhere, code=Exit.USAGE)
        assert "POOL" in court.run(verb, "0x12", code=Exit.USAGE)
    assert "send it no money" in court.run("join", elsewhere, "--value", 5, code=Exit.USAGE)
    assert "NOT FOUND" in court.run("create", hex0x(word("none")), code=Exit.NOT_FOUND)
    assert "--secret: goes with --answer" in court.run("create", known, "--answer", known, code=Exit.USAGE)
    assert "--answer: must be 0x and 64" in court.run(
        "create", known, "--answer", "0x1", "--secret", tmp_path / "x", code=Exit.USAGE
    )
    pool = court.printed("create", known)["pool"]
    assert "absent" in court.run("reveal", pool, "--secret", tmp_path / "absent", code=Exit.USAGE)
    (tmp_path / "open").write_text("0x00")
    assert "chmod 600" in court.run("reveal", pool, "--secret", tmp_path / "open", code=Exit.USAGE)

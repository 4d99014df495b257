"""`bytewise audit` on anvil with a real store: who is drawn, what is posted, money for bounties, wrong input."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.records.statements import AuditOutcome, AuditResult, audit_commitment
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import U8, U64, Digest, hex0x
from bytewise.service.exit_codes import Exit
from chain.deployment.calls import call_of
from chain.deployment.deploy import compromise_epoch
from chain.deployment.params import DEVNET
from chain.sending.transactions import send_all
from cli.receipt.audit import AuditState, DrawnAuditor, _print, _verify_useful
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import GUARDIAN, VERIFIERS, mine, word
from tests.fixtures.court.commanded_court import CommandedCourt, commanded_court

PAYER = 14
"""Account of anvil."""


@pytest.fixture
def court(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[CommandedCourt]:
    """A network with one anchored batch whose list is at a store."""
    with commanded_court(anvil, tmp_path, capsys) as made:
        yield made


def drawn_by_contract(court: CommandedCourt, receipt: Digest) -> set[str]:
    """Verifiers that the contract itself calls drawn."""
    audits = court.network.addresses.audits
    return {
        each.address
        for each in VERIFIERS
        if court.anvil.client.call("Audits", audits, "isDrawn", receipt, each.address, 0, block="latest")
    }


def post(court: CommandedCourt, receipt: Digest, account: str) -> None:
    """A drawn verifier says that the receipt does not match."""
    (who,) = (each for each in VERIFIERS if each.address == account)
    commitment = audit_commitment(receipt, who.address, word("tokens"), word("trace"), word("salt"))
    result = AuditResult(receipt, who.address, U8(AuditOutcome.MISMATCH), commitment, U64(court.anvil.client.head().timestamp))
    court.of(who).post_audit(result, who.sign(typed_digest(court.domain, result)), 0)
    court.pump()


def test_drawn_auditors_and_what_their_bounties_lack_are_shown_and_paid(court: CommandedCourt) -> None:
    ids = [receipt_id(court.network.anchor_domain, each.receipt) for each in court.batch.entries]
    assert "drawn by block" in court.run("audit", "show", hex0x(ids[0]))
    assert "ask again" in court.run("audit", "request", hex0x(ids[0]), who=PAYER, code=Exit.USAGE)
    mine(court.anvil, 3)
    drawn = {each: drawn_by_contract(court, each) for each in ids}
    for each, accounts in drawn.items():
        shown = court.json("audit", "show", hex0x(each))
        assert {auditor["account"] for auditor in shown["auditors"]} == accounts and shown["missing"] == len(accounts)
    busiest = max(ids, key=lambda each: len(drawn[each]))
    first, *others = sorted(drawn[busiest])
    post(court, busiest, first)
    shown = court.json("audit", "show", hex0x(busiest))
    assert shown["missing"] == len(others) and 0 < shown["time_left_s"] <= DEVNET.times.window
    assert {each["result"] for each in shown["auditors"] if each["account"] == first} == {"mismatch"}
    (listed,) = court.json("audit", "list")
    assert listed["receipt"] == hex0x(busiest) and listed["auditors"] == {first: "mismatch"}
    assert "already" in court.run("audit", "request", hex0x(busiest), who=PAYER), "places have paid for these bounties"
    before = court.reader.money(court.reader.head()).audit_pool
    court.run("audit", "request", hex0x(busiest), "--value", 5, who=PAYER)
    after = court.reader.money(court.reader.head())
    assert after.audit_pool == before + 5 and after.sums
    for other in others:
        post(court, busiest, other)
    assert "every drawn auditor has posted" in court.run("audit", "request", hex0x(busiest), who=PAYER, code=Exit.USAGE)


def test_request_that_can_change_nothing_is_refused(court: CommandedCourt) -> None:
    """`Audits.post` refuses every result of a compromised epoch, and the pool would keep the money."""
    assert "NOT FOUND" in court.run("audit", "request", hex0x(word("none")), who=PAYER, code=Exit.NOT_FOUND)
    assert "--value" in court.run("audit", "request", hex0x(court.receipt), "--value", 0, who=PAYER, code=Exit.USAGE)
    before = court.anvil.rpc("evm_snapshot")
    mine(court.anvil, DEVNET.times.window + 10)
    wanted = "window is over" if drawn_by_contract(court, court.receipt) else "nobody is drawn"
    assert wanted in court.run("audit", "request", hex0x(court.receipt), who=PAYER, code=Exit.USAGE)
    court.anvil.rpc("evm_revert", before)
    ids = [receipt_id(court.network.anchor_domain, each.receipt) for each in court.batch.entries]
    mine(court.anvil, 3)
    asked = hex0x(next(each for each in ids if drawn_by_contract(court, each)))
    act = call_of(GUARDIAN, court.network, compromise_epoch(1))
    send_all(court.anvil.client, [act], 30)
    shown = court.json("audit", "show", asked)
    assert shown["missing"] and shown["time_left_s"] and shown["has_beacon"] and not shown["is_open"]
    assert "was compromised" in court.run("audit", "show", asked)
    assert "was compromised" in court.run("audit", "request", asked, "--value", 5, who=PAYER, code=Exit.USAGE)


def test_request_is_refused_once_the_chain_has_lost_the_beacon(capsys: pytest.CaptureFixture[str]) -> None:
    auditor = DrawnAuditor(VERIFIERS[0].address, 1, "nothing", "")
    state = AuditState(word("receipt"), 0, 2, True, (auditor,), 1, 0, 60, has_beacon=False, is_open=True)
    with pytest.raises(ConfigurationError, match="no longer has the hash of block 2"):
        _verify_useful(state)
    _print(state)
    assert "no longer has the hash of block 2" in capsys.readouterr().out
    _verify_useful(state._replace(has_beacon=True))

"""`bytewise pool` on anvil with a real store: from the deployment to the last wei, false pools, wrong input."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol import digests
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.errors.actors import RpcRefused
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import hex0x
from bytewise.service.exit_codes import Exit
from bytewise.service.secret import write_secret
from chain.deployment.bond_pool import committed_terms, creation_code
from chain.deployment.deploy import created_address
from chain.deployment.params import DEVNET
from chain.sending.transactions import TransactionCall, send_all
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import signer, word
from tests.fixtures.court.commanded_court import CommandedCourt, commanded_court
from tests.fixtures.court.session import TRUE

BOND, REWARD = DEVNET.required_bond, DEVNET.money.slash_amount * DEVNET.shares.alpha_bps // 10_000
STARTER, SECOND, UNPAID = 14, 15, 16
"""Accounts of anvil."""


@pytest.fixture
def court(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[CommandedCourt]:
    """A network with one anchored batch whose list is at a store."""
    with commanded_court(anvil, tmp_path, capsys) as made:
        yield made


def shown(court: CommandedCourt) -> Any:
    """What `bytewise dispute show` says."""
    table = court.run("dispute", "show", hex0x(court.dispute)[:10])
    assert ("back if convicted" in table) == ("FINAL" not in table)
    return court.json("dispute", "show", hex0x(court.dispute)[:10])


def overturned(court: CommandedCourt, then: Callable[[], object]) -> None:
    """Everybody finds another output; `then` happens while the verdict may be appealed."""
    court.judged(TRUE, Phase.APPEAL)
    then()
    assert court.until(Phase.FINAL).verdict is Verdict.OVERTURNED
    court.settled()


def test_pool_is_made_filled_used_and_shared_by_commands(court: CommandedCourt, tmp_path: Path) -> None:
    secret, answer = tmp_path / "salt", hex0x(digests.out_hash(*TRUE))
    options = (hex0x(court.receipt), "--answer", answer, "--secret", secret)
    tried = court.json("pool", "create", *options, send=False, who=STARTER)
    assert court.anvil.client.codes([tried["pool"]]) == [b""] and "block" not in tried
    pool = court.json("pool", "create", *options, who=STARTER)["pool"]
    assert pool == tried["pool"] and secret.stat().st_mode & 0o777 == 0o600
    assert hex0x(court.receipt) in (text := court.run("pool", "show", pool, who=STARTER)) and "collecting" in text
    court.run("pool", "join", pool, "--value", BOND // 2, who=STARTER)
    court.run("pool", "join", pool, "--value", BOND, who=SECOND)
    court.run("pool", "leave", pool, who=SECOND)
    state = court.json("pool", "show", pool, who=SECOND)
    assert (state["state"], state["missing_wei"], state["your_part_wei"]) == ("collecting", str(BOND - BOND // 2), "0")
    court.run("pool", "challenge", pool, who=SECOND)
    assert court.json("pool", "show", pool, who=STARTER)["state"] == "challenged"
    court.until(Phase.COMMIT)
    case = shown(court)
    end = court.case().commit_end
    assert (case["phase"], case["phase_end"], case["bond_wei"]) == ("COMMIT", end, str(BOND))
    assert case["time_left_s"] == max(0, end - court.snapshot().clock) and case["reward_wei"] == str(REWARD)
    assert "refused" in court.run("pool", "leave", pool, code=Exit.USAGE, who=STARTER)
    assert "refused" in court.run("pool", "reveal", pool, "--secret", secret, code=Exit.USAGE, who=STARTER), "before the verdict"
    overturned(court, lambda: court.run("pool", "reveal", pool, "--secret", secret, who=UNPAID))
    court.anvil.pass_time(DEVNET.times.withdraw_delay + 3600)
    assert shown(court)["money"]["to_challenger_wei"] == str(back := BOND + REWARD)
    for who, part in ((STARTER, BOND // 2), (SECOND, BOND - BOND // 2)):
        assert court.json("pool", "show", pool, who=who)["your_claim_wei"] == str(part * back // BOND)
        court.run("pool", "claim", pool, who=who)
        assert court.json("pool", "show", pool, who=who)["your_claim_wei"] == "0"
    assert "refused" in court.run("pool", "claim", pool, who=UNPAID, code=Exit.USAGE)
    assert court.anvil.client.balance(pool, "latest") < 2, "all but rounding"
    court.everything_is_accounted_for()


def test_another_challenge_sends_contributors_home(court: CommandedCourt) -> None:
    pool = court.json("pool", "create", hex0x(court.receipt), who=STARTER)["pool"]
    court.run("pool", "join", pool, "--value", BOND, who=STARTER)
    court.open(0, word("guess"))
    said = court.run("pool", "show", pool, who=STARTER)
    assert "challenged by another" in said and "bytewise pool leave" in said
    assert "refused" in court.run("pool", "challenge", pool, code=Exit.USAGE, who=STARTER)
    court.run("pool", "leave", pool, who=STARTER)
    assert court.anvil.client.balance(pool, "latest") == 0


def test_wrong_input_is_named_and_sends_nothing(court: CommandedCourt, tmp_path: Path) -> None:
    known, elsewhere = hex0x(court.receipt), court.network.addresses.ledger
    for verb in ("show", "leave", "challenge", "claim"):
        assert "send it no money" in court.run("pool", verb, elsewhere, who=STARTER, code=Exit.USAGE)
        assert "POOL" in court.run("pool", verb, "0x12", who=STARTER, code=Exit.USAGE)
    assert "send it no money" in court.run("pool", "join", elsewhere, "--value", 5, code=Exit.USAGE, who=STARTER)
    assert "NOT FOUND" in court.run("pool", "create", hex0x(word("none")), who=STARTER, code=Exit.NOT_FOUND)
    assert "--secret: goes with --answer" in court.run("pool", "create", known, "--answer", known, code=Exit.USAGE, who=STARTER)
    salted = ("--answer", "0x1", "--secret", tmp_path / "x")
    assert "--answer: must be 0x and 64" in court.run("pool", "create", known, *salted, who=STARTER, code=Exit.USAGE)
    pool = court.json("pool", "create", known, who=STARTER)["pool"]
    assert "absent" in court.run("pool", "reveal", pool, "--secret", tmp_path / "absent", code=Exit.USAGE, who=STARTER)
    (tmp_path / "open").write_text("0x00")
    assert "chmod 600" in court.run("pool", "reveal", pool, "--secret", tmp_path / "open", code=Exit.USAGE, who=STARTER)


def test_private_key_is_never_taken_for_a_salt(court: CommandedCourt, tmp_path: Path) -> None:
    key, answer = tmp_path / "me.key", hex0x(digests.out_hash(*TRUE))
    write_secret(key, b"0x" + b"42" * 32 + b"\n")
    words = ("--answer", answer, "--secret", key)
    said = court.run("pool", "create", hex0x(court.receipt), *words, who=STARTER, code=Exit.USAGE)
    assert "me.key: is no secret file of a pool" in said and "4242" not in said
    pool = court.json("pool", "create", hex0x(court.receipt), who=STARTER)["pool"]
    said = court.run("pool", "reveal", pool, "--secret", key, who=STARTER, code=Exit.USAGE)
    assert "is no secret file of a pool" in said and "4242" not in said


def test_deployment_keeps_the_nonce_of_its_printed_address(court: CommandedCourt) -> None:
    """`pool create` pins it. Another program with the same key sent something meanwhile, so nothing is deployed."""
    client, who = court.anvil.client, signer(STARTER)
    nonce = client.nonce(who.address)
    send_all(client, [TransactionCall(who, who.address, b"", 1, 21_000)], 60)
    with pytest.raises(RpcRefused):
        send_all(client, [TransactionCall(who, None, b"\x00", 0, 100_000, nonce)], 2)


def test_pool_with_a_bond_that_no_receipt_asks_for_gets_no_money(court: CommandedCourt) -> None:
    at = created_address(signer(STARTER).address, court.anvil.client.nonce(signer(STARTER).address))
    terms = committed_terms(court.network, at, court.receipt, BOND + 1, None, word("salt"))
    code = creation_code(court.network, terms)
    send_all(court.anvil.client, [TransactionCall(signer(STARTER), None, code, 0, 2_000_000)], 60)
    assert "can never challenge" in court.run("pool", "join", at, "--value", 5, who=SECOND, code=Exit.USAGE)
    assert court.anvil.client.balance(at, "latest") == 0

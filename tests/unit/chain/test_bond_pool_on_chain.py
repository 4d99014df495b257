"""A bond that three accounts pay together, on anvil: from the pool's deployment to what each of them is paid."""

from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol import digests
from bytewise.protocol.court.commitments import alt_commit, dispute_id
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.tally import key_of
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.signing import LocalSigner, struct_values
from bytewise.protocol.units import Address
from bytewise.service.exit_codes import Exit
from chain.client.address_book import write_network
from chain.client.artifacts import interface
from chain.deployment.deploy import created_address
from chain.deployment.params import DEVNET
from chain.reads.history import CourtHistory
from chain.sending.transactions import TransactionCall, send_all
from cli.__main__ import main
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import mine, signer, word
from tests.fixtures.court.session import TRUE, DisputeFixture

STARTER, SECOND, LAST = signer(14), signer(15), signer(16)
BOND, SALT = DEVNET.required_bond, word("pool salt")
CODE = interface("BondPool")
GAS = 2_000_000


class Pooled(DisputeFixture):
    """A court whose first receipt is challenged by a pool that `STARTER` deployed."""

    def __init__(self, anvil: Anvil, folder: Path) -> None:
        super().__init__(anvil, folder)
        self.receipt_id = receipt_id(self.network.anchor_domain, self.batch.entries[0].receipt)
        self.dispute = dispute_id(self.domain, self.receipt_id)
        self.pool = created_address(STARTER.address, anvil.client.nonce(STARTER.address))
        send_all(anvil.client, [TransactionCall(STARTER, None, self.creation(self.network.addresses.ledger), 0, GAS)], 60)

    def creation(self, ledger: Address) -> bytes:
        """Creation code of the pool, with this ledger."""
        expected = key_of(Outcome.EXECUTED, 0, digests.out_hash(*TRUE))
        commitment = alt_commit(self.domain, self.dispute, self.pool, expected, SALT)
        return CODE.creation(self.network.addresses.disputes, ledger, self.receipt_id, BOND, commitment)

    def send(self, who: LocalSigner, function: str, *arguments: Any, wei: int = 0) -> int:
        """Calls the pool; by how many wei the account has more, gas aside."""
        client = self.anvil.client
        before = client.balance(who.address, "latest")
        (done,) = send_all(client, [TransactionCall(who, self.pool, CODE.call(function, *arguments), wei, GAS)], 60)
        paid = client.rpc("eth_getTransactionReceipt", "0x" + done.transaction.hex())
        gas = int(paid["gasUsed"], 16) * int(paid["effectiveGasPrice"], 16)
        return client.balance(who.address, "latest") - before + gas

    def ask(self, function: str, *arguments: Any) -> Any:
        return self.anvil.client.call("BondPool", self.pool, function, *arguments, block="latest")

    def overturned(self) -> None:
        """Everybody finds another output; somebody with the salt shows that the pool knew it."""
        case = self.until(Phase.COMMIT)
        votes = [self.vote(case, each.voter, TRUE) for each in case.members]
        self.commit(votes)
        mine(self.anvil, 2)
        self.reveal(votes)
        self.until(Phase.APPEAL)
        shown = interface("Disputes").call("openAlt", self.dispute, SALT)
        send_all(self.anvil.client, [TransactionCall(LAST, self.network.addresses.disputes, shown, 0, GAS)], 60)
        assert self.until(Phase.FINAL).verdict is Verdict.OVERTURNED
        self.settled()


@pytest.fixture
def court(anvil: Anvil, tmp_path: Path) -> Pooled:
    return Pooled(anvil, tmp_path)


def test_pool_challenges_and_shares_bond_and_alpha(court: Pooled) -> None:
    parts = {STARTER: BOND // 2, SECOND: BOND // 3}
    for who, wei in parts.items():
        assert court.send(who, "contribute", wei=wei) == -wei
    parts[LAST] = BOND - sum(parts.values())
    entry = court.batch.entries[0]
    opening = (struct_values(entry.receipt), entry.signature, 0, court.batch.proofs[0])
    assert court.send(LAST, "challenge", *opening, wei=parts[LAST] + 5) == -parts[LAST], "what is too much comes back"
    assert court.ask("isChallenged") and court.ask("disputeId") == court.dispute
    court.overturned()
    (ending,) = CourtHistory(court.reader).endings(0, court.reader.head())
    assert ending.to_challenger == BOND + DEVNET.money.slash_amount * DEVNET.shares.alpha_bps // 10_000
    court.anvil.pass_time(DEVNET.times.withdraw_delay + 3600)
    assert court.reader.holdings(court.pool, court.reader.head()).credit_due_wei == ending.to_challenger
    for who, wei in parts.items():
        share = wei * ending.to_challenger // BOND
        assert court.ask("claimable", who.address) == share
        assert court.send(who, "claim") == share
    assert court.anvil.client.balance(court.pool, "latest") < len(parts), "all but rounding"
    court.everything_is_accounted_for()


def test_contributions_come_back_whole_before_a_challenge(court: Pooled) -> None:
    assert court.send(STARTER, "contribute", wei=BOND // 2) == -(BOND // 2)
    assert court.send(SECOND, "contribute", wei=BOND) == BOND // 2 - BOND, "no more than is missing"
    assert court.send(STARTER, "takeBack") == BOND // 2
    assert court.send(SECOND, "takeBack") == BOND - BOND // 2
    assert court.anvil.client.balance(court.pool, "latest") == 0


def test_command_contributes_to_pools_of_its_network_only(
    court: Pooled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book, at, client = tmp_path / "network.json", court.network.addresses, court.anvil.client
    write_network(book, court.network)
    send_all(client, [TransactionCall(STARTER, None, court.creation(at.guardian), 0, GAS)], 60)
    other = created_address(STARTER.address, client.nonce(STARTER.address) - 1)
    (code,) = client.codes([court.pool])
    altered = Address("0x" + "a7" * 20)
    court.anvil.rpc("anvil_setCode", altered, "0x" + code.replace(b"\x60\x40", b"\x60\x60", 1).hex())

    def call(*options: str, wanted: Exit = Exit.USAGE) -> str:
        where = ["--rpc", court.anvil.url, "--network", str(book), "--devnet-account", "15", "--send", "--value", str(BOND)]
        code = main(["chain", "call", *options, *where])
        captured = capsys.readouterr()
        said = " ".join((captured.out + captured.err).split())
        assert code == wanted, said
        return said

    for place in (altered, at.ledger, SECOND.address):
        assert f"pool: {place} has not the code of a BondPool of this build" in call("BondPool", "contribute", "--at", place)
    said = call("BondPool", "contribute", "--at", other)
    assert f"the ledger of pool {other} is {at.guardian}, that of this network is {at.ledger}: send it no money" in said
    assert "no address book has it" in call("BondPool", "contribute")
    assert "the address book says where that is" in call("Guardian", "unpause", "--at", court.pool)
    assert court.ask("contributed") == client.balance(other, "latest") == 0
    assert "done in block" in call("BondPool", "contribute", "--at", court.pool, wanted=Exit.OK)
    assert court.ask("contributionOf", SECOND.address) == BOND


def test_code_of_a_pool_shows_its_deployment_arguments(court: Pooled) -> None:
    """As docs/reference/contracts.md says: the code is what the artifact gives for the same arguments."""
    (code,) = court.anvil.client.codes([court.pool])

    def made(ledger: Address) -> bytes:
        said = court.anvil.client.rpc("eth_call", {"data": "0x" + court.creation(ledger).hex()}, "latest")
        return bytes.fromhex(said[2:])

    assert code == made(court.network.addresses.ledger) != made(court.network.addresses.guardian)

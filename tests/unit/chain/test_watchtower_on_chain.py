"""From posted audits to an opened dispute under the real contracts: less than two blocks, also with the bot of the guide."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.court.sortition import audit_is_drawn
from bytewise.protocol.decisions.strategies import WatchPolicy, built_in
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.records.receipt import ReceiptList, receipt_id
from bytewise.protocol.records.statements import AuditOutcome, AuditResult, audit_commitment
from bytewise.protocol.signing import LocalSigner, typed_digest
from bytewise.protocol.units import U8, U64, Digest, hex0x
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from bytewise.storage.archive import Archive, Cursor
from bytewise.storage.duties import DONE, MISSED, Duties
from bytewise.storage.engine import open_database
from bytewise.storage.journal import Journal, journal_key
from chain.client.address_book import write_network
from chain.deployment.params import DEVNET
from chain.reads.reader import RegistryDocuments
from chain.sending.keys import save_signer
from cli.__main__ import main
from cli.output import ether
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import CHALLENGER, OPERATORS, STAKE_WEI, VERIFIERS, mine, word
from tests.fixtures.chain.devnet import batch as receipts_of
from tests.fixtures.court.session import DisputeFixture
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.verifier.node_file import node_file
from tests.fixtures.verifier.verifier_fixture import BlobShelf, randomness
from tests.source import ROOT
from verifier.disputes.strategist import LocalStrategy, Strategist, StrategyRunner
from verifier.disputes.strategy_process import StrategyProcess
from verifier.disputes.watchtower import DISPUTE, Watchtower
from verifier.executor import ActionExecutor, ObservingExecutor
from verifier.node import Executor
from verifier.watch.absence_check import ProbedStore
from verifier.watch.open_windows import SnapshotPages
from verifier.watch.records import Records

GUIDE = ROOT / "docs" / "guide" / "write-a-watchtower.md"


def bot_of_the_guide() -> str:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return str(code)


class Tower:
    """A watchtower of the challenger's that ticks once for each block."""

    def __init__(self, court: DisputeFixture, folder: Path, runner: StrategyRunner, sends: bool = True) -> None:
        self.court = court
        court.anvil.automine(False)
        (folder / "tower.db").write_bytes(empty_database())
        database, shelf = open_database(f"sqlite:///{folder / 'tower.db'}"), BlobShelf()
        clock, network, chain = SystemClock(), court.network, court.reader
        self.orders = Duties(database, clock)
        shelf.blobs[court.batch.header.locator] = encode(ReceiptList(OPERATORS[0].address, U64(1), court.batch.entries))
        store = ProbedStore(shelf, randomness, lambda: court.anvil.client.head().timestamp)
        cursor = Cursor(database, "batches")
        self.records = Records(chain, RegistryDocuments(chain), store, Archive(database, clock), cursor, network, 60)
        self.watchtower = Watchtower(
            chain, network, self.records, CHALLENGER, WatchPolicy(), None, Strategist(runner), self.orders
        )
        journal = Journal(database, journal_key(folder / "journal.key"), clock)
        acting = ActionExecutor(court.of(CHALLENGER), journal, None, self.watchtower, None)
        self.executor: Executor = acting if sends else ObservingExecutor()
        self.pages = SnapshotPages(chain, CHALLENGER.address, 0)

    def tick(self) -> None:
        """One tick at the newest block, then the next block."""
        snapshot = self.pages.read(self.court.reader.head())
        self.records.step(snapshot)
        self.executor.perform_all(tuple(self.watchtower.step(snapshot)), snapshot)
        self.court.of(CHALLENGER).pump()
        self.court.anvil.mine()


def drawn_for(court: DisputeFixture) -> tuple[Digest, list[LocalSigner]]:
    """A receipt of the first batch with at least two auditors whom every batch draws for it, and these."""
    headers, seats = court.reader.batches(0, court.reader.head()), STAKE_WEI // DEVNET.money.audit_unit
    beacons = [court.reader.block_hash(each.block + 2) for each in headers]
    for entry in court.batch.entries:
        name, rate = receipt_id(court.network.anchor_domain, entry.receipt), DEVNET.shares.audit_rate_bps
        found = [v for v in VERIFIERS if all(audit_is_drawn(each, name, v.address, rate, seats) for each in beacons)]
        if len(found) >= 2:
            return name, found
    raise AssertionError("nine in ten are drawn")


def contradict(
    court: DisputeFixture, subject: Digest, who: LocalSigner, batch: int = 0, by: LocalSigner | None = None
) -> int:  # fmt: skip
    """A mismatch of an auditor is posted for a batch, by somebody else or by itself; the block of the post."""
    commitment = audit_commitment(subject, who.address, word("tokens"), word("trace"), word("salt", who.address))
    at = U64(court.anvil.client.head().timestamp)
    result = AuditResult(subject, who.address, U8(AuditOutcome.MISMATCH), commitment, at)
    sender = court.of(by or who)
    sender.post_audit(result, who.sign(typed_digest(court.domain, result)), batch)
    sender.pump()
    court.anvil.mine()
    posted = [(each, named) for each, _, named in court.reader.audits(court.reader.head(), court.reader.head())]
    assert posted == [(result, batch)]
    return court.reader.head()


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[StrategyProcess]:
    (tmp_path / "bots").mkdir()
    (tmp_path / "bots" / "bot.py").write_text(bot_of_the_guide())
    process = StrategyProcess("bot:Suspicious", tmp_path / "bots", 1.0)
    while True:
        try:
            process.methods()
            break
        except TryAgain:
            time.sleep(0.05)
    yield process
    process.close()


def test_bot_of_the_guide_has_at_most_30_lines() -> None:
    assert len(bot_of_the_guide().splitlines()) <= 30


@pytest.mark.parametrize("name", ["bot", "defend", "hunt"])
def test_dispute_is_opened_in_the_block_after_the_audits(
    anvil: Anvil, tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    court = DisputeFixture(anvil, tmp_path, window=900)
    runner = request.getfixturevalue("bot") if name == "bot" else LocalStrategy(built_in(name, 2))
    tower = Tower(court, tmp_path, runner)
    mine(anvil, 3)
    subject, auditors = drawn_for(court)
    tower.tick()
    first = contradict(court, subject, auditors[0])
    tower.tick()
    if name != "hunt":
        assert court.reader.opened(0, court.reader.head()) == (), "one auditor may be wrong"
        first = contradict(court, subject, auditors[1])
        tower.tick()
    ((opened),) = court.reader.opened(0, court.reader.head())
    assert opened.receipt_id == subject and opened.block - first < 2
    for _ in range(3):
        tower.tick()
    assert len(court.reader.opened(0, court.reader.head())) == 1


def test_posts_for_another_batch_open_no_dispute(anvil: Anvil, tmp_path: Path) -> None:
    """The contract takes a result from anybody, and checks the draw for the batch that the post names."""
    court = DisputeFixture(anvil, tmp_path, window=900)
    price = court.reader.snapshot(OPERATORS[0].address, court.reader.head()).price_wei
    more = receipts_of(court.network, OPERATORS[0], 4, 1, anvil.client.head().timestamp)
    court.of(OPERATORS[0]).anchor(more.header, 10 * price)
    court.pump()
    tower = Tower(court, tmp_path, LocalStrategy(built_in("defend", 2)))
    mine(anvil, 3)
    subject, auditors = drawn_for(court)
    tower.tick()
    for batch, by, opened in ((1, OPERATORS[1], 0), (0, None, 1)):
        for each in auditors[:2]:
            contradict(court, subject, each, batch, by)
        for _ in range(2):
            tower.tick()
        assert len(court.reader.opened(0, court.reader.head())) == opened


def test_dry_run_sends_nothing(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    court = DisputeFixture(anvil, tmp_path, window=900)
    tower = Tower(court, tmp_path, LocalStrategy(built_in("hunt", 2)), sends=False)
    mine(anvil, 3)
    subject, auditors = drawn_for(court)
    tower.tick()
    nonce = anvil.client.nonce(CHALLENGER.address, "pending")
    contradict(court, subject, auditors[0])
    for _ in range(3):
        tower.tick()
    assert court.reader.opened(0, court.reader.head()) == ()
    assert anvil.client.nonce(CHALLENGER.address, "pending") == nonce
    assert sum("action.foregone" in line for line in capsys.readouterr().err.splitlines()) == 1


class Command:
    """`bytewise dispute open` with the database of a tower."""

    def __init__(self, tower: Tower, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.url, self.capsys = folder, tower.court.anvil.url, capsys
        write_network(folder / "network.json", tower.court.network)
        save_signer(folder / "account.key", CHALLENGER)

    def run(
        self, receipt: str, *options: str, role: str = "watchtower", watch: dict[str, int] | None = None, **policy: Any
    ) -> tuple[int, str]:
        """Exit code and everything that was printed."""
        executor = None if role == "watchtower" else {"socket": "s"}
        file = node_file(
            self.folder, f"sqlite:///{self.folder / 'tower.db'}", self.url, role=role, executor=executor,
            policy={"strategy": "defend", **policy}, watch=watch,
        )  # fmt: skip
        code = main(["dispute", "open", receipt, "--config", str(file), *options])
        printed = self.capsys.readouterr()
        return code, " ".join((printed.out + printed.err).split())


def test_ordered_dispute_is_tried_then_opened_by_the_watchtower(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    court = DisputeFixture(anvil, tmp_path, window=900)
    tower = Tower(court, tmp_path, LocalStrategy(built_in("defend", 2)))
    command, subject = Command(tower, tmp_path, capsys), receipt_id(court.network.anchor_domain, court.batch.entries[0].receipt)
    name, bond = hex0x(subject), DEVNET.required_bond
    mine(anvil, 3)
    code, said = command.run(name)
    assert code == Exit.USAGE and "has not checked" in said and "wait until" in said
    tower.tick()
    code, said = command.run(name, "--dry-run")
    alpha = DEVNET.money.slash_amount * DEVNET.shares.alpha_bps // 10_000
    assert code == Exit.OK and f"bond {ether(bond)} of " in said and f"and {ether(alpha)} if the node" in said
    assert "gas " in said and "time left " in said
    assert tower.orders.pending() == (), "a dry run orders nothing"
    assert command.run(name, "--dry-run", strategy="observe")[0] == Exit.OK
    code, said = command.run(name, strategy="observe")
    assert code == Exit.USAGE and "only observes" in said
    code, said = command.run(name, role="verifier")
    assert code == Exit.USAGE and "only a watchtower" in said
    code, said = command.run(name, challenges=False)
    assert code == Exit.USAGE and "policy.challenges" in said and tower.orders.pending() == ()
    assert command.run(name, "--dry-run", challenges=False)[0] == Exit.OK
    code, said = command.run(name, watch={"budget_wei": 9})
    assert code == Exit.USAGE and "(watch.budget_wei): 0.000000000000000009 ETH" in said and "exceeds the rest" in said
    assert tower.orders.pending() == ()
    assert command.run("0x12")[0] == Exit.USAGE
    assert command.run(name)[0] == Exit.OK
    tower.tick()
    tower.tick()
    (opened,) = court.reader.opened(0, court.reader.head())
    assert opened.receipt_id == subject
    (order,) = tower.orders.all()
    assert order.state == DONE
    code, said = command.run(name)
    assert code == Exit.USAGE and "cannot be disputed now" in said


def test_ordered_dispute_is_missed_after_the_window(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    court = DisputeFixture(anvil, tmp_path, window=900)
    tower = Tower(court, tmp_path, LocalStrategy(built_in("defend", 2)))
    tower.tick()
    name = receipt_id(court.network.anchor_domain, court.batch.entries[0].receipt)
    tower.orders.order(DISPUTE, name, anvil.client.head().timestamp + 100)
    anvil.pass_time(1000)
    tower.tick()
    assert [each.state for each in tower.orders.all()] == [MISSED]
    assert "dispute.missed" in capsys.readouterr().err and court.reader.opened(0, court.reader.head()) == ()

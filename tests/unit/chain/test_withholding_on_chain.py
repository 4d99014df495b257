"""An operator that withholds, under the real contracts: a watchtower demands, and the operator answers or is slashed."""

from dataclasses import replace
from pathlib import Path

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.demands import DemandKind, DemandPolicy, DemandState
from bytewise.protocol.decisions.strategies import WatchPolicy
from bytewise.protocol.encoding import encode
from bytewise.protocol.records.receipt import ReceiptList, list_subject, receipt_id
from bytewise.protocol.signing import struct_values
from bytewise.protocol.units import U64, Digest
from bytewise.service.clock import SystemClock
from bytewise.storage.archive import Archive, Cursor
from bytewise.storage.engine import open_database
from bytewise.storage.journal import Journal, journal_key
from chain.client.artifacts import interface
from chain.deployment.params import DEVNET
from chain.reads.reader import RegistryDocuments
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import CHALLENGER, OPERATORS, STAKE_WEI, VERIFIERS, batch, mine, receipt
from tests.fixtures.court.session import EAGER, DisputeFixture
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.verifier.verifier_fixture import BlobShelf, randomness
from verifier.demander import Demander, DemandOptions
from verifier.disputes.watchtower import Watchtower
from verifier.executor import ActionExecutor
from verifier.refusals import REMEMBERED_S
from verifier.watch.absence_check import ProbedStore
from verifier.watch.list_reader import CHECKED
from verifier.watch.open_windows import DemandIndex, SnapshotPages
from verifier.watch.records import Records

BOND = DEVNET.money.demand_bond
POLICY = DemandPolicy(budget_wei=5 * BOND, margin_s=10, tries=3)
DEADLINE_S = 10


class Tower:
    """A watchtower of the challenger's, with everything but its own process; ticks are a few seconds apart."""

    def __init__(self, court: DisputeFixture, folder: Path) -> None:
        self.court, self.shelf = court, BlobShelf()
        (folder / "tower.db").write_bytes(empty_database())
        database = open_database(f"sqlite:///{folder / 'tower.db'}")
        clock, network, chain = SystemClock(), court.network, court.reader
        store, self.archive = ProbedStore(self.shelf, randomness, self._chain_time), Archive(database, clock)
        cursor = Cursor(database, "batches")
        self.records = Records(chain, RegistryDocuments(chain), store, self.archive, cursor, network, DEADLINE_S)
        watchtower = Watchtower(chain, network, self.records, CHALLENGER, WatchPolicy())
        means = DemandOptions(CHALLENGER.address, POLICY, EAGER, disputes=True)
        demands = DemandIndex(chain, 0, POLICY.budget_s)
        self.demander = Demander(chain, network, self.records, store, means, demands)
        journal = Journal(database, journal_key(folder / "journal.key"), clock)
        self.performer = ActionExecutor(court.of(CHALLENGER), journal, None, watchtower, None, self.demander)
        self.pages = SnapshotPages(chain, CHALLENGER.address, 0, demands)

    def _chain_time(self) -> float:
        return self.court.anvil.client.head().timestamp

    def tick(self, seconds: int = 4) -> None:
        mine(self.court.anvil, seconds)
        snapshot = self.pages.read(self.court.reader.head())
        self.records.step(snapshot)
        self.performer.perform_all(self.demander.step(snapshot), snapshot)
        self.court.pump()

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.tick()

    def state(self, subject: Digest) -> tuple[DemandKind, DemandState]:
        (found,) = self.court.reader.demands((subject,), self.court.reader.head())
        return found.kind, found.state

    def everything(self) -> tuple[Digest, ...]:
        """Subjects of all demands there ever were."""
        return self.court.reader.demanded(0, self.court.reader.head())


def test_operator_withholding_its_list_is_slashed_and_our_outage_is_not(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path, window=900)
    tower, subject = Tower(court, tmp_path), list_subject(court.network.demands_domain, 0)
    tower.shelf.away = True
    tower.ticks(8)
    assert tower.everything() == (), "DA as a whole is out of reach"
    tower.shelf.away = False
    tower.ticks(9)
    assert tower.everything() == (subject,) and tower.state(subject) == (DemandKind.LIST, DemandState.OPEN)
    before = court.reader.holdings(CHALLENGER.address, court.reader.head())
    tower.tick(DEVNET.times.cure)
    tower.tick()
    assert tower.state(subject) == (DemandKind.LIST, DemandState.EXPIRED) and tower.everything() == (subject,)
    operator = court.reader.holdings(OPERATORS[0].address, court.reader.head())
    assert STAKE_WEI - operator.stake_wei == DEVNET.money.slash_amount, "at least what one lie costs"
    after = court.reader.holdings(CHALLENGER.address, court.reader.head())
    share = DEVNET.money.slash_amount * DEVNET.shares.alpha_bps // 10_000
    assert after.credit_wei - before.credit_wei == len(court.batch.entries) * BOND + share
    assert court.reader.anchored(0, court.reader.head())[0].is_void
    assert court.reader.money(court.reader.head()).sums


def test_penalty_that_found_no_stake_is_collected_when_stake_returns(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path, window=900)
    tower, subject, who = Tower(court, tmp_path), list_subject(court.network.demands_domain, 0), OPERATORS[0]
    reporter, penalty = court.of(VERIFIERS[0]), DEVNET.money.slash_amount
    for seq in range(1, STAKE_WEI // penalty + 1):
        first, second = (receipt(who, seq, now) for now in (1, 2))
        signatures = [who.sign(receipt_id(court.network.anchor_domain, each)) for each in (first, second)]
        reporter.report_equivocation(first, signatures[0], second, signatures[1])
    court.pump()
    assert court.reader.holdings(who.address, court.reader.head()).stake_wei == 0
    tower.ticks(14)
    tower.tick(DEVNET.times.cure)
    tower.ticks(2)
    assert tower.state(subject) == (DemandKind.LIST, DemandState.EXPIRED)
    for step, amount in enumerate((penalty // 4, penalty)):
        court.of(who).deposit(amount, bytes([step]))
        court.pump()
        anvil.pass_time(REMEMBERED_S)
        tower.ticks(3)
        left = court.reader.holdings(who.address, court.reader.head()).stake_wei
        assert left == (0, penalty // 4)[step], "what was missing, and no more"
    assert court.reader.expired(0, court.reader.head()).count(subject) == 3 and court.reader.money(court.reader.head()).sums


def test_operator_withholding_an_envelope_is_demanded_then_disputed(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path, window=900)
    tower, me = Tower(court, tmp_path), OPERATORS[0].address
    tower.shelf.blobs[court.batch.header.locator] = encode(ReceiptList(me, U64(1), court.batch.entries))
    tower.ticks(7)
    names = [receipt_id(court.network.anchor_domain, each.receipt) for each in court.batch.entries]
    demanded = tower.everything()
    assert demanded and set(demanded) <= set(names), "those that an auditor was drawn for"
    assert {tower.state(each) for each in demanded} == {(DemandKind.ENVELOPE, DemandState.OPEN)}
    # One is answered with a place where nothing is; the others not at all.
    court.of(OPERATORS[0]).answer_envelope(demanded[0], b"eigenda:standard:0x02ff", 0)
    court.pump()
    tower.tick(DEVNET.times.cure)
    tower.ticks(6)
    states = [tower.state(each)[1] for each in demanded]
    assert states == [DemandState.ANSWERED, *[DemandState.EXPIRED] * (len(demanded) - 1)]
    snapshot = court.snapshot()
    assert {case.receipt_id for case in snapshot.disputes} == set(demanded)
    assert {case.challenger.account for case in snapshot.disputes} == {CHALLENGER.address}
    assert {case.phase for case in snapshot.disputes} == {Phase.SEED}


def test_operators_answer_to_a_demand_is_checked_like_da_bytes(anvil: Anvil, tmp_path: Path) -> None:
    """One list was withheld; the other fits its hash and hides what its root is made of. Both are demanded and answered."""
    court = DisputeFixture(anvil, tmp_path, window=900)
    operator, me, tower = court.of(OPERATORS[0]), OPERATORS[0].address, Tower(court, tmp_path)
    hidden = batch(court.network, OPERATORS[0], 4, 2, anvil.client.head().timestamp)
    shown = ReceiptList(me, U64(4), hidden.entries[:1])
    header = replace(hidden.header, list_hash=shown.list_hash, locator="eigenda:standard:0x0202")
    tower.shelf.blobs[header.locator] = encode(shown)
    operator.anchor(header, 10**15)
    court.pump()
    tower.ticks(6)
    subjects = [list_subject(court.network.demands_domain, each) for each in (0, 1)]
    assert set(tower.everything()) == set(subjects) and tuple(tower.records.faulty) == (1,)
    operator.answer_list(0, encode(ReceiptList(me, U64(1), court.batch.entries)))
    leaves = [struct_values(each.receipt) for each in hidden.entries], [each.signature for each in hidden.entries]
    send(court, "answerList", 1, encode(shown), *leaves)
    court.pump()
    assert [tower.state(each)[1] for each in subjects] == [DemandState.ANSWERED] * 2
    tower.ticks(3)
    assert tower.records.faulty == {} and {tower.archive.batch(each).state for each in (0, 1)} == {CHECKED}  # type: ignore[union-attr]
    found = {live.seen.receipt_id: live for live in tower.records.live}
    entries = (*court.batch.entries, *hidden.entries)
    assert found.keys() == {receipt_id(court.network.anchor_domain, each.receipt) for each in entries}
    assert [live.seen.signed.locator for live in found.values()].count("") == 1, "of the hidden one nobody knows the place"
    anchor = court.network.addresses.receipt_anchor
    for name, live in found.items():
        member = (struct_values(live.seen.signed.receipt), live.seen.signed.signature, live.header.batch_id, live.seen.proof)
        assert anvil.client.call("ReceiptAnchor", anchor, "checkMember", *member, block="latest") == name


def send(court: DisputeFixture, function: str, *arguments: object) -> None:
    """The operator answers as nobody of ours would."""
    at, key = court.network.addresses.demands, OPERATORS[0].address
    data = "0x" + interface("Demands").call(function, *arguments).hex()
    court.anvil.rpc("anvil_impersonateAccount", key)
    court.anvil.rpc("eth_sendTransaction", {"from": key, "to": at, "data": data, "gas": hex(10**7)})
    court.anvil.rpc("anvil_stopImpersonatingAccount", key)

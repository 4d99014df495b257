"""Stake at EigenLayer from Python: a network whose vault is the adapter, every act tried and sent by us.

EigenLayer is the fake of its documented behaviour, as in `chain/contracts/test`; all other contracts are the real ones.
"""

from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import Action, RetrySlash, SyncStake
from bytewise.protocol.decisions.snapshot import Holdings
from bytewise.protocol.records.receipt import SignedReceipt, receipt_id
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import Address, Digest
from bytewise.service.exit_codes import Exit
from bytewise.storage.outbox import OutboxItem, OutboxState
from chain.client.address_book import write_network
from chain.client.artifacts import Log
from chain.deployment.params import DEVNET
from cli.__main__ import main
from serving.wiring import OwnStake
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import CHALLENGER, OPERATORS, STAKE_WEI, VERIFIERS, mine, receipt, word
from tests.fixtures.chain.fake_eigenlayer import MAX_AGE, EigenLayer
from tests.fixtures.court.session import EAGER, TRUE, DisputeFixture
from verifier.executor import make_move
from verifier.refusals import REMEMBERED_S
from verifier.stake import RefusedSlashes, StakeRecorder, StaleWeights
from verifier.watch.chain_events import SETTLED_BLOCKS

OPERATOR, PENALTY = OPERATORS[0], DEVNET.money.slash_amount


class Place(DisputeFixture):
    """A court whose operators and verifiers have their stake at EigenLayer."""

    def __init__(self, anvil: Anvil, folder: Path) -> None:
        super().__init__(anvil, folder, at_eigenlayer=True)
        self.eigen = EigenLayer.of(anvil, self.network)
        first = int(self.network.deploy_block)
        self.parts = StakeRecorder(self.reader, first, VERIFIERS[0].address), RefusedSlashes(self.reader, first, EAGER)
        """Of the first verifier's process."""
        self.stake = OwnStake(self.reader, self.of(OPERATOR), first, OPERATOR.address)
        """Of the first operator's."""

    def looks(self) -> tuple[Action, ...]:
        """The processes look again, and send what they decide; what that was of the verifier's."""
        mine(self.anvil, SETTLED_BLOCKS)
        self.stake.step()
        snapshot = self.reader.snapshot(VERIFIERS[0].address, self.reader.head())
        decided = tuple(action for part in self.parts for action in part.step(snapshot))
        for action in decided:
            make_move(self.of(VERIFIERS[0]), action)
        self.pump()
        return decided

    def holdings(self, who: LocalSigner) -> Holdings:
        return self.reader.holdings(who.address, self.reader.head())

    def source(self, function: str, *arguments: object) -> Any:
        """A view of the adapter."""
        where = ("EigenLayerStake", self.network.addresses.stake_vault)
        return self.anvil.client.call(*where, function, *arguments, block="latest")

    def events(self, name: str) -> list[Log]:
        where = ("EigenLayerStake", self.network.addresses.stake_vault)
        return self.anvil.client.logs(*where, [name], int(self.network.deploy_block), self.reader.head())

    def pot(self, ref: Digest) -> int:
        found = self.anvil.client.call("Ledger", self.network.addresses.ledger, "potOf", ref, block="latest")
        return int(found)

    def late(self) -> int:
        """What came after its dispute was settled, and what is nobody's."""
        return self.pot(Digest(self.source("LATE")))

    def last(self, who: LocalSigner) -> OutboxItem:
        """How the newest act of somebody stands."""
        return self.of(who).transactions.outbox.all()[-1]

    def report(self, seq: int) -> Digest:
        """The operator signed two receipts of one number, and somebody shows it; the report's pot."""
        receipts = [receipt(OPERATOR, seq, now) for now in (1, 2)]
        first, second = (self.signed(each.seq, each.issued_at) for each in receipts)
        self.of(CHALLENGER).report_equivocation(first.receipt, first.signature, second.receipt, second.signature)
        self.pump()
        where = ("Demands", self.network.addresses.demands, "equivocationRef")
        return Digest(self.anvil.client.call(*where, OPERATOR.address, seq, block="latest"))

    def signed(self, seq: int, now: int) -> SignedReceipt:
        made = receipt(OPERATOR, seq, now)
        return SignedReceipt(made, OPERATOR.sign(receipt_id(self.network.anchor_domain, made)), "")

    def overturned(self) -> None:
        """A dispute that the operator loses, from its opening to its end."""
        self.open(0, word("guess"))
        case = self.until(Phase.COMMIT)
        votes = [self.vote(case, each.voter, TRUE) for each in case.members]
        self.commit(votes)
        mine(self.anvil, 2)
        self.reveal(votes)
        assert self.until(Phase.FINAL).verdict is Verdict.OVERTURNED
        self.settled()


def test_slash_refused_by_eigenlayer_stops_no_verdict_and_is_retried(anvil: Anvil, tmp_path: Path) -> None:
    place = Place(anvil, tmp_path)
    place.eigen.do("pause", True, False, 0)
    place.overturned()
    (refused,) = place.events("SlashDeferred")
    who, ref = OPERATOR.address, Digest(refused.values["ref"])
    assert (refused.values["account"], refused.values["due"]) == (who, PENALTY)
    assert place.holdings(OPERATOR).stake_wei == STAKE_WEI and place.source("dueOf", who, ref) == PENALTY
    assert not [each for each in place.looks() if isinstance(each, RetrySlash)], "it would be refused again"
    place.eigen.do("pause", False, False, 0)
    anvil.pass_time(REMEMBERED_S)
    assert RetrySlash(who, ref, 1) in place.looks()
    assert place.last(VERIFIERS[0]).state is OutboxState.CONFIRMED
    assert place.source("dueOf", who, ref) == 0 and place.late() == PENALTY, "it is nobody's"
    assert place.holdings(OPERATOR).stake_wei == pytest.approx(STAKE_WEI - PENALTY, abs=100)
    anvil.pass_time(REMEMBERED_S)
    assert not [each for each in place.looks() if isinstance(each, RetrySlash)], "it is taken once"
    place.of(VERIFIERS[1]).retry_slash(who, ref, 1)
    place.pump()
    row = place.last(VERIFIERS[1])
    assert (row.state, row.nonce) == (OutboxState.SUPERSEDED, None) and "NothingDue" in row.detail, "tried, and not sent"


def test_late_payment_is_collected_and_shared_and_surplus_is_swept(anvil: Anvil, tmp_path: Path) -> None:
    place = Place(anvil, tmp_path)
    place.eigen.do("pause", False, True, 0)
    ref = place.report(1)
    ((slash, pot),) = place.reader.deferred_payments(int(place.network.deploy_block), place.reader.head())
    taken = place.source("owedOf", slash)["amount"]
    assert pot == ref and taken == pytest.approx(PENALTY, abs=100) and place.pot(ref) == 0
    assert STAKE_WEI - place.holdings(OPERATOR).stake_wei == pytest.approx(taken, abs=100), "the punishment waits for nothing"
    helper, other = place.of(VERIFIERS[0]), place.of(VERIFIERS[1])
    assert "PaymentShort" in str(place.reader.collect_refused(VERIFIERS[0].address, slash, place.reader.head()))
    helper.collect_slash(slash)
    assert helper.pump() == 1 and place.last(VERIFIERS[0]).state is OutboxState.PLANNED, "EigenLayer does not pay yet"
    place.eigen.do("pause", False, False, 0)
    place.pump()
    assert place.last(VERIFIERS[0]).state is OutboxState.CONFIRMED and place.pot(ref) == taken
    before = place.holdings(CHALLENGER).credit_wei
    other.collect_slash(slash)
    other.collect(ref, 1)
    place.pump()
    states = [(each.state, each.nonce is None) for each in other.transactions.outbox.all()]
    assert states == [(OutboxState.SUPERSEDED, True), (OutboxState.CONFIRMED, False)], "collected once, shared once"
    share = taken * DEVNET.shares.alpha_bps // 10_000
    assert place.holdings(CHALLENGER).credit_wei - before == share and place.pot(ref) == 0
    place.eigen.give(place.network.addresses.stake_vault, 12_345)
    helper.sweep_stake()
    place.pump()
    assert place.late() == pytest.approx(12_345, abs=100) and place.source("totalOwed") == 0
    money = place.reader.money(place.reader.head())
    assert money.sums and money.vault_balance == 0 < money.total_stake, "wei at EigenLayer are not the network's"


def test_process_keeps_its_own_stake_record_fresh_and_correct(anvil: Anvil, tmp_path: Path) -> None:
    place, who, other = Place(anvil, tmp_path), VERIFIERS[0], VERIFIERS[1]
    first = next(each.block for each in place.events("Synced") if each.values["account"] == who.address)
    assert place.looks() == (), "it is young"
    mine(anvil, first + MAX_AGE // 2 - place.reader.head())
    assert place.looks() == (SyncStake(who.address, first),) and place.looks() == ()
    mine(anvil, MAX_AGE // 2)
    stakes = [place.holdings(each).stake_wei for each in (who, OPERATOR, other)]
    assert stakes == [STAKE_WEI, STAKE_WEI, 0], "verifier and operator have renewed theirs; nobody looks after the other's"
    (again,) = place.looks()
    place.eigen.do("stake", who.address, value_wei=STAKE_WEI // 20)
    assert place.looks() == (), "a little more is no reason"
    place.eigen.do("stake", who.address, value_wei=STAKE_WEI // 20)
    (change,) = place.looks()
    assert isinstance(again, SyncStake) and isinstance(change, SyncStake) and change.block > again.block > first
    assert place.holdings(who).stake_wei == STAKE_WEI + STAKE_WEI // 10
    place.eigen.do("queueWithdrawal", who.address, STAKE_WEI // 20)
    assert place.looks() == () and place.holdings(who).stake_wei == STAKE_WEI + STAKE_WEI // 10, "still there, and slashable"
    write_network(tmp_path / "network.json", place.network)
    where = ["--network", str(tmp_path / "network.json"), "--rpc", anvil.url, "--devnet-account", "14", "--send"]
    assert main(["chain", "call", "EigenLayerStake", "sync", who.address, *where]) == Exit.OK
    assert place.holdings(who).stake_wei == STAKE_WEI + STAKE_WEI // 20, "anybody may record it"
    place.eigen.do("register", who.address, False)
    assert len(place.looks()) == 1 and place.holdings(who).stake_wei == 0, "who left the set has no seats any more"
    assert place.looks() == () and len(place.of(who).transactions.outbox.all()) == 4
    place.of(who).deposit(1, b"reference")
    place.pump()
    row = place.last(who)
    assert (row.state, row.nonce) == (OutboxState.REVERTED, None) and "StakedElsewhere" in row.detail


def test_verifier_whose_record_is_too_old_loses_its_weight(anvil: Anvil, tmp_path: Path) -> None:
    place, who, old = Place(anvil, tmp_path), VERIFIERS[0], {each.address for each in VERIFIERS[1:]}
    part = StaleWeights(place.reader, who.address, EAGER)
    mine(anvil, MAX_AGE // 2)
    place.looks()
    mine(anvil, MAX_AGE // 2)

    def weighing() -> set[Address]:
        head = place.reader.head()
        pool = place.reader.snapshot(who.address, head).me.pool
        return {each.account for each in place.reader.verifiers(pool, head) if each.units}

    assert weighing() == {who.address} | old, "the tree keeps the weight of each"
    for _ in old:
        (due,) = part.step(place.reader.snapshot(who.address, place.reader.head()))
        assert due.account in old
        make_move(place.of(who), due)
        place.pump()
        mine(anvil, SETTLED_BLOCKS)
    mine(anvil, SETTLED_BLOCKS)
    assert weighing() == {who.address}
    assert part.step(place.reader.snapshot(who.address, place.reader.head())) == ()

"""The index of a real chain with disputes: equal to what the contracts say, also after reorganisations and lies."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.address_book import Network
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.errors.actors import RpcRefused, TryAgain
from bytewise.protocol.records.receipt import list_subject
from bytewise.protocol.records.statements import Verdict
from bytewise.storage.index.tables import BatchFact, DemandFact, DisputeFact, OperatorFact, SeatFact, VerifierFact
from chain.capsule.trie import trie_of_list
from chain.client.artifacts import interface
from chain.client.blocks import encode_receipt
from chain.client.rpc import ChainClient, hex_bytes
from chain.deployment import deploy
from chain.deployment.calls import call_of
from chain.deployment.params import DEVNET
from chain.sending.transactions import TransactionCall, send_all
from dashboard.chain_view import REFUSALS, ChainEvents, ChainState
from dashboard.index.fold import ChainEvent
from dashboard.index.receipts import EXPIRED
from dashboard.index.self_check import differences, record_life
from dashboard.views import parties
from dashboard.views.scene import Scene
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil
from tests.fixtures.chain.devnet import CHALLENGER, GUARDIAN, OPERATORS, STAKE_WEI, VERIFIERS, deployed, mine, word
from tests.fixtures.chain.devnet import batch as receipts_of
from tests.fixtures.chain.fake_eigenlayer import MAX_AGE
from tests.fixtures.chain.lying_endpoints import fronts, refuses
from tests.fixtures.court.claimed_receipts import claimed
from tests.fixtures.court.session import DisputeFixture
from tests.fixtures.dashboard.indexed import BelievedEvents, EditedEvents, Indexed, found_differences, index_of, overturned_chain
from tests.fixtures.metric_values import value_of

UNSEEN = {
    ("AccessManager", "RoleGranted"), ("AccessManager", "RoleAdminChanged"), ("AccessManager", "RoleGrantDelayChanged"),
    ("AccessManager", "TargetAdminDelayUpdated"), ("AccessManager", "TargetFunctionRoleUpdated"),
    ("AccessManager", "RoleRevoked"), ("BytewiseGovernor", "ProposalThresholdSet"), ("Registry", "CourtSet"),
    ("BytewiseGovernor", "QuorumNumeratorUpdated"), ("BytewiseGovernor", "TimelockChange"), ("Charter", "Established"),
    ("BytewiseGovernor", "VotingDelaySet"), ("BytewiseGovernor", "VotingPeriodSet"), ("FeeMarket", "LimitsSet"),
    ("GovernanceToken", "DelegateChanged"), ("GovernanceToken", "DelegateVotesChanged"), ("GovernanceToken", "Transfer"),
    ("Ledger", "MoverSet"), ("Ledger", "SourceSet"), ("StakeVault", "MoverSet"), ("Registry", "MeasurementSet"),
    ("TimelockController", "MinDelayChange"), ("TimelockController", "RoleGranted"), ("TimelockController", "RoleRevoked"),
    ("FeeMarket", "PriceMoved"), ("Registry", "PoolStopped"), ("KeyEpochs", "SharesConfirmed"),
    ("AccessManager", "RoleLabel"), ("Audits", "PoolFed"), ("AccessManager", "RoleGuardianChanged"),
}  # fmt: skip
"""Events of which no fact is compared: who may do what, prices, and a statement that the shards signed."""
ADDED = {
    ("Ledger", "Taken"), ("Ledger", "Credited"), ("Ledger", "CreditedEach"), ("Ledger", "Burned"), ("StakeVault", "Locked"),
    ("StakeVault", "Slashed"), ("StakeVault", "Reserved"), ("Rounds", "Committed"), ("Rounds", "Revealed"),
    ("Settlement", "SeatsSettled"),
}  # fmt: skip
"""Events whose amounts are added up: what any other says is in force, however often it is said."""


@pytest.fixture(scope="module")
def overturned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Anvil, Network]]:
    """A chain on which an operator was convicted."""
    with overturned_chain(tmp_path_factory.mktemp("overturned")) as court:
        yield court.anvil, court.network


def test_index_of_an_upheld_dispute_equals_the_contracts(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    made = index_of(anvil.client, court.network, tmp_path)

    def check() -> None:
        made.follow()
        assert found_differences(made, anvil.client, court.network) == []

    check()
    court.open(0, word("wrong guess"))
    case = court.until(Phase.COMMIT)
    check()
    votes = [court.vote(case, each.voter, claimed(court, 0)) for each in case.members]
    court.commit(votes)
    check()
    mine(anvil, 2)
    court.reveal(votes)
    check()
    court.until(Phase.FINAL)
    check()
    court.settled()
    check()
    with made.reader.snapshot() as snapshot:
        (row,) = snapshot.all(DisputeFact)
        assert (row["phase"], row["verdict"], row["paid"]) == (Phase.FINAL, Verdict.UPHELD, True)
    fresh = index_of(anvil.client, court.network, tmp_path, "fresh")
    assert fresh.writer.dump() == made.writer.dump()


def test_index_after_a_reorganisation_equals_a_fresh_one(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    mine(anvil, 4)
    court.open(0, word("wrong guess"))
    mine(anvil, 2)
    made = index_of(anvil.client, court.network, tmp_path)
    with made.reader.snapshot() as snapshot:
        assert snapshot.count(DisputeFact) == 1
    anvil.reorganise(4)
    assert made.follow() == 4
    with made.reader.snapshot() as snapshot:
        assert snapshot.count(DisputeFact) == 0
    assert found_differences(made, anvil.client, court.network) == []
    anvil.mine(3)
    made.follow()
    fresh = index_of(anvil.client, court.network, tmp_path, "fresh")
    assert fresh.writer.dump() == made.writer.dump()


def test_windows_after_a_pause_and_a_demand_equal_the_contracts(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path, window=3600)
    made = index_of(anvil.client, court.network, tmp_path)

    def check() -> None:
        made.follow()
        assert found_differences(made, anvil.client, court.network) == []

    send_all(anvil.client, [call_of(GUARDIAN, court.network, deploy.pause(60))], 60)
    anvil.pass_time(20)
    check()
    anvil.pass_time(50)
    price = court.reader.snapshot(OPERATORS[0].address, court.reader.head()).price_wei
    more = receipts_of(court.network, OPERATORS[0], 4, 1, anvil.client.head().timestamp)
    court.of(OPERATORS[0]).anchor(more.header, 10 * price)
    court.pump()
    check()
    with made.reader.snapshot() as snapshot:
        early, late = snapshot.all(BatchFact)
    assert (early["anchored_at"] - early["started_at"], late["anchored_at"] - late["started_at"]) == (0, 60)
    court.of(VERIFIERS[0]).demand_list(1, DEVNET.money.demand_bond)
    court.pump()
    anvil.pass_time(30)
    check()
    anvil.pass_time(DEVNET.times.cure + 30)
    check()
    court.of(VERIFIERS[0]).expire(list_subject(court.network.demands_domain, 1))
    court.pump()
    check()
    with made.reader.snapshot() as snapshot:
        assert [row["state"] for row in snapshot.all(DemandFact)] == [EXPIRED]


def test_money_of_a_conviction_sums_to_the_wei(overturned: tuple[Anvil, Network], tmp_path: Path) -> None:
    anvil, network = overturned
    made = index_of(anvil.client, network, tmp_path)
    assert found_differences(made, anvil.client, network) == []
    with made.reader.snapshot() as snapshot:
        (row,) = snapshot.all(DisputeFact)
        seats = snapshot.all(SeatFact)
    assert (row["verdict"], row["operator"], row["challenger"]) == (Verdict.OVERTURNED, OPERATORS[0].address, CHALLENGER.address)
    put_in = row["bond"] + row["appeal_bond"] + row["advanced"] + row["slashed"]
    shares = row["to_challenger"] + row["to_appellant"] + row["to_operator"] + row["to_verifiers"]
    assert put_in == shares + row["repaid"] + row["burned"] > 0
    assert sum(seat["pay"] for seat in seats) == row["to_verifiers"] and row["penalties"] > 0


class _LongerDisputes(ChainState):
    """A node that says that the longest dispute outlasts what the stake answers for."""

    def view(self, contract: str, function: str, *arguments: Any) -> Any:
        """Result of a view."""
        return 2**40 if function == "longestLive" else super().view(contract, function, *arguments)


def test_lapsed_record_of_restaked_ether_is_no_difference(anvil: Anvil, tmp_path: Path) -> None:
    """The contract says 0 for a record that is older than `MAX_AGE` blocks, and no event says so."""
    network = deployed(anvil, at_eigenlayer=True)
    code, young = interface("EigenLayerStake"), VERIFIERS[0].address
    mine(anvil, MAX_AGE + 1)
    sync = TransactionCall(CHALLENGER, network.addresses.stake_vault, code.call("sync", young), 0, 1_000_000)
    send_all(anvil.client, [sync], 60)
    made = index_of(anvil.client, network, tmp_path)
    assert found_differences(made, anvil.client, network) == []
    with made.reader.snapshot() as snapshot:
        state = ChainState(anvil.client, network, snapshot.state().hash)
        made.writer.note_check(snapshot.state().number, [], record_life(state, snapshot))
        longer = _LongerDisputes(anvil.client, network, snapshot.state().hash)
        assert record_life(longer, snapshot) == -1
        (line,) = differences(longer, snapshot)
        assert line == f"account {young}: stake is 0 in the index, {STAKE_WEI} on the chain"
    with made.reader.snapshot() as snapshot:
        scene = Scene(snapshot, {}, 0, 60, "0")
        shown = {each.verifier.account: each for each in parties.verifiers(scene, snapshot.all(VerifierFact))}
        (operator, _) = parties.operators(scene, snapshot.all(OperatorFact))
    assert (shown.pop(young).stake.wei, operator.stake.wei, operator.stake_lapsed) == (str(STAKE_WEI), "0", True)
    assert {(each.stake.wei, each.stake_lapsed) for each in shown.values()} == {("0", True)}


def test_removed_log_of_each_kind_is_found(overturned: tuple[Anvil, Network], tmp_path: Path) -> None:
    anvil, network = overturned
    whole = _last_of_each_kind(anvil, network)
    compared = {kind: last for kind, last in whole.items() if kind not in UNSEEN and kind[1] != "AuthorityUpdated"}
    missed = []
    for kind, last in compared.items():
        if not _differences(anvil, network, tmp_path / kind[0] / kind[1], partial(_without, last)):
            missed.append(kind)
    assert missed == [] and len(compared) > 30
    rest = [last for kind, last in whole.items() if kind not in compared]
    assert _differences(anvil, network, tmp_path / "rest", lambda events: [each for each in events if each not in rest]) == []


def test_doubled_log_of_each_kind_is_found(overturned: tuple[Anvil, Network], tmp_path: Path) -> None:
    anvil, network = overturned
    missed = []
    for kind, last in _last_of_each_kind(anvil, network).items():
        if kind in ADDED and not _differences(anvil, network, tmp_path / kind[0] / kind[1], partial(_doubled, last)):
            missed.append(kind)
    assert missed == []


def _without(last: ChainEvent, events: list[ChainEvent]) -> list[ChainEvent]:
    return [each for each in events if each != last]


def _doubled(last: ChainEvent, events: list[ChainEvent]) -> list[ChainEvent]:
    if last not in events:
        return events
    place = max(each.place for each in events if each.block == last.block) + 1
    return sorted([*events, last._replace(place=place)], key=lambda each: (each.block, each.place))


def _last_of_each_kind(anvil: Anvil, network: Network) -> dict[tuple[str, str], ChainEvent]:
    head = anvil.client.head().number
    whole = ChainEvents(anvil.client, network).events(network.deploy_block, head, ())
    return {(each.contract, each.name): each for each in whole}


def _differences(anvil: Anvil, network: Network, folder: Path, edit: Callable[[list[ChainEvent]], list[ChainEvent]]) -> list[str]:
    """What the self-check says of an index whose node edits events and is believed."""
    folder.mkdir(parents=True)
    source = BelievedEvents(anvil.client, network, edit)
    made = Indexed(f"sqlite:///{folder / 'index.db'}", source, network.deploy_block)
    made.follow()
    found = found_differences(made, anvil.client, network)
    made.engine.dispose()
    return found


def test_node_that_lies_about_new_logs_or_receipts_is_refused(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    head = anvil.client.head().number

    def left_out(events: list[ChainEvent]) -> list[ChainEvent]:
        new = [each for each in events if each.block > head]
        return [each for each in events if each not in new[-1:]]

    def invented(events: list[ChainEvent]) -> list[ChainEvent]:
        new, empty = [each for each in events if each.block > head], anvil.client.block(head + 1)
        moved = (each._replace(block=empty.number, block_hash=empty.hash) for each in new[:1] if each.block != head + 1)
        return [*events, *moved]

    anvil.mine()
    court.open(0, word("wrong guess"))
    reasons = {left_out: "the block's receipts have", invented: "which the block's bloom filter excludes"}
    for edit, why in reasons.items():
        source = EditedEvents(anvil.client, court.network, edit)
        made = Indexed(f"sqlite:///{tmp_path / edit.__name__}.db", source, court.network.deploy_block)
        with pytest.raises(TryAgain, match=f"logs of block [0-9]+ are wrong.*{why}"):
            made.follow()
    with pytest.raises(TryAgain, match="do not hash to the root"):
        index_of(WrongReceipts(anvil.url, CHAIN_ID), court.network, tmp_path, "receipts")


@pytest.mark.parametrize(
    ("code", "refusals", "is_verified"),
    [(-32601, 1, False), (-32004, 1, False), (-32005, 1, True), (-32005, REFUSALS - 1, True), (-32600, REFUSALS, False)],
)
def test_only_a_node_without_block_receipts_is_believed_unchecked(
    anvil: Anvil, tmp_path: Path, code: int, refusals: int, is_verified: bool
) -> None:
    """-32005 is a rate limit, which ends. Some nodes use -32600 for a method that they do not have."""
    court = DisputeFixture(anvil, tmp_path)
    with fronts(anvil, 1) as (front,):
        source = ChainEvents(ChainClient(front.url, CHAIN_ID), court.network)
        made = Indexed(f"sqlite:///{tmp_path / 'index.db'}", source, court.network.deploy_block)
        front.change = refuses("eth_getBlockReceipts", code=code)
        for _ in range(refusals if is_verified else refusals - 1):
            with pytest.raises(RpcRefused):
                made.follow()
        if is_verified:
            front.change = None
        made.follow()
    assert found_differences(made, anvil.client, court.network) == []
    assert source.verifies_logs is is_verified and value_of("bytewise_index_logs_verified") == is_verified


class WrongReceipts(ChainClient):
    """A node whose receipts are not those of the block."""

    def raw_receipts(self, number: int) -> Any:
        """All but the last."""
        return super().raw_receipts(number)[:-1]


def test_receipts_root_is_that_of_the_header(anvil: Anvil) -> None:
    anvil.automine(False)
    anvil.rpc("anvil_autoImpersonateAccount", True)
    payment = {"from": OPERATORS[0].address, "to": CHALLENGER.address, "value": "0x1", "gas": "0x5208"}
    for count in (1, 2, 15, 130):
        for _ in range(count):
            anvil.rpc("eth_sendTransaction", payment)
        number = anvil.mine()
        (raw,) = anvil.client.raw_blocks([number])
        receipts = anvil.client.raw_receipts(number)
        assert len(receipts) == count
        assert trie_of_list([encode_receipt(each) for each in receipts])[0] == hex_bytes(raw["receiptsRoot"])

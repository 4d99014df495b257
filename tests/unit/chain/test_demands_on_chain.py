"""Demands, appeals and lost seeds under the contracts, each decided and sent by us."""

from pathlib import Path

import pytest

from bytewise.protocol.court.params import MAX_REARMS
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import AnswerList, ExpireList, Rearm, ReleaseBatch
from bytewise.protocol.decisions.demands import DemandKind, DemandState
from bytewise.protocol.decisions.disputes import decide_expiries, decide_moves, decide_operator
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ChainReverted
from bytewise.protocol.records.receipt import ReceiptList, list_subject
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import U64
from chain.deployment.params import DEVNET
from chain.deployment.plan import DEVNET_SHAPE
from chain.reads.history import CourtHistory
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import CHALLENGER, OPERATORS, batch, mine, word
from tests.fixtures.court.session import EAGER, TRUE, DisputeFixture


def test_list_demand_is_answered_or_its_expiry_voids_the_batch(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    operator, me = court.of(OPERATORS[0]), OPERATORS[0].address
    second = batch(court.network, OPERATORS[0], 4, 2, anvil.client.head().timestamp)
    operator.anchor(second.header, 10**15)
    court.pump()
    for batch_id, count in enumerate((len(court.batch.entries), 2)):
        court.of(CHALLENGER).demand_list(batch_id, count * DEVNET.money.demand_bond)
    court.pump()
    snapshot, batches = court.reader.snapshot(me, court.reader.head()), court.reader.anchored(0, court.reader.head())
    assert [type(each) for each in decide_operator(snapshot, me, batches)] == [AnswerList] * 2
    content = ReceiptList(me, U64(1), court.batch.entries)
    operator.answer_list(0, encode(content), batches[0].list_deadline)
    court.pump()
    subjects = tuple(court.reader.list_subject(each) for each in (0, 1))
    assert subjects == tuple(list_subject(court.network.demands_domain, each) for each in (0, 1))
    answers = [court.reader.answered(each, 0, court.reader.head()) for each in subjects]
    assert answers == [encode(content), None], "what was demanded is on the chain"
    states = [(each.kind, each.state) for each in court.reader.demands(subjects, court.reader.head())]
    assert states == [(DemandKind.LIST, DemandState.ANSWERED), (DemandKind.LIST, DemandState.OPEN)]
    mine(anvil, DEVNET.times.cure + 1)
    snapshot, batches = court.reader.snapshot(me, court.reader.head()), court.reader.anchored(0, court.reader.head())
    expiries = decide_expiries(snapshot, batches, EAGER)
    assert expiries == (ExpireList(1),) and decide_operator(snapshot, me, batches) == ()
    court.moves(expiries)
    court.pump()
    mine(anvil, DEVNET.times.window + DEVNET.times.cure + 1)
    snapshot, batches = court.reader.snapshot(me, court.reader.head()), court.reader.anchored(0, court.reader.head())
    assert [each.is_void for each in batches] == [False, True]
    due = decide_operator(snapshot, me, batches)
    assert ReleaseBatch(0) in due
    court.moves(due)
    court.pump()
    batches = court.reader.anchored(0, court.reader.head())
    assert batches[0].released and decide_operator(snapshot, me, batches[:1]) == ()
    signed = court.batch.entries[0]
    assert court.reader.verify_final(signed, 0, court.batch.proofs[0], court.reader.head()) == signed
    with pytest.raises(ChainReverted, match="BatchIsVoid"):
        court.reader.verify_final(second.entries[0], 1, second.proofs[0], court.reader.head())
    assert court.reader.money(court.reader.head()).sums


def test_verdict_is_appealed_and_stands_if_no_other_seed_arrives(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    court.open(0, word("guess"))
    case = court.until(Phase.COMMIT)
    votes = [court.vote(case, each.voter, TRUE) for each in case.members]
    court.commit(votes)
    mine(anvil, 2)
    court.reveal(votes)
    case = court.until(Phase.APPEAL)
    assert case.verdict is Verdict.OVERTURNED and case.appeal_bond_wei == DEVNET.appeal_bond(2)
    court.of(OPERATORS[0]).appeal(case.id, case.appeal_bond_wei)
    court.pump()
    case = court.case()
    assert (case.phase, case.level, case.round, case.seats, case.appealed) == (Phase.SEED, 2, 2, 31, True)
    for lost in range(MAX_REARMS + 1):
        assert case.rearms == lost and not case.seed.lost
        # Past the stake epoch of the seed.
        mine(anvil, case.seed.block - anvil.client.head().number + DEVNET_SHAPE.epoch_blocks)
        snapshot = court.snapshot()
        assert decide_moves(snapshot, EAGER) == (Rearm(case.id, 2),)
        court.step()
        case = court.case()
    assert (case.phase, case.verdict) == (Phase.AIRGAP, Verdict.OVERTURNED)
    court.until(Phase.FINAL)
    court.settled()
    (ending,) = CourtHistory(court.reader).endings(0, court.reader.head())
    assert (ending.appeal_bond, ending.to_appellant) == (DEVNET.appeal_bond(2), 0)
    court.everything_is_accounted_for()

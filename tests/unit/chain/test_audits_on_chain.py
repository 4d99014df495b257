"""Light audits posted, opened after the window, paid to two who agree."""

from collections.abc import Sequence
from pathlib import Path

from bytewise.protocol.court.sortition import audit_is_drawn
from bytewise.protocol.decisions.audits import AuditStage
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.records.statements import AuditOutcome, AuditResult, audit_commitment
from bytewise.protocol.signing import LocalSigner, typed_digest
from bytewise.protocol.units import U8, U64, Digest
from chain.deployment.params import DEVNET
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import STAKE_WEI, VERIFIERS, mine, word
from tests.fixtures.court.session import DisputeFixture


def stages(court: DisputeFixture, subject: Digest, who: Sequence[LocalSigner] = VERIFIERS, batch: int = 0) -> set[AuditStage]:
    return {court.reader.audit_stage(subject, batch, each.address, court.reader.head()) for each in who}


def test_auditors_that_agree_are_paid_each_once(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    (header,) = court.reader.batches(0, court.reader.head())
    mine(anvil, 3)
    beacon, seats = court.reader.block_hash(header.block + 2), STAKE_WEI // DEVNET.money.audit_unit
    ids = [receipt_id(court.network.anchor_domain, each.receipt) for each in court.batch.entries]
    auditors = {
        i: [v for v in VERIFIERS if audit_is_drawn(beacon, ids[i], v.address, DEVNET.shares.audit_rate_bps, seats)]
        for i in range(len(ids))
    }
    # Nine in ten are drawn: some receipt has two auditors.
    index = next(i for i in auditors if len(auditors[i]) >= 2)
    drawn, subject = auditors[index], ids[index]
    (entry, proof), receipt = (court.batch.entries[index], court.batch.proofs[index]), court.batch.entries[index].receipt
    words, results = (receipt.tokens_hash, word("trace", receipt.seq)), {}
    for each in VERIFIERS:
        commitment = audit_commitment(subject, each.address, *words, word("salt", each.address))
        result = AuditResult(subject, each.address, U8(AuditOutcome.MATCH), commitment, U64(anvil.client.head().timestamp))
        results[each] = result
        court.of(each).post_audit(result, each.sign(typed_digest(court.domain, result)), 0)
    assert stages(court, subject) == {AuditStage.NOTHING}
    court.pump()
    assert (stages(court, subject, drawn), stages(court, subject, drawn, 1)) == ({AuditStage.POSTED}, {AuditStage.NOTHING})
    posted = [(result, batch) for result, _, batch in court.reader.audits(0, court.reader.head())]
    assert posted == [(results[each], 0) for each in drawn]
    mine(anvil, DEVNET.times.window + 1)
    for each in drawn:
        court.of(each).open_audit(subject, each.address, *words, word("salt", each.address))
    court.pump()
    assert stages(court, subject, drawn) == {AuditStage.OPENED} and stages(court, subject, drawn, 1) == {AuditStage.NOTHING}
    for _ in range(2):
        for each in drawn:
            court.of(each).claim_bounty(entry, proof, results[each])
        court.pump()
    assert stages(court, subject, drawn) == {AuditStage.PAID}
    head = court.reader.head()
    paid = [court.reader.holdings(each.address, head).credit_wei for each in VERIFIERS]
    assert paid == [DEVNET.money.bounty * (each in drawn) for each in VERIFIERS]
    money = court.reader.money(head)
    assert money.sums and money.audit_pool == 3 * 10**12 - len(drawn) * DEVNET.money.bounty

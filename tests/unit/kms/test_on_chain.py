"""`bytewise shard run` against a real chain: a drawn seat opens the envelope, and what the chain says decides."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.decisions.snapshot import Seat
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError, NoKey, TryAgain
from bytewise.protocol.jobs import key_domain
from bytewise.protocol.keys.release_log import START, ReleaseLog, SignedRelease, verify_log
from bytewise.protocol.records.receipt import SignedReceipt
from bytewise.protocol.records.seal import unpad
from bytewise.protocol.records.statements import TicketKind
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import U64, Digest
from chain.client.access import ReadAheadClient
from chain.client.quorum import QuorumClient
from chain.client.rpc import Read
from chain.deployment.deploy import join
from chain.deployment.params import DEVNET, ETHER
from chain.reads.reader import SnapshotReader
from kms.release_log.entitlement import AuditBlock, LogFindings, UnjudgedReason, judge_log, prefetch
from kms.settings import ShardSettings
from kms.shard.audit_draw import audit_draw_at
from kms.shard.chain_view import ChainKeyView
from kms.shard_client import ShardClient
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil, running_anvil
from tests.fixtures.chain.devnet import STAKE_WEI, pump, reader, sender, signer
from tests.fixtures.kms.chain_network import CHALLENGER, OPERATOR, VERIFIERS, OnChain, joiner, put_on_chain, serving


@pytest.fixture
def on_chain(anvil: Anvil, tmp_path: Path) -> OnChain:
    """On a chain that calls blocks final after 64 others only."""
    return put_on_chain(anvil, tmp_path)


@pytest.mark.e2e
def test_drawn_seat_and_drawn_auditor_open_the_envelope_and_others_do_not(on_chain: OnChain) -> None:
    world, case = on_chain.world, on_chain.case
    dispute, member = on_chain.dispute()
    view_reads_all_at_one_block(on_chain, dispute, member)
    with serving(on_chain, 2, 3):
        seat = on_chain.ticket(TicketKind.DISPUTE, subject=dispute, voter=member.voter)
        assert unpad(on_chain.keys().open(on_chain.job(seat), world.secret)) == case.payload
        auditor = on_chain.ticket(TicketKind.AUDIT, voter=VERIFIERS[0].address)
        assert unpad(on_chain.keys().open(on_chain.job(auditor), world.secret)) == case.payload
        elsewhere = replace(seat, subject=Digest(os.urandom(32)))
        with pytest.raises(NoKey):
            on_chain.keys().open(on_chain.job(elsewhere), world.secret)
        with ShardClient(world.document.record.shards[1]) as client:
            log = decode(ReleaseLog, client.call("GET", "/v1/log?from=0", b""))
    domain = key_domain(on_chain.network.contracts)
    assert verify_log(log.entries, START, domain).next_index == 2
    assert [entry.record.ticket_hash for entry in log.entries] == [typed_digest(domain, t) for t in (seat, auditor)]
    court, last = reader(on_chain.anvil, on_chain.network), log.entries[1]
    now = AuditBlock(court.head(), last.record.decided_at, last.record.decided_at)
    assert judge_log(log.entries, court, now) == LogFindings()
    assert last.right is not None
    poor = replace(last, right=replace(last.right, ticket=replace(last.right.ticket, voter=signer(9).address)))
    (problem,) = judge_log((poor,), court, now).wrong
    assert f"{signer(9).address} was not drawn" in problem
    # What was right then is right for ever; the same ticket a minute later is not, nor at a time that no block has.
    on_chain.anvil.pass_time(61)
    later = court.block(court.head()).timestamp
    now = AuditBlock(court.head(), later, later)
    assert judge_log(log.entries, court, now) == LogFindings()
    for decided_at, problem in ((later, "expired at"), (later - 1, f"its date is {later - 1}, and no block has that time")):
        late = [replace(each, record=replace(each.record, decided_at=U64(decided_at))) for each in log.entries]
        assert [problem in each for each in judge_log(late, court, now).wrong] == [True, True]
    read_ahead_finds_the_same(on_chain, [*log.entries, poor, *late] * 8, now)


class CountedNode(ReadAheadClient):
    """A node whose round trips for reads are counted, and that may go away after so many."""

    trips, limit = 0, 1_000

    def read_many(self, reads: Sequence[Read]) -> list[Any]:
        self.trips += 1
        if self.trips > self.limit:
            raise TryAgain("chain", "gone")
        return super().read_many(reads)


def read_ahead_finds_the_same(on_chain: OnChain, entries: list[SignedRelease], seen: AuditBlock) -> None:
    """Many reads in a round trip judge as one read after the other does, also where several nodes must agree or one goes away."""
    expected = judge_log(entries, reader(on_chain.anvil, on_chain.network), seen)
    assert expected.wrong and not expected.unjudged
    nodes = [CountedNode(on_chain.anvil.url, CHAIN_ID, 20.0) for _ in range(4)]
    for chain in (nodes[0], QuorumClient(nodes[1:3], 2)):
        court, told = SnapshotReader(chain, on_chain.network), list[int]()
        prefetch(entries, court, seen, told.append)
        assert judge_log(entries, court, seen) == expected
        assert told == sorted(told) and told[-1] == len(entries)
    # Of one entry alone the reads depend on one another in some ten steps.
    assert nodes[0].trips <= 20 < len(entries)
    nodes[3].limit = 2
    court = SnapshotReader(nodes[3], on_chain.network)
    prefetch(entries, court, seen, lambda _: None)
    assert judge_log(entries, court, seen).unjudged == {UnjudgedReason.NO_ANSWER: len(entries)} and nodes[3].trips == 3


def view_reads_all_at_one_block(on_chain: OnChain, dispute: Digest, member: Seat) -> None:
    """Disputes, batches, beacons and epochs."""
    view = view_of(on_chain)
    facts = view.read(on_chain.ticket(TicketKind.DISPUTE, subject=dispute, voter=member.voter), 0)
    assert facts.dispute is not None and facts.dispute.seat_of(member.voter) == member and facts.drawing is None
    assert (facts.policy, facts.assurance) == (on_chain.world.policy.digest, "simulated")
    assert facts.public_key == on_chain.world.document.record.public_key
    for who in VERIFIERS:
        facts = view.read(on_chain.ticket(TicketKind.AUDIT, voter=who.address), 0)
        assert facts.drawing is not None and facts.dispute is None and facts.is_verifier
        assert facts.drawing.beacon == on_chain.anvil.client.block(facts.drawing.batch.block + 2).hash
        assert (facts.drawing.seats, facts.drawing.rate_bps) == (STAKE_WEI // ETHER, 10_000)
    outsider = view.read(on_chain.ticket(TicketKind.AUDIT, voter=OPERATOR.address), 0)
    assert outsider.drawing is not None and (outsider.drawing.seats, outsider.is_verifier) == (0, False)
    assert view.read(on_chain.ticket(TicketKind.AUDIT), 7).drawing is None
    assert view.read(on_chain.ticket(TicketKind.DISPUTE, subject=Digest(os.urandom(32))), 0).dispute is None
    with pytest.raises(TryAgain, match="no key epoch 9 at block"):
        view.read(on_chain.ticket(TicketKind.AUDIT, key_epoch=U64(9)), 0)


def view_of(on_chain: OnChain) -> ChainKeyView:
    return ChainKeyView(reader(on_chain.anvil, on_chain.network), on_chain.world.document.record.shards[0].address)


@pytest.mark.e2e
def test_who_stakes_or_joins_after_the_batch_is_not_drawn_for_it(on_chain: OnChain) -> None:
    """Both could wait for the beacon. The operator has had its stake since before the batch, and joins the pool after it."""
    anvil, late = on_chain.anvil, {signer(9): 10 * STAKE_WEI, OPERATOR: 0}
    anvil.mine(3)
    join(anvil.client, on_chain.network, [joiner(who, deposit) for who, deposit in late.items()])
    anvil.mine(3)
    view, chain = view_of(on_chain), reader(anvil, on_chain.network)
    for who, deposit in late.items():
        facts = view.read(on_chain.ticket(TicketKind.AUDIT, voter=who.address), 0)
        assert facts.is_verifier and facts.drawing is not None and facts.drawing.seats == 0
        # Control: whose moment of joining is not looked at is drawn, if its stake is old.
        unchecked, header = replace(chain.holdings(who.address, chain.head()), joined_at=0), facts.drawing.batch
        drawing = audit_draw_at(chain, who.address, unchecked, on_chain.case.id, header.batch_id, chain.head())
        assert drawing is not None and bool(drawing.seats) == (not deposit)
    drawn = chain.auditors(header.environment, header.block, chain.head())
    assert {who for who, stake in drawn if stake} == {each.address for each in VERIFIERS}
    with serving(on_chain, 1, 2):
        for who in late:
            ticket = on_chain.ticket(TicketKind.AUDIT, voter=who.address)
            with pytest.raises(NoKey):
                on_chain.keys().open(on_chain.world.job(on_chain.case, ticket, who), on_chain.world.secret)


@pytest.mark.e2e
def test_auditor_opens_a_receipt_while_a_demand_holds_its_window_open(on_chain: OnChain) -> None:
    """The chain takes its result until then. An operator that answers in the last second would else be audited by nobody."""
    anvil, chain = on_chain.anvil, reader(on_chain.anvil, on_chain.network)
    tower = sender(anvil, on_chain.network, CHALLENGER, on_chain.world.folder)
    case, times, bond = on_chain.case, DEVNET.times, DEVNET.money.demand_bond
    signed = SignedReceipt(case.receipt, case.receipt_signature, "eigenda:standard:0x01")
    anvil.pass_time(times.window - 20)
    tower.demand_envelope(signed, 0, (), bond)
    pump(anvil, [tower])
    anvil.pass_time(times.cure // 2)
    found = chain.batch(0, chain.head())
    assert found is not None and chain.snapshot(CHALLENGER.address, chain.head()).clock > found[1].window_end
    with serving(on_chain, 1, 2):
        auditor = on_chain.ticket(TicketKind.AUDIT, voter=VERIFIERS[0].address)
        assert unpad(on_chain.keys().open(on_chain.job(auditor), on_chain.world.secret)) == case.payload
        anvil.pass_time(times.cure)
        late = on_chain.ticket(TicketKind.AUDIT, voter=VERIFIERS[1].address)
        assert chain.snapshot(CHALLENGER.address, chain.head()).clock > chain.window_end(case.id, 0, chain.head())
        with pytest.raises(NoKey):
            on_chain.keys().open(on_chain.job(late), on_chain.world.secret)


@pytest.mark.e2e
def test_shard_decides_at_a_final_block_unless_settings_differ(tmp_path: Path) -> None:
    """A round that was drawn a block ago can still be taken back with its members: no key yet, then the key."""
    with running_anvil("--slots-in-an-epoch", "1") as anvil:
        on_chain = put_on_chain(anvil, tmp_path)
        dispute, member = on_chain.dispute()
        drawn_at = anvil.client.head().number
        job = on_chain.job(on_chain.ticket(TicketKind.DISPUTE, subject=dispute, voter=member.voter))
        with serving(on_chain, 1, 2, finality=""):
            assert anvil.client.head("finalized").number < drawn_at
            with pytest.raises(NoKey, match="TryAgain"):
                on_chain.keys().open(job, on_chain.world.secret)
            anvil.mine(2)
            assert anvil.client.head("finalized").number >= drawn_at
            assert unpad(on_chain.keys().open(job, on_chain.world.secret)) == on_chain.case.payload


def test_shard_accepts_two_finality_settings() -> None:
    given = {
        "host": "", "port": 1, "channel_port": 2, "rpc_url": "http://node", "database_url": "", "audits_per_epoch": 1,
        "production": False, **{name: Path() for name in ("folder", "epoch_file", "policy_file", "network_file")},
    }  # fmt: skip
    assert ShardSettings(**given).finality == "finalized"  # type: ignore[arg-type]
    assert ShardSettings(**given, finality="latest").finality == "latest"  # type: ignore[arg-type]
    for wrong, named in (({"finality": "soon"}, "finality"), ({"finality": "latest", "production": True}, "production")):
        with pytest.raises(ConfigurationError, match=named):
            ShardSettings(**given | wrong)  # type: ignore[arg-type]

"""`python -m kms serve` against a real chain: a drawn seat opens the envelope, and what the chain says decides."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bytewise.protocol import merkle
from bytewise.protocol.docket import Seat
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors import ConfigurationError, NoKey
from bytewise.protocol.jobs import RunJob
from bytewise.protocol.keys import ReleaseLog
from bytewise.protocol.messages import Ticket, TicketKind
from bytewise.protocol.network import Network
from bytewise.protocol.phases import Phase
from bytewise.protocol.receipt import BatchHeader
from bytewise.protocol.release_log import START, verify_log
from bytewise.protocol.seal import unpad
from bytewise.protocol.signing import LocalSigner, typed_digest
from bytewise.protocol.units import U32, U64, ZERO_DIGEST, Digest
from bytewise.service.settings import child_environment
from chain.book import write_network
from chain.deploy import Joiner, Policy, Proposed, deploy, environment_proposal, join, put_in_force, survey
from chain.params import DEVNET, ETHER, changed
from chain.plan import DEVNET_SHAPE
from chain.plan import Vote as Powers
from kms.chain_view import ChainKeyView
from kms.client import ShardClient, ShardKeySource
from kms.policy import key_domain
from kms.settings import ShardSettings
from tests.anvil import Anvil, running_anvil
from tests.devnet import MEASUREMENT, POOL, STAKE_WEI, VECTORS, fee_wei, in_force, pump, reader, seed_passed, sender, signer, word
from tests.unit.kms.memory_chain import Case
from tests.unit.kms.test_process import answers, config
from tests.unit.kms.world import ENVIRONMENT, World, wait_until

ROOT = Path(__file__).resolve().parents[3]
OPERATOR, CHALLENGER, VERIFIERS = signer(1), signer(8), [signer(i) for i in range(3, 8)]
AUDITS = changed(DEVNET, {"shares": {"audit_rate_bps": 10_000}, "money": {"audit_unit": ETHER}})
"""Every verifier audits every receipt."""


@dataclass
class OnChain:
    """A dealt network whose epoch, policy and one receipt are on a real chain."""

    world: World
    anvil: Anvil
    network: Network
    case: Case

    def dispute(self) -> tuple[Digest, Seat]:
        """Opens and draws a dispute; its id and one member that is no verifier without seats."""
        challenger = sender(self.anvil, self.network, CHALLENGER, self.world.folder)
        chain = reader(self.anvil, self.network)
        bond = chain.docket(CHALLENGER.address, chain.head()).required_bond_wei
        challenger.open_dispute(self.case.receipt, self.case.receipt_signature, 0, (), word("alternative"), bond)
        pump(self.anvil, [challenger])
        found = chain.docket(CHALLENGER.address, chain.head()).cases[0]
        seed_passed(self.anvil, found)
        challenger.prove_seed(found.seed.block)
        pump(self.anvil, [challenger])
        challenger.draw(found.id, 1, 0, found.seats)
        pump(self.anvil, [challenger])
        drawn = chain.case(found.id, chain.head())
        assert drawn is not None and drawn.phase is Phase.COMMIT
        return found.id, drawn.members[0]

    def job(self, ticket: Ticket) -> RunJob:
        """A job on the ticket, signed by the verifier that it names."""
        voter = next(each for each in VERIFIERS if each.address == ticket.voter)
        return self.world.job(self.case, ticket, voter)

    def ticket(self, kind: TicketKind, **changes: object) -> Ticket:
        """A ticket that expires in a minute of chain time."""
        until = U64(self.anvil.client.head().timestamp + 60)
        return self.world.ticket(self.case, kind, expires_at=until, **changes)

    def keys(self) -> ShardKeySource:
        """A key client that asks each shard at most three times."""
        return ShardKeySource(self.world.quoter, attempts=3)


@pytest.fixture
def on_chain(anvil: Anvil, tmp_path: Path) -> OnChain:
    """On a chain that calls blocks final after 64 others only."""
    return put_on_chain(anvil, tmp_path)


def put_on_chain(anvil: Anvil, tmp_path: Path) -> OnChain:
    """A fresh network on this chain."""
    client, curator = anvil.client, signer(0)
    anvil.mine(2)
    network = deploy(
        client, curator, survey(client, curator.address, AUDITS, DEVNET_SHAPE, [POOL], Powers(*(curator.address,) * 3))
    )
    world = World(tmp_path, contracts=network.contracts)
    case = world.case(1, OPERATOR)
    policy = Policy(world.policy.digest, int(world.policy.serial), encode(world.policy))
    proposals = [environment_proposal(ENVIRONMENT, POOL, VECTORS), Proposed(case.receipt.model_id, ZERO_DIGEST, VECTORS, b"{}")]
    network = put_in_force(client, network, curator, [MEASUREMENT], proposals, policy, [world.document])
    join(client, network, [Joiner(OPERATOR, STAKE_WEI, "http://127.0.0.1:1"), *(joiner(v) for v in VERIFIERS)])
    in_force(anvil, network, VERIFIERS, [ENVIRONMENT.digest, case.receipt.model_id])
    write_network(tmp_path / "network.json", network)
    (tmp_path / "policy.json").write_bytes(encode(world.policy))
    operator = sender(anvil, network, OPERATOR, tmp_path)
    root = merkle.batch_root([merkle.batch_leaf(case.id, case.receipt.seq)])
    header = BatchHeader(
        0, OPERATOR.address, U64(1), U32(1), root, ZERO_DIGEST, ENVIRONMENT.digest, case.receipt.model_id, U64(1),
        "eigenda:standard:0x01", U64(0), U64(0),
    )  # fmt: skip
    operator.anchor(header, fee_wei(anvil, network, 1))
    pump(anvil, [operator])
    return OnChain(world, anvil, network, case)


def joiner(who: LocalSigner, stake_wei: int = STAKE_WEI) -> Joiner:
    """A verifier of the one pool, on a machine of its own."""
    return Joiner(who, stake_wei, None, POOL, word("machine", who.address), MEASUREMENT)


@contextmanager
def serving(on_chain: OnChain, *indices: int, finality: str = 'finality = "latest"\n') -> Iterator[None]:
    """Real shard processes; each must end with exit code 0. `finality` is a line of their settings, or nothing."""
    processes = []
    for index in indices:
        path = config(on_chain.world, index)
        text = path.read_text().replace("../dispute.json", "../network.json").replace("http://127.0.0.1:1", on_chain.anvil.url)
        path.write_text(text + finality)
        command = [sys.executable, "-m", "kms", "serve", "--config", str(path)]
        processes.append(subprocess.Popen(command, cwd=ROOT, env=child_environment(), stderr=subprocess.PIPE))
    try:
        wait_until(lambda: all(answers(on_chain.world, i) for i in indices), timeout_s=60)
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        logs = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), logs


@pytest.mark.e2e
def test_a_drawn_seat_and_a_drawn_auditor_open_the_envelope_and_a_stranger_does_not(on_chain: OnChain) -> None:
    world, case = on_chain.world, on_chain.case
    dispute, member = on_chain.dispute()
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


@pytest.mark.e2e
def test_the_view_reads_disputes_batches_beacons_and_epochs_at_one_block(on_chain: OnChain) -> None:
    view = ChainKeyView(reader(on_chain.anvil, on_chain.network), on_chain.world.document.record.shards[0].address)
    dispute, member = on_chain.dispute()
    facts = view.read(on_chain.ticket(TicketKind.DISPUTE, subject=dispute, voter=member.voter), 0)
    assert facts.case is not None and facts.case.seat_of(member.voter) == member and facts.drawing is None
    assert (facts.policy, facts.assurance) == (on_chain.world.policy.digest, "simulated")
    assert facts.public_key == on_chain.world.document.record.public_key
    for who in VERIFIERS:
        facts = view.read(on_chain.ticket(TicketKind.AUDIT, voter=who.address), 0)
        assert facts.drawing is not None and facts.case is None and facts.is_verifier
        assert facts.drawing.beacon == on_chain.anvil.client.block(facts.drawing.batch.block + 2).hash
        assert (facts.drawing.seats, facts.drawing.rate_bps) == (STAKE_WEI // ETHER, 10_000)
    stranger = view.read(on_chain.ticket(TicketKind.AUDIT, voter=OPERATOR.address), 0)
    assert stranger.drawing is not None and (stranger.drawing.seats, stranger.is_verifier) == (0, False)
    assert view.read(on_chain.ticket(TicketKind.AUDIT), 7).drawing is None
    unknown = view.read(on_chain.ticket(TicketKind.DISPUTE, subject=Digest(os.urandom(32))), 0)
    assert unknown.case is None


@pytest.mark.e2e
def test_audits_are_drawn_from_the_stakes_at_the_batch_whoever_joins_or_deposits_later(on_chain: OnChain) -> None:
    view = ChainKeyView(reader(on_chain.anvil, on_chain.network), on_chain.world.document.record.shards[0].address)
    late, anvil = signer(9), on_chain.anvil
    anvil.mine(3)
    join(anvil.client, on_chain.network, [joiner(late, 10 * STAKE_WEI)])
    anvil.mine(3)
    facts = view.read(on_chain.ticket(TicketKind.AUDIT, voter=late.address), 0)
    assert facts.is_verifier and facts.drawing is not None and facts.drawing.seats == 0
    ticket = on_chain.ticket(TicketKind.AUDIT, voter=late.address)
    with serving(on_chain, 1, 2), pytest.raises(NoKey):
        on_chain.keys().open(on_chain.world.job(on_chain.case, ticket, late), on_chain.world.secret)


@pytest.mark.e2e
def test_a_shard_decides_at_a_final_block_unless_its_settings_say_otherwise(tmp_path: Path) -> None:
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


def test_a_shard_knows_two_finalities() -> None:
    given = {"host": "", "port": 1, "rpc_url": "http://node", "database_url": "", "audits_per_epoch": 1, "production": False}
    files = {name: Path() for name in ("folder", "epoch_file", "policy_file", "network_file")}
    assert ShardSettings(**given, **files).finality == "finalized"  # type: ignore[arg-type]
    assert ShardSettings(**given, **files, finality="latest").finality == "latest"  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="finality"):
        ShardSettings(**given, **files, finality="soon")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="production"):
        ShardSettings(**given | {"production": True}, **files, finality="latest")  # type: ignore[arg-type]

"""A network for key release on a real chain: epoch, policy and one anchored receipt; shards as processes of their own."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol import merkle
from bytewise.protocol.address_book import Network
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Seat
from bytewise.protocol.encoding import encode
from bytewise.protocol.jobs import RunJob
from bytewise.protocol.records.receipt import BatchHeader
from bytewise.protocol.records.statements import Ticket, TicketKind
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U32, U64, ZERO_DIGEST, Digest
from bytewise.service.settings import child_environment
from chain.client.address_book import write_network
from chain.deployment.deploy import Joiner, Policy, Proposed, deploy, environment_proposal, join, put_in_force, survey
from chain.deployment.params import DEVNET, ETHER, changed
from chain.deployment.plan import DEVNET_SHAPE
from chain.deployment.plan import Vote as Powers
from enclave.release_client import ShardKeySource
from tests.anvil import Anvil
from tests.devnet import MEASUREMENT, POOL, STAKE_WEI, VECTORS, fee_wei, in_force, pump, reader, seed_passed, sender, signer, word
from tests.unit.kms.memory_chain import Case
from tests.unit.kms.test_process import config, wait_for_answers
from tests.unit.kms.world import ENVIRONMENT, World
from tests.vouched import key_in_force

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
        (opening,) = chain.opened(0, chain.head())
        found = chain.case(opening.id, chain.head(), opening.receipt_id)
        assert found is not None
        seed_passed(self.anvil, found)
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


def put_on_chain(anvil: Anvil, tmp_path: Path, threshold: int = 2, count: int = 3) -> OnChain:
    """A fresh network on this chain, with so many shards of which so many open."""
    client, curator = anvil.client, signer(0)
    anvil.mine(2)
    network = deploy(
        client, curator, survey(client, curator.address, AUDITS, DEVNET_SHAPE, [POOL], Powers(*(curator.address,) * 3))
    )
    world = World(tmp_path, threshold, count, network.contracts)
    case = world.case(1, OPERATOR)
    policy = Policy(world.policy.digest, int(world.policy.serial), encode(world.policy))
    proposals = [environment_proposal(ENVIRONMENT, POOL, VECTORS), Proposed(case.receipt.model_id, ZERO_DIGEST, VECTORS, b"{}")]
    put_in_force(client, network, curator, [MEASUREMENT], proposals, policy)
    network = key_in_force(client, network, curator, world.document, policy.digest, world.signers())
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
def serving(
    on_chain: OnChain, *indices: int, finality: str = 'finality = "latest"\n'
) -> Iterator[dict[int, "subprocess.Popen[bytes]"]]:
    """Real shard processes by index; each must end with exit code 0. `finality` is a line of their settings, or nothing."""
    processes, logs = {}, {}
    for index in indices:
        path = config(on_chain.world, index)
        text = path.read_text().replace("../dispute.json", "../network.json").replace("http://127.0.0.1:1", on_chain.anvil.url)
        path.write_text(text + finality)
        logs[index] = path.with_name("log.txt")
        command = [sys.executable, "-m", "kms", "serve", "--config", str(path)]
        with logs[index].open("ab") as log:
            processes[index] = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stderr=log)
    try:
        wait_for_answers(on_chain.world, processes, timeout_s=120)
        yield processes
    finally:
        for process in processes.values():
            process.send_signal(signal.SIGTERM)
        ended = {index: process.wait(60) for index, process in processes.items()}
    assert set(ended.values()) == {0}, {index: logs[index].read_text() for index, code in ended.items() if code}

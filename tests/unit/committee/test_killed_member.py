"""A member that is killed by SIGKILL at every commit and broadcast of an audit, a vote and its moves has one effect of each.

The judge is that of `make soak-node`, which reads the chain without the product's readers.
"""

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from bench.soak_node.history import History, handed_in, read_history
from bench.soak_node.oracle import double_votes, money
from bytewise.protocol import digests, merkle
from bytewise.protocol.address_book import Network
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.encoding import encode
from bytewise.protocol.records.receipt import ReceiptList, SignedReceipt, batch_leaves, receipt_id
from bytewise.protocol.records.seal import envelope_hash
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U64
from bytewise.service.clock import SystemClock
from bytewise.service.settings import child_environment
from bytewise.storage.duties import DONE, Duties
from bytewise.storage.engine import open_database
from bytewise.storage.journal import Journal, journal_key
from bytewise.storage.protection import Protection
from chain.client.address_book import write_network
from chain.deployment.params import DEVNET, ETHER, with_changes
from chain.sending.keys import save_signer
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import OPERATORS, VERIFIERS, Batch, batch, deployed
from tests.fixtures.committee.killed_member import Play
from tests.fixtures.court.session import TRUE, DisputeFixture
from tests.fixtures.kms.killed_shards import ROOT, end
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.verifier.node_file import node_file

PARAMS = with_changes(DEVNET, {
    "times": {"commit_time": 600, "reveal_time": 600, "window": 600, "rerun_time": 2_000, "unbond_delay": 30 * 86_400},
    "committee": {"rounds": 1, "seats": (15, 0, 0)}, "shares": {"audit_rate_bps": 10_000}, "money": {"audit_unit": ETHER},
})  # fmt: skip
"""Every verifier audits every receipt, and no phase ends while a member dies a hundred times."""
LIMIT_S = 1_200
"""Forty times what it takes on two idle cores: other tests run beside it."""
LEAST_DEATHS = 80
"""The writes of one audit, one vote and their transactions: fewer deaths mean that the program no longer watches them."""


@dataclass
class Court:
    """A dispute in its commit phase, and the folder of one member with seats."""

    anvil: Anvil
    network: Network
    folder: Path
    member: LocalSigner
    play: Play

    def run(self, flaw: str = "none") -> int:
        """All lives of the member; how the last one ended."""
        (self.folder / "killed").touch()
        command = [sys.executable, "-m", "tests.fixtures.committee.killed_member", str(self.folder), flaw]
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stdout=log, stderr=log, start_new_session=True)
            try:
                return process.wait(LIMIT_S)
            finally:
                end(process)

    @property
    def moments(self) -> list[str]:
        return (self.folder / "killed").read_text().splitlines()

    def history(self) -> History:
        return read_history(self.anvil.url, self.network)

    def double_votes(self) -> list[str]:
        return double_votes(handed_in(self.folder / "handed-in", self.network), self.history())


def sealed_batch(network: Network, now: int) -> tuple[Batch, bytes, bytes]:
    """A batch of one receipt, its list, and the bytes of its envelope."""
    operator, envelope, domain = OPERATORS[0], b"an envelope", network.anchor_domain
    plain = batch(network, operator, 1, 1, now)
    receipt = replace(plain.entries[0].receipt, envelope_hash=envelope_hash(envelope), anchor_by=U64(now + 3_600))
    signed = SignedReceipt(receipt, operator.sign(receipt_id(domain, receipt)), plain.entries[0].locator)
    listed, leaves = ReceiptList(operator.address, U64(1), (signed,)), batch_leaves(domain, (signed,))
    header = replace(plain.header, root=merkle.batch_root(leaves), list_hash=listed.list_hash)
    return Batch(header, (signed,), merkle.batch_tree(leaves).proofs), encode(listed), envelope


def prepare(anvil: Anvil, folder: Path) -> Court:
    network = deployed(anvil, PARAMS)
    made, listed, envelope = sealed_batch(network, anvil.client.head().timestamp)
    court = DisputeFixture(anvil, folder, network=network, batch=made)
    court.open(0, digests.keccak256(b"another answer"))
    case = court.until(Phase.COMMIT)
    seat = max(case.members, key=lambda each: each.seat_mask.bit_count())
    member = next(each for each in VERIFIERS if each.address == seat.voter)
    entry = made.entries[0]
    name = receipt_id(network.anchor_domain, entry.receipt)
    home = folder / "member"
    home.mkdir()
    (home / "actor.db").write_bytes(empty_database())
    write_network(home / "network.json", network)
    save_signer(home / "account.key", member)
    node_file(home, f"sqlite:///{home / 'actor.db'}", anvil.url, chain={"timeout_s": 60, "confirmations": 1})
    play = Play(
        case.id.hex(), name.hex(), 0, TRUE[0].hex(), TRUE[1].hex(),
        {made.header.locator: listed.hex(), entry.locator: envelope.hex()},
    )  # fmt: skip
    play.write(home)
    anvil.automine(False)
    return Court(anvil, network, home, member, play)


def test_member_killed_at_every_commit_votes_once_and_does_each_duty(anvil: Anvil, tmp_path: Path) -> None:
    court = prepare(anvil, tmp_path)
    assert court.run() == 0, (court.folder / "log").read_text()[-3000:]
    history, me = court.history(), court.member.address.lower()
    assert len(court.moments) >= LEAST_DEATHS and len(set(court.moments)) == len(court.moments)
    for kind in ("outbox SIGNED", "protected_vote", "light_audit", "duty", "journal_entry", "nonce_lease", "broadcast"):
        assert any(all(word in each for word in kind.split()) for each in court.moments), kind
    assert court.double_votes() == [] and money(history) == []
    mine = Counter(each.name for each in history.events if each.sender == me)
    assert all(mine[each] == 1 for each in ("Rounds.Committed", "Rounds.Revealed", "Audits.AuditPosted", "Audits.AuditOpened"))
    database = open_database(f"sqlite:///{court.folder / 'actor.db'}")
    assert [each.state for each in Duties(database, SystemClock()).all() if each.kind == "vote"] == [DONE]
    assert len(Protection(database, SystemClock()).rows()) == 1
    Journal(database, journal_key(court.folder / "journal.key"), SystemClock()).verify_journal()


def test_control_member_with_a_restored_database_votes_twice(anvil: Anvil, tmp_path: Path) -> None:
    court = prepare(anvil, tmp_path)
    assert court.run("restored") == 0, (court.folder / "log").read_text()[-3000:]
    (found,) = court.double_votes()
    assert "signed 2 commitments" in found and len(court.moments) == 1

"""An operator that is disputed, under the real contracts: its committee finds the envelope, and a person orders the appeal."""

from pathlib import Path

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.encoding import encode
from bytewise.protocol.records.receipt import ReceiptList, receipt_id
from bytewise.protocol.units import U64, Digest, hex0x
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from bytewise.storage.duties import DONE, PENDING, Duties
from bytewise.storage.engine import open_database
from bytewise.storage.receipt_store import Books, Issued
from chain.client.address_book import write_network
from chain.sending.keys import save_signer
from cli.__main__ import main
from serving.batch_duties import Duties as BatchDuties
from serving.chain_view import AllDisputes, OwnBatches
from serving.disputes import APPEAL, OwnDisputes
from tests.anvil import Anvil
from tests.court_session import TRUE, Court
from tests.devnet import OPERATORS, empty_database, mine, word
from tests.unit.verifier.town import Shelf

ME = OPERATORS[0]
ENVELOPE = b"an envelope"


class Operator:
    """What `python -m serving` has of a disputed operator, and its settings file."""

    def __init__(self, court: Court, folder: Path) -> None:
        self.court, self.folder, self.shelf = court, folder, Shelf()
        (folder / "operator.db").write_bytes(empty_database())
        self.database = open_database(f"sqlite:///{folder / 'operator.db'}")
        self.books = Books(self.database, SystemClock(), ME.address)
        self.orders = Duties(self.database, SystemClock())
        self._fill()
        reader, sender, anchor = court.reader, court.of(ME), court.network.anchor_domain
        disputes = AllDisputes(reader, ME.address)
        self.part = OwnDisputes(disputes, sender, self.books, self.shelf, self.orders, ME.address, anchor)
        batches = OwnBatches(reader, ME.address)
        self.duties = BatchDuties(batches, sender, self.books, self.shelf, ME.address, anchor)
        write_network(folder / "network.json", court.network)
        for number, key in enumerate(OPERATORS):
            save_signer(folder / f"operator{number}.key", key)

    def _fill(self) -> None:
        batch, anchor = self.court.batch, self.court.network.anchor_domain
        for entry in batch.entries:
            issued = Issued(receipt_id(anchor, entry.receipt), entry, ENVELOPE, b"{}")
            self.books.issue(labelled(Label.RETRY, entry.receipt.seq), [issued])
        self.books.add_batch(batch.header, encode(ReceiptList(ME.address, U64(1), batch.entries)))

    def tick(self) -> None:
        self.court.anvil.mine()
        self.duties.step()
        self.part.step()
        self.court.pump()

    def appeal(self, dispute: Digest, *options: str, key: int = 0) -> int:
        """The command; its exit code."""
        config = self.folder / f"operator{key}.toml"
        config.write_text(f"""
database_url = "sqlite:///{self.folder / "operator.db"}"
[listen]
certificate_file = "tls.pem"
key_file = "tls.key"
[model]
name = "tiny"
artifact = "artifact"
environment_file = "environment.json"
[network]
file = "network.json"
rpc = "{self.court.anvil.url}"
da = ["http://127.0.0.1:1"]
[keys]
operator_file = "operator{key}.key"
gateway_file = "gateway.key"
journal_file = "journal.key"
""")
        return main(["dispute", "appeal", hex0x(dispute), "--config", str(config), *options])


def test_a_disputed_operator_is_found_by_its_committee_and_appeals_when_told_to(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    court = Court(anvil, tmp_path, window=900, appeal_time=600)
    operator = Operator(court, tmp_path)
    name = receipt_id(court.network.anchor_domain, court.batch.entries[0].receipt)
    court.open(0, word("guess"))
    for _ in range(3):
        operator.tick()
    answer = court.reader.answered(name, 0, court.reader.head())
    assert answer is not None and operator.shelf.blobs[answer.decode()] == ENVELOPE, "its first place was empty"
    assert operator.appeal(court.dispute) == Exit.USAGE, "there is no verdict yet"
    case = court.until(Phase.COMMIT)
    votes = [court.vote(case, each.voter, TRUE) for each in case.members]
    court.commit(votes)
    mine(anvil, 2)
    court.reveal(votes)
    case = court.until(Phase.APPEAL)
    assert operator.appeal(word("no dispute")) == Exit.USAGE
    assert operator.appeal(Digest(b"short")) == Exit.USAGE
    assert operator.appeal(case.id, key=1) == Exit.USAGE, "another operator's"
    assert operator.appeal(case.id, "--dry-run") == Exit.OK and operator.orders.all() == ()
    assert f"bond {case.appeal_bond_wei} wei" in capsys.readouterr().out
    operator.tick()
    assert not court.case().appealed, "nobody ordered it"
    operator.orders.add(APPEAL, case.id, 1)
    operator.orders.miss(APPEAL, case.id, "its time was over, before a reorganisation gave it another")
    assert operator.appeal(case.id) == Exit.OK
    (order,) = operator.orders.all()
    assert (order.kind, order.subject, order.deadline, order.state) == (APPEAL, case.id, case.appeal_end, PENDING)
    operator.tick()
    assert (court.case().appealed, court.case().phase, court.case().level) == (True, Phase.SEED, 2)
    operator.tick()
    assert [each.state for each in operator.orders.all()] == [DONE]
    assert operator.appeal(case.id) == Exit.USAGE, "once"

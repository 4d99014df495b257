"""An operator that is disputed, under the real contracts: its committee finds the envelope, and a person orders the appeal."""

from pathlib import Path

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.units import Digest
from bytewise.service.exit_codes import Exit
from bytewise.storage.duties import DONE, PENDING
from cli.__main__ import main
from cli.node.roles import NodeRole
from cli.output import ether
from serving.disputes import APPEAL
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import word
from tests.fixtures.cli.new_node import new_node
from tests.fixtures.cli.operator_database import ENVELOPE, Operator
from tests.fixtures.court.session import TRUE, DisputeFixture


def test_disputed_operator_is_found_by_its_committee_and_appeals_on_order(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    court = DisputeFixture(anvil, tmp_path, window=900, appeal_time=600)
    operator = Operator(court, tmp_path)
    name = receipt_id(court.network.anchor_domain, court.batch.entries[0].receipt)
    court.open(0, word("guess"))
    for _ in range(3):
        operator.tick()
    answer = court.reader.answered(name, 0, court.reader.head())
    assert answer is not None and operator.shelf.blobs[answer.decode()] == ENVELOPE, "its first place was empty"
    assert operator.appeal(court.dispute) == Exit.USAGE, "there is no verdict yet"
    case = court.judged(TRUE, Phase.APPEAL)
    assert operator.appeal(word("no dispute")) == Exit.USAGE
    of_watchtower = new_node(tmp_path / "watchtower", NodeRole.WATCHTOWER)
    capsys.readouterr()
    assert main(["dispute", "appeal", "0x12", "--config", str(of_watchtower)]) == Exit.USAGE
    assert "[R-55] bytewise.toml: is of a watchtower; this command is for an operator" in capsys.readouterr().err
    assert operator.appeal(Digest(b"short")) == Exit.USAGE
    assert operator.appeal(case.id, key=1) == Exit.USAGE, "another operator's"
    assert operator.appeal(case.id, "--dry-run") == Exit.OK and operator.orders.all() == ()
    assert f"bond {ether(case.appeal_bond_wei)} of " in capsys.readouterr().out
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

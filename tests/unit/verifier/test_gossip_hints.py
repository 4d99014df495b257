"""Hints over gossip pass the check of hints over HTTPS and lie in the same box."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.units import Address
from tests.fixtures.builders import DISPUTES, signer, word
from tests.fixtures.committee.message_bus import MessageBus
from tests.fixtures.metric_values import value_of
from tests.fixtures.snapshot_builders import snapshot
from tests.fixtures.verifier.watchtower_fixture import KEY, hint
from verifier.audits.audit_hints import AuditHint, GossipHints, HintBox, sent_over

VOTER, TOWER = signer("voter").address, Address("0x" + "77" * 20)


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[MessageBus]:
    with MessageBus(tmp_path, [VOTER, TOWER]) as made:
        yield made


def test_published_hint_reaches_the_box_and_the_other_sender(bus: MessageBus) -> None:
    box, also = HintBox(DISPUTES, {VOTER}), list[AuditHint]()
    said = hint(word("receipt"), "voter")
    sent_over(bus.clients[VOTER], also.append)(said)
    assert GossipHints(bus.clients[TOWER], box).step(snapshot()) == ()
    assert box.key([said.result]) == KEY and also == [said]


def test_wrong_hints_are_counted_and_the_next_one_is_taken(bus: MessageBus) -> None:
    box, before = HintBox(DISPUTES, {VOTER}), value_of("bytewise_hints_refused_total", reason="HintMismatch")
    said = hint(word("receipt"), "voter")
    sent_over(bus.clients[VOTER], None)(replace(said, nonce=word("other")))
    bus.clients[VOTER].publish("hint", {"no": "hint"})
    sent_over(bus.clients[VOTER], None)(hint(word("receipt"), "second"))
    sent_over(bus.clients[VOTER], None)(said)
    GossipHints(bus.clients[TOWER], box).step(snapshot())
    assert box.key([said.result]) == KEY
    assert value_of("bytewise_hints_refused_total", reason="HintMismatch") == before + 1


def test_gossip_process_is_shown_by_the_metrics_of_its_node(bus: MessageBus) -> None:
    client, labels = bus.clients[TOWER], {"topic": "hint"}
    dropped, sent, taken = (
        value_of("bytewise_gossip_dropped_total", reason="seen"),
        value_of("bytewise_gossip_messages_total", direction="out", **labels),
        value_of("bytewise_gossip_messages_total", direction="in", **labels),
    )
    client.observe()
    assert value_of("bytewise_gossip_peers") == 1
    for _ in range(3):
        bus.clients[VOTER].publish("hint", {"n": 1})
    assert len(client.take("hint")) == 1
    for _ in range(2):
        client.observe()
    assert value_of("bytewise_gossip_dropped_total", reason="seen") == dropped + 2, "what was counted is not counted again"
    assert value_of("bytewise_gossip_messages_total", direction="out", **labels) == sent + 3
    assert value_of("bytewise_gossip_messages_total", direction="in", **labels) == taken + 1
    bus.cut.add(VOTER)
    client.observe()
    assert value_of("bytewise_gossip_peers") == 0
    bus.cut.clear()
    client.observe()
    bus.close()
    client.observe()
    assert value_of("bytewise_gossip_peers") == 0, "the process is away"


def test_node_goes_on_without_its_gossip_process() -> None:
    class Away:
        def publish(self, topic: str, body: dict[str, Any]) -> None:
            raise TryAgain("gossip", "away")

        def take(self, topic: str) -> Sequence[dict[str, Any]]:
            raise TryAgain("gossip", "away")

    said, also = hint(word("receipt"), "voter"), list[AuditHint]()
    sent_over(Away(), also.append)(said)
    assert also == [said]
    assert GossipHints(Away(), HintBox(DISPUTES, {VOTER})).step(snapshot()) == ()

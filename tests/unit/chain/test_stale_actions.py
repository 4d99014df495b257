"""What rests on a look at the world a moment ago is handed in soon, or is decided again."""

from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.errors.actors import TryAgain
from bytewise.storage.outbox import OutboxItem, OutboxState
from chain.deployment.params import DEVNET
from chain.sending.sender import SenderPolicy
from chain.sending.transactions import is_empty
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import mine, pump
from tests.fixtures.chain.later_blocks import LaterBlocks
from tests.fixtures.chain.mined_sender import MinedSender

BOND, WITHIN_S = 2 * DEVNET.money.demand_bond, 60
REPLAN_S = 20


@pytest.fixture
def actor(anvil: Anvil, tmp_path: Path) -> MinedSender:
    """With an anchored batch, whose list is demanded."""
    made = MinedSender(anvil, tmp_path)
    pump(anvil, [made.sender])
    demand(made)
    return made


def demand(actor: MinedSender, within_s: int = WITHIN_S) -> OutboxItem:
    """The operator demands its own list, which anybody may; the second row of the outbox."""
    actor.sender.demand_list(0, BOND, within_s)
    return actor.row(1)


def later(actor: MinedSender, seconds: int) -> None:
    actor.outbox.lease.clock = LaterBlocks(seconds)


def test_stale_demand_is_dropped_unsigned_and_planned_anew_when_redecided(actor: MinedSender, anvil: Anvil) -> None:
    later(actor, WITHIN_S + 2)
    actor.sender.pump()
    row = actor.row(1)
    assert (row.state, row.nonce, row.detail) == (OutboxState.EXPIRED, None, "not handed in soon enough")
    later(actor, WITHIN_S + 2 + REPLAN_S)
    assert demand(actor).state is OutboxState.PLANNED
    pump(anvil, [actor.sender])
    assert actor.row(1).state is OutboxState.CONFIRMED


def test_repeatedly_decided_action_waits_as_long_as_it_is_decided(actor: MinedSender, anvil: Anvil) -> None:
    for seconds in range(0, 3 * WITHIN_S, WITHIN_S // 2 + 1):
        later(actor, seconds)
        demand(actor)
    later(actor, seconds + WITHIN_S - 2)
    pump(anvil, [actor.sender])
    assert actor.row(1).state is OutboxState.CONFIRMED


def test_action_without_a_deadline_waits(anvil: Anvil, tmp_path: Path) -> None:
    actor = MinedSender(anvil, tmp_path)
    pump(anvil, [actor.sender])
    assert demand(actor, 0).intent.broadcast_by == 0
    later(actor, 10 * WITHIN_S)
    pump(anvil, [actor.sender])
    assert actor.row(1).state is OutboxState.CONFIRMED


def sign_while_away(actor: MinedSender, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(raw: bytes) -> Any:
        raise TryAgain("chain", "away")

    with monkeypatch.context() as patched:
        patched.setattr(actor.sender.transactions.client, "broadcast", away)
        actor.sender.pump()


def test_signed_bytes_that_no_node_accepted_in_time_free_their_nonce(
    actor: MinedSender, anvil: Anvil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our line broke between the signature and the broadcast."""
    sign_while_away(actor, monkeypatch)
    assert actor.row(1).state is OutboxState.SIGNED
    later(actor, WITHIN_S + 2)
    pump(anvil, [actor.sender])
    last = actor.outbox.attempts(actor.row(1).id)[-1]
    assert actor.row(1).state is OutboxState.EXPIRED and is_empty(last.raw) and last.broadcast_at is not None


def test_freeing_a_nonce_is_no_attempt_and_exhausted_actions_are_named(
    actor: MinedSender, anvil: Anvil, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our line breaks each time that the act is decided again: half of what was signed for it were fillers."""
    now = 0
    for tries in range(1, SenderPolicy().max_attempts + 1):
        sign_while_away(actor, monkeypatch)
        now += WITHIN_S + 2 + REPLAN_S
        later(actor, now)
        pump(anvil, [actor.sender])
        assert actor.row(1).state is OutboxState.EXPIRED
        now += REPLAN_S
        later(actor, now)
        signed = [is_empty(each.raw) for each in actor.outbox.attempts(actor.row(1).id)]
        assert signed.count(False) == tries <= signed.count(True)
        assert "sender.not_planned" not in "".join(capsys.readouterr())
        planned = demand(actor).state is OutboxState.PLANNED
        assert planned is (tries < SenderPolicy().max_attempts), tries
    assert "sender.not_planned" in "".join(capsys.readouterr())


def test_transaction_known_to_a_node_is_followed_however_late_it_is_mined(actor: MinedSender, anvil: Anvil) -> None:
    actor.sender.pump()
    assert actor.row(1).state is OutboxState.BROADCAST
    later(actor, WITHIN_S + 2)
    actor.sender.pump()
    mine(anvil, 1)
    pump(anvil, [actor.sender])
    assert actor.row(1).state is OutboxState.CONFIRMED
    assert not any(is_empty(each.raw) for each in actor.outbox.attempts(actor.row(1).id))


def test_action_with_new_content_is_replanned_with_the_new_content(actor: MinedSender) -> None:
    """A challenge commits to what auditors told us by then."""
    later(actor, WITHIN_S + 2)
    actor.sender.pump()
    later(actor, WITHIN_S + 2 + REPLAN_S)
    intent = actor.row(1).intent
    other = intent._replace(calldata=intent.calldata + b"\0", broadcast_by=2**40)
    assert actor.sender.transactions.plan(other).intent == other
    assert actor.sender.transactions.plan(other._replace(calldata=b"", broadcast_by=0)).intent == other, "a vote may not"

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


def sender_with_a_batch(anvil: Anvil, folder: Path) -> MinedSender:
    desk = MinedSender(anvil, folder)
    pump(anvil, [desk.sender])
    demand(desk)
    return desk


def demand(desk: MinedSender, within_s: int = WITHIN_S) -> OutboxItem:
    """The operator demands its own list, which anybody may; the second row of the outbox."""
    desk.sender.demand_list(0, BOND, within_s)
    return desk.row(1)


def later(desk: MinedSender, seconds: int) -> None:
    desk.outbox.lease.clock = LaterBlocks(seconds)


def test_stale_demand_is_dropped_unsigned_and_planned_anew_when_redecided(anvil: Anvil, tmp_path: Path) -> None:
    desk = sender_with_a_batch(anvil, tmp_path)
    later(desk, WITHIN_S + 2)
    desk.sender.pump()
    row = desk.row(1)
    assert (row.state, row.nonce, row.detail) == (OutboxState.EXPIRED, None, "not handed in soon enough")
    later(desk, WITHIN_S + 2 + REPLAN_S)
    assert demand(desk).state is OutboxState.PLANNED
    pump(anvil, [desk.sender])
    assert desk.row(1).state is OutboxState.CONFIRMED


def test_repeatedly_decided_action_waits_as_long_as_it_is_decided(anvil: Anvil, tmp_path: Path) -> None:
    desk = sender_with_a_batch(anvil, tmp_path)
    for seconds in range(0, 3 * WITHIN_S, WITHIN_S // 2 + 1):
        later(desk, seconds)
        demand(desk)
    later(desk, seconds + WITHIN_S - 2)
    pump(anvil, [desk.sender])
    assert desk.row(1).state is OutboxState.CONFIRMED


def test_action_without_a_deadline_waits(anvil: Anvil, tmp_path: Path) -> None:
    desk = MinedSender(anvil, tmp_path)
    pump(anvil, [desk.sender])
    assert demand(desk, 0).intent.broadcast_by == 0
    later(desk, 10 * WITHIN_S)
    pump(anvil, [desk.sender])
    assert desk.row(1).state is OutboxState.CONFIRMED


def sign_while_away(desk: MinedSender, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(raw: bytes) -> Any:
        raise TryAgain("chain", "away")

    with monkeypatch.context() as patched:
        patched.setattr(desk.sender.transactions.client, "broadcast", away)
        desk.sender.pump()


def test_signed_bytes_that_no_node_accepted_in_time_free_their_nonce(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our line broke between the signature and the broadcast."""
    desk = sender_with_a_batch(anvil, tmp_path)
    sign_while_away(desk, monkeypatch)
    assert desk.row(1).state is OutboxState.SIGNED
    later(desk, WITHIN_S + 2)
    pump(anvil, [desk.sender])
    last = desk.outbox.attempts(desk.row(1).id)[-1]
    assert desk.row(1).state is OutboxState.EXPIRED and is_empty(last.raw) and last.broadcast_at is not None


def test_freeing_a_nonce_is_no_attempt_and_exhausted_actions_are_named(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our line breaks each time that the act is decided again: half of what was signed for it were fillers."""
    desk, now = sender_with_a_batch(anvil, tmp_path), 0
    for tries in range(1, SenderPolicy().max_attempts + 1):
        sign_while_away(desk, monkeypatch)
        now += WITHIN_S + 2 + REPLAN_S
        later(desk, now)
        pump(anvil, [desk.sender])
        assert desk.row(1).state is OutboxState.EXPIRED
        now += REPLAN_S
        later(desk, now)
        signed = [is_empty(each.raw) for each in desk.outbox.attempts(desk.row(1).id)]
        assert signed.count(False) == tries <= signed.count(True)
        assert "sender.not_planned" not in "".join(capsys.readouterr())
        planned = demand(desk).state is OutboxState.PLANNED
        assert planned is (tries < SenderPolicy().max_attempts), tries
    assert "sender.not_planned" in "".join(capsys.readouterr())


def test_transaction_known_to_a_node_is_followed_however_late_it_is_mined(anvil: Anvil, tmp_path: Path) -> None:
    desk = sender_with_a_batch(anvil, tmp_path)
    desk.sender.pump()
    assert desk.row(1).state is OutboxState.BROADCAST
    later(desk, WITHIN_S + 2)
    desk.sender.pump()
    mine(anvil, 1)
    pump(anvil, [desk.sender])
    assert desk.row(1).state is OutboxState.CONFIRMED
    assert not any(is_empty(each.raw) for each in desk.outbox.attempts(desk.row(1).id))


def test_action_with_new_content_is_replanned_with_the_new_content(anvil: Anvil, tmp_path: Path) -> None:
    """A challenge commits to what auditors told us by then."""
    desk = sender_with_a_batch(anvil, tmp_path)
    later(desk, WITHIN_S + 2)
    desk.sender.pump()
    later(desk, WITHIN_S + 2 + REPLAN_S)
    intent = desk.row(1).intent
    other = intent._replace(calldata=intent.calldata + b"\0", broadcast_by=2**40)
    assert desk.sender.transactions.plan(other).intent == other
    assert desk.sender.transactions.plan(other._replace(calldata=b"", broadcast_by=0)).intent == other, "a vote may not"

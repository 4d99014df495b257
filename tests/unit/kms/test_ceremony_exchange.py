"""What a shard takes of whom in a ceremony: the log that its coordinator signed, one log, and nothing of anybody else."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import CeremonyRefused, LogForked
from bytewise.protocol.errors.records import BadSignature
from bytewise.protocol.keys.ceremony import CeremonyPlan, sign_plan
from bytewise.protocol.keys.ceremony_log import (
    Close,
    DealCommit,
    head_after,
    make_exchange,
    read_message,
    sign_head,
    sign_message,
)
from bytewise.protocol.units import Blob
from kms.ceremony.state import CeremonyPhase
from kms.ceremony.state_machine import initial_state
from tests.fixtures.kms.ceremonies import COORDINATOR
from tests.fixtures.kms.ceremony_runs import run
from tests.fixtures.kms.dkg_fixture import CeremonyShard, brought, ceremony_shards, coordinator_of, plan


def test_shard_that_saw_one_log_accepts_no_other(tmp_path: Path) -> None:
    shards, _ = ceremony_shards(tmp_path, 2)
    agreed = plan(shards, 2, 2)
    signed, state = sign_plan(COORDINATOR, agreed), initial_state(agreed)
    own = shards[0].exchange(brought(agreed)).messages
    one = brought(agreed, own[:1])
    shards[0].exchange(one)
    shards[0].restart()
    for forked in (
        brought(agreed, own[1:]),
        make_exchange(COORDINATOR, signed, 1, (), state.id),
        make_exchange(COORDINATOR, signed, 1, own[1:], state.id),
    ):
        with pytest.raises(LogForked):
            shards[0].exchange(forked)
    assert shards[0].exchange(make_exchange(COORDINATOR, signed, 7, own, state.id)).length == 1
    with pytest.raises(CeremonyRefused):
        close = sign_message(COORDINATOR, state.id, Close(CeremonyPhase.JOINING, state.head))
        shards[0].exchange(make_exchange(COORDINATOR, signed, 1, (close,), one.after.head))
    assert shards[0].exchange(make_exchange(COORDINATOR, signed, 1, (), one.after.head)).messages == own[1:]


def test_logs_that_differ_at_a_phase_end_leave_two_closings_with_shards(tmp_path: Path) -> None:
    shards, _ = ceremony_shards(tmp_path, 2)
    agreed = plan(shards, 2, 2)
    words = [message for each in shards for message in each.exchange(brought(agreed)).messages]
    for shard, log in ((shards[0], tuple(words)), (shards[1], tuple(reversed(words)))):
        close = sign_message(COORDINATOR, agreed.digest, Close(CeremonyPhase.JOINING, head_after(agreed.digest, log)))
        assert shard.exchange(brought(agreed, (*log, close))).phase == CeremonyPhase.DEALING
    stored = [kept.log[-1] for each in shards if (kept := each.ceremonies().find(agreed.digest))]
    one, two = (read_message(message) for message in stored)  # each has the coordinator's signature
    assert isinstance(one, Close) and isinstance(two, Close)
    assert {message.sender for message in stored} == {COORDINATOR.address}
    assert one.phase == two.phase and one.head != two.head


def test_messages_not_signed_by_the_coordinator_are_ignored(tmp_path: Path) -> None:
    shards, _ = ceremony_shards(tmp_path, 2)
    agreed = plan(shards, 2, 2)
    good = brought(agreed)
    own = shards[0].exchange(good).messages
    seen, liar = head_after(agreed.digest, own), shards[1].signer
    signed = brought(agreed, own[:1])
    wrong = [replace(good.after, head=seen), replace(good.after, length=1), replace(good.after, signature=Blob(b""))]
    wrong.append(sign_head(liar, good.plan, 0, agreed.digest))
    for altered in (
        *(replace(good, before=each) for each in wrong), *(replace(good, after=each) for each in wrong),
        make_exchange(liar, good.plan, 0, own, agreed.digest), replace(good, plan=sign_plan(COORDINATOR, plan(shards, 2, 2))),
    ):  # fmt: skip
        with pytest.raises(BadSignature):
            shards[0].exchange(altered)
    # Anybody can put these together of what an honest coordinator signed.
    for altered in (
        replace(good, messages=own), replace(signed, messages=own[1:]), replace(signed, messages=()),
        replace(signed, before=signed.after), replace(good, after=signed.after),
    ):  # fmt: skip
        with pytest.raises(CeremonyRefused, match="do not lead to the signed head"):
            shards[0].exchange(altered)
    with pytest.raises(CeremonyRefused, match="a log of -1 messages"):
        shards[0].exchange(replace(good, before=replace(good.before, length=-1)))
    assert shards[0].exchange(good).length == 0 and shards[0].ceremonies().copies() == ()


def test_unsigned_log_is_refused_and_blocks_ceremonies_where_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards, _ = ceremony_shards(tmp_path, 4)
    agreed = plan(shards, 2, 3)
    assert forked_by_a_shard(agreed, shards) == 2
    assert run(coordinator_of(tmp_path, agreed, shards)).phase is CeremonyPhase.DONE
    # Control: its log is taken, the coordinator's refused for ever, and nobody is named.
    monkeypatch.setattr("kms.ceremony.participant.verify_exchange", lambda asked: asked)
    again = plan(shards, 2, 3)
    assert forked_by_a_shard(again, shards) == 0
    state = run(coordinator_of(tmp_path, again, shards))
    assert state.phase is CeremonyPhase.FAILED and not state.faults


def forked_by_a_shard(agreed: CeremonyPlan, shards: list[CeremonyShard]) -> int:
    """The last shard brings its own words to the first two, before the coordinator brings another's; how many refuse them."""
    liar, refused = shards[-1], 0
    mine = sign_message(liar.signer, agreed.digest, DealCommit(agreed.digest))
    for each in shards[:2]:
        try:
            each.exchange(make_exchange(liar.signer, sign_plan(COORDINATOR, agreed), 0, (mine,), agreed.digest))
        except BadSignature:
            refused += 1
    return refused


def test_plan_of_an_outsider_delays_no_exchange(tmp_path: Path) -> None:
    """It is refused while another exchange is in hand."""
    shards, _ = ceremony_shards(tmp_path, 2)
    desk, foreign = shards[0].restart(), replace(plan(shards, 2, 2), scribe=shards[1].signer.address)
    body = encode(brought(foreign))
    desk._lock.acquire()
    asking = threading.Thread(target=lambda: said.append(refusal_of(lambda: desk.exchange(body))), daemon=True)
    said: list[str] = []
    asking.start()
    asking.join(timeout=20)
    desk._lock.release()
    assert len(said) == 1 and "the shard's settings" in said[0]


def refusal_of(call: Callable[[], object]) -> str:
    """The words of a refusal."""
    with pytest.raises(CeremonyRefused) as caught:
        call()
    return str(caught.value)


def test_stored_log_has_no_gap_and_keeps_each_message(tmp_path: Path) -> None:
    """The rules ask first; what is on the disk does not hang on them."""
    shards, _ = ceremony_shards(tmp_path, 2)
    agreed, store = plan(shards, 2, 2), shards[0].ceremonies()
    signed = sign_plan(COORDINATOR, agreed)
    first, second = (each.exchange(brought(agreed)).messages[0] for each in shards)
    store.open(signed, b"seed")
    assert store.append(agreed.digest, 0, (first,)) == 1
    with pytest.raises(LogForked, match="messages from 2 on, we have 1"):
        store.append(agreed.digest, 2, (second,))
    for messages in ((second,), (second, first)):
        with pytest.raises(LogForked, match="message 0 differs"):
            store.append(agreed.digest, 0, messages)
    found = store.find(agreed.digest)
    assert found is not None and found.log == (first,)
    ends = [sign_head(COORDINATOR, signed, n, head_after(agreed.digest, (first, second)[:n])) for n in (1, 2)]
    for end in reversed(ends):
        assert store.append(agreed.digest, 0, (first, second)[: end.length], end) == 2
    found = store.find(agreed.digest)
    assert found is not None and (found.log, found.end) == ((first, second), ends[1]), "a shorter log ends nothing"

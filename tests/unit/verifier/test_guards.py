"""What a node does not begin while its disk is full, its clock is wrong, or its chain node is behind; and what goes on."""

from pathlib import Path

import pytest
from sqlalchemy import Connection, event

from bytewise.protocol.decisions.actions import (
    Action,
    CastCommit,
    CastReveal,
    DemandAnchor,
    DemandEnvelope,
    DemandList,
    OpenDispute,
    RunAudit,
    RunVoteJob,
    Settle,
)
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import ZERO_DIGEST
from bytewise.service.readiness import MAX_AGE_S, MAX_AHEAD_S, ChainHead, ReadinessRegistry
from tests.fixtures.builders import DISPUTES, word
from tests.fixtures.committee.seated_member import SeatedMember, disputed_receipt
from tests.fixtures.snapshot_builders import NOW, snapshot
from tests.fixtures.storage.hand_clock import HandClock
from tests.fixtures.storage.stored_records import vote
from verifier import node
from verifier.node import Guards

COMMIT_END = NOW + 600
JOB = RunVoteJob(word("d"), 1, word("r"), 1, word("s"), fetch_deadline=NOW + 300, commit_end=COMMIT_END)
PROMISES: tuple[Action, ...] = (CastCommit(vote(), ZERO_DIGEST), CastReveal(vote()), Settle(word("d"), 1))
RISKS: tuple[Action, ...] = (
    OpenDispute(word("r"), 1), DemandList(1, 1), DemandEnvelope(word("r"), 1), DemandAnchor(word("r"), 1),
)  # fmt: skip


class Scene:
    """Guards with a clock by hand and the real disk."""

    def __init__(self, folder: Path) -> None:
        self.clock = HandClock(NOW)
        self.readiness = ReadinessRegistry()
        self.guards = Guards(self.readiness, self.clock, folder, job_margin_s=3)

    def allowed(self, *actions: Action, age_s: int = 0) -> list[Action]:
        """Which actions may begin at a block of that age."""
        self.clock.seconds = NOW + age_s
        self.guards.observe(snapshot(timestamp=NOW, clock=NOW))
        return [each for each in actions if self.guards.allows(each)]

    def failing(self) -> set[str]:
        return {each.name for each in self.readiness.checks() if not each.ok and each.name != "started"}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_everything_may_begin_on_a_sound_machine(scene: Scene) -> None:
    actions = (*PROMISES, *RISKS, JOB, RunAudit(word("r")))
    for age_s in (-600, 0, MAX_AGE_S):
        assert scene.allowed(*actions, age_s=age_s) == list(actions) and scene.failing() == set()


def test_full_disk_begins_nothing_and_keeps_promises(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "RESERVE_BYTES", 2**62)
    assert scene.allowed(*PROMISES, *RISKS, JOB, RunAudit(word("r"))) == list(PROMISES)
    assert scene.failing() == {"guard_disk"}
    monkeypatch.setattr(node, "RESERVE_BYTES", 0)
    assert scene.allowed(JOB) == [JOB] and scene.failing() == set()


def test_old_block_risks_no_bond(scene: Scene) -> None:
    """Whether the clock is ahead or the chain node behind, this process cannot know."""
    assert scene.allowed(*PROMISES, *RISKS, age_s=MAX_AGE_S + 1) == list(PROMISES)
    assert scene.failing() == {"guard_head"}


def test_no_vote_begins_that_may_be_late_by_the_clock(scene: Scene) -> None:
    assert scene.allowed(JOB, age_s=COMMIT_END - NOW - 4) == [JOB]
    assert scene.allowed(JOB, age_s=COMMIT_END - NOW - 3) == []


def test_each_guard_is_logged_once(scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        scene.allowed(age_s=MAX_AGE_S + 1)
    for _ in range(3):
        scene.allowed()
    said = capsys.readouterr().err
    assert said.count('"check.failed"') == 1 and said.count('"check.passed"') == 1 and "guard_head" in said


def test_member_with_a_full_disk_starts_no_job_until_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    clock = HandClock(setup.chain.timestamp)
    monkeypatch.setattr(node, "RESERVE_BYTES", 2**62)
    with SeatedMember(setup, Guards(ReadinessRegistry(), clock, tmp_path, 3)) as member:
        member.tick(1)
        member.until_quiet()
        assert setup.enclave.jobs == 0 and member.vote(dispute) is None
        monkeypatch.setattr(node, "RESERVE_BYTES", 0)
        member.tick(1)
        member.until_quiet()
        assert member.vote(dispute) is not None


def test_vote_that_cannot_be_stored_is_neither_sent_nor_computed_again(tmp_path: Path) -> None:
    """The database refuses writes when the job ends, as on a full disk. The result waits for the next tick that can store it."""
    setup, dispute = disputed_receipt(tmp_path)
    is_refusing = False

    def refuse(connection: Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA query_only={'ON' if is_refusing else 'OFF'}")

    event.listen(setup.database, "begin", refuse)
    with SeatedMember(setup) as member:
        member.tick(1)
        is_refusing = True
        member.until_quiet()
        member.tick(1)
        assert setup.enclave.jobs == 1 and member.vote(dispute) is None and setup.sender.of("commit") == []
        is_refusing = False
        member.tick(1)
        made = member.vote(dispute)
        assert made is not None and setup.enclave.jobs == 1
        member.tick(1)
        assert setup.sender.of("commit") == [typed_digest(DISPUTES, made)]


def test_clock_behind_the_chain_fails_the_readiness_check() -> None:
    clock = HandClock(NOW)
    head = ChainHead(clock)
    assert not head.clock_check().ok, "no block yet"
    head.note(1, NOW + MAX_AHEAD_S)
    assert head.clock_check().ok
    clock.seconds -= 1
    found = head.clock_check()
    assert not found.ok and found.value == f"{MAX_AHEAD_S + 1} s behind" and "NTP" in found.advice


def test_clock_of_a_test_chain_may_be_ahead() -> None:
    head = ChainHead(HandClock(NOW), chain_id=31337)
    head.note(1, NOW + 10 * MAX_AHEAD_S)
    assert head.clock_check().ok

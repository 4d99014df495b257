"""A member whose database came from a backup never votes a second time for a seat for which the lost database may have voted."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.tally import vote_content
from bytewise.protocol.decisions.snapshot import Dispute
from bytewise.protocol.errors.actors import ProtectionMissing
from bytewise.protocol.records.statements import Vote
from bytewise.protocol.signing import typed_digest
from bytewise.storage.backups.restore_fence import RestoreFence
from tests.fixtures.builders import DISPUTES, word
from tests.fixtures.committee.seated_member import SeatedMember, disputed_receipt
from tests.fixtures.verifier.verifier_fixture import VerifierFixture, seat


def restore(setup: VerifierFixture, old: Path, fenced: bool = True) -> None:
    """The disk with the database is lost; a copy of another time takes its place, and this node is another machine."""
    setup.database.dispose()
    for name in ("node.db-wal", "node.db-shm"):
        (setup.folder / name).unlink(missing_ok=True)
    shutil.copyfile(old, setup.folder / "node.db")
    setup.reopen()
    if fenced:
        now = setup.chain.timestamp
        RestoreFence(setup.database).mark(backup_at=now - 100, now=now)
    setup.sender.sent.clear()


def backup(setup: VerifierFixture) -> Path:
    """A copy of the database as it is now."""
    setup.database.dispose()
    return Path(shutil.copyfile(setup.folder / "node.db", setup.folder / "old.db"))


def voted(setup: VerifierFixture, dispute: Dispute) -> Vote:
    """The vote that a member makes and sends."""
    with SeatedMember(setup) as member:
        member.until_quiet()
        made = member.vote(dispute)
    assert made is not None and setup.sender.of("commit") == [typed_digest(DISPUTES, made)]
    return made


@pytest.mark.parametrize("is_mined", [False, True], ids=["commitment unseen", "commitment mined"])
def test_vote_made_after_the_backup_is_never_made_again(tmp_path: Path, is_mined: bool) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    old = backup(setup)
    first = voted(setup, dispute)
    if is_mined:
        dispute = setup.show(dispute, first)
    jobs = setup.enclave.jobs
    for _ in range(2):
        restore(setup, old)
        with SeatedMember(setup) as member:
            member.until_quiet()
            member.tick(20)
            member.until_quiet()
            assert member.vote(dispute) is None
    assert setup.sender.of("commit") == [] and setup.enclave.jobs == jobs
    revealed = replace(dispute, phase=Phase.REVEAL, members=(seat(group=vote_content(first).group),))
    setup.chain.disputes = [revealed]
    with SeatedMember(setup) as member:
        member.tick(1)
    assert setup.sender.of("reveal") == []


def test_without_the_fence_the_lost_vote_would_be_made_twice(tmp_path: Path) -> None:
    """What the fence is for: the control of the test above."""
    setup, dispute = disputed_receipt(tmp_path)
    old = backup(setup)
    first = voted(setup, dispute)
    restore(setup, old, fenced=False)
    assert voted(setup, dispute).salt != first.salt


def test_vote_that_the_backup_has_goes_on(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    first = voted(setup, dispute)
    restore(setup, backup(setup))
    with SeatedMember(setup) as member:
        member.tick(1)
    assert setup.sender.of("commit") == [typed_digest(DISPUTES, first)]
    setup.show(dispute, first, phase=Phase.REVEAL)
    with SeatedMember(setup) as member:
        member.tick(1)
    ((revealed, _),) = setup.sender.of("reveal")
    assert revealed == first


def test_round_drawn_after_the_restore_gets_its_vote(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    old = backup(setup)
    voted(setup, dispute)
    restore(setup, old)
    with SeatedMember(setup) as member:
        member.tick(1)
        begin = setup.chain.timestamp + 1
        later = replace(
            dispute, round=2, round_seed=word("second seed"), members=(seat(),), commit_end=begin + dispute.commit_s,
            reveal_end=begin + 2 * dispute.commit_s,
        )  # fmt: skip
        setup.chain.disputes[0] = later
        member.tick(1)
        member.until_quiet()
        assert member.vote(later) is not None and member.vote(dispute) is None


def test_no_vote_begins_before_a_block_as_young_as_the_restore(tmp_path: Path) -> None:
    """A node that lags shows neither the rounds in which the lost database voted, nor how late it is."""
    setup, dispute = disputed_receipt(tmp_path)
    old = backup(setup)
    restore(setup, old, fenced=False)
    RestoreFence(setup.database).mark(backup_at=0, now=setup.chain.timestamp + 30)
    later = replace(dispute, commit_end=setup.chain.timestamp + 25 + dispute.commit_s)
    setup.chain.disputes[0] = later
    with SeatedMember(setup) as member:
        member.tick(26)  # drawn a second ago, as this node shows it; the restore was later
        member.until_quiet()
        assert member.vote(later) is None and setup.enclave.jobs == 0
        member.tick(10)
        member.until_quiet()
        assert member.vote(later) is None, "it was drawn before the restore"


def test_fence_outlasts_restarts_and_is_set_once(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    restore(setup, backup(setup))
    with SeatedMember(setup) as member:
        member.tick(1)
    first = RestoreFence(setup.database).restored
    assert first is not None and first.clock == setup.chain.timestamp
    setup.reopen()
    with SeatedMember(setup) as member:
        member.tick(5)
        assert member.vote(dispute) is None
    assert RestoreFence(setup.database).restored == first


def test_vote_that_contradicts_the_chain_still_stops_a_restored_member(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    first = voted(setup, dispute)
    restore(setup, backup(setup))
    setup.show(dispute, replace(first, salt=word("another salt")))
    with SeatedMember(setup) as member, pytest.raises(ProtectionMissing):
        member.tick(1)

"""What each class of DA answer comes to at the node that reads: waiting, `Withheld`, or a vote UNAVAILABLE.

A proxy can answer 400 to any locator of an operator, so that answer must not end the node.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import BadCertificate, CallerError, FailOver, TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.records.statements import Outcome
from tests.fixtures.committee.seated_member import SeatedMember
from tests.fixtures.verifier.verifier_fixture import BlobShelf, VerifierFixture
from verifier.watch.list_reader import CHECKED, NEW, WITHHELD
from verifier.watch.records import WITHHELD_FINDING

ANSWERS: tuple[BytewiseError, ...] = (
    BadCertificate("eigenda:standard:0x03", "418/1 by two proxies"),
    TryAgain("da", "status 500"),
    FailOver("da", "status 503"),
    CallerError("da", "status 400"),
)


class Answering(BlobShelf):
    """A store that has one answer to every question."""

    answer: BytewiseError

    def get(self, locator: str, accept: Callable[[bytes], bool] | None = None) -> bytes:
        """Never bytes."""
        raise self.answer


def closed(setup: VerifierFixture, answer: BytewiseError) -> None:
    """From now on the town's store answers so."""
    setup.shelf.__class__ = Answering
    setup.shelf.answer = answer  # type: ignore[attr-defined]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_list_without_bytes_is_withheld_after_the_deadline_never_faulty(tmp_path: Path, answer: BytewiseError) -> None:
    setup = VerifierFixture(tmp_path)
    header = setup.anchor(setup.signed(1, cheat=True))
    closed(setup, answer)
    setup.records.step(setup.chain.now())
    assert setup.archive.batch(header.batch_id).state == NEW  # type: ignore[union-attr]
    setup.records.step(setup.chain.pass_time(100))
    assert setup.archive.batch(header.batch_id).state == WITHHELD  # type: ignore[union-attr]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_envelope_without_bytes_gives_vote_unavailable_at_the_deadline(tmp_path: Path, answer: BytewiseError) -> None:
    """Of a fraud too: what a seat has not seen it does not judge."""
    setup = VerifierFixture(tmp_path)
    signed = setup.signed(1, cheat=True)
    header = setup.anchor(signed)
    lists = {header.locator: setup.shelf.blobs[header.locator]}

    class ListsOnly(Answering):
        def get(self, locator: str, accept: Callable[[bytes], bool] | None = None) -> bytes:
            return lists[locator] if locator in lists else super().get(locator)

    closed(setup, answer)
    setup.shelf.__class__ = ListsOnly
    dispute = setup.dispute(signed)
    with SeatedMember(setup) as member:
        member.tick(1)
        assert setup.archive.batch(0).state == CHECKED and member.vote(dispute) is None  # type: ignore[union-attr]
        member.tick(28)
        assert member.vote(dispute) is None
        member.tick(2)
        vote = member.vote(dispute)
    assert vote is not None and (vote.outcome, vote.code) == (Outcome.UNAVAILABLE, 0)
    assert setup.archive.receipts(0)[0].finding in ("Good", WITHHELD_FINDING) and setup.enclave.jobs == 0

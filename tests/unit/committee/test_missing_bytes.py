"""What a seat says of bytes that it cannot have: UNAVAILABLE only if DA failed it in this round, nothing without a chain."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Dispute
from bytewise.protocol.errors.actors import RpcRefused, TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import U64, ZERO_DIGEST
from committee.ballots import RETRY_PAUSE_S
from tests.fixtures.builders import DISPUTES, word
from tests.fixtures.committee.seated_member import SeatedMember, disputed_receipt
from tests.fixtures.verifier.verifier_fixture import VerifierFixture
from verifier.watch.list_reader import CHECKED, NEW, WITHHELD


def withheld(folder: Path) -> tuple[VerifierFixture, Dispute]:
    """A town with a disputed receipt whose envelope DA does not have, and the dispute."""
    setup = VerifierFixture(folder)
    signed = setup.signed(1)
    setup.anchor(signed)
    del setup.shelf.blobs[signed.locator]
    return setup, setup.dispute(signed)


def test_missing_bytes_give_vote_unavailable_only_after_the_fetch_deadline(tmp_path: Path) -> None:
    setup, dispute = withheld(tmp_path)
    with SeatedMember(setup) as member:
        member.tick(29)
        member.tick(0)
        assert member.vote(dispute) is None
        member.tick(2)
        vote = member.vote(dispute)
        assert vote is not None and (vote.outcome, vote.code, vote.quote_hash) == (Outcome.UNAVAILABLE, 0, ZERO_DIGEST)
        assert vote.round_digest == ZERO_DIGEST and setup.enclave.jobs == 0
        member.tick(1)
    assert setup.sender.of("commit") == [typed_digest(DISPUTES, vote)]


def test_bytes_that_arrive_in_time_are_judged(tmp_path: Path) -> None:
    setup = VerifierFixture(tmp_path)
    signed = setup.signed(1)
    setup.anchor(signed)
    data = setup.shelf.blobs.pop(signed.locator)
    dispute = setup.dispute(signed)
    with SeatedMember(setup) as member:
        member.tick(20)
        setup.shelf.blobs[signed.locator] = data
        setup.chain.pass_time(RETRY_PAUSE_S)
        member.until_quiet()
        assert member.outcome(dispute) is Outcome.EXECUTED


def test_node_without_chain_access_does_not_call_bytes_unavailable(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)

    class Blind(type(setup.chain)):  # type: ignore[misc]
        def epoch(self, epoch: int, block: int) -> EpochRecord:
            raise TryAgain("chain", "no epoch")

    with SeatedMember(setup) as member:
        setup.records.step(setup.chain.now())
        setup.chain.__class__ = Blind
        member.tick(40)
        member.tick(1)
        assert member.vote(dispute) is None


def test_list_withheld_until_the_dispute_is_read_again_and_judged(tmp_path: Path) -> None:
    """A store that was away for everybody must not convict an honest operator afterwards."""
    setup = VerifierFixture(tmp_path)
    signed = setup.signed(1)
    setup.anchor(signed)
    away, setup.shelf.blobs = setup.shelf.blobs, {}
    with SeatedMember(setup) as member:
        member.tick(1)
        member.tick(700)
        assert setup.archive.batch(0).state == WITHHELD  # type: ignore[union-attr]
        setup.shelf.blobs = away
        dispute = setup.dispute(signed)
        member.until_quiet()
        assert member.outcome(dispute) is Outcome.EXECUTED
    assert setup.archive.batch(0).state == CHECKED  # type: ignore[union-attr]


@pytest.mark.parametrize("method", ["epoch", "environment", "batches"])
@pytest.mark.parametrize("error", [MalformedValue("JSON-RPC result", "None"), RpcRefused("eth_getLogs", "too large")])
def test_member_without_chain_access_does_not_vote_until_it_returns(tmp_path: Path, method: str, error: BytewiseError) -> None:
    setup = VerifierFixture(tmp_path)
    signed = setup.signed(1)
    setup.anchor(signed)

    def broken(*_: object) -> None:
        raise error

    setattr(setup.chain, method, broken)
    with SeatedMember(setup) as member:
        dispute = setup.dispute(signed)
        for _ in range(10):
            member.tick(4)
        assert member.vote(dispute) is None and all(batch.state == NEW for batch in setup.archive.batches())
        delattr(setup.chain, method)
        member.until_quiet()
        member.tick(1)
        assert member.outcome(dispute) is Outcome.EXECUTED


def test_one_failed_call_after_the_deadline_gives_no_vote_yet(tmp_path: Path) -> None:
    """The first tick of a member that comes up late."""
    setup = VerifierFixture(tmp_path)
    signed = setup.signed(1)
    setup.anchor(signed)
    setup.shelf.blobs.clear()
    dispute = setup.dispute(signed)
    with SeatedMember(setup) as member:
        member.tick(40)
        assert member.vote(dispute) is None
        member.tick(RETRY_PAUSE_S)
        assert member.outcome(dispute) is Outcome.UNAVAILABLE


def test_seat_without_da_access_does_not_vote_and_retries_in_time(tmp_path: Path) -> None:
    """Its own line, its proxies or DA as a whole: none of them is the operator's."""
    setup, dispute = withheld(tmp_path)
    with SeatedMember(setup) as member:
        setup.shelf.away = True
        for _ in range(10):
            member.tick(5)
            assert member.vote(dispute) is None
        asked = setup.shelf.reads
        setup.shelf.away = False
        member.tick(RETRY_PAUSE_S)
        assert member.outcome(dispute) is Outcome.UNAVAILABLE and setup.shelf.reads > asked


@pytest.mark.parametrize("serves", [(True, False), (False, True)])
def test_da_failing_right_before_and_after_the_question_proves_nothing(
    tmp_path: Path, serves: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    setup, dispute = withheld(tmp_path)
    with SeatedMember(setup) as member:
        member.tick(29)
        answers = iter(serves)
        monkeypatch.setattr(setup.store, "works", lambda: next(answers))
        member.tick(3)
        assert member.vote(dispute) is None
        monkeypatch.undo()
        member.tick(RETRY_PAUSE_S)
        assert member.outcome(dispute) is Outcome.UNAVAILABLE


def test_list_that_does_not_fit_its_root_gives_vote_unavailable(tmp_path: Path) -> None:
    setup = VerifierFixture(tmp_path)
    signed = setup.signed(1)
    setup.anchor(signed, root=word("another root"))
    dispute = setup.dispute(signed)
    with SeatedMember(setup) as member:
        for _ in range(12):
            member.tick(3)
        assert member.outcome(dispute) is Outcome.UNAVAILABLE


def test_reveal_does_not_wait_for_missing_bytes(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    with SeatedMember(setup) as member:
        vote = member.voted(dispute)
        setup.show(dispute, vote, phase=Phase.REVEAL)
        header = setup.chain.headers[0]
        bogus = replace(header, batch_id=1, block=U64(setup.chain.number + 1), locator="eigenda:standard:0x02ff")
        setup.chain.headers.append(bogus)
        seen: list[int] = []
        ask = setup.shelf.get

        def watched(locator: str, accept: Callable[[bytes], bool] | None = None) -> bytes:
            seen.append(len(setup.sender.of("reveal")))
            return ask(locator, accept)

        setup.shelf.get = watched  # type: ignore[method-assign]
        member.tick(1)
    assert seen == [1], "asked once, after the reveal was out"


def test_reveal_is_sent_without_events_from_the_chain(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    with SeatedMember(setup) as member:
        vote = member.voted(dispute)
        setup.show(dispute, vote, phase=Phase.REVEAL)

        def refused(*_: object) -> None:
            raise RpcRefused("eth_getLogs", "range too large")

        setup.chain.batches = refused  # type: ignore[assignment, method-assign]
        member.tick(1)
    assert len(setup.sender.of("reveal")) == 1

"""Members make verdict certificates by themselves on a real chain; liars, silence and restarts end in the direct path."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bytewise.crypto.bls import BlsSigner
from bytewise.ports import GossipPort
from bytewise.protocol import digests
from bytewise.protocol.court.commitments import certified_digest
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.tally import key_of, vote_content
from bytewise.protocol.decisions.certificates import (
    CertificateMessage,
    CertificateShare,
    OpenedVote,
    SharedCommitment,
    finding_of,
    message_of,
    signed_body,
)
from bytewise.protocol.records.statements import Outcome, Verdict, Vote
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import ZERO_DIGEST, Address, Blob
from chain.reads.history import CourtHistory
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import VERIFIERS, mine, word
from tests.fixtures.committee.certifying_member import CertifyingMember, register_keys, run_round
from tests.fixtures.committee.message_bus import MessageBus
from tests.fixtures.court.session import TRUE, DisputeFixture
from verifier.gossip import GossipClient


class Committee(NamedTuple):
    """A dispute in its commit phase, and its members with protected votes."""

    court: DisputeFixture
    members: tuple[CertifyingMember, ...]
    votes: dict[Address, Vote]
    bus: MessageBus

    def certificates(self) -> int:
        return len(CourtHistory(self.court.reader).certificates(0, self.court.reader.head()))

    def direct(self) -> set[Address]:
        """Members that revealed by themselves."""
        found = CourtHistory(self.court.reader).openings(0, self.court.reader.head())
        return {each.vote.voter for each in found}

    def by_seats(self) -> list[CertifyingMember]:
        """Members with the most seats last."""
        seats = {each.voter: each.seat_mask.bit_count() for each in self.court.case().members}
        return sorted(self.members, key=lambda each: seats[each.who.address])


@contextmanager
def committee(anvil: Anvil, folder: Path) -> Iterator[Committee]:
    court = DisputeFixture(anvil, folder, window=1200, commit_time=320, reveal_time=320, rerun_time=900)
    register_keys(court, VERIFIERS)
    court.open(1, key_of(Outcome.EXECUTED, 0, digests.out_hash(*TRUE)))
    case = court.until(Phase.COMMIT)
    drawn = [each for each in VERIFIERS if case.seat_of(each.address) is not None]
    with MessageBus(folder, [each.address for each in drawn], case.id) as bus:
        members = tuple(CertifyingMember(court, who, bus.clients[who.address], folder) for who in drawn)
        votes = {each.who.address: each.protect(case, TRUE) for each in members}
        yield Committee(court, members, votes, bus)
        for each in members:
            each.pool.stop()


def ended(seated: Committee) -> None:
    """The lie is overturned and all money is accounted for."""
    case = seated.court.until(Phase.FINAL)
    assert (case.verdict, case.replacement) == (Verdict.OVERTURNED, digests.out_hash(*TRUE))
    seated.court.settled()
    seated.court.everything_is_accounted_for()


def test_members_settle_a_dispute_by_a_certificate_of_their_own(anvil: Anvil, tmp_path: Path) -> None:
    with committee(anvil, tmp_path) as seated:
        case = run_round(seated.court, seated.members)
        assert (seated.certificates(), seated.direct()) == (1, set())
        assert not seated.bus.refusals, "the gossip process takes all that members say"
        assert case.certified_group == vote_content(next(iter(seated.votes.values()))).group
        ended(seated)


class LyingPort:
    """A member's port that changes what it publishes: one body becomes several, or none."""

    def __init__(self, honest: GossipPort, change: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> None:
        self._honest, self._change = honest, change

    def publish(self, topic: str, body: dict[str, Any]) -> None:
        for each in self._change(body):
            self._honest.publish(topic, each)

    def take(self, topic: str) -> Sequence[dict[str, Any]]:
        return self._honest.take(topic)


Lie = Callable[[Committee, LocalSigner, CertificateMessage], Sequence[CertificateMessage]]


def rogue_key(seated: Committee, who: LocalSigner, message: CertificateMessage) -> Sequence[CertificateMessage]:
    """Signs what the others sign, with a key that it did not register."""
    if not isinstance(message, CertificateShare):
        return [message]
    finding = finding_of(seated.votes[who.address])
    root = CourtHistory(seated.court.reader).first_root(message.dispute, message.round, 0, seated.court.reader.head())
    assert root is not None
    digest = certified_digest(seated.court.domain, finding, root, message.signers)
    return [replace(message, signature=Blob(BlsSigner(b"\0" * 31 + b"\7").sign(digest)))]


def no_signature(seated: Committee, who: LocalSigner, message: CertificateMessage) -> Sequence[CertificateMessage]:
    """Opens its vote and does not sign."""
    return [] if isinstance(message, CertificateShare) else [message]


def two_commitments(seated: Committee, who: LocalSigner, message: CertificateMessage) -> Sequence[CertificateMessage]:
    """Commits to two votes."""
    return [message, replace(message, commitment=word("other"))] if isinstance(message, SharedCommitment) else [message]


def another_vote(seated: Committee, who: LocalSigner, message: CertificateMessage) -> Sequence[CertificateMessage]:
    """Opens another vote than it committed to, and says everything in the names of the others, too."""
    changed = replace(message, vote=replace(message.vote, salt=word("other"))) if isinstance(message, OpenedVote) else message
    return [changed, *(replace(message, voter=each) for each in seated.votes if each != who.address)]


def lying(seated: Committee, liar: CertifyingMember, lie: Lie) -> LyingPort:
    def change(body: dict[str, Any]) -> list[dict[str, Any]]:
        told = lie(seated, liar.who, message_of(body).message)
        return [signed_body(seated.court.domain, liar.who, each) for each in told]

    return LyingPort(liar.gossip, change)


@pytest.mark.parametrize("lie", [rogue_key, no_signature, two_commitments, another_vote])
def test_certificate_is_made_beside_a_liar(anvil: Anvil, tmp_path: Path, lie: Lie) -> None:
    with committee(anvil, tmp_path) as seated:
        liar, *honest = seated.by_seats()
        liar.gossip = lying(seated, liar, lie)
        liar.restart()
        case = run_round(seated.court, seated.members)
        seats = {each.voter: each.seat_mask for each in seated.court.case().members}
        rest = sum(seats[each.who.address].bit_count() for each in honest)
        assert seated.certificates() == (rest >= case.quorum)
        if seated.certificates():
            assert seated.direct() <= {liar.who.address}
        assert seated.court.until(Phase.FINAL).verdict is Verdict.OVERTURNED


def test_dead_gossip_processes_end_in_the_direct_path(anvil: Anvil, tmp_path: Path) -> None:
    with committee(anvil, tmp_path) as seated:
        seated.bus.close()
        run_round(seated.court, seated.members, steps=8)
        assert (seated.certificates(), seated.direct()) == (0, set(seated.votes))
        assert seated.court.until(Phase.FINAL).verdict is Verdict.OVERTURNED


def test_root_of_nothing_ends_in_the_direct_path(anvil: Anvil, tmp_path: Path) -> None:
    with committee(anvil, tmp_path) as seated:
        liar = seated.by_seats()[0]
        seated.court.of(liar.who).post_commit_root(seated.court.dispute, 1, word("nothing"))
        seated.court.pump()
        run_round(seated.court, seated.members, steps=8)
        assert (seated.certificates(), seated.direct()) == (0, set(seated.votes))


@pytest.mark.parametrize("is_poster", [False, True], ids=["heard of the root", "posted the root"])
def test_member_that_was_away_until_the_reveal_phase_has_its_vote_counted(anvil: Anvil, tmp_path: Path, is_poster: bool) -> None:
    """It shared its commitment, and was down from when the root was posted until the votes were opened."""
    with committee(anvil, tmp_path) as seated:
        lowest = next(each.voter for each in seated.court.case().members if each.seat_mask & 1)
        victim = next(each for each in seated.by_seats() if (each.who.address == lowest) is is_poster)
        others = [each for each in seated.members if each is not victim]
        for _ in range(2):
            for each in (victim, *others):
                each.tick()
            seated.court.pump()
        while seated.court.case().phase is Phase.COMMIT:
            for each in others:
                each.tick()
            seated.court.pump()
            mine(seated.court.anvil, 20)
        victim.gossip = GossipClient(seated.bus.path_of(victim.who.address))
        victim.restart()
        case = run_round(seated.court, seated.members)
        seat = case.seat_of(victim.who.address)
        assert seat is not None and seat.commitment == ZERO_DIGEST
        assert any(seat.group), "its seats are in the certificate, or it revealed itself"
        ended(seated)


def test_members_that_restart_alone_reveal_under_the_root(anvil: Anvil, tmp_path: Path) -> None:
    """Gossip is lost for good after the root was posted: what a member relies on is in its database."""
    with committee(anvil, tmp_path) as seated:
        for _ in range(4):
            for each in seated.members:
                each.tick()
            seated.court.pump()
        assert all(each.commitment == ZERO_DIGEST for each in seated.court.case().members)
        seated.bus.cut |= set(seated.votes)
        for each in seated.members:
            each.restart()
        run_round(seated.court, seated.members, steps=8)
        assert (seated.certificates(), seated.direct()) == (0, set(seated.votes))
        ended(seated)

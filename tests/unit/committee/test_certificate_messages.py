"""What a member does with messages about certificates: lies cost it neither honest messages, nor other disputes, nor the tick."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from bytewise.crypto.bls import BlsSigner, PublicKey, is_signed, is_signed_by_all
from bytewise.protocol import merkle
from bytewise.protocol.court.commitments import certified_digest, sealed
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import CertifyRound, PostCommitRoot, RevealUnderRoot
from bytewise.protocol.decisions.certificates import (
    ALONE,
    CertificateMessage,
    CertificateShare,
    OpenedVote,
    RootMembers,
    SharedCommitment,
    finding_of,
    leaves_of,
    round_of,
    signed_body,
)
from bytewise.protocol.decisions.disputes import VotePolicy
from bytewise.protocol.decisions.snapshot import Dispute, Seat
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Outcome, Vote
from bytewise.protocol.signing import LocalSigner, typed_digest
from bytewise.protocol.units import U8, U256, ZERO_DIGEST, Address, Blob, Digest
from bytewise.storage.duties import Duties
from bytewise.storage.engine import open_database
from bytewise.storage.protection import Protection, ReliedRoots
from committee import certificates as module
from committee.ballots import KIND, Ballots
from committee.certificates import MAX_WAITING, Certificates
from tests.fixtures.builders import DISPUTES, signer, word
from tests.fixtures.metric_values import value_of
from tests.fixtures.snapshot_builders import NOW, OTHER, case, snapshot
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.storage.hand_clock import HandClock
from tests.fixtures.verifier.verifier_fixture import NETWORK
from verifier.jobs.enclave_pool import EnclavePool

WHO = [signer(f"member {number}") for number in range(5)]
BLS = {who.address: BlsSigner((number + 5).to_bytes(32)) for number, who in enumerate(WHO)}
SEATS = tuple(Seat(who.address, 0b111 << 3 * number, ZERO_DIGEST, ZERO_DIGEST) for number, who in enumerate(WHO))
ME, ALL = WHO[0], (1 << 15) - 1
COMMIT = case(phase=Phase.COMMIT, members=SEATS, commit_s=160, commit_end=NOW + 160, reveal_end=NOW + 320)
REVEAL = replace(COMMIT, phase=Phase.REVEAL, commit_end=NOW - 1, reveal_end=NOW + 159)


class Inbox:
    """Gossip: what `say` puts in arrives; what the member publishes is kept, unless the gossip process is `away`."""

    def __init__(self) -> None:
        self.away = False
        self.waiting: list[dict[str, Any]] = []
        self.published: list[dict[str, Any]] = []

    def say(self, who: LocalSigner, message: CertificateMessage, **changes: object) -> None:
        self.waiting.append({**signed_body(DISPUTES, who, message), **changes})

    def publish(self, topic: str, body: dict[str, Any]) -> None:
        if self.away:
            raise TryAgain("gossip", "it starts")
        self.published.append(body)

    def take(self, topic: str) -> Sequence[dict[str, Any]]:
        taken, self.waiting = self.waiting, []
        return taken


class Chain:
    """Certificate keys, and the root; `lies` about the keys at one block."""

    def __init__(self) -> None:
        self.root: Digest | None = None
        self.lies = 0

    def first_root(self, dispute: Digest, round_number: int, from_block: int, to_block: int) -> Digest | None:
        return self.root

    def tree_of(self, dispute: Digest, block: int) -> Address:
        return OTHER

    def keys_at(self, tree: Address, block: int, to_block: int) -> Mapping[Address, PublicKey]:
        if block == self.lies:
            raise MalformedValue("key", "no point")
        return {who: key.public_key for who, key in BLS.items()}


class Member:
    """The first member with its database."""

    def __init__(self, folder: Path) -> None:
        (folder / "one.sqlite").write_bytes(empty_database())
        self.database, self.inbox, self.chain = open_database(f"sqlite:///{folder / 'one.sqlite'}"), Inbox(), Chain()
        self.protection, self.duties = Protection(self.database, HandClock()), Duties(self.database, HandClock())
        self.restart()

    def restart(self) -> None:
        """It loses its memory and keeps its database."""
        relied, nothing = ReliedRoots(self.database), cast(Any, None)
        self.certificates = Certificates(DISPUTES, self.chain, self.inbox, self.protection, relied, ME, BLS[ME.address])
        self.ballots = Ballots(
            NETWORK, nothing, nothing, self.duties, self.protection, nothing, ME, EnclavePool([]), os.urandom, VotePolicy(), None,
            self.certificates,
        )  # fmt: skip


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    made = Member(tmp_path)
    yield made
    made.database.dispose()


def vote_of(dispute: Dispute, who: LocalSigner) -> Vote:
    seat = dispute.seat_of(who.address)
    assert seat is not None
    return Vote(
        *round_of(dispute), who.address, U256(seat.seat_mask), U8(Outcome.EXECUTED), U8(0), word("tokens"), word("trace"),
        word("round"), ZERO_DIGEST, word("salt", who.address),
    )  # fmt: skip


def commitment(dispute: Dispute, who: LocalSigner) -> SharedCommitment:
    vote = vote_of(dispute, who)
    return SharedCommitment(*round_of(dispute), who.address, vote.seat_mask, typed_digest(DISPUTES, vote))


def leaves(dispute: Dispute) -> dict[Address, Digest]:
    shared = [commitment(dispute, who) for who in WHO]
    return {each.voter: sealed(each.commitment, each.voter, each.seat_mask) for each in shared}


def counted(check: Callable[..., bool], made: list[str]) -> Callable[..., bool]:
    """The same check, which also notes its name."""

    def noted(*values: Any) -> bool:
        made.append(check.__name__)
        return check(*values)

    return noted


def test_forged_messages_of_later_rounds_push_out_no_honest_one(member: Member) -> None:
    """The others are a block ahead. One of them floods with rounds to come, and with names of others."""
    coming = replace(COMMIT, round=2)
    for who in WHO[1:]:
        member.inbox.say(who, commitment(coming, who))
    for number in range(MAX_WAITING + 1):
        member.inbox.say(WHO[1], commitment(replace(COMMIT, round=3 + number), WHO[1]))
        member.inbox.say(WHO[1], commitment(coming, WHO[2]), proof="0x" + f"{number:0130x}")
    for number in range(MAX_WAITING + 1):
        member.inbox.say(WHO[1], replace(commitment(coming, WHO[1]), commitment=word(number)))
    member.certificates.listen(snapshot(COMMIT))
    member.certificates.listen(snapshot(coming))
    half = snapshot(coming, clock=NOW + 80)
    plan = member.certificates.plan(half, coming, vote_of(coming, ME))
    root = merkle.commit_root(leaves_of(coming, leaves(coming), ALL & ~SEATS[1].seat_mask))
    assert plan.actions == (PostCommitRoot(coming.id, 2, root),), "all but the one that signed several commitments"


def test_dispute_whose_keys_are_malformed_stops_no_other(member: Member) -> None:
    other = replace(COMMIT, id=word("second"), seed=replace(COMMIT.seed, block=77))
    member.chain.lies = 76
    before = value_of("bytewise_part_failures_total", part="certificate", error="MalformedValue")
    both = snapshot(other, COMMIT)
    member.certificates.listen(both)
    assert member.certificates.plan(both, other, vote_of(other, ME)) == ALONE
    assert member.certificates.plan(both, COMMIT, vote_of(COMMIT, ME)).shares_commitment
    assert value_of("bytewise_part_failures_total", part="certificate", error="MalformedValue") == before + 1


@pytest.mark.parametrize("lies", [False, True])
def test_signatures_are_checked_few_at_a_tick_and_each_once(
    member: Member, monkeypatch: pytest.MonkeyPatch, lies: bool
) -> None:  # fmt: skip
    made: list[str] = []
    for check in (is_signed, is_signed_by_all):
        monkeypatch.setattr(module, check.__name__, counted(check, made))
    monkeypatch.setattr(module, "CHECKS_PER_TICK", 4)
    member.chain.root = merkle.commit_root(leaves_of(REVEAL, leaves(REVEAL), ALL))
    finding, now = finding_of(vote_of(REVEAL, ME)), snapshot(REVEAL)
    digest = certified_digest(DISPUTES, finding, member.chain.root, ALL)
    member.inbox.say(WHO[1], RootMembers(*round_of(REVEAL), WHO[1].address, U256(ALL)))
    for who in WHO[1:]:
        member.inbox.say(who, commitment(REVEAL, who))
        member.inbox.say(who, OpenedVote(*round_of(REVEAL), who.address, vote_of(REVEAL, who)))
        signed = word("other") if lies and who is WHO[4] else digest
        member.inbox.say(who, CertificateShare(*round_of(REVEAL), who.address, U256(ALL), Blob(BLS[who.address].sign(signed))))
    member.certificates.listen(now)
    assert member.certificates.plan(now, REVEAL, vote_of(REVEAL, ME)).signs == ALL
    assert made == [], "the plan of a tick waits for no check"
    assert member.certificates.step(now) == ()
    assert len(made) == (4 if lies else 1)
    for _ in range(3):
        member.certificates.step(now)
    assert sorted(made) == (["is_signed"] * 5 if lies else []) + ["is_signed_by_all"]
    plan = member.certificates.plan(now, REVEAL, vote_of(REVEAL, ME))
    assert [type(each) for each in plan.actions] == ([] if lies else [CertifyRound])
    if lies:
        later = replace(now, clock=REVEAL.commit_end + 41)
        assert member.certificates.plan(later, REVEAL, vote_of(REVEAL, ME)).signs == ALL & ~(0b111 << 12)


def test_message_that_gossip_did_not_accept_is_sent_once_later(member: Member) -> None:
    member.protection.sign_once(vote_of(COMMIT, ME), Blob(b""))
    member.inbox.away = True
    for _ in range(2):
        assert member.ballots.step(snapshot(COMMIT)) == () and member.inbox.published == []
    member.inbox.away = False
    for _ in range(2):
        assert member.ballots.step(snapshot(COMMIT)) == () and len(member.inbox.published) == 1


def test_vote_opened_before_a_reorganisation_waits_for_the_reveal_phase(member: Member) -> None:
    """Gossip was away when the member opened its vote; then the commit phase came back, where others could copy it."""
    member.protection.sign_once(vote_of(COMMIT, ME), Blob(b""))
    member.ballots.step(snapshot(COMMIT))
    for who in WHO[1:]:
        member.inbox.say(who, commitment(COMMIT, who))
    member.inbox.say(WHO[1], RootMembers(*round_of(COMMIT), WHO[1].address, U256(ALL)))
    member.chain.root = merkle.commit_root(leaves_of(COMMIT, leaves(COMMIT), ALL))
    member.inbox.away = True
    member.ballots.step(snapshot(REVEAL))
    member.inbox.away = False
    before = len(member.inbox.published)
    member.ballots.step(snapshot(COMMIT))
    assert len(member.inbox.published) == before
    member.ballots.step(snapshot(REVEAL))
    assert len(member.inbox.published) > before


def test_declined_vote_under_a_root_is_revealed_after_a_restart(member: Member) -> None:
    """The member declined after it shared its commitment; another member put that commitment under a root."""
    member.protection.sign_once(vote_of(COMMIT, ME), Blob(b""))
    assert member.ballots.step(snapshot(COMMIT)) == () and len(member.inbox.published) == 1
    member.duties.decline(COMMIT.id, KIND)
    for who in WHO[1:]:
        member.inbox.say(who, commitment(COMMIT, who))
    member.inbox.say(WHO[1], RootMembers(*round_of(COMMIT), WHO[1].address, U256(ALL)))
    member.chain.root = merkle.commit_root(leaves_of(COMMIT, leaves(COMMIT), ALL))
    assert member.ballots.step(snapshot(COMMIT)) == ()
    member.restart()
    late = snapshot(REVEAL, clock=REVEAL.commit_end + 80)
    (action,) = member.ballots.step(late)
    assert isinstance(action, RevealUnderRoot) and action.vote == vote_of(COMMIT, ME)


def test_declined_member_commits_to_nothing_more(member: Member) -> None:
    """It has a vote that nobody knows: it shares no commitment, posts no root, and commits and reveals nothing by itself."""
    member.protection.sign_once(vote_of(COMMIT, ME), Blob(b""))
    member.duties.decline(COMMIT.id, KIND)
    for who in WHO[1:]:
        member.inbox.say(who, commitment(COMMIT, who))
    for passed in (0, 80, 150):
        assert member.ballots.step(snapshot(COMMIT, clock=NOW + passed)) == ()
    others = ALL & ~SEATS[0].seat_mask
    member.inbox.say(WHO[1], RootMembers(*round_of(COMMIT), WHO[1].address, U256(others)))
    member.chain.root = merkle.commit_root(leaves_of(COMMIT, leaves(COMMIT), others))
    assert member.ballots.step(snapshot(COMMIT, clock=NOW + 159)) == ()
    assert member.ballots.step(snapshot(REVEAL, clock=REVEAL.commit_end + 80)) == ()
    assert member.inbox.published == []

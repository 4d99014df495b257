"""Which messages a gossip process takes: origin, rate, size, network, epoch, seats, repetition."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.decisions.certificates import (
    CertificateMessage,
    CertificateShare,
    OpenedVote,
    RootMembers,
    SharedCommitment,
    signed_body,
)
from bytewise.protocol.records.statements import Outcome, Vote
from bytewise.protocol.units import U8, U16, U256, ZERO_DIGEST, Blob, Digest, hex0x
from gossip.admission import PER_ROUND, RATES, Admission
from gossip.messages import MAX_MESSAGE_BYTES, TOPICS, GossipRefused, canonical, read_message, write_message
from gossip.peers import Peer, PeersFile, PeersOnDisk, write_peers
from tests.fixtures.builders import DISPUTES, signer, word

KEY, OTHER, UNKNOWN = ("0x" + f"{n:064x}" for n in (1, 2, 3))
ACCOUNT, SECOND = "0x" + "11" * 20, "0x" + "22" * 20
DISPUTE, ENVELOPE = "0x" + "dd" * 32, "0x" + "ee" * 32
PEERS = PeersFile(
    "31337", 5, (Peer(ACCOUNT, KEY), Peer(SECOND, OTHER)), {DISPUTE: (ACCOUNT,)}, {ENVELOPE: (ACCOUNT,)}
)  # fmt: skip
VOTER, ROUND = signer("voter"), (Digest(bytes.fromhex(DISPUTE[2:])), U16(1))
VOTE = Vote(
    *ROUND, VOTER.address, U256(7), U8(Outcome.EXECUTED), U8(0), word("tokens"), word("trace"), word("round"), ZERO_DIGEST,
    word("salt"),
)  # fmt: skip


def message(epoch: int = 5, chain: str = "31337", **body: object) -> bytes:
    return write_message(chain, epoch, body)


def admission_of(peers: PeersFile) -> Admission:
    return Admission(lambda: peers)


def reason(data: bytes, topic: str = "hint", key: str = KEY) -> str:
    with pytest.raises(GossipRefused) as refused:
        admission_of(PEERS).admit(topic, key, data, 0.0)
    return refused.value.reason


@pytest.mark.parametrize("epoch", [4, 5])
def test_message_of_a_registered_peer_in_this_or_the_last_epoch_is_taken(epoch: int) -> None:
    assert admission_of(PEERS).admit("hint", KEY, message(epoch, n=1), 0.0).body == {"n": 1}


@pytest.mark.parametrize(
    ("data", "topic", "key", "why"),
    [
        (message(n=1), "hint", UNKNOWN, "unregistered"),
        (message(n=1), "gossip", KEY, "topic"),
        (message(n=1, chain="1"), "hint", KEY, "chain"),
        (message(n=1, epoch=3), "hint", KEY, "epoch"),
        (message(n=1, epoch=6), "hint", KEY, "epoch"),
        (b"x" * (MAX_MESSAGE_BYTES + 1), "hint", KEY, "too_large"),
        (b"[" * 65, "hint", KEY, "malformed"),
        (b"not json", "hint", KEY, "malformed"),
        (b'{"body":{},"chain":"31337","epoch":5} ', "hint", KEY, "malformed"),
        (b'{"body":{"a":1,"a":2},"chain":"31337","epoch":5}', "hint", KEY, "malformed"),
        (canonical({"body": {}, "chain": "31337"}), "hint", KEY, "malformed"),
        (canonical({"body": [], "chain": "31337", "epoch": 5}), "hint", KEY, "malformed"),
        (canonical({"body": {}, "chain": "31337", "epoch": True}), "hint", KEY, "malformed"),
        (message(n=1), "root", KEY, "no_seat"),
        (message(dispute=DISPUTE, round="1"), "root", OTHER, "no_seat"),
        (message(dispute=DISPUTE, round=1), "root", KEY, "no_seat"),
        (message(dispute=DISPUTE, round="01"), "root", KEY, "no_seat"),
        (message(dispute=DISPUTE, round="\u0661"), "root", KEY, "no_seat"),
        (message(dispute=DISPUTE, round="65536"), "root", KEY, "no_seat"),
        (message(dispute=DISPUTE, round="9" * 3000), "root", KEY, "no_seat"),
        (message(envelope=ENVELOPE), "have", OTHER, "no_seat"),
        (message(envelope=DISPUTE), "have", KEY, "no_seat"),
        (message(envelope=ENVELOPE, account=SECOND), "have", KEY, "no_seat"),
    ],
)
def test_message_is_refused_by_name(data: bytes, topic: str, key: str, why: str) -> None:
    assert reason(data, topic, key) == why


def test_unregistered_peer_is_refused_before_its_bytes_are_parsed() -> None:
    assert reason(b"[" * 4000, key=UNKNOWN) == "unregistered"


@pytest.mark.parametrize("topic", TOPICS)
def test_rate_of_one_peer_leaves_room_for_another(topic: str) -> None:
    seats = PeersFile("31337", 5, PEERS.peers, {DISPUTE: (ACCOUNT, SECOND)}, {ENVELOPE: (ACCOUNT, SECOND)})
    admission = admission_of(seats)
    body: dict[str, Any] = {"dispute": DISPUTE, "envelope": ENVELOPE}
    taken = 0
    for number in range(200):
        try:
            admission.admit(topic, KEY, message(**body, account=ACCOUNT, n=number, round=str(number)), 0.0)
            taken += 1
        except GossipRefused as refused:
            assert refused.reason == "rate"
    assert taken == RATES[topic].count
    admission.admit(topic, OTHER, message(**body, account=SECOND, n=-1, round="1"), 0.0)
    admission.admit(topic, KEY, message(**body, account=ACCOUNT, n=-2, round="1"), RATES[topic].seconds)


def test_refused_messages_count_against_the_rate() -> None:
    admission = admission_of(PEERS)
    for _ in range(RATES["hint"].count):
        with pytest.raises(GossipRefused, match="malformed"):
            admission.admit("hint", KEY, b"junk", 0.0)
    with pytest.raises(GossipRefused, match="rate"):
        admission.admit("hint", KEY, message(n=1), 0.0)


def test_one_peer_says_only_so_much_about_one_round() -> None:
    admission = admission_of(PEERS)
    for number in range(PER_ROUND):
        admission.admit("root", KEY, message(dispute=DISPUTE, round="1", n=number), 0.0)
    with pytest.raises(GossipRefused, match="one round"):
        admission.admit("root", KEY, message(dispute=DISPUTE, round="1", n=-1), 0.0)
    admission.admit("root", KEY, message(dispute=DISPUTE, round="2"), 0.0)


def test_same_message_is_taken_once() -> None:
    admission = admission_of(PEERS)
    admission.admit("hint", KEY, message(n=1), 0.0)
    with pytest.raises(GossipRefused, match="seen"):
        admission.admit("hint", OTHER, message(n=1), 0.0)


def test_repeated_message_leaves_room_for_new_ones() -> None:
    admission, repeated = admission_of(PEERS), message(dispute=DISPUTE, round="1", n=0)
    admission.admit("root", KEY, repeated, 0.0)
    for _ in range(RATES["root"].count):
        with pytest.raises(GossipRefused, match="seen"):
            admission.admit("root", KEY, repeated, 0.0)
    for number in range(1, PER_ROUND):
        admission.admit("root", KEY, message(dispute=DISPUTE, round="1", n=number), 0.0)


def test_message_refused_for_its_seat_is_taken_once_the_seat_is_known() -> None:
    known = [replace(PEERS, disputes={})]
    admission = Admission(lambda: known[-1])
    said = message(dispute=DISPUTE, round="1")
    with pytest.raises(GossipRefused, match="no_seat"):
        admission.admit("root", KEY, said, 0.0)
    known.append(PEERS)
    admission.admit("root", KEY, said, 0.0)


@pytest.mark.parametrize(("topic", "body"), [("root", {"dispute": DISPUTE, "round": "1"}), ("have", {"envelope": ENVELOPE})])
def test_seat_is_heard_as_soon_as_peers_file_names_it(tmp_path: Path, topic: str, body: dict[str, Any]) -> None:
    """The duty process writes the file and speaks in one tick."""
    file, said = tmp_path / "peers.json", message(**body, account=ACCOUNT)
    write_peers(file, replace(PEERS, disputes={}, envelopes={}))
    admission = Admission(PeersOnDisk(file).newest)
    with pytest.raises(GossipRefused, match="no_seat"):
        admission.admit(topic, KEY, said, 0.0)
    write_peers(file, PEERS)
    admission.admit(topic, KEY, said, 0.0)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda file: file.write_text("[]")])
def test_peers_file_that_cannot_be_read_changes_nothing(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    file = tmp_path / "peers.json"
    write_peers(file, PEERS)
    on_disk = PeersOnDisk(file)
    spoil(file)
    assert on_disk.newest() == PEERS
    write_peers(file, replace(PEERS, epoch=6))
    assert on_disk.newest().epoch == 6


@pytest.mark.parametrize(
    "said",
    [
        SharedCommitment(*ROUND, VOTER.address, U256(7), word("commitment")),
        RootMembers(*ROUND, VOTER.address, U256(7)),
        OpenedVote(*ROUND, VOTER.address, VOTE),
        CertificateShare(*ROUND, VOTER.address, U256(7), Blob(bytes(256))),
    ],
)
def test_every_certificate_message_is_taken_as_members_write_it(said: CertificateMessage) -> None:
    peers = PeersFile("31337", 5, (Peer(VOTER.address, KEY),), {hex0x(said.dispute): (VOTER.address,)})
    body = signed_body(DISPUTES, VOTER, said)
    assert admission_of(peers).admit("root", KEY, write_message("31337", 5, body), 0.0).dispute == (DISPUTE, 1)


def test_removed_peer_is_refused_at_once() -> None:
    known = [PEERS]
    admission = Admission(lambda: known[-1])
    admission.admit("hint", KEY, message(n=0), 0.0)
    known.append(PeersFile("31337", 5, PEERS.peers[1:]))
    admission.forget_removed()
    with pytest.raises(GossipRefused, match="unregistered"):
        admission.admit("hint", KEY, message(n=1), 0.0)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_reencode_to_themselves(data: bytes) -> None:
    try:
        found = read_message(data)
    except GossipRefused:
        return
    assert write_message(found.chain, found.epoch, found.body) == data

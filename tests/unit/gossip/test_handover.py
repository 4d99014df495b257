"""The hand-over over a real UNIX socket, the ring behind it, `peers.json`, settings and envelopes: all without libp2p."""

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gossip.envelopes import DAILY_BYTES, PIECE_BYTES, EnvelopeShelf, write_request
from gossip.handover import MAX_CALL_BYTES, MAX_CALLS, HandOverClient, HandOverServer, Ring, receive_frame
from gossip.messages import GossipRefused
from gossip.peers import Peer, PeersFile, read_peers, write_peers
from gossip.settings import read_settings

ACCOUNT = "0x" + "11" * 20
ENVELOPE = "0x" + "ee" * 32


class Process:
    """A gossip process with nobody to talk to: what is published arrives here."""

    def __init__(self, name: str, ring: Ring) -> None:
        self.name, self.ring = name, ring

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["call"] == "publish":
            return {"n": self.ring.put(str(request["topic"]), ACCOUNT, request["body"], 10)}
        page = self.ring.take(int(request["after"]), int(request["most"]))
        found = [{"topic": each.topic, "account": each.account, "body": each.body} for each in page.messages]
        return {"messages": found, "last": page.last, "process": self.name}


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    server = HandOverServer(tmp_path / "s", Process("one", Ring()))
    yield tmp_path / "s"
    server.close()


def test_published_message_is_taken_once(path: Path) -> None:
    client = HandOverClient(path)
    client.publish("hint", {"n": 1})
    client.publish("root", {"n": 2})
    assert [(each.topic, each.body) for each in client.take()] == [("hint", {"n": 1}), ("root", {"n": 2})]
    assert client.take() == ()


def test_socket_is_for_its_owner_only(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600


def test_reader_begins_again_after_a_restart(tmp_path: Path) -> None:
    client = HandOverClient(tmp_path / "s")
    first = HandOverServer(tmp_path / "s", Process("one", Ring()))
    for number in range(3):
        client.publish("hint", {"n": number})
    assert len(client.take()) == 3
    first.close()
    with pytest.raises(GossipRefused, match="away"):
        client.take()
    second = HandOverServer(tmp_path / "s", Process("two", Ring()))
    client.publish("hint", {"n": 9})
    assert [each.body for each in client.take()] == [{"n": 9}]
    second.close()


@pytest.mark.parametrize(
    "data", [struct.pack(">I", MAX_CALL_BYTES + 1), struct.pack(">I", 2) + b"[]", struct.pack(">I", 3) + b"{}x"]
)
def test_bad_frame_is_refused_and_the_server_lives(path: Path, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(data)
        assert b'"refused"' in connection.recv(1000)
    HandOverClient(path).publish("hint", {})


def test_deeply_nested_frame_is_refused_before_it_is_parsed() -> None:
    """A duty process reads it with a high recursion limit, under which parsing it would be a segmentation fault."""
    data = b'{"a":' * 200_000
    reader, writer = socket.socketpair()
    with reader, writer:
        sender = threading.Thread(target=writer.sendall, args=(struct.pack(">I", len(data)) + data,))
        sender.start()
        with pytest.raises(GossipRefused, match="brackets"):
            receive_frame(reader, len(data))
        sender.join()


def test_call_without_its_members_is_refused(path: Path) -> None:
    with pytest.raises(GossipRefused):
        HandOverClient(path)._call({"topic": "hint"})


def test_server_answers_after_as_many_unexpected_errors_as_it_has_threads(tmp_path: Path) -> None:
    def call(request: dict[str, Any]) -> dict[str, Any]:
        if request["call"] == "publish":
            raise RuntimeError("an error of libp2p")
        return {"messages": [], "last": 0, "process": "one"}

    server, client = HandOverServer(tmp_path / "s", call), HandOverClient(tmp_path / "s")
    for _ in range(MAX_CALLS + 1):
        with pytest.raises(GossipRefused):
            client.publish("root", {})
    assert client.take() == ()
    server.close()


def test_ring_tells_what_is_lost() -> None:
    ring = Ring(messages=3, size=1000)
    for number in range(5):
        ring.put("hint", ACCOUNT, {"n": number}, 10)
    page = ring.take(1, 2)
    assert ([each.number for each in page.messages], page.lost, page.last) == ([3, 4], 1, 4)
    assert ring.take(page.last, 9).lost == 0
    assert ring.take(99, 9).last == 5


def test_ring_is_bounded_by_bytes() -> None:
    ring = Ring(messages=100, size=25)
    for _ in range(5):
        ring.put("hint", ACCOUNT, {}, 10)
    assert len(ring.take(0, 9).messages) == 2


def test_peers_file_reads_as_written(tmp_path: Path) -> None:
    peers = PeersFile(
        "31337", 2, (Peer(ACCOUNT, ENVELOPE, ("/ip4/127.0.0.1/tcp/1",)),), {ENVELOPE: (ACCOUNT,)}, {ENVELOPE: (ACCOUNT,)}
    )  # fmt: skip
    write_peers(tmp_path / "peers.json", peers)
    assert read_peers(tmp_path / "peers.json") == peers
    assert [each.name for each in tmp_path.iterdir()] == ["peers.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"chain":"1","epoch":1,"peers":[{"account":"a","key":"b","addresses":[]}]}'])
def test_bad_peers_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "peers.json").write_text(text)
    with pytest.raises(GossipRefused, match="peers_file"):
        read_peers(tmp_path / "peers.json")


def test_settings_name_what_is_missing_or_unknown(tmp_path: Path) -> None:
    (tmp_path / "g.toml").write_text('peers_file = "p"\nsocket = "s"\nother = 1\n')
    with pytest.raises(GossipRefused, match=r"lacks \['key_file'\], does not know \['other'\]"):
        read_settings(tmp_path / "g.toml")
    (tmp_path / "g.toml").write_text('peers_file = "p"\nsocket = "s"\nkey_file = "k"\n')
    assert read_settings(tmp_path / "g.toml").envelopes_folder == tmp_path / "envelopes"


def test_pieces_go_only_to_seats_of_the_dispute(tmp_path: Path) -> None:
    file, shelf = tmp_path / "one", EnvelopeShelf(tmp_path)
    file.write_bytes(b"a" * PIECE_BYTES + b"b")
    assert shelf.offer(ENVELOPE, file) == PIECE_BYTES + 1
    peers = PeersFile("31337", 1, (), {}, {ENVELOPE: (ACCOUNT,)})
    assert shelf.piece(ACCOUNT, write_request(ENVELOPE, PIECE_BYTES), peers, 0.0) == b"b"
    for who, request, why in (
        ("0x" + "22" * 20, write_request(ENVELOPE, 0), "no_seat"),
        (ACCOUNT, write_request("0x" + "dd" * 32, 0), "no_seat"),
        (ACCOUNT, write_request(ENVELOPE, -1), "malformed"),
        (ACCOUNT, b"{}", "malformed"),
        (ACCOUNT, b"[" * 257, "too_large"),
    ):
        with pytest.raises(GossipRefused) as refused:
            shelf.piece(who, request, peers, 0.0)
        assert refused.value.reason == why


def test_one_peer_gets_only_so_many_bytes_a_day(tmp_path: Path) -> None:
    file, shelf = tmp_path / "one", EnvelopeShelf(tmp_path)
    file.write_bytes(b"a" * PIECE_BYTES)
    shelf.offer(ENVELOPE, file)
    peers = PeersFile("31337", 1, (), {}, {ENVELOPE: (ACCOUNT,)})
    for _ in range(DAILY_BYTES // PIECE_BYTES):
        shelf.piece(ACCOUNT, write_request(ENVELOPE, 0), peers, 0.0)
    with pytest.raises(GossipRefused, match="rate"):
        shelf.piece(ACCOUNT, write_request(ENVELOPE, 0), peers, 0.0)
    assert shelf.piece(ACCOUNT, write_request(ENVELOPE, 0), peers, 86_400.0)


def test_file_outside_the_folder_is_not_offered(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("s")
    shelf = EnvelopeShelf(tmp_path / "in")
    for file in (tmp_path / "secret", tmp_path / "in" / ".." / "secret"):
        with pytest.raises(GossipRefused):
            shelf.offer(ENVELOPE, file)

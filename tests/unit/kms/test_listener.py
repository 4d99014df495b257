"""The shard's listener: unknown clients, too many connections and silent enclaves are sent away."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.evidence import ChannelBroken, ChannelRefused
from bytewise.protocol.keys.epochs import MAX_RELEASE_BODY_BYTES, Decision, ReleaseAnswer
from bytewise.service.clock import monotonic_s
from bytewise.service.connections import AddressSlots
from bytewise.tee.binding import AttestedPeer
from bytewise.tee.channel import Channel, connect
from enclave.release_client import open_channel, request_release
from kms.shard import listener
from kms.shard.listener import ChannelServer
from kms.shard.release import Shard
from tests.fixtures.kms.release_network import World, wait_until

PATIENCE_S = 60.0


@contextmanager
def served(
    world: World, unattested: AddressSlots | None = None, attested: AddressSlots | None = None, handshake_s: float = PATIENCE_S,
    shard: Shard | None = None,
) -> Iterator[ChannelServer]:  # fmt: skip
    """The listener of shard 1."""
    listening = socket.create_server(("127.0.0.1", world.channel_ports[0]))
    shard = shard or world.shard(1)
    server = ChannelServer(shard, world.end(1, shard), listening, unattested, attested, handshake_s)
    try:
        yield server
    finally:
        server.close()


def dialled(world: World) -> socket.socket:
    """A connection of somebody who has said nothing yet."""
    stream = socket.create_connection(("127.0.0.1", world.channel_ports[0]), timeout=PATIENCE_S)
    stream.settimeout(PATIENCE_S)
    return stream


def channel(world: World) -> Channel:
    """An attested channel to shard 1."""
    return open_channel(world.document.record.shards[0], world.enclave(1), world.public, PATIENCE_S)


def closed(stream: socket.socket) -> bool:
    """Whether the other end closed it without a word."""
    with stream:
        try:
            return stream.recv(1) == b""
        except ConnectionResetError:
            return True


def test_one_channel_carries_several_requests_beside_other_channels(world: World) -> None:
    case, record = world.disputed(), world.document.record.shards[0]
    with served(world), channel(world) as first, channel(world) as second:
        answers = [request_release(each, record, world.request(case), PATIENCE_S) for each in (first, second, first)]
        assert [each.record.decision for each in answers] == [Decision.RELEASED] * 3
        assert {each.record.evidence_hash for each in answers[::2]} != {answers[1].record.evidence_hash}


def test_excess_connections_are_closed_and_a_place_is_freed_on_leaving(world: World) -> None:
    unattested, attested = AddressSlots(3, 2), AddressSlots(3, 2)
    with served(world, unattested, attested), ExitStack() as stack:
        held = [stack.enter_context(dialled(world)) for _ in range(2)]
        wait_until(lambda: unattested.in_use == 2)
        assert closed(dialled(world))
        held[0].close()
        wait_until(lambda: unattested.in_use == 1)
        with channel(world):
            wait_until(lambda: (unattested.in_use, attested.in_use) == (1, 1))


def test_shard_without_a_free_thread_closes_the_connection_and_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    start, failures, unattested = threading.Thread.start, ["once"], AddressSlots(1, 1)

    def limited(thread: threading.Thread) -> None:
        if thread.name.startswith("channel ") and failures:
            failures.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with served(world, unattested):
        assert closed(dialled(world)) and not failures
        wait_until(lambda: unattested.in_use == 0)
        with channel(world):
            pass


def test_silent_connection_is_closed_after_its_time(world: World) -> None:
    unattested = AddressSlots(1, 1)
    with served(world, unattested, handshake_s=0.3):
        assert closed(dialled(world))
        wait_until(lambda: unattested.in_use == 0)


@pytest.mark.parametrize(
    "noise", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + b"\xff" * 400, bytes(2**20)], ids=["http", "tls", "zeros"]
)
def test_noise_is_refused_and_the_next_enclave_is_served(world: World, noise: bytes) -> None:
    case = world.disputed()
    with served(world):
        with dialled(world) as stream:
            with ExitStack() as stack:
                stack.callback(stream.settimeout, PATIENCE_S)
                try:
                    stream.sendall(noise)
                    while stream.recv(4096):
                        pass
                except (ConnectionResetError, BrokenPipeError):
                    pass
        with channel(world) as opened:
            answer = request_release(opened, world.document.record.shards[0], world.request(case), PATIENCE_S)
    assert answer.record.decision == Decision.RELEASED


def test_excess_enclave_is_asked_to_retry(world: World) -> None:
    case, record, attested = world.disputed(), world.document.record.shards[0], AddressSlots(1, 1)
    with served(world, attested=attested):
        with channel(world) as first:
            request_release(first, record, world.request(case), PATIENCE_S)
            with channel(world) as second, pytest.raises((TryAgain, ChannelBroken)):
                request_release(second, record, world.request(case), PATIENCE_S)
        wait_until(lambda: attested.in_use == 0)
        with channel(world) as third:
            assert request_release(third, record, world.request(case), PATIENCE_S).record.decision == Decision.RELEASED


def test_enclave_that_asks_nothing_or_too_much_is_disconnected(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    attested = AddressSlots(3, 3)
    with served(world, attested=attested):
        with channel(world) as greedy, pytest.raises(ChannelBroken):
            greedy.send(bytes(MAX_RELEASE_BODY_BYTES + 1), PATIENCE_S)
            greedy.receive(1, PATIENCE_S)
        monkeypatch.setattr(listener, "IDLE_S", 0.2)
        with channel(world) as silent, pytest.raises(ChannelBroken):
            silent.receive(1, PATIENCE_S)
        wait_until(lambda: attested.in_use == 0)


class StuckShard(Shard):
    """Answers nobody before it is told to."""

    asked = threading.Semaphore(0)
    go_on = threading.Event()

    def release(self, body: bytes, peer: AttestedPeer) -> ReleaseAnswer:
        """Waits."""
        self.asked.release()
        self.go_on.wait(PATIENCE_S)
        raise TryAgain("shard", "was stuck")


def test_close_waits_for_all_running_answers_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shard, count = world.shard(1), 8
    shard.__class__ = StuckShard
    monkeypatch.setattr(listener, "SHUTDOWN_S", 4.0)
    with ExitStack() as stack:
        server = stack.enter_context(served(world, shard=shard))
        stack.callback(StuckShard.go_on.set)
        for _ in range(count):
            stack.enter_context(channel(world)).send(b"anything", PATIENCE_S)
        assert all(StuckShard.asked.acquire(timeout=PATIENCE_S) for _ in range(count))
        begun = monotonic_s()
        server.close()
        # One after the other, they would take 4 s each.
        assert 3.9 < monotonic_s() - begun < 4 * count / 2


def test_a_shards_program_cannot_ask_another_shard(world: World) -> None:
    with served(world), dialled(world) as stream, pytest.raises(ChannelBroken, match="R-76"):
        connect(stream, replace(world.enclave(1), quoter=world.shard_quoter), world.public, PATIENCE_S)


def test_wrong_role_is_refused_before_either_side_quotes(world: World) -> None:
    asking = world.end(2, world.shard(2))
    with served(world), dialled(world) as stream, pytest.raises((ChannelBroken, ChannelRefused)):
        connect(stream, asking, os.urandom(0), PATIENCE_S)


def test_closing_ends_open_channels_and_accepts_no_more(world: World) -> None:
    with served(world) as server, channel(world) as opened, dialled(world) as stranger:
        server.close()
        with pytest.raises(ChannelBroken):
            opened.receive(1, PATIENCE_S)
        assert closed(stranger)
        with pytest.raises(ConnectionRefusedError):
            dialled(world)

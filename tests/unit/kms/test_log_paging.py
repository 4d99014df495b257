"""Anybody may ask for pages of a shard's log: they are made one at a time, and releases wait for none of them."""

import asyncio
import http.client
import itertools
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from typing import Any

import pytest
from fastapi import Request

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.keys.epochs import ShardRefusal
from bytewise.protocol.keys.release_log import ReleaseLog
from enclave.release_client import open_channel, request_release
from kms.shard import http_limits
from kms.shard.http_limits import BodyBudget, TurnQueue
from kms.shard.release import Shard
from kms.shard_client import ShardBusy, ShardClient
from tests.fixtures.kms.release_network import World, wait_until

PATIENCE_S = 60.0
SHORT_S = 0.3
LOG = "/v1/log?from=0"


class BlockedLog:
    """Pages of a log that are begun, and ended when they may be."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = 0, threading.Event()
        lock, real = threading.Lock(), Shard.log

        def blocked(shard: Shard, first: int, epoch: int | None = None) -> ReleaseLog:
            with lock:
                self.begun += 1
            self.go.wait(PATIENCE_S)
            return real(shard, first, epoch)

        monkeypatch.setattr(Shard, "log", blocked)


@contextmanager
def asked(world: World, many: int) -> Iterator[list["Future[bytes]"]]:
    """So many connections that asked for a page, each."""
    with ExitStack() as stack, ThreadPoolExecutor(many) as pool:
        clients = [stack.enter_context(ShardClient(world.document.record.shards[0], PATIENCE_S)) for _ in range(many)]
        yield [pool.submit(client.call, "GET", LOG, b"") for client in clients]


def test_excess_page_request_is_deferred_and_a_release_is_answered(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "TURN_WAIT_S", SHORT_S)
    shard, case, record, blocked = fresh.shard(1), fresh.disputed(), fresh.document.record.shards[0], BlockedLog(monkeypatch)
    trusting = ssl.create_default_context(cafile=fresh.settings.shards[0].folder / "tls.pem")
    with fresh.serving((1, shard)), asked(fresh, 1) as (first,), ShardClient(record, PATIENCE_S) as client:
        try:
            wait_until(lambda: blocked.begun == 1)
            line = http.client.HTTPSConnection("127.0.0.1", fresh.ports[0], timeout=PATIENCE_S, context=trusting)
            with closing(line):
                line.request("GET", LOG)
                got = line.getresponse()
                assert (got.status, got.headers["Retry-After"]) == (503, "1")
                assert decode(ShardRefusal, got.read()) == ShardRefusal("TryAgain", TryAgain.rule, True)
            with pytest.raises(ShardBusy):
                client.call("GET", LOG, b"")
            assert client.call("GET", "/v1/info", b"") and blocked.begun == 1
            with open_channel(record, fresh.enclave(1), fresh.public, PATIENCE_S) as channel:
                request_release(channel, record, fresh.request(case), PATIENCE_S)
        finally:
            blocked.go.set()
        assert first.result(PATIENCE_S) and client.call("GET", LOG, b"") == encode(shard.log(0))


@pytest.mark.parametrize("turns", [True, False])
def test_pages_are_made_in_turn_and_all_are_returned(fresh: World, monkeypatch: pytest.MonkeyPatch, turns: bool) -> None:
    """Control: without turns there are as many at once as asked."""

    @asynccontextmanager
    async def none(_: TurnQueue, _address: str) -> AsyncIterator[None]:
        yield

    if not turns:
        monkeypatch.setattr(TurnQueue, "turn", none)
    shard, blocked = fresh.shard(1), BlockedLog(monkeypatch)
    with fresh.serving((1, shard)), asked(fresh, 3) as pages:
        try:
            wait_until(lambda: blocked.begun == (1 if turns else 3))
            assert not turns or (not threading.Event().wait(SHORT_S) and blocked.begun == 1)
        finally:
            blocked.go.set()
        assert [page.result(PATIENCE_S) for page in pages] == [encode(shard.log(0))] * 3


def test_page_queue_is_bounded_by_the_number_of_connections(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "MAX_TLS_CONNECTIONS", 2)
    shard, blocked = fresh.shard(1), BlockedLog(monkeypatch)
    with fresh.serving((1, shard)), asked(fresh, 1) as (first,):
        try:
            # Or the first one, which has the turn, could be counted among those that wait for it.
            wait_until(lambda: blocked.begun == 1)
            with asked(fresh, 5) as pages:
                try:
                    wait_until(lambda: sum(page.done() for page in pages) == 3)
                finally:
                    blocked.go.set()
                found = [isinstance(page.exception(PATIENCE_S), ShardBusy) for page in (first, *pages)]
        finally:
            blocked.go.set()
    assert sorted(found) == [False] * 3 + [True] * 3 and not found[0]


@pytest.mark.parametrize("counted", [True, False])
def test_cancelled_page_request_blocks_no_other(fresh: World, monkeypatch: pytest.MonkeyPatch, counted: bool) -> None:
    """Control: where places are not counted by address, those of who is gone are all there are."""
    real, names = TurnQueue.turn, itertools.count()
    if not counted:
        monkeypatch.setattr(TurnQueue, "turn", lambda turns, _: real(turns, str(next(names))))
    monkeypatch.setattr(http_limits, "MAX_TLS_CONNECTIONS", 8)
    monkeypatch.setattr(http_limits, "MAX_TLS_CONNECTIONS_PER_ADDRESS", 4)
    shard, blocked = fresh.shard(1), BlockedLog(monkeypatch)
    trusting = ssl.create_default_context(cafile=fresh.settings.shards[0].folder / "tls.pem")
    with fresh.serving((1, shard)), ThreadPoolExecutor(1) as pool:
        try:
            for _ in range(12):
                with ghost(fresh.ports[0], trusting):
                    pass
            line = http.client.HTTPSConnection(
                "127.0.0.1", fresh.ports[0], timeout=PATIENCE_S, context=trusting, source_address=("127.0.0.2", 0)
            )
            with closing(line):
                line.request("GET", LOG)
                got = pool.submit(lambda: line.getresponse().status)
                assert not counted or (not threading.Event().wait(SHORT_S) and not got.done())
                assert counted or got.result(PATIENCE_S) == 503
                blocked.go.set()
                assert got.result(PATIENCE_S) == (200 if counted else 503)
        finally:
            blocked.go.set()


@contextmanager
def ghost(port: int, trusting: ssl.SSLContext) -> Iterator[None]:
    """Somebody that asks for a page and goes without its answer, after the shard has read the question."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    with trusting.wrap_socket(plain, server_hostname="127.0.0.1") as line:
        line.sendall(f"GET {LOG} HTTP/1.1\r\nHost: shard\r\n\r\n".encode())
        threading.Event().wait(0.05)
        yield


def test_body_of_a_closed_connection_is_released() -> None:
    """Control: one that came whole is given, and held until it is answered."""
    blocked = BodyBudget(most=64)

    def sender(*chunks: bytes, gone: bool) -> Request:
        waiting = [{"type": "http.request", "body": each, "more_body": True} for each in chunks]
        waiting.append({"type": "http.disconnect"} if gone else {"type": "http.request", "body": b"", "more_body": False})

        async def receive() -> MutableMapping[str, Any]:
            return waiting.pop(0)

        return Request({"type": "http", "method": "POST", "headers": []}, receive)

    async def taken(request: Request) -> bytes:
        async with blocked.body(request, 16) as body:
            assert blocked.used == len(body)
            return body

    assert asyncio.run(taken(sender(b"ab", b"cd", gone=False))) == b"abcd"
    with pytest.raises(TryAgain, match="the request ended early"):
        asyncio.run(taken(sender(b"ab", gone=True)))
    assert blocked.used == 0

"""HTTPS to one shard: an exchange ends in time, whatever the other side does; and what is no address is our own mistake."""

import socket
import threading
from dataclasses import replace

import pytest

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.service.clock import monotonic_s
from bytewise.service.connections import MAX_LOOKUPS
from kms.shard_client import ShardClient
from tests.fixtures.kms.release_network import World, wait_until
from tests.fixtures.kms.trickling_shard import trickling


@pytest.mark.parametrize("part", ["handshake", "request", "head", "body"])
def test_endless_answer_is_abandoned_in_time(world: World, part: str) -> None:
    """Whatever part of the exchange takes so long; a request of 4 MiB that nobody reads, too."""
    record, begun = world.document.record.shards[0], monotonic_s()
    asked = bytes(2**22) if part == "request" else b""
    with trickling(world.settings.shards[0].folder, world.ports[0], part), ShardClient(record, timeout_s=1) as client:
        with pytest.raises(TryAgain, match="Timeout"):
            client.call("POST", "/v1/ceremony", asked)
        assert 0.9 < monotonic_s() - begun < 5
        with pytest.raises(TryAgain, match="Timeout"):
            client.call("POST", "/v1/ceremony", asked, timeout_s=0.2)


def test_slow_resolver_ends_no_exchange_late_and_gets_few_threads(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    record, go_on, asked = replace(world.document.record.shards[0], url="https://slow.example:1"), threading.Event(), []

    def resolve(host: str, *_: object, **__: object) -> list[object]:
        asked.append(host)
        go_on.wait(60)
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    begun = monotonic_s()
    try:
        with ShardClient(record, timeout_s=0.05) as client:
            for _ in range(MAX_LOOKUPS + 3):
                with pytest.raises(TryAgain, match="Timeout"):
                    client.call("GET", "/v1/info", b"")
        wait_until(lambda: len(asked) >= MAX_LOOKUPS, 60)
    finally:
        go_on.set()
    assert len(asked) == MAX_LOOKUPS and monotonic_s() - begun < 40
    with ShardClient(record, timeout_s=60) as client, pytest.raises(TryAgain, match="ConnectError"):
        client.call("GET", "/v1/info", b"")


def test_address_that_is_no_url_is_a_bug(world: World) -> None:
    with pytest.raises(ConfigurationError, match="'https://host:port' is no URL"):
        ShardClient(replace(world.document.record.shards[0], url="https://host:port"))
    for nowhere in ("", "http://127.0.0.1:1", "https://", "https://" + "a" * 70 + ".example:1"):
        with ShardClient(replace(world.document.record.shards[0], url=nowhere)) as client, pytest.raises(TryAgain) as told:
            client.call("GET", "/v1/info", b"")
        assert ("not https" in str(told.value)) == (not nowhere.startswith("https:"))

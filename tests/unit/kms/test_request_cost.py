"""What a request can cost a shard before it is known to be good."""

import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

import pytest

from bytewise.crypto.envelope import MAX_ENVELOPE_BYTES, verify_receipt_envelope
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.records import EnvelopeProofBad, NotCanonical
from bytewise.protocol.jobs import anchor_domain
from bytewise.protocol.keys.epochs import MAX_RELEASE_BODY_BYTES, MAX_RELEASE_MARKS, Decision, ReleaseAnswer
from bytewise.protocol.records.seal import envelope_hash
from bytewise.protocol.units import Blob, Digest
from bytewise.tee.appraisal import AppraisalResult
from bytewise.tee.binding import AttestedPeer, Hello
from enclave.release_client import open_channel, request_release
from kms.shard.release import ADMISSIONS, Shard
from tests.fixtures.kms.memory_chain import CONTRACTS
from tests.fixtures.kms.release_network import World, refused, wait_until

PIECES = (b"{},", b"[],", b"0,", b'"\\n",')


def crowded(piece: bytes, size: int) -> bytes:
    """A list of about `size` bytes of pieces."""
    return b"[" + piece * ((size - 3) // len(piece)) + b"0]"


def peak_bytes(action: object, error: type[Exception]) -> int:
    """Most memory that the action held while it came to this error."""
    tracemalloc.start()
    try:
        with pytest.raises(error):
            action()  # type: ignore[operator]
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("piece", PIECES, ids=["objects", "lists", "numbers", "escapes"])
def test_body_with_millions_of_elements_is_refused_before_building_any(world: World, piece: bytes) -> None:
    shard, body = world.shard(1), crowded(piece, MAX_RELEASE_BODY_BYTES)
    peer = world.peer(shard)
    assert peak_bytes(lambda: shard.release(body, peer), NotCanonical) < 2**20


@pytest.mark.parametrize("piece", PIECES, ids=["objects", "lists", "numbers", "escapes"])
def test_envelope_with_millions_of_elements_is_refused_before_building_any(world: World, piece: bytes) -> None:
    """Anybody can sign a receipt that names such bytes: the shard reads them before it asks the chain."""
    case, data = world.case(), crowded(piece, MAX_ENVELOPE_BYTES)
    forged = replace(case.receipt, envelope_hash=envelope_hash(data))
    domain = anchor_domain(CONTRACTS)
    peak = peak_bytes(lambda: verify_receipt_envelope(domain, forged, data), EnvelopeProofBad)
    assert peak < len(data) + 2**20, "more than the one copy that is hashed"
    shard = world.shard(1)
    request = replace(world.request(case), receipt=forged, envelope=Blob(data))
    refused(EnvelopeProofBad, world, shard, request)


def test_the_longest_possible_proof_fits_the_bound_of_a_request(world: World) -> None:
    request = world.request(world.case(), proof=(Digest(b"\x01" * 32),) * 32)
    assert decode(type(request), encode(request), MAX_RELEASE_MARKS) == request


class BlockedPeer:
    """An attested enclave about which nothing is told until it is let go."""

    def __init__(self, peer: AttestedPeer) -> None:
        self.free = threading.Event()
        self.waiting = 0
        self._peer = peer
        self._lock = threading.Lock()

    @property
    def hello(self) -> Hello:
        """What it said, once it is free."""
        with self._lock:
            self.waiting += 1
        assert self.free.wait(timeout=60)
        return self._peer.hello

    @property
    def evidence(self) -> AppraisalResult:
        """Which program it is."""
        return self._peer.evidence


@contextmanager
def full(world: World, shard: Shard, bodies: list[bytes]) -> Iterator[list["Future[ReleaseAnswer]"]]:
    """A shard that admits as many requests as it can at once; what becomes of them is there to be looked at afterwards."""
    peer = BlockedPeer(world.peer(shard))
    with ThreadPoolExecutor(ADMISSIONS) as pool:
        try:
            running = [pool.submit(shard.release, body, cast(AttestedPeer, peer)) for body in bodies]
            wait_until(lambda: peer.waiting == ADMISSIONS)
            yield running
        finally:
            peer.free.set()


def test_full_shard_asks_to_retry_and_recovers(fresh: World) -> None:
    shard, cases = fresh.shard(1), [fresh.disputed(n) for n in range(1, ADMISSIONS + 2)]
    *held, last = [encode(fresh.request(case)) for case in cases]
    with full(fresh, shard, held) as running, pytest.raises(TryAgain, match="busy"):
        shard.release(last, fresh.peer(shard))
    assert [each.result(timeout=60).record.decision for each in running] == [Decision.RELEASED] * ADMISSIONS
    assert shard.release(last, fresh.peer(shard)).record.decision == Decision.RELEASED


def test_full_shard_says_over_its_channel_to_retry(fresh: World) -> None:
    shard, case = fresh.shard(1), fresh.case()
    request, record = fresh.request(case), fresh.document.record.shards[0]
    with fresh.listening((1, shard)), open_channel(record, fresh.enclave(1), fresh.public, 60) as channel:
        with full(fresh, shard, [encode(request)] * ADMISSIONS) as running, pytest.raises(TryAgain, match="TryAgain"):
            request_release(channel, record, request, 60)
        assert all(isinstance(each.exception(timeout=60), TryAgain) for each in running), "no dispute is open"
        with pytest.raises(TryAgain):
            request_release(channel, record, request, 60)

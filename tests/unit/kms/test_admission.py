"""What a stranger's request can cost a shard before its evidence is known to be genuine."""

import ssl
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx2
import pytest

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors import EnvelopeProofBad, NotCanonical, TryAgain
from bytewise.protocol.keys import MAX_RELEASE_BODY_BYTES, MAX_RELEASE_MARKS, Decision, Refusal
from bytewise.protocol.seal import envelope_hash
from bytewise.protocol.units import Blob, Digest
from bytewise.service.clock import SystemClock
from kms.envelope import MAX_ENVELOPE_BYTES, verify_receipt_envelope
from kms.policy import anchor_domain
from kms.release import ADMISSIONS
from tests.unit.kms.memory_chain import CONTRACTS
from tests.unit.kms.world import World, refused, wait_until

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
def test_a_body_of_millions_of_pieces_is_refused_before_any_is_built(world: World, piece: bytes) -> None:
    shard, body = world.shard(1), crowded(piece, MAX_RELEASE_BODY_BYTES)
    assert peak_bytes(lambda: shard.release(body), NotCanonical) < 2**20


@pytest.mark.parametrize("piece", PIECES, ids=["objects", "lists", "numbers", "escapes"])
def test_an_envelope_of_millions_of_pieces_is_refused_before_any_is_built(world: World, piece: bytes) -> None:
    """Anybody can sign a receipt that names such bytes: the shard reads them before it asks the chain."""
    case, data = world.case(), crowded(piece, MAX_ENVELOPE_BYTES)
    forged = replace(case.receipt, envelope_hash=envelope_hash(data))
    domain = anchor_domain(CONTRACTS)
    peak = peak_bytes(lambda: verify_receipt_envelope(domain, forged, data), EnvelopeProofBad)
    assert peak < len(data) + 2**20, "more than the one copy that is hashed"
    shard = world.shard(1)
    request = replace(world.request(shard, case), receipt=forged, envelope=Blob(data))
    refused(EnvelopeProofBad, world, shard, request)


def test_the_longest_possible_proof_fits_the_bound_of_a_request(world: World) -> None:
    request = world.request(world.shard(1), world.case(), proof=(Digest(b"\x01" * 32),) * 32)
    assert decode(type(request), encode(request), MAX_RELEASE_MARKS) == request


class HeldClock:
    """The system's clock; whoever asks for the time waits until it is let go."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()
        self.waiting = 0
        self._lock = threading.Lock()

    def now(self) -> int:
        """Unix seconds, once the clock is free."""
        with self._lock:
            self.waiting += 1
        assert self.free.wait(timeout=60)
        with self._lock:
            self.waiting -= 1
        return SystemClock().now()


def test_a_full_shard_asks_to_try_again_and_recovers(fresh: World) -> None:
    clock = HeldClock()
    shard, cases = fresh.shard(1, clock=clock), [fresh.case(n) for n in range(1, ADMISSIONS + 2)]
    for case in cases:
        fresh.chain.open(case)
    *held, last = [encode(fresh.request(shard, case)) for case in cases]
    clock.free.clear()
    with ThreadPoolExecutor(ADMISSIONS) as pool:
        try:
            running = [pool.submit(shard.release, body) for body in held]
            wait_until(lambda: clock.waiting == ADMISSIONS)
            with pytest.raises(TryAgain, match="busy"):
                shard.release(last)
        finally:
            clock.free.set()
        assert [each.result(timeout=60).record.decision for each in running] == [Decision.RELEASED] * ADMISSIONS
    assert shard.release(last).record.decision == Decision.RELEASED


def test_a_full_shard_says_503_and_that_a_retry_may_help(fresh: World) -> None:
    clock = HeldClock()
    shard, case = fresh.shard(1, clock=clock), fresh.case()
    bodies = [encode(fresh.request(shard, case)) for _ in range(ADMISSIONS + 1)]
    trusting = ssl.create_default_context(cafile=fresh.settings.shards[0].folder / "tls.pem")
    with fresh.serving((1, shard)), ThreadPoolExecutor(ADMISSIONS) as pool:
        clock.free.clear()
        try:
            running = [pool.submit(shard.release, body) for body in bodies[1:]]
            wait_until(lambda: clock.waiting == ADMISSIONS)
            url = f"https://127.0.0.1:{fresh.ports[0]}/v1/release"
            answer = httpx2.post(url, content=bodies[0], verify=trusting, timeout=30, trust_env=False)
        finally:
            clock.free.set()
        assert all(isinstance(each.exception(timeout=60), TryAgain) for each in running), "no dispute is open"
    assert answer.status_code == 503
    assert decode(Refusal, answer.content) == Refusal("TryAgain", TryAgain.rule, True)

"""Two honest ends of an attested channel, builds that bind less, and somebody between them who has real tools."""

import dataclasses
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import pytest

from bytewise.ports import Clock
from bytewise.protocol.encoding import decode
from bytewise.protocol.evidence.appraisal_policy import Role
from bytewise.protocol.evidence.policy_updates import first_standing
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U64, U256, ZERO_DIGEST, Blob, Digest
from bytewise.service.clock import SystemClock, monotonic_s
from bytewise.tee import binding, channel
from bytewise.tee.binding import VERSION, Hello, Proof, Statement, Terms
from bytewise.tee.channel import Channel, End, EphemeralKey, TlsSession, accept, connect
from bytewise.tee_simulated.quoter import SimulatedQuoter
from tests.unit.kms.memory_chain import CONTRACTS
from tests.unit.tee.bench import Bench

T = TypeVar("T")
ENCLAVE, SHARD = Role.VERIFIER_ENCLAVE, Role.KEY_SHARD
ACCOUNT = LocalSigner(b"\x07" * 32)
"""The shard's."""
EPOCH = 1
HELLO, PROOF, REFUSAL, DATA = 1, 2, 3, 4
PATIENCE_S = 60.0
"""Of tests, on a busy machine."""


class Task(Generic[T]):
    """A call in a thread of its own: what it gave, or what it raised."""

    def __init__(self, act: Callable[[], T], name: str = "task") -> None:
        self.value: T | None = None
        self.error: Exception | None = None
        self._act = act
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.value = self._act()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def ended(self) -> "Task[T]":
        """Itself, once it is over."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self

    def result(self) -> T:
        """What it gave."""
        if self.ended().error is not None:
            raise self.error  # type: ignore[misc]
        return self.value  # type: ignore[return-value]


class Ends:
    """An enclave and a shard of one network, each with its own quoter of the one trusted program."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.standing = first_standing(bench.policy)
        self.enclave = End(self.terms(ENCLAVE), self.quoter(), None, SystemClock(), os.urandom)
        self.shard = End(self.terms(SHARD), self.quoter(), ACCOUNT, SystemClock(), os.urandom)

    def quoter(self, clock: Clock | None = None) -> SimulatedQuoter:
        """A quoter of the trusted program."""
        return SimulatedQuoter(self.bench.platform, self.bench.program, clock or SystemClock())

    def terms(self, own: Role, **changes: Any) -> Terms:
        """What an honest end of this role demands."""
        peer, account = (SHARD, ACCOUNT.address) if own is ENCLAVE else (ENCLAVE, None)
        return dataclasses.replace(Terms(own, peer, CONTRACTS, U64(EPOCH), self.standing, account), **changes)

    @contextmanager
    def open(self, enclave: End | None = None, shard: End | None = None, key: bytes = b"") -> Iterator[tuple[Channel, Channel]]:
        """Both ends of an open channel, the enclave's first."""
        ours, theirs = socket.socketpair()
        asked = Task(lambda: accept(theirs, shard or self.shard, timeout_s=PATIENCE_S))
        with connect(ours, enclave or self.enclave, key, timeout_s=PATIENCE_S) as asking, asked.result() as answering:
            yield asking, answering

    def attempt(self, enclave: End | None = None, shard: End | None = None) -> tuple[Task[Channel], Task[Channel]]:
        """Both ends of a channel that need not come about, the enclave's first."""
        ours, theirs = socket.socketpair()
        asked = Task(lambda: accept(theirs, shard or self.shard, timeout_s=PATIENCE_S))
        asking = Task(lambda: connect(ours, enclave or self.enclave, timeout_s=PATIENCE_S))
        for each in (asking.ended(), asked.ended()):
            if each.value is not None:
                each.value.close()
        return asking, asked


# --- builds that bind less ---

BINDINGS = (
    "version", "chain", "key_epochs", "role", "exporter", "own_key", "peer_key", "own_nonce", "peer_nonce", "policy",
    "key_epoch", "transport_key",
)  # fmt: skip
"""What report data bind, by the names of the attacks' controls."""


def without(statement: Statement, removed: frozenset[str]) -> Statement:
    """What is left to bind in a build that leaves some of it out."""
    hello = {
        "version": {"version": 0}, "role": {"role": ENCLAVE}, "own_nonce": {"nonce": ZERO_DIGEST},
        "policy": {"policy": ZERO_DIGEST},
        "key_epoch": {"key_epoch": U64(0)}, "transport_key": {"transport_key": Blob(b"")},
    }  # fmt: skip
    session = {
        "exporter": {"exporter": b""}, "own_key": {"own_key": ZERO_DIGEST}, "peer_key": {"peer_key": ZERO_DIGEST},
        "peer_nonce": {"peer_nonce": ZERO_DIGEST},
    }  # fmt: skip
    network: dict[str, dict[str, Any]] = {"chain": {"chain_id": U256(1)}, "key_epochs": {"key_epochs": CONTRACTS.anchor}}
    said = statement.hello
    for name in removed & hello.keys():
        said = dataclasses.replace(said, **hello[name])  # type: ignore[arg-type]
    for name in removed & network.keys():
        statement = dataclasses.replace(statement, contracts=dataclasses.replace(statement.contracts, **network[name]))
    for name in removed & session.keys():
        statement = dataclasses.replace(statement, **session[name])  # type: ignore[arg-type]
    return dataclasses.replace(statement, hello=said)


def weaken(monkeypatch: pytest.MonkeyPatch, removed: frozenset[str]) -> None:
    """Makes every end of this process bind less than ours does, and nothing else different."""
    assert removed <= {*BINDINGS, "account"}
    whole = binding.report_data
    monkeypatch.setattr(binding, "report_data", lambda statement: whole(without(statement, removed)))
    if "account" in removed:
        demanded = binding.verify_proof

        def lenient(terms: Terms, statement: Statement, data: bytes, now: int) -> Any:
            return demanded(dataclasses.replace(terms, account=None), statement, data, now)

        monkeypatch.setattr(binding, "verify_proof", lenient)


# --- somebody between them ---


class Leaks:
    """TLS keys of honest ends that got out while they were in use, by the name of the thread that drew them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._keys: dict[str, EphemeralKey] = {}
        self._new = threading.Condition()
        monkeypatch.setattr(channel, "EphemeralKey", self._draw)

    def _draw(self, now: int) -> EphemeralKey:
        key = EphemeralKey(now)
        with self._new:
            self._keys[threading.current_thread().name] = key
            self._new.notify_all()
        return key

    def key_of(self, name: str) -> EphemeralKey:
        """The key, once its end has it."""
        with self._new:
            assert self._new.wait_for(lambda: name in self._keys, PATIENCE_S)
            return self._keys[name]


class Wire:
    """An end of a real TLS session that says whatever it likes."""

    def __init__(self, peer: socket.socket, *, server: bool, key: EphemeralKey | None = None) -> None:
        now, self._until = SystemClock().now(), monotonic_s() + PATIENCE_S
        self.tls = TlsSession(peer, key or EphemeralKey(now), server=server, now=now, until=self._until)

    def put(self, kind: int, data: bytes) -> None:
        """Sends a message."""
        self.tls.write(bytes([kind]) + len(data).to_bytes(4, "big") + data, self._until)

    def get(self) -> tuple[int, bytes]:
        """The next message: kind and bytes."""
        head = self.tls.read(5, self._until)
        return head[0], self.tls.read(int.from_bytes(head[1:]), self._until)

    def hello(self) -> Hello:
        """The next message, which is a hello."""
        kind, data = self.get()
        assert kind == HELLO
        return decode(Hello, data)

    def proof(self) -> Proof:
        """The next message, which is a proof."""
        kind, data = self.get()
        assert kind == PROOF
        return decode(Proof, data)


def plain_hello(ends: Ends, **changes: object) -> Hello:
    """A hello as an enclave's."""
    said = Hello(VERSION, ENCLAVE, Digest(b"\x01" * 32), U64(1), ends.standing.policy.digest, Blob(b""))
    return dataclasses.replace(said, **changes)  # type: ignore[arg-type]

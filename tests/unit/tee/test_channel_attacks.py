"""Attacks on the attested channel (`research/kms.md` 5, attacks 2 to 4; 5, resumption, is in `test_channel_tls`).

Each is refused by ours and let in by a build that leaves out exactly the bindings that stop it; every one of those bindings stops
the attack alone.
"""

import contextlib
import dataclasses
import os
import socket
from collections.abc import Callable

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.evidence import ChannelBroken, EvidenceExpired, EvidenceFromFuture, EvidenceReplayed
from bytewise.protocol.errors.records import BadSignature
from bytewise.protocol.units import U64, U256, Blob, Digest
from bytewise.tee import binding
from bytewise.tee.binding import VERSION, ChannelStatement, Hello, Proof
from bytewise.tee.channel import Channel, EphemeralKey, accept, connect
from tests.fixtures.kms.memory_chain import CONTRACTS
from tests.fixtures.tee.channels import (
    ACCOUNT,
    BINDINGS,
    ENCLAVE,
    HELLO,
    PATIENCE_S,
    PROOF,
    SHARD,
    Ends,
    Leaks,
    Task,
    Wire,
    weaken,
)
from tests.fixtures.tee.simulated_platform import FixedClock

Attack = Callable[[Ends, Leaks], Task[Channel]]
"""Gives what became of the honest end that was to be deceived."""


def asking(ends: Ends) -> tuple[socket.socket, Task[Channel]]:
    """An honest enclave that connects to whoever holds the socket."""
    ours, theirs = socket.socketpair()
    return theirs, Task(lambda: connect(ours, ends.enclave, timeout_s=PATIENCE_S), ENCLAVE.value)


def asked(ends: Ends) -> tuple[socket.socket, Task[Channel]]:
    """An honest shard that whoever holds the socket connects to."""
    ours, theirs = socket.socketpair()
    return theirs, Task(lambda: accept(ours, ends.shard, timeout_s=PATIENCE_S), SHARD.value)


def outcome(victim: Task[Channel], *wires: Wire) -> Task[Channel]:
    """The victim, once it decided."""
    victim.ended()
    for wire in wires:
        wire.tls.close()
    return victim


# --- relay: TLS ends in the middle, what is said is passed on ---


def relay(ends: Ends, facing_enclave: EphemeralKey | None, facing_shard: EphemeralKey | None,
          enclave: tuple[socket.socket, Task[Channel]], shard: tuple[socket.socket, Task[Channel]]) -> Task[Channel]:  # fmt: skip
    left = Wire(enclave[0], server=True, key=facing_enclave)
    right = Wire(shard[0], server=False, key=facing_shard)
    with contextlib.suppress(ChannelBroken):
        for source, target in ((left, right), (right, left), (left, right), (right, left)):
            target.put(*source.get())
    return outcome(shard[1], left, right)


def relay_without_keys(ends: Ends, leaks: Leaks) -> Task[Channel]:
    return relay(ends, None, None, asking(ends), asked(ends))


def relay_with_the_enclaves_key(ends: Ends, leaks: Leaks) -> Task[Channel]:
    enclave, shard = asking(ends), asked(ends)
    return relay(ends, None, leaks.key_of(ENCLAVE.value), enclave, shard)


def relay_with_both_keys(ends: Ends, leaks: Leaks) -> Task[Channel]:
    enclave, shard = asking(ends), asked(ends)
    return relay(ends, leaks.key_of(SHARD.value), leaks.key_of(ENCLAVE.value), enclave, shard)


# --- replay: what an enclave said in another session ---


def recorded(ends: Ends) -> tuple[Hello, Proof]:
    """What an enclave says to somebody who merely waits for it, before it finds that this is no shard."""
    peer, victim = asking(ends)
    wire = Wire(peer, server=True)
    said = wire.hello()
    wire.put(HELLO, encode(dataclasses.replace(said, role=SHARD, nonce=Digest(os.urandom(32)))))
    proof = wire.proof()
    wire.tls.close()
    victim.ended()
    return said, proof


def replay(ends: Ends, key: EphemeralKey | None, said: Hello, proof: Proof) -> Task[Channel]:
    peer, victim = asked(ends)
    wire = Wire(peer, server=False, key=key)
    wire.put(HELLO, encode(said))
    wire.hello()
    wire.put(PROOF, encode(proof))
    return outcome(victim, wire)


def replay_without_keys(ends: Ends, leaks: Leaks) -> Task[Channel]:
    return replay(ends, None, *recorded(ends))


def replay_with_the_enclaves_key(ends: Ends, leaks: Leaks) -> Task[Channel]:
    said, proof = recorded(ends)
    return replay(ends, leaks.key_of(ENCLAVE.value), said, proof)


# --- reflection: an end's own words come back to it ---


def reflect(key: EphemeralKey | None, peer: socket.socket, victim: Task[Channel]) -> Task[Channel]:
    wire = Wire(peer, server=True, key=key)
    wire.put(HELLO, encode(dataclasses.replace(wire.hello(), role=SHARD)))
    wire.put(*wire.get())
    return outcome(victim, wire)


def reflection_without_keys(ends: Ends, leaks: Leaks) -> Task[Channel]:
    return reflect(None, *asking(ends))


def reflection_with_the_enclaves_key(ends: Ends, leaks: Leaks) -> Task[Channel]:
    peer, victim = asking(ends)
    return reflect(leaks.key_of(ENCLAVE.value), peer, victim)


ATTACKS: dict[str, tuple[Attack, frozenset[str]]] = {
    "relay": (relay_without_keys, frozenset({"exporter", "own_key", "peer_key"})),
    "relay, the enclave's key leaked": (relay_with_the_enclaves_key, frozenset({"exporter", "peer_key"})),
    "relay, both keys leaked": (relay_with_both_keys, frozenset({"exporter"})),
    "replay": (replay_without_keys, frozenset({"exporter", "own_key", "peer_key", "peer_nonce"})),
    "replay, the enclave's key leaked": (replay_with_the_enclaves_key, frozenset({"exporter", "peer_key", "peer_nonce"})),
    "reflection": (reflection_without_keys, frozenset({"role", "own_key", "peer_key", "account"})),
    "reflection, the enclave's key leaked": (reflection_with_the_enclaves_key, frozenset({"role", "account"})),
}
"""Each with the bindings that stop it."""

REFUSALS = (EvidenceRefused, BadSignature)


@pytest.mark.parametrize("name", ATTACKS)
def test_channel_attack_fails(name: str, ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    attack, _ = ATTACKS[name]
    assert isinstance(attack(ends, Leaks(monkeypatch)).error, REFUSALS)


@pytest.mark.parametrize("name", ATTACKS)
def test_control_attack_succeeds_where_its_defence_is_not_bound(name: str, ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    attack, stops = ATTACKS[name]
    weaken(monkeypatch, stops)
    assert attack(ends, Leaks(monkeypatch)).result().peer.evidence.assurance == "simulated"


@pytest.mark.parametrize(("name", "kept"), [(name, kept) for name, (_, stops) in ATTACKS.items() for kept in sorted(stops)])
def test_each_defence_stops_its_attack_alone(name: str, kept: str, ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    attack, stops = ATTACKS[name]
    weaken(monkeypatch, stops - {kept})
    assert isinstance(attack(ends, Leaks(monkeypatch)).error, REFUSALS)


# --- genuine evidence that is about something else in one respect ---


def elsewhere(statement: ChannelStatement, what: str) -> ChannelStatement:
    """The statement that an honest enclave made in a situation that differs in one thing."""
    hello = {
        "version": {"version": 2}, "role": {"role": SHARD}, "own_nonce": {"nonce": Digest(os.urandom(32))},
        "policy": {"policy": Digest(os.urandom(32))},
        "key_epoch": {"key_epoch": U64(2)}, "transport_key": {"transport_key": Blob(b"\x04" + os.urandom(64))},
    }  # fmt: skip
    session = {
        "exporter": os.urandom(32), "own_key": Digest(os.urandom(32)), "peer_key": Digest(os.urandom(32)),
        "peer_nonce": Digest(os.urandom(32)), "chain": dataclasses.replace(CONTRACTS, chain_id=U256(2)),
        "key_epochs": dataclasses.replace(CONTRACTS, key_epochs=CONTRACTS.disputes),
    }  # fmt: skip
    if what in hello:
        said = dataclasses.replace(statement.hello, **hello[what])  # type: ignore[arg-type]
        return dataclasses.replace(statement, hello=said)
    name = "contracts" if what in ("chain", "key_epochs") else what
    return dataclasses.replace(statement, **{name: session[what]})  # type: ignore[arg-type]


def about_something_else(ends: Ends, what: str) -> Task[Channel]:
    """TLS and words are the attacker's and right, the evidence is an enclave's that meant something else."""
    peer, victim = asked(ends)
    wire = Wire(peer, server=False)
    said = Hello(VERSION, ENCLAVE, Digest(os.urandom(32)), U64(1), ends.standing.policy.digest, Blob(b""))
    wire.put(HELLO, encode(said))
    answer = wire.hello()
    own, theirs = wire.tls.own_key, wire.tls.peer_key
    right = ChannelStatement(CONTRACTS, said, wire.tls.exporter(), own, theirs, answer.nonce)
    evidence = ends.quoter().quote(binding.report_data(elsewhere(right, what)))
    wire.put(PROOF, encode(Proof(evidence, Blob(b""))))
    return outcome(victim, wire)


@pytest.mark.parametrize("what", BINDINGS)
def test_evidence_about_something_else_is_refused_and_passes_where_unbound(
    what: str, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(about_something_else(ends, what).error, EvidenceReplayed)
    weaken(monkeypatch, frozenset(BINDINGS) - {what})
    assert isinstance(about_something_else(ends, what).error, EvidenceReplayed)
    monkeypatch.undo()
    weaken(monkeypatch, frozenset({what}))
    assert about_something_else(ends, what).result().peer.hello.role is ENCLAVE


# --- another account, another time ---


def test_enclave_of_another_shard_is_refused_and_passes_without_the_check(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the trusted program elsewhere speaks as a shard: only the account tells them apart."""
    impostor = dataclasses.replace(ends.shard, signer=type(ACCOUNT)(b"\x08" * 32))
    asking, _ = ends.attempt(shard=impostor)
    assert isinstance(asking.error, BadSignature)
    nobody = dataclasses.replace(ends.shard, signer=None)
    asking, _ = ends.attempt(shard=nobody)
    assert isinstance(asking.error, BadSignature)
    lenient = dataclasses.replace(ends.enclave, terms=ends.terms(ENCLAVE, account=None))
    asking, asked = ends.attempt(enclave=lenient, shard=nobody)
    assert (asking.error, asked.error) == (None, None)


@pytest.mark.parametrize(("ahead_s", "error"), [(-301, EvidenceExpired), (31, EvidenceFromFuture)])
def test_old_and_future_evidence_is_refused_and_passes_without_time_check(
    ahead_s: int, error: type[BytewiseError], ends: Ends
) -> None:
    now = ends.bench.now
    shard = dataclasses.replace(ends.shard, clock=FixedClock(now), quoter=ends.quoter(FixedClock(now)))
    other = dataclasses.replace(ends.enclave, clock=FixedClock(now), quoter=ends.quoter(FixedClock(now + ahead_s)))
    _, asked = ends.attempt(enclave=other, shard=shard)
    assert isinstance(asked.error, error)
    # Control: a shard whose clock says what the evidence says.
    then = FixedClock(now + ahead_s)
    deceived = dataclasses.replace(shard, clock=then, quoter=ends.quoter(then))
    asking, asked = ends.attempt(enclave=dataclasses.replace(other, clock=then), shard=deceived)
    assert (asking.error, asked.error) == (None, None)

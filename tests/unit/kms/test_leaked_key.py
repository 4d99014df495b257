"""Attack 4: the TLS key of an enclave leaked, and who has it stands between enclave and shards, with a ticket of its own.

What its voter has a right to, it asks in the enclave's name: three things keep the partials from it, each removed here in turn.
"""

import socket
from dataclasses import replace

import pytest

from bytewise.crypto import hpke
from bytewise.crypto.curve import decode_point
from bytewise.crypto.envelope import open_with_point, verify_receipt_envelope
from bytewise.crypto.reconstruction import TransportKey
from bytewise.crypto.shares import combine, verify_partial
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.jobs import anchor_domain
from bytewise.protocol.keys.epochs import Partial, ReleaseAnswer, ReleaseReply, partial_info
from bytewise.protocol.records.seal import unpad
from bytewise.protocol.records.statements import transport_key_hash
from bytewise.protocol.units import Blob
from bytewise.tee.channel import connect
from tests.fixtures.kms.memory_chain import Case
from tests.fixtures.kms.release_network import World
from tests.fixtures.tee.channels import DATA, HELLO, PATIENCE_S, REFUSAL, Leaks, Task, Wire, weaken

OF_THE_SESSION = frozenset({"exporter", "peer_key"})
"""Bindings of an enclave's evidence that stop who has its TLS key from passing it on."""


@pytest.fixture
def case(world: World) -> Case:
    """A receipt in a dispute in which the attacker has a seat."""
    case = world.disputed()
    return case


def taken(world: World, leaks: Leaks, index: int, case: Case, to: Blob) -> ReleaseAnswer | None:
    """What a shard answers to whoever stands between it and an enclave and wants it sealed to this key; None: it refuses him."""
    ours, theirs = socket.socketpair()
    name = f"enclave {index}"
    enclave = Task(lambda: connect(ours, world.enclave(index), world.public, timeout_s=PATIENCE_S), name)
    left = Wire(theirs, server=True)
    shard = socket.create_connection(("127.0.0.1", world.channel_ports[index - 1]), timeout=PATIENCE_S)
    right = Wire(shard, server=False, key=leaks.key_of(name))
    right.put(HELLO, encode(replace(left.hello(), transport_key=to)))
    left.put(*right.get())
    right.put(*left.get())
    kind, _ = right.get()
    left.tls.close()
    enclave.ended()
    answer = None
    if kind != REFUSAL:
        ticket = world.ticket(case, transport_key_hash=transport_key_hash(to))
        right.put(DATA, encode(world.request(case, ticket)))
        answer = decode(ReleaseReply, right.get()[1]).answer
    right.tls.close()
    return answer


def all_taken(world: World, leaks: Leaks, case: Case, to: Blob) -> list[ReleaseAnswer | None]:
    """The same of as many shards as open an envelope, over their real channels."""
    with world.listening((1, world.shard(1)), (2, world.shard(2))):
        return [taken(world, leaks, index, case, to) for index in (1, 2)]


def opened(world: World, case: Case, partials: list[bytes]) -> bytes:
    """What these partials open, by our own client's arithmetic."""
    record = world.document.record
    envelope = verify_receipt_envelope(anchor_domain(world.contracts), case.receipt, case.envelope)
    base, points = decode_point(envelope.enc), {}
    for shard, data in zip(record.shards, partials, strict=False):
        key = decode_point(shard.verification_key)
        points[shard.index] = verify_partial(decode(Partial, data), shard.index, key, base, case.id)
    return open_with_point(envelope, combine(points), record.public_key, world.context(case), case.id)


def unsealed(key: TransportKey, answer: ReleaseAnswer) -> bytes:
    """The partial of an answer, to who has the key that it is sealed to."""
    record = answer.record
    info = partial_info(record.shard, record.receipt_id, record.ticket_hash, record.key_epoch)
    return hpke.open_from_transport(key.secret, info, answer.sealed_partial)


@pytest.fixture
def own(world: World) -> TransportKey:
    """The attacker's."""
    return TransportKey(*hpke.transport_keypair(world.shard(1)._rng))


def test_attack_4_control_unsealed_partials_open_the_envelope(
    world: World, case: Case, own: TransportKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours lets nobody between. A build that does gives him nothing that he can read; one that seals nothing, everything."""
    leaks = Leaks(monkeypatch)
    assert all_taken(world, leaks, case, world.public) == [None, None]
    weaken(monkeypatch, OF_THE_SESSION)
    for answer in all_taken(world, leaks, case, world.public):
        assert answer is not None
        with pytest.raises(MalformedValue, match="does not open"):
            unsealed(own, answer)
        with pytest.raises(Fault):
            decode(Partial, answer.sealed_partial)
    monkeypatch.setattr(hpke, "seal_to_transport", lambda key, info, plaintext: Blob(plaintext))
    read = [answer.sealed_partial for answer in all_taken(world, leaks, case, world.public) if answer is not None]
    assert unpad(opened(world, case, list(read))) == case.payload


def test_attack_4_control_replaced_transport_key_is_served_where_unbound(
    world: World, case: Case, own: TransportKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaks = Leaks(monkeypatch)
    weaken(monkeypatch, OF_THE_SESSION)
    assert all_taken(world, leaks, case, own.public) == [None, None]
    monkeypatch.undo()
    leaks = Leaks(monkeypatch)
    weaken(monkeypatch, OF_THE_SESSION | {"transport_key"})
    read = [unsealed(own, answer) for answer in all_taken(world, leaks, case, own.public) if answer is not None]
    assert unpad(opened(world, case, read)) == case.payload

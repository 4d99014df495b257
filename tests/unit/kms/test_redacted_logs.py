"""What a shard logs of requests that it refuses and answers: who, which receipt, which rule, and nothing that is secret."""

import os
from dataclasses import replace

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.keys.epochs import EpochState
from bytewise.protocol.records.seal import pad
from bytewise.protocol.records.statements import TicketKind
from bytewise.protocol.units import U8, U64, Blob, Digest
from kms.shard.release import Shard, refusal
from tests.fixtures.kms.bad_inputs import leaked
from tests.fixtures.kms.memory_chain import NOW, Case
from tests.fixtures.kms.release_network import ATTACKER, World


def bodies(world: World, case: Case) -> list[bytes]:
    """Requests for the case, one wrong in each way, and the right one at the end."""
    plain, tickets = world.request(case), world.ticket
    wrong = [
        replace(plain, envelope=Blob(pad(case.payload))),
        replace(plain, ticket_signature=Blob(bytes(65))),
        world.request(case, signer=ATTACKER),
        world.request(case, ticket=tickets(case, expires_at=U64(NOW))),
        world.request(case, ticket=tickets(case, kind=TicketKind.AUDIT)),
        world.request(case, ticket=tickets(case, subject=Digest(bytes(32)))),
        world.request(case, ticket=tickets(case, transport_key_hash=Digest(bytes(32)))),
        world.request(case, ticket=replace(tickets(case), kind=U8(7))),
        world.request(case, ticket=tickets(case, key_epoch=U64(9))),
    ]
    return [b"", os.urandom(200), world.secret, pad(case.payload), *map(encode, wrong), encode(plain)]


def asked(world: World, shard: Shard, body: bytes) -> bool:
    """Whether the shard answered; a refusal is told as over a channel."""
    try:
        shard.release(body, world.peer(shard))
    except BytewiseError as error:
        refusal(error)
        return False
    return True


def test_log_of_refusals_and_answers_contains_no_secret(fresh: World, capsys: pytest.CaptureFixture[str]) -> None:
    case, shard = fresh.disputed(), fresh.shard(1)
    requests = bodies(fresh, case)
    assert [asked(fresh, shard, each) for each in requests] == [False] * (len(requests) - 1) + [True]
    fresh.chain.facts = replace(fresh.chain.facts, epoch_state=EpochState.RETIRED)
    assert not asked(fresh, shard, requests[-1])
    captured = capsys.readouterr()
    said = (captured.out + captured.err).encode()
    assert leaked(said, fresh, [case]) == []
    # Control: it is the log, and what may be in it is found.
    assert said.count(b'"request.refused"') >= len(requests) and case.id.hex().encode() in said

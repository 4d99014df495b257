"""A quote is worth what it rests on: a host that lies to an honest enclave gets a genuine quote that says what it was told."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy, MeasurementRole
from bytewise.protocol.evidence.claims import ChainClaims, differing_claims, epoch_keys_digest, host_claims_of
from bytewise.protocol.jobs import JobResult, RunJob
from bytewise.protocol.records.statements import Outcome, Vote, transport_key_hash
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U16, U64, U256, ZERO_DIGEST, Blob, Digest
from bytewise_client.network_state import ANOTHER, HOLDS, NONE, Quoted, judged
from chain.reads.history import Dated, RevealEvent, in_force
from enclave.job_socket import JobContext, Session
from enclave.release_client import ShardKeySource
from tests.fixtures.kms.memory_chain import CHAIN_ID, CONTRACTS, Case
from tests.fixtures.kms.release_network import World

DISPUTES = Domain(CHAIN_ID, CONTRACTS.disputes)
ELSEWHERE = Digest(b"\x77" * 32)
Told = Callable[[RunJob], RunJob]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("true"))


def judge(world: World, case: Case, told: Told, serving: World | None = None) -> JobResult:
    """The result of an honest enclave whose host tells it something else; shards are those of `serving`."""
    shards = world if serving is None else serving
    shards.chain.open(case)
    keys = ShardKeySource(world.quoter, pause=lambda _: None, attempts=2)
    session = Session(JobContext(None, ELSEWHERE, keys, world.quoter, CHAIN_ID, os.urandom), case.id)  # type: ignore[arg-type]
    prepared = session.prepare()
    ticket = replace(
        world.ticket(case), transport_key_hash=transport_key_hash(prepared.transport_key), instance=prepared.instance
    )
    with shards.listening(*[(i, shards.shard(i)) for i in (1, 2)]):
        return session.run(told(world.job(case, ticket)))


def worth(
    world: World,
    case: Case,
    result: JobResult,
    *later: AppraisalPolicy,
    chain: ChainClaims | None = None,
    label: str = "simulated",
    **changes: object,
) -> Quoted:
    """What a reader of the chain says of the result's quote; `later` are policies that were registered after the world's, and
    `changes` those between vote and result."""
    vote = Vote(
        result.subject, result.round, result.voter, U256(1), result.outcome, result.code, result.tokens_hash, result.trace_root,
        result.round_digest, ZERO_DIGEST, ZERO_DIGEST,
    )  # fmt: skip
    opening = RevealEvent(replace(vote, **changes), result.quote, 9)  # type: ignore[arg-type]
    policies = {each.digest: each for each in (world.policy, *later)}
    return judged(policies.get, DISPUTES, case.id, opening, chain or on_chain(world, case), label)


def on_chain(world: World, case: Case) -> ChainClaims:
    job = world.job(case)
    keys = frozenset({epoch_keys_digest(world.document.record)})
    return ChainClaims(int(job.anchored_at), keys, frozenset({world.policy.digest}), job.round_seed)


def test_quote_of_an_honest_host_is_accepted(world: World) -> None:
    case = world.case()
    result = judge(world, case, lambda job: job)
    assert result.outcome == Outcome.CANNOT_EXECUTE and worth(world, case, result) == Quoted(0, HOLDS)
    assert worth(world, case, result, round=U16(2)) == Quoted(None, ANOTHER)
    assert worth(world, case, replace(result, quote=Blob(b""))) == Quoted(None, NONE)
    assert worth(world, case, replace(result, quote=Blob(b"{}"))) == Quoted(None, "refused: EvidenceMalformed")
    assert worth(world, case, result, label="hardware") == Quoted(None, "simulated evidence, and the key epoch is hardware")


def test_false_keys_and_policy_are_named_as_causes_of_an_invalid_receipt(world: World, tmp_path: Path) -> None:
    case, false = world.case(2), World(tmp_path)
    mixed = replace(false.policy, rules=(*world.policy.rules, *false.policy.rules))
    false.policy, false.chain.facts = mixed, replace(false.chain.facts, policy=mixed.digest)
    told = lambda job: replace(job, epoch=false.document.record, policy=Blob(encode(mixed)))  # noqa: E731
    result = judge(world, case, told, serving=false)
    assert result.outcome == Outcome.INVALID
    assert worth(world, case, result).finding == "rests on what the chain does not say: keys, policy"


def test_quote_is_judged_by_the_policy_in_force_in_its_round(world: World) -> None:
    case, entries = world.case(3), world.policy.measurements
    without = tuple(
        replace(each, measurement=ELSEWHERE) if each.role is MeasurementRole.VERIFIER_ENCLAVE else each for each in entries
    )
    other = replace(world.policy, serial=U64(2), measurements=without)
    then, now = on_chain(world, case), replace_policies(on_chain(world, case), other)
    honest = judge(world, case, lambda job: job)
    assert worth(world, case, honest, other, chain=then) == Quoted(0, HOLDS), "an upgrade since accuses nobody of before"
    assert worth(world, case, honest, other, chain=now) == Quoted(None, "rests on what the chain does not say: policy")
    # A program that the round's policy does not have, and another policy of the chain has.
    forbidden = judge(world, case, lambda job: replace(job, policy=Blob(encode(other))))
    assert worth(world, case, forbidden, other, chain=now) == Quoted(None, "refused: MeasurementRefused")
    assert worth(world, case, forbidden, chain=now) == Quoted(None, "no policy on the chain to judge it by")


def replace_policies(chain: ChainClaims, *policies: AppraisalPolicy) -> ChainClaims:
    """The same premises, while these policies were in force."""
    return chain._replace(policies=frozenset(each.digest for each in policies))


def test_false_anchoring_time_and_round_seed_are_named(world: World) -> None:
    late, elsewhere = world.case(4), world.case(5)
    result = judge(world, late, lambda job: replace(job, anchored_at=U64(2**40)))
    assert result.outcome == Outcome.INVALID
    assert worth(world, late, result) == Quoted(None, "rests on what the chain does not say: anchored_at")
    result = judge(world, elsewhere, lambda job: replace(job, round_seed=ELSEWHERE))
    assert worth(world, elsewhere, result).finding == "rests on what the chain does not say: round_seed"


def test_epoch_record_digest_covers_the_values_pinned_on_the_chain(world: World) -> None:
    job = world.job(world.case())
    record = job.epoch
    for other in (
        replace(record, epoch=U64(2)), replace(record, public_key=Blob(record.public_key[::-1])), replace(record, threshold=1),
        replace(record, shards=record.shards[:2]), replace(record, shards=record.shards[::-1]),
    ):  # fmt: skip
        assert epoch_keys_digest(other) != epoch_keys_digest(record)
    at_home = replace(record, shards=tuple(replace(each, url="https://elsewhere", channel="there:1") for each in record.shards))
    assert epoch_keys_digest(at_home) == epoch_keys_digest(record)
    assert differing_claims(host_claims_of(job), on_chain(world, world.case())) == ()


def test_value_in_force_in_a_range_of_blocks_is_found() -> None:
    a, b, c = (Digest(bytes([n]) * 32) for n in (1, 2, 3))
    history = [Dated(10, a), Dated(20, b), Dated(20, c), Dated(30, a)]
    assert in_force(history, 9, 9) == frozenset() and in_force((), 1, 9) == frozenset()
    assert in_force(history, 10, 19) == {a} and in_force(history, 20, 29) == {c}
    assert in_force(history, 15, 20) == {a, b, c} and in_force(history, 25, 40) == {c, a}

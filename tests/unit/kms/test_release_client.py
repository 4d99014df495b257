"""The enclave's client over real attested channels: it opens with any t, names who lied, and gives up only below t."""

import itertools
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from bytewise.crypto.curve import decode_point
from bytewise.crypto.envelope import seal_padded
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, NoKey, ReleaseNotRecorded, ShardLied, ShardRefused, TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.evidence import ChannelBroken, MeasurementRefused
from bytewise.protocol.errors.records import BadSignature, EnvelopeDoesNotOpen, EnvelopeProofBad
from bytewise.protocol.jobs import RunJob, anchor_domain
from bytewise.protocol.keys.epochs import Decision, ReleaseAnswer, ShardInfo
from bytewise.protocol.records.seal import envelope_hash, seal_context, unpad
from bytewise.protocol.signing import LocalSigner, typed_digest
from bytewise.protocol.units import U8, U64, Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.service.connections import place_of
from bytewise.tee.binding import AttestedPeer
from bytewise.tee_simulated.authorities import Platform
from bytewise.tee_simulated.quoter import SimulatedQuoter
from enclave.release_client import ShardKeySource
from kms.shard.release import Shard
from kms.shard_client import ShardClient
from tests.fixtures.kms.key_source import Blame, WrongShare, source
from tests.fixtures.kms.log_entries import DOMAIN
from tests.fixtures.kms.memory_chain import CONTRACTS, OTHER_VOTER
from tests.fixtures.kms.release_network import ATTACKER, World


@pytest.mark.parametrize("up", list(itertools.combinations((1, 2, 3), 2)))
def test_any_two_shards_suffice(world: World, up: tuple[int, ...]) -> None:
    case, blame = world.disputed(), Blame()
    with world.listening(*[(i, world.shard(i)) for i in up]):
        assert unpad(source(world, blame).open(world.job(case), world.secret)) == case.payload
    assert {index for index, _ in blame.failures} <= {1, 2, 3} - set(up)


@pytest.mark.parametrize("up", [(), (1,), (3,)])
def test_fewer_than_t_shards_give_no_key(world: World, up: tuple[int, ...]) -> None:
    with world.listening(*[(i, world.shard(i)) for i in up]), pytest.raises(NoKey):
        source(world).open(world.job(world.disputed()), world.secret)


@pytest.mark.parametrize("liar", [1, 2, 3])
def test_lying_shard_is_named_and_release_succeeds_with_the_others(world: World, liar: int) -> None:
    case, blame = world.disputed(), Blame()
    shards = [(i, WrongShare.of(world, i) if i == liar else world.shard(i)) for i in (1, 2, 3)]
    with world.listening(*shards):
        assert unpad(source(world, blame).open(world.job(case), world.secret)) == case.payload
    # Two are enough: the third is only asked if one before it failed.
    assert blame.failures == ([] if liar == 3 else [(liar, ShardLied)])


@pytest.mark.parametrize("liars", [*itertools.combinations((1, 2, 3), 2), (1, 2, 3)])
def test_more_than_n_minus_t_liars_give_no_key_and_no_wrong_plaintext(world: World, liars: Iterable[int]) -> None:
    case, blame = world.disputed(), Blame()
    shards = [(i, WrongShare.of(world, i) if i in liars else world.shard(i)) for i in (1, 2, 3)]
    with world.listening(*shards), pytest.raises(NoKey):
        source(world, blame).open(world.job(case), world.secret)
    assert {index for index, error in blame.failures if error is ShardLied} == set(liars)


def test_control_without_partial_proofs_one_liar_fakes_a_bad_envelope(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack 12 with the defence removed: not even no key, but a verdict against who sealed rightly."""
    case, blame = world.disputed(), Blame()
    monkeypatch.setattr("enclave.release_client.verify_partial", lambda partial, *_: decode_point(partial.point))
    with world.listening((1, WrongShare.of(world, 1)), (2, world.shard(2)), (3, world.shard(3))):
        with pytest.raises(EnvelopeDoesNotOpen):
            source(world, blame).open(world.job(case), world.secret)
    assert blame.failures == []


OTHER = Digest(b"\x5a" * 32)
MEMBERS: dict[str, dict[str, Any]] = {
    "receipt": {"receipt_id": OTHER}, "ticket": {"ticket_hash": OTHER}, "epoch": {"key_epoch": U64(9)},
    "shard": {"shard": OTHER_VOTER.address}, "voter": {"voter": OTHER_VOTER.address}, "evidence": {"evidence_hash": OTHER},
    "transport key": {"transport_key_hash": OTHER}, "decision": {"decision": U8(Decision.REFUSED)},
}  # fmt: skip
Lie = Callable[[ReleaseAnswer, LocalSigner], ReleaseAnswer]


def of_another(changes: dict[str, Any]) -> Lie:
    """A record of something else than was given, well signed: the log would show another release than this one, or none."""

    def lie(answer: ReleaseAnswer, signer: LocalSigner) -> ReleaseAnswer:
        record = replace(answer.record, **changes)
        return replace(answer, record=record, signature=signer.sign(typed_digest(DOMAIN, record)))

    return lie


LIES: dict[str, tuple[Lie, type[BytewiseError], str]] = {
    **{what: (of_another(changes), ReleaseNotRecorded, f"names another {what}") for what, changes in MEMBERS.items()},
    "signed by another": (
        lambda answer, _: replace(answer, signature=ATTACKER.sign(typed_digest(DOMAIN, answer.record))), BadSignature, ""),
    "no partial": (lambda answer, _: replace(answer, sealed_partial=Blob(bytes(200))), BytewiseError, ""),
}  # fmt: skip


class Lying(Shard):
    """Answers something else than it gave."""

    lie: Lie

    def release(self, body: bytes, peer: AttestedPeer) -> ReleaseAnswer:
        return type(self).lie(super().release(body, peer), self.signer)


@pytest.mark.parametrize("what", LIES)
def test_partial_without_its_own_record_is_not_used(world: World, what: str) -> None:
    case, first, failures = world.disputed(), world.shard(1), list[tuple[int, BytewiseError]]()
    lie, kind, words = LIES[what]
    first.__class__ = type("OneLie", (Lying,), {"lie": staticmethod(lie)})
    keys = ShardKeySource(world.quoter, pause=lambda _: None, on_failure=lambda *told: failures.append(told))
    with world.listening((1, first), (2, world.shard(2)), (3, world.shard(3))):
        assert unpad(keys.open(world.job(case), world.secret)) == case.payload
    ((index, error),) = failures
    assert index == 1 and isinstance(error, kind) and words in str(error)


def test_a_shard_one_block_behind_is_asked_again(fresh: World) -> None:
    case, blame, pauses = fresh.case(), Blame(), []

    def next_block(seconds: float) -> None:
        pauses.append(seconds)
        fresh.chain.open(case)

    keys = ShardKeySource(fresh.quoter, pause=next_block, attempts=3, on_failure=blame)
    with fresh.listening((1, fresh.shard(1)), (2, fresh.shard(2))):
        assert unpad(keys.open(fresh.job(case), fresh.secret)) == case.payload
    assert len(pauses) == 1
    assert {error for _, error in blame.failures} == {TryAgain}


def test_a_refusal_is_not_asked_again(fresh: World) -> None:
    case, blame = fresh.disputed(seat_mask=0), Blame()
    with fresh.listening(*[(i, fresh.shard(i)) for i in (1, 2, 3)]), pytest.raises(NoKey):
        source(fresh, blame, attempts=5).open(fresh.job(case), fresh.secret)
    assert sorted(index for index, _ in blame.failures) == [1, 2, 3]
    assert {error for _, error in blame.failures} == {ShardRefused}


def test_bad_envelope_is_the_operators_fault_before_any_shard_is_asked(world: World) -> None:
    case = world.disputed()
    mauled = world.named(case.payload, replace(case.receipt, seq=U64(case.receipt.seq + 1)), case.envelope)
    with pytest.raises(EnvelopeProofBad):
        source(world).open(world.job(mauled), world.secret)


def test_an_envelope_sealed_to_another_key_does_not_open(world: World) -> None:
    """The proof holds, the shards release, and every honest enclave finds the same defect."""
    case = world.case()
    data = seal_padded(bytes(4096), world.public, world.context(case), 1, os.urandom)
    receipt = replace(case.receipt, envelope_hash=envelope_hash(data))
    assert seal_context(anchor_domain(CONTRACTS), receipt) == world.context(case)
    wrong = world.named(case.payload, receipt, data)
    world.chain.open(wrong)
    with world.listening(*[(i, world.shard(i)) for i in (1, 2)]), pytest.raises(EnvelopeDoesNotOpen):
        source(world).open(world.job(wrong), world.secret)


def test_verification_keys_that_do_not_fit_the_public_key_are_our_bug(world: World) -> None:
    job = world.job(world.disputed())
    job = replace(job, epoch=replace(job.epoch, public_key=world.public))
    with world.listening(*[(i, world.shard(i)) for i in (1, 2)]), pytest.raises(ConfigurationError):
        source(world).open(job, world.secret)


def with_record(job: RunJob, index: int, **changes: object) -> RunJob:
    shards = tuple(replace(s, **changes) if s.index == index else s for s in job.epoch.shards)  # type: ignore[arg-type]
    return replace(job, epoch=replace(job.epoch, shards=shards))


def test_shard_is_identified_by_its_account_not_by_its_address(world: World) -> None:
    """Shard 2, a genuine one, sits where shard 1 should be."""
    case, blame = world.disputed(), Blame()
    job = with_record(world.job(case), 1, channel=world.document.record.shards[1].channel)
    with world.listening((2, world.shard(2)), (3, world.shard(3))):
        assert unpad(source(world, blame).open(job, world.secret)) == case.payload
    assert blame.failures == [(1, BadSignature)]


def test_a_shard_that_runs_another_program_is_not_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    case, blame = world.disputed(), Blame()
    other = SimulatedQuoter(Platform(world.folder / "platform.key"), Digest(b"\x99" * 32), SystemClock())
    monkeypatch.setattr(world, "end", lambda index, shard: replace(World.end(world, index, shard), quoter=other))
    with world.listening((1, world.shard(1))):
        monkeypatch.undo()
        with world.listening((2, world.shard(2)), (3, world.shard(3))):
            assert unpad(source(world, blame).open(world.job(case), world.secret)) == case.payload
    assert blame.failures == [(1, MeasurementRefused)]


def test_enclave_of_another_policy_asks_for_nothing_and_gets_nothing(world: World) -> None:
    """What the duty process says of the policy cannot widen it: the shards have their own."""
    case, blame = world.disputed(), Blame()
    wider = Blob(encode(replace(world.policy, serial=U64(9))))
    with world.listening((1, world.shard(1)), (2, world.shard(2))), pytest.raises(NoKey):
        source(world, blame).open(replace(world.job(case), policy=wider), world.secret)
    assert {error for _, error in blame.failures} == {ChannelBroken, TryAgain}


def test_malformed_shard_address_or_certificate_is_a_bug(world: World) -> None:
    record = world.document.record.shards[0]
    assert place_of(replace(record, channel="[::1]:7002")) == ("::1", 7002)
    for channel in ("", "host", "host:", ":1", "host:0", "host:70000", "host:1x"):
        with pytest.raises(ConfigurationError):
            place_of(replace(record, channel=channel))
    with pytest.raises(ConfigurationError):
        ShardClient(replace(record, certificate="nonsense"))


def test_info_and_log_are_public_under_the_pinned_certificate_and_capped(fresh: World) -> None:
    shard, record = fresh.shard(1), fresh.document.record.shards[0]
    fresh.release(shard, fresh.disputed())
    with fresh.serving((1, shard)):
        with ShardClient(record) as client:
            assert decode(ShardInfo, client.call("GET", "/v1/info", b"")) == shard.info()
            assert client.call("GET", "/v1/log?from=0", b"") == encode(shard.log(0))
            with pytest.raises(ShardRefused, match="R-02"):
                client.call("GET", "/v1/log?from=-1", b"")
            with pytest.raises(ShardRefused, match="status 404"):
                client.call("POST", "/v1/release", b"{}")  # not without a channel
        with ShardClient(record, most=100) as client, pytest.raises(ShardRefused, match="above the cap"):
            client.call("GET", "/v1/info", b"")
        with ShardClient(replace(record, certificate=fresh.document.record.shards[1].certificate)) as client:
            with pytest.raises(TryAgain):
                client.call("GET", "/v1/info", b"")

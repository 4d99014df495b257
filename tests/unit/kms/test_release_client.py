"""The enclave's client over real attested channels: it opens with any t, names who lied, and gives up only below t."""

import itertools
import os
from collections.abc import Iterable
from dataclasses import replace

import pytest

from bytewise.crypto.curve import decode_point
from bytewise.crypto.envelope import seal_padded
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, NoKey, ReleaseNotRecorded, ShardLied, ShardRefused, TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.evidence import ChannelBroken, MeasurementRefused
from bytewise.protocol.errors.records import BadSignature, EnvelopeDoesNotOpen, EnvelopeProofBad
from bytewise.protocol.jobs import RunJob, anchor_domain, key_domain
from bytewise.protocol.keys.epochs import ReleaseAnswer, ShardInfo
from bytewise.protocol.records.seal import envelope_hash, seal_context, unpad
from bytewise.protocol.signing import LocalSigner, typed_digest
from bytewise.protocol.units import U64, Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.service.shard_connection import place_of
from bytewise.storage.releases import ReleaseRecords
from bytewise.tee.binding import AttestedPeer
from bytewise.tee_simulated.quoter import SimulatedQuoter
from bytewise.tee_simulated.root import Platform
from enclave.release_client import ShardKeySource
from kms.shard.release import Shard
from kms.shard_client import ShardClient
from kms.storage import accounts
from tests.fixtures.kms.key_source import (
    Blame,
    WrongShare,
    disputed,
)
from tests.fixtures.kms.memory_chain import CONTRACTS
from tests.fixtures.kms.release_network import World


class ForgingShard(Shard):
    """Answers without a record of this release."""

    def release(self, body: bytes, peer: AttestedPeer) -> ReleaseAnswer:
        answer = super().release(body, peer)
        return replace(answer, record=replace(answer.record, ticket_hash=Digest(bytes(32))))


class UnsignedShard(Shard):
    """Answers with a record that somebody else signed."""

    def release(self, body: bytes, peer: AttestedPeer) -> ReleaseAnswer:
        answer = super().release(body, peer)
        stranger = LocalSigner(b"\x55" * 32)
        return replace(answer, signature=stranger.sign(typed_digest(key_domain(CONTRACTS), answer.record)))


def source(world: World, blame: Blame | None = None, attempts: int = 2) -> ShardKeySource:
    return ShardKeySource(world.quoter, pause=lambda _seconds: None, attempts=attempts, on_failure=blame or Blame())


def test_two_of_three_shards_open_the_envelope_and_the_third_is_not_asked(world: World) -> None:
    case, shards = disputed(world), [(i, world.shard(i)) for i in (1, 2, 3)]
    before = len(shards[2][1].log(0).entries)
    with world.listening(*shards):
        assert unpad(source(world).open(world.job(case), world.secret)) == case.payload
    assert len(shards[2][1].log(0).entries) == before


@pytest.mark.parametrize("up", list(itertools.combinations((1, 2, 3), 2)))
def test_any_two_shards_suffice(world: World, up: tuple[int, ...]) -> None:
    case, blame = disputed(world), Blame()
    with world.listening(*[(i, world.shard(i)) for i in up]):
        assert unpad(source(world, blame).open(world.job(case), world.secret)) == case.payload
    assert {index for index, _ in blame.failures} <= {1, 2, 3} - set(up)


@pytest.mark.parametrize("up", [(), (1,), (3,)])
def test_fewer_than_t_shards_give_no_key(world: World, up: tuple[int, ...]) -> None:
    case = disputed(world)
    with world.listening(*[(i, world.shard(i)) for i in up]), pytest.raises(NoKey):
        source(world).open(world.job(case), world.secret)


@pytest.mark.parametrize("liar", [1, 2, 3])
def test_lying_shard_is_named_and_release_succeeds_with_the_others(world: World, liar: int) -> None:
    case, blame = disputed(world), Blame()
    shards = [(i, WrongShare.of(world, i) if i == liar else world.shard(i)) for i in (1, 2, 3)]
    with world.listening(*shards):
        assert unpad(source(world, blame).open(world.job(case), world.secret)) == case.payload
    # The third shard is only asked if one before it failed.
    assert blame.failures == ([] if liar == 3 else [(liar, ShardLied)])


@pytest.mark.parametrize("liars", [*itertools.combinations((1, 2, 3), 2), (1, 2, 3)])
def test_more_than_n_minus_t_liars_give_no_key_and_no_wrong_plaintext(world: World, liars: Iterable[int]) -> None:
    case, blame = disputed(world), Blame()
    shards = [(i, WrongShare.of(world, i) if i in liars else world.shard(i)) for i in (1, 2, 3)]
    with world.listening(*shards), pytest.raises(NoKey):
        source(world, blame).open(world.job(case), world.secret)
    assert {index for index, error in blame.failures if error is ShardLied} == set(liars)


def test_control_without_partial_proofs_one_liar_fakes_a_bad_envelope(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack 12 with the defence removed: not even no key, but a verdict against who sealed rightly."""
    case, blame = disputed(world), Blame()
    monkeypatch.setattr("enclave.release_client.verify_partial", lambda partial, *_: decode_point(partial.point))
    with world.listening((1, WrongShare.of(world, 1)), (2, world.shard(2)), (3, world.shard(3))):
        with pytest.raises(EnvelopeDoesNotOpen):
            source(world, blame).open(world.job(case), world.secret)
    assert blame.failures == []


@pytest.mark.parametrize(("kind", "error"), [(ForgingShard, ReleaseNotRecorded), (UnsignedShard, BadSignature)])
def test_partial_without_its_own_record_is_not_used(world: World, kind: type[Shard], error: type[BytewiseError]) -> None:
    case, blame, first = disputed(world), Blame(), world.shard(1)
    first.__class__ = kind
    with world.listening((1, first), (2, world.shard(2)), (3, world.shard(3))):
        assert unpad(source(world, blame).open(world.job(case), world.secret)) == case.payload
    assert blame.failures == [(1, error)]


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
    case, blame = fresh.case(), Blame()
    fresh.chain.open(case, seat_mask=0)
    with fresh.listening(*[(i, fresh.shard(i)) for i in (1, 2, 3)]), pytest.raises(NoKey):
        source(fresh, blame, attempts=5).open(fresh.job(case), fresh.secret)
    assert sorted(index for index, _ in blame.failures) == [1, 2, 3]
    assert {error for _, error in blame.failures} == {ShardRefused}


def test_bad_envelope_is_the_operators_fault_before_any_shard_is_asked(world: World) -> None:
    case = disputed(world)
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
    case, job = disputed(world), None
    job = world.job(case)
    job = replace(job, epoch=replace(job.epoch, public_key=world.public))
    with world.listening(*[(i, world.shard(i)) for i in (1, 2)]), pytest.raises(ConfigurationError):
        source(world).open(job, world.secret)


def with_record(job: RunJob, index: int, **changes: object) -> RunJob:
    shards = tuple(replace(s, **changes) if s.index == index else s for s in job.epoch.shards)  # type: ignore[arg-type]
    return replace(job, epoch=replace(job.epoch, shards=shards))


def test_shard_is_identified_by_its_account_not_by_its_address(world: World) -> None:
    """Shard 2, a genuine one, sits where shard 1 should be."""
    case, blame = disputed(world), Blame()
    job = with_record(world.job(case), 1, channel=world.document.record.shards[1].channel)
    with world.listening((2, world.shard(2)), (3, world.shard(3))):
        assert unpad(source(world, blame).open(job, world.secret)) == case.payload
    assert blame.failures == [(1, BadSignature)]


def test_a_shard_that_runs_another_program_is_not_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    case, blame = disputed(world), Blame()
    other = SimulatedQuoter(Platform(world.folder / "platform.key"), Digest(b"\x99" * 32), SystemClock())
    monkeypatch.setattr(world, "end", lambda index, shard: replace(World.end(world, index, shard), quoter=other))
    with world.listening((1, world.shard(1))):
        monkeypatch.undo()
        with world.listening((2, world.shard(2)), (3, world.shard(3))):
            assert unpad(source(world, blame).open(world.job(case), world.secret)) == case.payload
    assert blame.failures == [(1, MeasurementRefused)]


def test_enclave_of_another_policy_asks_for_nothing_and_gets_nothing(world: World) -> None:
    """What the duty process says of the policy cannot widen it: the shards have their own."""
    case, blame = disputed(world), Blame()
    wider = Blob(encode(replace(world.policy, serial=U64(9))))
    with world.listening((1, world.shard(1)), (2, world.shard(2))), pytest.raises(NoKey):
        source(world, blame).open(replace(world.job(case), policy=wider), world.secret)
    assert {error for _, error in blame.failures} == {ChannelBroken, TryAgain}


@pytest.mark.parametrize("channel", ["", "host", "host:", ":1", "host:0", "host:70000", "host:1x"])
def test_malformed_shard_address_is_a_bug(world: World, channel: str) -> None:
    with pytest.raises(ConfigurationError):
        place_of(replace(world.document.record.shards[0], channel=channel))


def test_addresses_may_be_of_version_6(world: World) -> None:
    assert place_of(replace(world.document.record.shards[0], channel="[::1]:7002")) == ("::1", 7002)


def test_malformed_shard_certificate_is_a_bug(world: World) -> None:
    with pytest.raises(ConfigurationError):
        ShardClient(replace(world.document.record.shards[0], certificate="nonsense"))


def test_only_the_pinned_certificate_is_trusted(world: World) -> None:
    mine, other = world.document.record.shards[:2]
    with world.serving((1, world.shard(1))), ShardClient(replace(mine, certificate=other.certificate)) as client:
        with pytest.raises(TryAgain):
            client.call("GET", "/v1/info", b"")


def test_info_and_log_are_public_and_errors_name_their_rule(world: World) -> None:
    shard, record = world.shard(1), world.document.record.shards[0]
    with world.serving((1, shard)), ShardClient(record) as client:
        assert decode(ShardInfo, client.call("GET", "/v1/info", b"")) == shard.info()
        assert client.call("GET", "/v1/log?from=0", b"") == encode(shard.log(0))
        with pytest.raises(ShardRefused, match="R-02"):
            client.call("GET", "/v1/log?from=-1", b"")
        with pytest.raises(ShardRefused, match="status 404"):
            client.call("POST", "/v1/release", b"{}")  # not without a channel


def test_answer_above_the_cap_is_refused(world: World) -> None:
    with world.serving((1, world.shard(1))), ShardClient(world.document.record.shards[0], most=100) as client:
        with pytest.raises(ShardRefused, match="above the cap"):
            client.call("GET", "/v1/info", b"")


def test_signing_key_of_a_shard_is_the_one_in_the_epoch(world: World) -> None:
    for shard, record in zip(world.settings.shards, world.document.record.shards, strict=True):
        assert accounts.open_account(shard.folder).address == record.address
        assert isinstance(world.records(record.index), ReleaseRecords)


def test_malformed_partial_is_blamed_on_its_shard(world: World) -> None:
    class Garbling(Shard):
        def release(self, body: bytes, peer: AttestedPeer) -> ReleaseAnswer:
            return replace(super().release(body, peer), sealed_partial=Blob(b"\x00" * 200))

    case, blame, first = disputed(world), Blame(), world.shard(1)
    first.__class__ = Garbling
    with world.listening((1, first), (2, world.shard(2)), (3, world.shard(3))):
        assert unpad(source(world, blame).open(world.job(case), world.secret)) == case.payload
    assert [index for index, _ in blame.failures] == [1]

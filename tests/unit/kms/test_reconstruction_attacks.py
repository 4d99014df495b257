"""Who lies in the paper's mode is named, and a key serves one mode for good; each beside its control."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.crypto import envelope as envelopes
from bytewise.crypto import hpke, reconstruction
from bytewise.crypto.curve import GENERATOR, ORDER, decode_point, encode_scalar, random_scalar
from bytewise.crypto.envelope import verify_receipt_envelope
from bytewise.crypto.reconstruction import TransportKey
from bytewise.crypto.shares import prove_partial, split
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError, EpochClosed, ReleaseLogBroken, ReleaseNotRecorded, ShardLied
from bytewise.protocol.errors.branches import BytewiseError, Fault
from bytewise.protocol.errors.records import EnvelopeProofBad, MalformedValue
from bytewise.protocol.jobs import anchor_domain
from bytewise.protocol.keys.epochs import ChainFacts, Decision, EpochDocument, ReleaseRequest, partial_info
from bytewise.protocol.keys.release_log import START, LogHead, SignedRelease, verify_log
from bytewise.protocol.records.seal import Envelope, unpad
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.suites import SUITE_P256, SUITE_REBUILT
from bytewise.protocol.units import U8, U64, Blob, Digest
from bytewise.service.secret import Secret
from enclave import release_client
from kms.shard.release import Shard
from kms.shard.release_policy import AdmittedRequest
from kms.storage import keyring
from kms.storage.keyring import OpenedShare
from tests.fixtures.kms.key_source import Blame, sealed_under
from tests.fixtures.kms.memory_chain import CONTRACTS
from tests.fixtures.kms.rebuilt_epoch import DOMAIN, EPOCH, answer, giving, source
from tests.fixtures.kms.release_network import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """2 of 3 shards of an epoch whose key is rebuilt."""
    return World(tmp_path_factory.mktemp("rebuilt"), epoch=EPOCH)


# --- who lies ---


class OtherShare(Shard):
    """Gives a share of some other key: of another epoch, or made up."""

    def _sealed(self, request: ReleaseRequest, admitted: AdmittedRequest, share: OpenedShare) -> Blob:
        return super()._sealed(request, admitted, OpenedShare(share.index, Secret(encode_scalar(random_scalar(os.urandom)))))


class SilentRecord(Shard):
    """Gives its share and signs that it gave a partial."""

    def _record(
        self, request: ReleaseRequest, admitted: AdmittedRequest, facts: ChainFacts, head: LogHead, refused: Fault | None
    ) -> SignedRelease:
        true = super()._record(request, admitted, facts, head, refused)
        record = replace(true.record, decision=U8(Decision.RELEASED))
        return replace(true, record=record, signature=self._signer.sign(typed_digest(DOMAIN, record)), grounds=None)


class Partials(Shard):
    """Gives a partial where a share is wanted."""

    def _sealed(self, request: ReleaseRequest, admitted: AdmittedRequest, share: OpenedShare) -> Blob:
        ticket = request.ticket
        base = decode_point(admitted.envelope.enc)
        partial = prove_partial(share.index, share.scalar(), base, ticket.receipt_id, os.urandom)
        info = partial_info(self._signer.address, ticket.receipt_id, admitted.ticket_hash, ticket.key_epoch)
        return hpke.seal_to_transport(admitted.peer.hello.transport_key, info, encode(partial))


@pytest.mark.parametrize(
    ("kind", "error"), [(OtherShare, ShardLied), (SilentRecord, ReleaseNotRecorded), (Partials, MalformedValue)]
)
def test_a_shard_that_lies_is_named_and_the_others_suffice(tmp_path: Path, kind: type[Shard], error: type[BytewiseError]) -> None:
    world, blame = World(tmp_path, epoch=EPOCH), Blame()
    case = world.disputed()
    with world.listening(giving(world, 1, kind), giving(world, 2), giving(world, 3)):
        assert unpad(source(world, blame).open(world.job(case), world.secret)) == case.payload
    assert blame.failures == [(1, error)]


def test_control_without_share_check_wrong_share_makes_wrong_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, blame = World(tmp_path, epoch=EPOCH), Blame()
    monkeypatch.setattr(reconstruction, "multiply_point", lambda point, scalar: _claimed(world, point, scalar))
    with world.listening(giving(world, 1, OtherShare), giving(world, 2)), pytest.raises(BytewiseError) as caught:
        source(world, blame).open(world.job(world.disputed()), world.secret)
    assert (type(caught.value).__name__, blame.failures) == ("EnvelopeDoesNotOpen", []), "an honest operator would be guilty"


def _claimed(world: World, point: object, scalar: bytearray) -> object:
    class Anything:
        def __ne__(self, _other: object) -> bool:
            return False

        __hash__ = None  # type: ignore[assignment]

    return Anything() if point is GENERATOR else point * int.from_bytes(scalar)  # type: ignore[operator]


def sealed_share(value: int, info: Digest, to: TransportKey) -> Blob:
    return hpke.seal_to_transport(to.public, info, value.to_bytes(32))


@pytest.mark.parametrize(("added", "good"), [(0, True), (ORDER, False), (1, False)])
def test_a_share_in_a_second_encoding_is_a_lie(added: int, good: bool) -> None:
    info, to = Digest(bytes(32)), TransportKey(*hpke.transport_keypair(os.urandom))
    sealed = sealed_share(5 + added, info, to)
    if good:
        assert reconstruction.open_key_share(sealed, to, info, 1, GENERATOR * 5) == (5).to_bytes(32)
    else:
        with pytest.raises(ShardLied, match="shard 1 gave a wrong answer: its share does not fit"):
            reconstruction.open_key_share(sealed, to, info, 1, GENERATOR * 5)


@pytest.mark.parametrize("spoil", [lambda d: d[:-1], lambda d: d + b"\0", lambda d: b"", lambda d: d[:-1] + bytes([d[-1] ^ 1])])
def test_bytes_not_sealed_as_a_share_are_refused(spoil: Callable[[bytes], bytes]) -> None:
    info, to = Digest(bytes(32)), TransportKey(*hpke.transport_keypair(os.urandom))
    with pytest.raises(MalformedValue):
        reconstruction.open_key_share(spoil(sealed_share(5, info, to)), to, info, 1, GENERATOR * 5)
    with pytest.raises(MalformedValue):
        reconstruction.open_key_share(sealed_share(5, Digest(b"\1" * 32), to), to, info, 1, GENERATOR * 5)


@pytest.mark.parametrize("lied", [True, False])
def test_unused_share_is_erased_at_once(monkeypatch: pytest.MonkeyPatch, lied: bool) -> None:
    """Whoever takes it has only the error: the buffer is out of reach, and what was in it must not be there."""
    buffers, opened = list[tuple[bytearray, bytes]](), hpke.open_from_transport_into
    info, to = Digest(bytes(32)), TransportKey(*hpke.transport_keypair(os.urandom))

    def watched(secret: bytes, public_key: bytes, said: bytes, sealed: bytes, buffer: bytearray) -> None:
        opened(secret, public_key, said, sealed, buffer)
        buffers.append((buffer, bytes(buffer)))
        if not lied:
            raise MalformedValue("sealed message", "does not open")

    monkeypatch.setattr(hpke, "open_from_transport_into", watched)
    with pytest.raises(ShardLied if lied else MalformedValue):
        reconstruction.open_key_share(sealed_share(6, info, to), to, info, 1, GENERATOR * 5)
    assert buffers == [(bytearray(32), (6).to_bytes(32))]


def test_log_that_swaps_a_share_and_a_partial_is_broken(world: World, fresh: World) -> None:
    for each, lie in ((world, Decision.RELEASED), (fresh, Decision.SHARE_RELEASED)):
        shard = giving(each, 2)[1]
        each.release(shard, each.disputed())
        entries = shard.log(0).entries
        verify_log(entries, START, DOMAIN)
        record = replace(entries[0].record, decision=U8(lie))
        signature = keyring.open_account(each.settings.shards[1].folder).sign(typed_digest(DOMAIN, record))
        with pytest.raises(ReleaseLogBroken, match=f"record 0 is {lie.name}, not for key epoch"):
            verify_log([replace(entries[0], record=record, signature=signature)], START, DOMAIN)


# --- a key is for one of the two, for good ---


@pytest.mark.parametrize(("number", "suite"), [(EPOCH, SUITE_P256), (1, SUITE_REBUILT)])
def test_an_envelope_of_the_other_suite_is_refused_by_shard_and_enclave(
    tmp_path: Path, number: int, suite: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, epoch=number)
    case, shard = sealed_under(world, suite), giving(world, 1)
    with pytest.raises(EnvelopeProofBad):
        world.release(shard[1], case)
    with world.listening(shard, giving(world, 2)), pytest.raises(EnvelopeProofBad):
        source(world).open(world.job(case), world.secret)
    assert shard[1].log(0).entries == ()
    monkeypatch.setattr(envelopes, "suite_of", lambda _epoch: suite)  # the control: who believes the envelope takes it
    assert type(verify_receipt_envelope(anchor_domain(CONTRACTS), case.receipt, case.envelope)) is Envelope


@pytest.mark.parametrize(("served", "named"), [(1, EPOCH), (EPOCH, 1)])
def test_receipt_with_another_epoch_number_gets_nothing_of_this_key(tmp_path: Path, served: int, named: int) -> None:
    world = World(tmp_path, epoch=served)
    case = world.disputed(world.case(epoch=named))
    shard = giving(world, 1)[1]
    with pytest.raises(EpochClosed, match="not served here"):
        world.release(shard, case)
    assert shard.log(0).entries == ()


def renumbered(world: World) -> EpochDocument:
    """The key of an epoch of partials under a number that asks for shares; shares are copied to the name that fits."""
    for each in world.settings.shards:
        shutil.copy(each.folder / "share-1.json", each.folder / f"share-{EPOCH}.json")
    return replace(world.document, record=replace(world.document.record, epoch=U64(EPOCH)))


def test_key_of_partials_is_not_released_under_an_epoch_of_shares(tmp_path: Path) -> None:
    """Whoever edits the epoch file and renames the share meets the seal of the share, which names its epoch."""
    world = World(tmp_path)
    world.document = renumbered(world)
    with pytest.raises(ConfigurationError, match="does not open"):
        giving(world, 1)


def test_control_key_is_released_where_the_seal_names_no_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "share_context", lambda _epoch, index: digests.labelled(Label.SHARE_AT_REST, 0, index))
    world = World(tmp_path)
    world.document = renumbered(world)
    _, sealed, (_, of_share) = answer(world, world.disputed())
    assert (
        int.from_bytes(hpke.open_from_transport(world.secret, of_share, sealed)) == giving(world, 1)[1]._rotation.share().scalar()
    )


def test_partials_and_shares_of_one_job_are_never_mixed(world: World) -> None:
    """A share that comes where a partial is due is no partial, whatever record comes with it."""
    case = world.disputed()
    _, sealed, _ = answer(world, case)
    job, shard = world.job(case), world.document.record.shards[0]
    as_partial = replace(job, ticket=replace(job.ticket, key_epoch=U64(1)))
    envelope = verify_receipt_envelope(anchor_domain(CONTRACTS), case.receipt, case.envelope)
    to = TransportKey(world.secret, world.public)
    with pytest.raises(MalformedValue):
        release_client.open_answer(as_partial, typed_digest(DOMAIN, job.ticket), envelope, shard, sealed, to)
    piece = release_client.open_answer(job, typed_digest(DOMAIN, job.ticket), envelope, shard, sealed, to)
    assert piece.of_key == encode_scalar(giving(world, 1)[1]._rotation.share().scalar())
    release_client.erase_answers([piece])
    assert piece.of_key == bytes(32)


def test_rebuilt_key_follows_from_its_shares() -> None:
    secret, point = random_scalar(os.urandom), GENERATOR * random_scalar(os.urandom)
    values, _ = split(secret, 3, 5, os.urandom)
    held = {index: bytearray(encode_scalar(values[index])) for index in (5, 1, 3)}
    assert reconstruction.multiply_by_key(point, held) == point * secret
    assert set(map(bytes, held.values())) == {bytes(32)}

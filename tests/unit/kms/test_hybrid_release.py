"""Hybrid epochs end to end: shards over HTTPS, the client's sealing, the enclave's opening; every liar is named, and no other."""

import itertools
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from bytewise.crypto import envelope as envelopes
from bytewise.crypto import hpke, hybrid
from bytewise.crypto.curve import ORDER
from bytewise.crypto.envelope import seal_padded, verify_receipt_envelope
from bytewise.crypto.hybrid import EnvelopeContext, recipients
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError, NoKey, PartDoesNotOpen, ShardLied
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.records import EnvelopeDoesNotOpen, EnvelopeProofBad
from bytewise.protocol.jobs import HybridKeys, anchor_domain
from bytewise.protocol.keys.epochs import Decision, HybridPartial, Partial
from bytewise.protocol.records.receipt import Receipt
from bytewise.protocol.records.seal import Envelope, HybridPart, envelope_hash, unpad
from bytewise.protocol.suites import SUITE_P256, hybrid_epoch
from bytewise.protocol.units import U64, Blob, Digest
from kms.ceremony.coordinator import epoch_document
from kms.shard.release import Shard
from tests.fixtures.kms.ceremony_runs import participants_of, run
from tests.fixtures.kms.dkg_fixture import coordinator_of, plan
from tests.fixtures.kms.hybrid_epoch import NOTHING, PLACE, RECEIPT, verified
from tests.fixtures.kms.key_source import Blame, sealed_under, source
from tests.fixtures.kms.memory_chain import Case, MemoryChain
from tests.fixtures.kms.release_network import World

EPOCH = hybrid_epoch(1)
SHARDS = (1, 2, 3)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """2 of 3 shards of a hybrid epoch."""
    return World(tmp_path_factory.mktemp("hybrid"), epoch=EPOCH)


class FalseAccuser(Shard):
    """Says that its part does not open."""

    said = staticmethod(lambda: None)

    def _hybrid_partial(self, *given: Any) -> Partial | HybridPartial:
        partial = super()._hybrid_partial(*given)
        assert isinstance(partial, HybridPartial)
        return replace(partial, share=self.said())


class OtherShare(FalseAccuser):
    """Gives another share than the envelope commits to."""

    said = staticmethod(lambda: Blob(os.urandom(32)))  # type: ignore[assignment]


def opened(world: World, case: Case, kinds: Mapping[int, type[Shard]], blame: Blame | None = None, **changes: object) -> bytes:
    """What the enclave gets of these shards, each of its kind."""
    shards = []
    for index, kind in kinds.items():
        shard = world.shard(index)
        shard.__class__ = kind
        shards.append((index, shard))
    with world.listening(*shards):
        return source(world, blame).open(replace(world.job(case), **changes), world.secret)  # type: ignore[arg-type]


def honest(indices: tuple[int, ...] = SHARDS) -> dict[int, type[Shard]]:
    return dict.fromkeys(indices, Shard)


@pytest.mark.parametrize("up", list(itertools.combinations(SHARDS, 2)))
def test_any_two_shards_open_the_envelope(world: World, up: tuple[int, ...]) -> None:
    case = world.disputed()
    assert case.receipt.key_epoch == EPOCH
    assert unpad(opened(world, case, honest(up))) == case.payload


@pytest.mark.parametrize("kinds", [{2: Shard}, {1: FalseAccuser, 2: Shard}], ids=["one shard", "one of two accuses"])
def test_fewer_than_t_shares_give_no_key_and_no_guilty_operator(world: World, kinds: dict[int, type[Shard]]) -> None:
    with pytest.raises(NoKey):
        opened(world, world.disputed(), kinds)


def test_key_made_in_a_ceremony_opens_what_is_sealed_to_it(tmp_path: Path) -> None:
    """Ceremony, sealing, release and opening, each of our programs' own; no key of either half was ever in one place."""
    world = World(tmp_path / "world")
    shards, _ = participants_of(world, tmp_path)
    state = run(coordinator_of(tmp_path, plan(shards, 2, 3, epoch=EPOCH), shards))
    world.document = epoch_document(state)
    world.chain = MemoryChain(world.document, world.policy.digest)
    case = world.disputed()
    for up in itertools.combinations(SHARDS, 2):
        assert unpad(opened(world, case, honest(up))) == case.payload


@pytest.mark.parametrize(
    ("liar", "kind", "named"),
    [(1, OtherShare, [ShardLied]), (2, OtherShare, [ShardLied]), (1, FalseAccuser, [PartDoesNotOpen, ShardLied])],
)
def test_wrong_share_or_accusation_is_blamed(
    world: World, liar: int, kind: type[Shard], named: list[type[BytewiseError]]
) -> None:
    case, blame = world.disputed(), Blame()
    assert unpad(opened(world, case, {**honest(), liar: kind}, blame)) == case.payload
    assert blame.failures == [(liar, each) for each in named]


@pytest.mark.parametrize("length", [31, 33])
def test_committed_share_of_another_length_is_the_shards_lie(world: World, length: int) -> None:
    """An operator commits to it, and the shard that it colludes with gives it."""
    record, wrong = world.document.record, Blob(bytes(length))
    first, *others = verified().parts
    made = replace(first, commitment=digests.labelled(Label.HYBRID_SHARE, *PLACE, 1, wrong))
    assert record.hybrid is not None
    given = HybridPartial(NOTHING, record.hybrid.digest, wrong)
    with pytest.raises(ShardLied, match=r"shard 1 .*share of the PSK"):
        hybrid.verify_share(given, 1, replace(verified(), parts=(made, *others)), PLACE, record, RECEIPT)


def sabotaged(world: World, spoil: Callable[[int, HybridPart], HybridPart]) -> Case:
    """An operator's receipt whose parts it spoiled before it proved the envelope."""
    whole = hybrid.share_psk

    def share_out(*given: object) -> tuple[hpke.Psk, tuple[HybridPart, ...]]:
        psk, parts = whole(*given)  # type: ignore[arg-type]
        spoilt = tuple(spoil(index, part) for index, part in enumerate(parts, start=1))
        return hpke.Psk(psk.value, hybrid.parts_digest(spoilt)), spoilt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hybrid, "share_psk", share_out)
        return world.disputed()


def garbage_for(*indices: int) -> Callable[[int, HybridPart], HybridPart]:
    def spoil(index: int, part: HybridPart) -> HybridPart:
        return HybridPart(Blob(os.urandom(1088)), Blob(os.urandom(48)), part.commitment) if index in indices else part

    return spoil


@pytest.mark.parametrize("bad", [each for n in (1, 2, 3) for each in itertools.combinations(SHARDS, n)])
def test_malformed_part_is_the_operators_fault_whichever_shard_answers(world: World, bad: tuple[int, ...]) -> None:
    """One is found because all parts are made again; more than n - t because so many shards say so."""
    case = sabotaged(world, garbage_for(*bad))
    for up in (SHARDS, *([each for each in itertools.combinations(SHARDS, 2) if not set(each) & set(bad)])):
        with pytest.raises(EnvelopeDoesNotOpen):
            opened(world, case, honest(up))


def test_without_reencapsulation_the_sabotage_is_not_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: shard 3 could never have opened this, and nobody would know until shard 1 or 2 is down."""
    case = sabotaged(world, garbage_for(3))

    def trusting(shares: Mapping[int, int], envelope: object, _to: object, _place: object) -> hpke.Psk:
        secret = hybrid._value(shares, 0).to_bytes(32, "big")
        return hpke.Psk(secret, hybrid.parts_digest(envelope.parts))  # type: ignore[attr-defined]

    monkeypatch.setattr(hybrid, "recover_psk", trusting)
    assert unpad(opened(world, case, honest((1, 2)))) == case.payload
    with pytest.raises(NoKey):
        opened(world, case, honest((1, 3)))
    monkeypatch.undo()
    with pytest.raises(EnvelopeDoesNotOpen):
        opened(world, case, honest((1, 2)))


BAD_ENVELOPES: dict[str, Callable[[World], Case]] = {
    "of the old suite": lambda world: sealed_under(world, SUITE_P256),
    "of 2 parts": lambda world: resealed(world, 2),
    "of 4 parts": lambda world: resealed(world, 4),
}


@pytest.mark.parametrize("name", BAD_ENVELOPES)
def test_a_downgrade_is_refused_by_shard_and_enclave(world: World, name: str) -> None:
    """Nothing is released for it, and the operator is guilty."""
    case, shard = BAD_ENVELOPES[name](world), world.shard(1)
    with pytest.raises(EnvelopeProofBad):
        world.release(shard, case)
    assert case.id not in {entry.record.receipt_id for entry in shard.log(0).entries}
    with pytest.raises(EnvelopeProofBad):
        opened(world, case, honest())


def test_downgrade_passes_a_build_that_believes_the_envelope(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    case = sealed_under(world, SUITE_P256)
    monkeypatch.setattr(envelopes, "suite_of", lambda _epoch: SUITE_P256)
    assert type(verify_receipt_envelope(anchor_domain(world.contracts), case.receipt, case.envelope)) is Envelope


def resealed(world: World, shards: int) -> Case:
    """A good envelope with parts for so many shards."""
    case, record = world.case(), world.document.record
    to = recipients(record)
    assert to is not None
    wider = to._replace(keys=(to.keys * 2)[:shards])
    data = seal_padded(bytes(4096), record.public_key, world.context(case), EPOCH, os.urandom, wider)
    receipt: Receipt = replace(case.receipt, envelope_hash=envelope_hash(data))
    return world.disputed(world.named(case.payload, receipt, data))


def test_enclave_with_other_keys_blames_no_operator(world: World) -> None:
    """Its duty process lies: parts made again would differ, but no shard has those keys."""
    record, blame = world.document.record, Blame()
    assert record.hybrid is not None
    other = replace(record.hybrid, keys=(hpke.kem_key(os.urandom(64)), *record.hybrid.keys[1:]))
    with pytest.raises(NoKey):
        opened(world, world.disputed(), honest(), blame, epoch=replace(record, hybrid=other))
    assert sorted(blame.failures, key=itemgetter(0)) == [(index, ShardLied) for index in SHARDS]


def test_shard_with_keys_other_than_the_chains_releases_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, epoch=EPOCH)
    case = world.disputed()
    for other in (None, HybridKeys(Digest(bytes(32)), world.document.record.hybrid.keys)):  # type: ignore[union-attr]
        world.chain.facts = replace(world.chain.facts, hybrid=other)
        shard = world.shard(1)
        with pytest.raises(ConfigurationError, match="another key epoch"):
            world.release(shard, case)
        assert shard.log(0).entries == ()


def test_job_with_the_record_of_an_old_epoch_is_a_bug(world: World) -> None:
    record = replace(world.document.record, epoch=U64(1), hybrid=None)
    with pytest.raises(ConfigurationError, match="not of suite 2"):
        opened(world, world.disputed(), honest(), epoch=record)


def test_answer_contains_neither_share_nor_key(world: World) -> None:
    case, shard = world.disputed(), world.shard(1)
    raw = encode(world.release(shard, case))
    entry = shard.log(0).entries[-1].record
    assert (entry.decision, entry.key_epoch, entry.receipt_id) == (Decision.RELEASED, EPOCH, case.id)
    place = EnvelopeContext(world.context(case), EPOCH)
    found = verify_receipt_envelope(anchor_domain(world.contracts), case.receipt, case.envelope)
    seed, none = shard._rotation.share().kem_seed(), Partial(1, Blob(b""), Blob(b""), Blob(b""))
    given = hybrid.make_partial(none, found, place, seed, Digest(bytes(32)))  # type: ignore[arg-type]
    assert given.share is not None and int.from_bytes(given.share) < ORDER
    for secret in (given.share, seed):
        assert secret.hex().encode() not in raw and secret not in raw

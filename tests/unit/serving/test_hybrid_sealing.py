"""An operator seals to both halves of a hybrid epoch, and to the one key of any other: the epoch tells it how, not whether."""

import os
from pathlib import Path

import pytest

from bytewise.crypto.envelope import verify_receipt_envelope
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.jobs import EpochRecord, anchor_domain
from bytewise.protocol.records.seal import HybridEnvelope, envelope_hash, unpad
from bytewise.protocol.records.trace import Generated
from bytewise.protocol.suites import hybrid_epoch, is_rebuilt, rebuilt_epoch
from bytewise.protocol.units import Digest
from bytewise.service.clock import SystemClock
from enclave.release_client import ShardKeySource
from serving.pipeline import Pipeline, PipelineDeps, SealedAnswer
from serving.request_builder import Offer
from tests.fixtures.kms.memory_chain import OPERATOR, Case
from tests.fixtures.kms.release_network import ENVIRONMENT, World
from tests.fixtures.serving.open_readiness import OPEN

WITHIN_S = 100
"""From the newest block to a receipt's deadline."""


class Folder:
    """`BlobStore` of one blob."""

    def put(self, data: bytes) -> str:
        self.data = data
        return "here"

    def get(self, locator: str) -> bytes:
        return self.data


def sealed_by_an_operator(world: World, epoch: EpochRecord, accept_rebuilt: bool = False) -> tuple[Case, SealedAnswer]:
    """What the pipeline puts on DA for an answer; engine, words and receipt store have no part in that."""
    payload = world.case().payload
    deps = PipelineDeps(
        engine=None, tokenizer=None, operator=OPERATOR, gateway=OPERATOR, blobs=Folder(), receipt_store=None,  # type: ignore[arg-type]
        journal=None, watch=None,  # type: ignore[arg-type]
        clock=SystemClock(), rng=os.urandom, anchor=anchor_domain(world.contracts),
    )  # fmt: skip
    nothing = Digest(bytes(32))
    offer = Offer("tiny", payload.request.model_id, nothing, nothing, ENVIRONMENT, world.contracts.chain_id, 60)
    pipeline = Pipeline(offer, deps, WITHIN_S, accept_simulated=True, accept_rebuilt=accept_rebuilt)
    sealed = pipeline._seal(payload, Generated(payload.output, (nothing, nothing, nothing)), 1, OPEN, epoch)
    return world.named(payload, sealed.receipt, sealed.envelope), sealed


@pytest.mark.parametrize("number", [1, hybrid_epoch(1), rebuilt_epoch(1)])
def test_shards_open_what_an_operator_seals(tmp_path: Path, number: int) -> None:
    world = World(tmp_path, epoch=number)
    rebuilt = is_rebuilt(number)
    case, sealed = sealed_by_an_operator(world, world.document.record, accept_rebuilt=rebuilt)
    assert (sealed.receipt.key_epoch, sealed.receipt.envelope_hash) == (number, envelope_hash(sealed.envelope))
    found = verify_receipt_envelope(anchor_domain(world.contracts), case.receipt, case.envelope)
    assert isinstance(found, HybridEnvelope) == (number == hybrid_epoch(1))
    world.chain.open(case)
    with world.listening(*[(index, world.shard(index, release_shares=rebuilt)) for index in (1, 3)]):
        source = ShardKeySource(world.quoter, pause=lambda _seconds: None, attempts=1, rebuilds=rebuilt)
        assert unpad(source.open(world.job(case), world.secret)) == case.payload


def test_receipt_after_its_deadline_is_not_issued_with_a_fast_clock(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert SystemClock().now() > OPEN.timestamp + WITHIN_S
    _, sealed = sealed_by_an_operator(world, world.document.record)
    assert sealed.receipt.issued_at == sealed.receipt.anchor_by == OPEN.timestamp + WITHIN_S


def test_operator_without_opt_in_seals_nothing_to_a_rebuilt_key_epoch(tmp_path: Path) -> None:
    world = World(tmp_path, epoch=rebuilt_epoch(1))
    with pytest.raises(ConfigurationError, match="set accept"):
        sealed_by_an_operator(world, world.document.record)

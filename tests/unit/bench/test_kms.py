"""What the benchmark of key release calls arithmetic is a release: it opens the envelope, and not with a wrong share."""

import os
from pathlib import Path

import pytest

from bench.kms import in_turns, percentile
from bench.kms_arithmetic import Arithmetic
from bytewise.crypto.curve import encode_scalar
from bytewise.crypto.envelope import open_with_point, verify_receipt_envelope
from bytewise.protocol.errors.actors import ShardLied
from bytewise.protocol.jobs import anchor_domain
from bytewise.protocol.records.seal import unpad
from bytewise.service.secret import Secret
from kms.storage import keyring
from kms.storage.keyring import OpenedShare
from tests.fixtures.kms.release_network import World


def test_the_bare_arithmetic_opens_the_envelope(tmp_path: Path) -> None:
    world = World(tmp_path)
    case = world.case()
    job = world.job(case)
    shares = [keyring.open_share(world.settings.shards[i].folder, world.document) for i in (0, 2)]
    point = Arithmetic(job, world.secret, shares).release()
    envelope = verify_receipt_envelope(anchor_domain(job.contracts), job.receipt, job.envelope)
    opened = open_with_point(envelope, point, job.epoch.public_key, world.context(case), case.id)
    assert unpad(opened) == case.payload
    wrong = OpenedShare(shares[0].index, Secret(encode_scalar(int.from_bytes(os.urandom(31)))))
    with pytest.raises(ShardLied):
        Arithmetic(job, world.secret, [wrong, shares[1]]).release()


def test_percentile_is_a_measurement_not_exceeded_by_that_share() -> None:
    seconds = [n / 1000 for n in range(200, 0, -1)]
    assert [percentile(seconds, share) for share in (0.5, 0.99, 1.0)] == [100.0, 198.0, 200.0]
    assert percentile([0.003], 0.99) == 3.0


def test_parts_are_measured_in_turns_and_the_first_round_is_not_counted() -> None:
    order: list[str] = []
    taken = in_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    assert order == ["a", "b"] * 3 and {name: len(each) for name, each in taken.items()} == {"a": 2, "b": 2}

"""Each bad input to keys and enclaves has its own error, logged without secrets; the table is
`tests/fixtures/kms/bad_inputs.py`."""

import json

import pytest

from bytewise.protocol.errors.branches import BytewiseError, PointFlaw
from bytewise.protocol.keys.epochs import Decision
from kms.shard.release import refusal
from tests.fixtures.kms.bad_inputs import ONE_CASE, POINTS, ROWS, Scene, leaked
from tests.fixtures.kms.release_network import World
from tests.fixtures.tee.simulated_platform import Bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Evidence, and the policy that accepts it."""
    return Bench(tmp_path_factory.mktemp("bench"))


@pytest.mark.parametrize("name", ROWS)
def test_each_bad_input_has_its_error_and_a_log_without_secrets(
    name: str, world: World, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, reason, act = ROWS[name]
    scene = Scene(world, bench, [])
    with pytest.raises(BytewiseError) as caught:
        act(scene)
    assert (type(caught.value), caught.value.reason) == (kind, reason), str(caught.value)
    refusal(caught.value)
    said = capsys.readouterr().err
    line = json.loads(said.splitlines()[-1])
    assert (line["error"], line["rule"], line.get("reason", "")) == (kind.__name__, kind.rule, reason)
    assert leaked(said.encode(), world, scene.made) == []
    assert {each.record.decision for each in world.shard(1).log(0).entries} <= {Decision.REFUSED}


def test_bad_inputs_have_distinct_errors_unless_indistinguishable() -> None:
    by_error: dict[tuple[str, str], set[str]] = {}
    for name, (kind, reason, _) in ROWS.items():
        by_error.setdefault((kind.rule, reason), set()).add(name)
    assert [names for names in by_error.values() if len(names) > 1] == ONE_CASE


def test_secret_in_a_log_is_found(world: World) -> None:
    case = world.case()
    said = world.secret.hex().encode() + case.payload.request.nonce.hex().encode()
    assert leaked(said, world, [case]) == ["transport", "nonce"]
    assert leaked(b"", world, [case]) == []


def test_every_point_error_is_in_the_table() -> None:
    assert set(POINTS) == set(PointFlaw)

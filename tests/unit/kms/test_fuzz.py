"""Every decoder that reads bytes from outside, under Hypothesis; `make soak-kms` runs them under a guided fuzzer."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.protocol.encoding import encode
from bytewise.protocol.keys.epochs import ShardRefusal
from tests.fuzz.target import Target, same, target
from tests.fuzz.targets import TARGETS
from tests.source import ROOT

recipes = st.binary(max_size=40).map(lambda tail: b"\x80" + tail)
chosen = st.binary(min_size=1, max_size=1)
EXAMPLES = 20


@pytest.fixture(scope="module", params=TARGETS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """One target in a world of its own."""
    return TARGETS[request.param](tmp_path_factory.mktemp("fuzz"))


def test_genuine_input_is_accepted(made: Target) -> None:
    """Otherwise a target would look at nothing but its first refusal."""
    assert any([made.one(each) for each in made.corpus])


@given(st.binary(max_size=300) | recipes | st.tuples(chosen, recipes).map(b"".join))
@settings(deadline=None, max_examples=EXAMPLES)
def test_mutated_input_is_accepted_or_refused_by_name(made: Target, data: bytes) -> None:
    """Any other exception is the failure."""
    made.one(data)


def test_decoder_that_fails_in_another_way_is_found() -> None:
    """Control: a foreign exception, and a value that is not its own bytes again."""
    nothing: dict[bytes, bytes] = {}
    foreign = target(nothing.__getitem__, [b"{}"])
    with pytest.raises(KeyError):
        foreign.one(foreign.corpus[0])
    lax = target(
        lambda data: same(ShardRefusal("a", "b", retryable=True), data), [encode(ShardRefusal("a", "b", retryable=False))]
    )
    with pytest.raises(AssertionError, match="other bytes"):
        lax.one(lax.corpus[0])


def test_published_figures_cover_these_targets_without_findings() -> None:
    """A target that is new gets its inputs by `python -m bench.soak_fuzz --only`."""
    figures = json.loads((ROOT / "bench" / "results" / "fuzz-kms.json").read_text())
    assert set(figures["targets"]) == set(TARGETS)
    assert figures["inputs"] >= 10_000_000 and figures["findings"] == 0

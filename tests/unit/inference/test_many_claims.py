"""Several claims at once: each is judged as if it were alone, whatever the others are and however little memory there is."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bytewise.inference import memory
from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.convert.convert import ConversionOptions, convert
from bytewise.inference.convert.make import make_model
from bytewise.inference.engine import ExactEngine, batches
from bytewise.inference.judging import Claim
from bytewise.inference.profiles import open_engine
from bytewise.protocol.errors.actors import CannotExecute
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.records import OutsideLimits
from bytewise.protocol.records.request import output_for
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.records.trace import Verification
from bytewise.protocol.units import ZERO_DIGEST
from bytewise.service.settings import child_environment
from tests.fixtures.inference.models import policy, request
from tests.source import ROOT

NEW = 5


@pytest.fixture(scope="module")
def claims(engine: ExactEngine, model: Artifact) -> list[Claim]:
    """True ones of several lengths, and a false one."""
    asked = [request(model, bytes([65 + i]) * (1 + 7 * i % 20), policy(NEW + i % 3)) for i in range(6)]
    found: list[Claim] = [(each, answer.output, answer.out_hash) for each in asked for answer in [engine.generate(each)]]
    found[2] = (asked[2], output_for(asked[2], (1, 2), "length"), ZERO_DIGEST)
    return found


def unable(model: Artifact) -> dict[str, tuple[Claim, type[BytewiseError]]]:
    """Claims that this engine cannot judge, with what it says of each."""
    asked = request(model, b"x", policy(NEW))
    other = dataclasses.replace(asked, model_id=ZERO_DIGEST)
    return {
        name: ((each, output_for(each, (65,), "length"), ZERO_DIGEST), error)
        for name, each, error in (
            ("another model", other, CannotExecute),
            ("no such token", dataclasses.replace(asked, prompt=(65, 264)), OutsideLimits),
            ("too long", request(model, [1] * 250, policy(7)), OutsideLimits),
        )
    }


def test_claim_that_cannot_be_judged_has_its_own_result_and_harms_no_other(
    engine: ExactEngine, model: Artifact, claims: list[Claim]
) -> None:
    alone = [engine.verify(*claim) for claim in claims]
    bad = unable(model)
    mixed: list[Claim] = [
        claims[0], bad["another model"][0], *claims[1:4], bad["no such token"][0], bad["too long"][0], *claims[4:],
    ]  # fmt: skip
    passes = engine.verify_passes
    found = engine.verify_many(mixed)
    assert engine.verify_passes == passes + 1
    assert [each for each in found if isinstance(each, Verification)] == alone
    assert [type(found[i]) for i in (1, 5, 6)] == [CannotExecute, OutsideLimits, OutsideLimits]
    for claim, error in bad.values():
        with pytest.raises(error):
            engine.verify(*claim)
    assert [type(each) for each in engine.verify_many([claim for claim, _ in bad.values()])] == [e for _, e in bad.values()]


@pytest.mark.parametrize("path", ["auto", "torch"])
def test_claims_too_large_together_are_judged_in_several_passes(model: Artifact, claims: list[Claim], path: str) -> None:
    plain = ExactEngine(model, path=path)
    most = max(len(asked.prompt) + asked.decode.max_new_tokens for asked, _, _ in claims)
    tight = ExactEngine(model, path=path, cache_bytes=plain.path.cache_bytes(2, most))
    assert tight.verify_many(claims) == plain.verify_many(claims)
    assert tight.verify_passes >= 2 and plain.verify_passes == 1


def test_claim_too_large_alone_is_refused_before_memory_is_allocated(
    model: Artifact, claims: list[Claim], monkeypatch: pytest.MonkeyPatch
) -> None:
    tight = ExactEngine(model)
    tight.allowance = tight.path.cache_bytes(1, 40)
    opened: list[int] = []
    really = tight.path.cache
    monkeypatch.setattr(tight.path, "cache", lambda batch, capacity: opened.append(capacity) or really(batch, capacity))  # type: ignore[func-returns-value]
    large = request(model, b"large", policy(200))
    needed = tight.path.cache_bytes(1, 205)
    with pytest.raises(CannotExecute, match=rf"205 tokens needs {needed} bytes, allowed are {tight.allowance}") as caught:
        tight.generate(large)
    assert caught.value.values[1] is CannotReason.RESOURCES
    found = tight.verify_many([claims[0], (large, output_for(large, (65,), "length"), ZERO_DIGEST), claims[1]])
    assert isinstance(found[0], Verification) and isinstance(found[2], Verification)
    assert isinstance(found[1], CannotExecute) and found[1].values[1] is CannotReason.RESOURCES
    assert opened and max(opened) <= 40


def test_cached_conversation_takes_no_more_memory_than_allowed(model: Artifact) -> None:
    asked = request(model, b"again", policy(4))
    plain = ExactEngine(model)
    tight = ExactEngine(model, reuse_prefix=True, cache_bytes=plain.path.cache_bytes(1, 9))
    assert tight.generate(asked) == tight.generate(asked) == plain.generate(asked)


def test_cache_size_equals_the_computed_bytes(model: Artifact) -> None:
    """Of tensors; `starved` asks the same of C's arrays."""
    path: Any = ExactEngine(model, backend="float64").path
    tensors = path.cache(3, 250)
    assert path.cache_bytes(3, 250) == tensors._values.nbytes + tensors._scale.nbytes


def test_operator_whose_longest_request_does_not_fit_does_not_start(model: Artifact) -> None:
    needed = ExactEngine(model).path.cache_bytes(1, 256)
    assert open_engine(model.path, None, cache_bytes=needed, room=256)
    with pytest.raises(CannotExecute, match=f"256 tokens needs {needed} bytes, allowed are {needed - 1}"):
        open_engine(model.path, None, cache_bytes=needed - 1, room=256)


def test_cache_size_is_what_was_computed_and_full_memory_halves_the_batch(tmp_path: Path) -> None:
    """In a process of its own, whose address space is bounded: the library's allocator really fails."""
    make_model(tmp_path / "checkpoint", 7, layers=2, width=64, heads=4, key_value_heads=2, context=8192)
    convert(tmp_path / "checkpoint", tmp_path / "artifact", options=ConversionOptions(equalise=False))
    child = subprocess.run(
        [sys.executable, "-m", "tests.fixtures.inference.starved_engine", str(tmp_path / "artifact")],
        cwd=ROOT, env=child_environment(), capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert (child.returncode, child.stdout.split()) == (0, [b"True", b"RESOURCES", *[b"True"] * 4]), child.stderr


def test_batches_are_as_large_as_fits_and_leave_no_claim_out() -> None:
    sizes = [1, 2, 3, 10, 50]
    found = [list(each) for each in batches(range(5), sizes.__getitem__, lambda count, longest: count * longest <= 9)]
    assert found == [[0, 1, 2], [3], [4]]
    assert list(batches([], sizes.__getitem__, lambda count, longest: False)) == []


@pytest.mark.parametrize(
    ("membership", "files", "bounds"),
    [
        ("0::/\n", {"memory.max": "1000\n"}, [1000]),
        ("0::/\n", {"memory.max": "max\n"}, []),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "500", "memory.max": "700"}, [500, 700]),
        ("12:cpu,memory:/c\n3:cpuset:/d\n", {"memory/c/memory.limit_in_bytes": "300", "d/memory.max": "1"}, [300]),
        ("", {}, []),
    ],
)
def test_control_groups_bound_the_memory_of_a_process(
    tmp_path: Path, membership: str, files: dict[str, str], bounds: list[int]
) -> None:
    (tmp_path / "self").write_text(membership)
    for name, text in files.items():
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(text)
    assert list(memory._bounds(tmp_path / "self", tmp_path / "root")) == bounds


def test_half_of_the_memory_beside_the_weights_is_allowed(engine: ExactEngine, model: Artifact) -> None:
    weights = sum(file.size for file in model.manifest.files)
    assert 0 < memory.of_machine() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert engine.allowance == (memory.of_machine() - weights) // 2 and memory.allowance(10, 20) == 0

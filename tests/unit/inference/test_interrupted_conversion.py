"""A conversion that is killed at any step of publication, meets a full disk, or finds a link: never half an artifact."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bytewise.inference.artifact import artifact
from bytewise.inference.convert.convert import ConversionOptions, convert
from bytewise.protocol.errors.actors import ConfigurationError
from tests.fixtures.inference.tiny import write_checkpoint

PLAIN = ConversionOptions(equalise=False)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A tiny checkpoint."""
    write_checkpoint("llama", tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def dying(step: int, checkpoint: Path, out: Path) -> int | None:
    """Exit code of a conversion that is killed at a step: before or after a small file, a sync, the renaming."""
    seen = [0]

    def tick() -> None:
        seen[0] += 1
        if seen[0] == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(owner: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def stepped(*arguments: Any) -> Any:
            tick()
            result = real(*arguments)
            tick()
            return result

        setattr(owner, name, stepped)

    def work() -> None:
        for owner, name in ((os, "fsync"), (os, "posix_fallocate"), (Path, "write_bytes"), (Path, "rename")):
            around(owner, name)
        convert(checkpoint, out, options=PLAIN)

    # Forked: what is replaced is replaced in the child alone.
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(60)
    return process.exitcode


def test_a_conversion_killed_at_any_step_leaves_a_whole_artifact_or_none(checkpoint: Path, tmp_path: Path) -> None:
    out, step, whole = tmp_path / "artifact", 0, []
    model_id = convert(checkpoint, tmp_path / "undisturbed", options=PLAIN)
    while dying(step := step + 1, checkpoint, out) == -signal.SIGKILL:
        whole.append(out.exists())
        if out.exists():
            assert artifact.load(out).model_id == model_id
            out.rename(tmp_path / f"made-{step}")
    assert artifact.load(out).model_id == model_id and not (tmp_path / "artifact.partial").exists()
    # Steps before the renaming, and after it.
    assert whole.count(False) > 15 and whole == sorted(whole) and any(whole)


def linked(kind: str, out: Path, elsewhere: Path) -> None:
    """Puts a link where the artifact, or the folder beside it, is to be."""
    where = out.with_name(out.name + ".partial") if "beside" in kind else out
    where.symlink_to(elsewhere / "nowhere" if "nowhere" in kind else elsewhere)


@pytest.mark.parametrize("kind", ["target", "target to nowhere", "beside", "beside to nowhere"])
def test_link_at_the_target_is_refused_before_any_work_and_not_followed(kind: str, checkpoint: Path, tmp_path: Path) -> None:
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "artifact"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("somebody's")
    linked(kind, out, elsewhere)
    told: list[int] = []
    with pytest.raises(ConfigurationError, match="already exists" if "target" in kind else r"artifact.partial: is a link"):
        convert(checkpoint, out, lambda _name, done, _total: told.append(done), options=PLAIN)
    assert told == [] and [path.name for path in elsewhere.iterdir()] == ["kept"]
    assert sorted(path.name for path in tmp_path.iterdir() if not path.is_symlink()) == ["checkpoint", "elsewhere"]


def test_file_that_may_not_grow_leaves_nothing_behind(checkpoint: Path, tmp_path: Path) -> None:
    """A limit on the size of files is what a test can have of a full disk: the same calls fail in the same way."""
    resource = pytest.importorskip("resource")
    convert(checkpoint, tmp_path / "undisturbed", options=PLAIN)
    size = (tmp_path / "undisturbed/weights.safetensors").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for limit in (4096, int(size * 0.3), int(size * 0.9), size - 1):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
            with pytest.raises(ConfigurationError, match=r"artifact: cannot be written: File too large"):
                convert(checkpoint, tmp_path / "artifact", options=PLAIN)
            assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint", "undisturbed"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)

"""What a shard writes is on the disk before anything depends on it: in which order files are synced, named and wiped.

A power cut is what tells these orders apart, and no test has one; so the calls themselves are watched.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import ConfigurationError
from kms.storage import files

SECRET = b"secret"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, ...]]]:
    """What the kernel is asked, in order: `sync` with the file's name and content, `link`, `rename` and `unlink`."""
    seen: list[tuple[str, ...]] = []
    link, rename, unlink, sync = os.link, os.replace, os.unlink, os.fsync

    def synced(file: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{file}"))
        seen.append(("sync", path.name, "" if path.is_dir() else path.read_bytes().hex()))
        sync(file)

    def named(what: str, call: object) -> object:
        def asked(first: str, *rest: str) -> None:
            seen.append((what, *(Path(each).name for each in (first, *rest))))
            call(first, *rest)  # type: ignore[operator]

        return asked

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", named("link", link))
    monkeypatch.setattr(os, "replace", named("rename", rename))
    monkeypatch.setattr(os, "unlink", named("unlink", unlink))
    yield seen


def test_file_gets_its_name_after_its_bytes_are_synced_and_syncs_the_name(tmp_path: Path, calls: list[tuple[str, ...]]) -> None:
    folder, whole = tmp_path.name, SECRET.hex()
    files.write_whole(tmp_path / "share.json", SECRET)
    assert calls == [
        ("sync", "share.draft", whole), ("link", "share.draft", "share.json"), ("unlink", "share.draft"), ("sync", folder, ""),
    ]  # fmt: skip
    calls.clear()
    files.replace_whole(tmp_path / "share.json", SECRET[::-1])
    assert calls == [
        ("sync", "share.draft", SECRET[::-1].hex()), ("rename", "share.draft", "share.json"), ("sync", folder, ""),
    ]  # fmt: skip
    calls.clear()
    files.create_file(tmp_path / "other.key", SECRET)
    assert calls == [("sync", "other.key", whole), ("sync", folder, "")]


def test_a_file_is_overwritten_on_the_disk_before_its_name_goes(tmp_path: Path, calls: list[tuple[str, ...]]) -> None:
    path, zeros = tmp_path / "storage.key", bytes(len(SECRET)).hex()
    path.write_bytes(SECRET)
    files.wipe(path)
    assert calls == [("sync", "storage.key", zeros), ("unlink", "storage.key")]
    assert not path.exists() and files.is_wiped(path)


def test_draft_is_unlinked_before_its_bytes_are_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draft, synced = tmp_path / "share.draft", list[bytes]()
    draft.write_bytes(SECRET)

    with draft.open("rb") as kept:
        monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.pread(kept.fileno(), 99, 0)))
        assert files.wipe_draft(draft) and not draft.exists()
        assert synced == [bytes(len(SECRET))]
    assert not files.wipe_draft(draft)


def test_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigurationError, match="No space left on device: it was not written"):
        files.create_file(tmp_path / "storage.key", SECRET)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ConfigurationError, match="name a file in a folder that is there"):
        files.create_file(tmp_path / "nowhere" / "storage.key", SECRET)

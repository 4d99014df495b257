"""The corpus: one package and no other, split by the name of the page alone."""

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from models import corpus
from models.corpus import Page, Section, conversation, training_text

LONG = "It does what it says. " * 20


def package(files: dict[str, str]) -> bytes:
    """A .deb: an `ar` archive whose first member has an odd length and is padded."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w:xz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    members = {"debian-binary": b"2.0", "data.tar.xz": tar.getvalue()}
    parts = [b"!<arch>\n"]
    for name, data in members.items():
        parts += [f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode(), data, b"\n" * (len(data) % 2)]
    return b"".join(parts)


def written(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> Path:
    path = folder / "docs.deb"
    path.write_bytes(package(files))
    monkeypatch.setattr(corpus, "PACKAGE_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def test_pages_and_licence_are_read_from_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = f'<div role="main"><h1>Shelves</h1><p>{LONG}</p></div>'
    files = {f"{corpus.PAGES}library/{name}.html": page for name in ("shelve", "json")}
    files |= {f"{corpus.PAGES}genindex.html": page, f"{corpus.PAGES}empty.html": "", corpus.LICENCE: "PSF"}
    found = corpus.read(written(tmp_path, monkeypatch, files))
    assert ([page.name for page in found], found.licence) == (["library/json", "library/shelve"], "PSF")
    assert found.pages[0].text == f"Shelves\n{LONG.strip()}"


def test_another_package_is_refused_by_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "other.deb"
    path.write_bytes(package({}))
    with pytest.raises(ValueError, match=r"other\.deb has SHA-256 [0-9a-f]{64}, expected"):
        corpus.read(path)


def test_a_package_without_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "odd.deb"
    path.write_bytes(package({})[:72])
    monkeypatch.setattr(corpus, "PACKAGE_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    with pytest.raises(ValueError, match=r"holds no data\.tar\.xz"):
        corpus.read(path)


def test_conversation_follows_the_chat_template() -> None:
    from jinja2 import Environment

    from bytewise.inference.convert.make import CHAT_TEMPLATE

    text = conversation("Shelves", "They hold.")
    question = text.removeprefix("<|begin|><|user|>").partition("<|end|>")[0]
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": "They hold."}]
    assert "Shelves" in question
    assert text == Environment().from_string(CHAT_TEMPLATE).render(messages=messages, bos_token="<|begin|>")


def test_short_sections_become_running_text_instead_of_answers() -> None:
    page = Page("a", (Section("Short", ["No."]), Section("Long", [LONG])))
    texts = list(training_text([page, page]))
    assert len(texts) == 3 and "Short\nNo." in texts[1]
    assert all("<|user|>" in text and "Long" in text for text in (texts[0], texts[2]))


def test_split_depends_on_the_name_only_and_reserves_some_pages() -> None:
    pages = [Page(f"library/{i}", (Section(str(i), ["text"]),)) for i in range(2000)]
    held = [page for page in pages if page.held_out]
    assert 40 < len(held) < 130
    assert [Page(page.name, ()).held_out for page in pages] == [page.held_out for page in pages]

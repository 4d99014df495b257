"""Training text: Python's documentation from a Debian package, divided by page into training and held-out text."""

import hashlib
import io
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

# Sections of prose from a page that Sphinx made, without code samples and tables.

_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = {"p", "li", "dt", "dd", "div", "section", "dl", "ul", "ol", "blockquote", "aside"}
_SKIPPED = {"pre", "table", "nav", "script", "style", "svg", "head", "math"}
_SKIPPED_CLASSES = {"headerlink", "contents", "toctree-wrapper", "viewcode-link", "footnote-reference"}
_SPACE = re.compile(r"\s+")


@dataclass
class Section:
    """A heading, or the signature of a documented object, with the paragraphs below it."""

    title: str
    """Title in one line; for a function its signature."""
    paragraphs: list[str] = field(default_factory=list)
    """Prose, one line each, in the order of the page."""

    @property
    def text(self) -> str:
        """The paragraphs, one paragraph on each line."""
        return "\n".join(self.paragraphs)


class _Reader(HTMLParser):
    """Reader of the main part of a page. The stack contains the open elements. It never contains void elements, because they
    have no end."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.sections: list[Section] = []
        self._stack: list[tuple[str, str]] = []
        self._buffer: list[str] = []
        self._heading = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _VOID:
            return
        values = dict(attrs)
        classes = set((values.get("class") or "").split())
        role = self._role(tag, classes, values.get("role") == "main")
        if role in ("title", "signature") or tag in _BLOCKS:
            self._flush()
        self._stack.append((tag, role))

    def _role(self, tag: str, classes: set[str], main: bool) -> str:
        if tag in _SKIPPED or classes & _SKIPPED_CLASSES:
            return "skipped"
        if main:
            return "main"
        if tag in _HEADINGS:
            return "title"
        if tag == "dt" and "sig" in classes:
            return "signature"
        return "entry" if tag == "dl" and classes & {"py", "c", "std"} else ""

    def handle_endtag(self, tag: str) -> None:
        if tag not in (name for name, _ in self._stack):
            return
        while self._stack:
            name, role = self._stack[-1]
            text = self._take() if role in ("title", "signature") else None
            if name in _BLOCKS:
                self._flush()
            self._stack.pop()
            if text:
                self._heading = text if role == "title" else self._heading
                self.sections.append(Section(text))
            if role == "entry":
                # Text after the last of several entries belongs to the heading above them.
                self.sections.append(Section(self._heading))
            if name == tag:
                return

    def handle_data(self, data: str) -> None:
        roles = [role for _, role in self._stack]
        if "main" in roles and "skipped" not in roles:
            self._buffer.append(data)

    def close(self) -> None:
        super().close()
        self._flush()

    def _take(self) -> str:
        text = _SPACE.sub(" ", "".join(self._buffer)).strip()
        self._buffer.clear()
        return text

    def _flush(self) -> None:
        text = self._take()
        if text and self.sections:
            self.sections[-1].paragraphs.append(text)


def sections(html: str) -> list[Section]:
    """Returns the sections of a page that have prose, in order."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return [section for section in reader.sections if section.paragraphs]


# The package of the documentation.

PACKAGE = "python3.11-doc_3.11.2-6+deb12u8_all.deb"
"""File name of the Debian package. On Debian 12, `apt-get download python3.11-doc` fetches it."""
PACKAGE_SHA256 = "50eb63e7f636c4281e9ce1b8f10386f1def42159eddce34fc1f41c46261df71b"
PAGES = "./usr/share/doc/python3.11/html/"
LICENCE = "./usr/share/doc/python3.11-doc/copyright"
LEFT_OUT = ("genindex", "contents", "search", "py-modindex", "whatsnew/changelog", "download", "about", "copyright", "license")
"""The corpus leaves out pages whose name begins with one of these texts, because lists of links, licences and the changelog are
no prose."""
HELD_OUT_OF_256 = 10
"""Number of the 256 values of a byte. A page is held out from training if the first byte of its name's hash is below this
number. That holds out 3.9 % of the pages."""
SHORTEST_ANSWER = 300
"""Least number of characters of an answer, about 75 tokens. Shorter answers would teach the model to end at once."""
QUESTIONS = ("{}", "What is {}?", "Explain {}.", "Tell me about {}.")


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the documentation."""

    name: str
    """Path below the root of the documentation, without suffix."""
    sections: tuple[Section, ...]
    """Sections of prose, in the order of the page."""

    @property
    def held_out(self) -> bool:
        """Whether the page is held out from training. It depends only on the page's name."""
        return hashlib.sha256(self.name.encode()).digest()[0] < HELD_OUT_OF_256

    @property
    def text(self) -> str:
        """The whole page: titles and paragraphs."""
        return "\n\n".join(f"{section.title}\n{section.text}" for section in self.sections)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Text of the package."""

    pages: tuple[Page, ...]
    """Pages, ascending by name."""
    licence: str
    """Text of the package's own licence file."""

    def __iter__(self) -> Iterator[Page]:
        return iter(self.pages)


def read(package: Path) -> Corpus:
    """Returns the corpus of the Debian package. Raises `ValueError` if the file is another one."""
    data = package.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != PACKAGE_SHA256:
        raise ValueError(f"{package.name} has SHA-256 {found}, expected {PACKAGE_SHA256} ({PACKAGE})")
    pages, licence = [], ""
    with tarfile.open(fileobj=io.BytesIO(_member(data, "data.tar.xz"))) as archive:
        for entry in archive:
            content = archive.extractfile(entry) if entry.isfile() else None
            if content is not None and entry.name == LICENCE:
                licence = content.read().decode()
            name = entry.name.removeprefix(PAGES).removesuffix(".html")
            if content is not None and f"{PAGES}{name}.html" == entry.name and not name.startswith(LEFT_OUT):
                pages.append(Page(name, tuple(sections(content.read().decode()))))
    return Corpus(tuple(sorted((page for page in pages if page.sections), key=lambda page: page.name)), licence)


def _member(archive: bytes, name: str) -> bytes:
    # A .deb is an `ar` archive: headers of 60 bytes, members padded to an even length.
    at = 8
    while at + 60 <= len(archive):
        header = archive[at : at + 60]
        size = int(header[48:58])
        if header[:16].decode().strip().rstrip("/") == name:
            return archive[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
    raise ValueError(f"the package holds no {name}")


def conversation(title: str, text: str) -> str:
    """Returns one question with its answer, in the form that the chat template writes."""
    form = QUESTIONS[hashlib.sha256(title.encode()).digest()[0] % len(QUESTIONS)]
    return f"<|begin|><|user|>{form.format(title)}<|end|><|assistant|>{text}<|end|>"


def training_text(pages: list[Page]) -> Iterator[str]:
    """Yields a conversation about every section that is long enough for an answer. Of every second page it also yields the
    running text."""
    for number, page in enumerate(pages):
        for section in page.sections:
            if len(section.text) >= SHORTEST_ANSWER:
                yield conversation(section.title, section.text)
        if number % 2 == 0:
            yield f"<|begin|>{page.text}<|end|>"

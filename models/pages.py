"""Sections of prose from a page that Sphinx made, without code samples and tables."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

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
        """The paragraphs, one a line."""
        return "\n".join(self.paragraphs)


class _Reader(HTMLParser):
    """Walks the main part of a page. Void elements are not pushed, so the stack contains the open elements."""

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
    """The sections of a page that have prose, in order."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return [section for section in reader.sections if section.paragraphs]

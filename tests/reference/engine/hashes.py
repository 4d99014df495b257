"""Sections 1 and 7 of the text: hashes, with the labels that the text names and libraries of the language alone."""

import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.source import ROOT

TEXT = (ROOT / "docs" / "reference" / "exact-arithmetic.md").read_text()

LABELS = dict(re.findall(r"^\| `([A-Z_]+)` \| `(bytewise/[a-z0-9/-]+)` \|", TEXT, re.MULTILINE))
"""The table of section 1."""


def labelled(name: str, *parts: bytes | int) -> bytes:
    """H: 32 bytes."""
    written = [LABELS[name].encode(), *(part.to_bytes(8, "big") if isinstance(part, int) else part for part in parts)]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in written)).digest()


def derived(name: str, secret: bytes) -> bytes:
    """32 bytes of HKDF-SHA256 (RFC 5869) without salt: one block."""
    key = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(key, LABELS[name].encode() + b"\x01", "sha256")


def canonical(value: Any) -> bytes:
    """Canonical JSON of values whose names and texts are ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def model_id(folder: Path) -> bytes:
    """Of an artifact folder."""
    return labelled("ARTIFACT", (folder / "manifest.json").read_bytes())


def execution(model: bytes, decode: dict[str, Any], prompt: Sequence[int]) -> bytes:
    """The execution hash."""
    return labelled("EXECUTION", model, b"exact-1", canonical(decode), canonical(list(prompt)))


def calibration_tokens(vocabulary: int, context: int) -> list[int]:
    """Without a text."""
    return [int.from_bytes(labelled("CALIBRATION", i), "big") % vocabulary for i in range(min(128, context))]


def leaf(nonce: bytes, i: int, row: bytes, exponent: int, token: int) -> bytes:
    """A trace leaf."""
    return labelled("TRACE_LEAF", 1, derived("TRACE_BLIND", nonce), i, row, exponent, token)


def trace_root(leaves: Sequence[bytes]) -> bytes:
    """The trace root."""
    level = list(leaves)
    while len(level) > 1:
        level = [b"".join(level[i : i + 2]) for i in range(0, len(level), 2)]
        level = [labelled("TRACE_NODE", each[:32], each[32:]) if len(each) == 64 else each for each in level]
    return labelled("TRACE_ROOT", len(leaves), level[0] if level else labelled("TRACE_NODE"))

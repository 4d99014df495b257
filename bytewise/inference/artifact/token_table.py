"""Table of the bytes of each token, from the artifact's own tokenizer file. A token's bytes do not depend on its neighbours.

Stop strings and grammars are part of the profile, so the text of tokens must be part of it too. A text is a concatenation of
these bytes. Supported families have two kinds of vocabulary. A byte-level vocabulary has a printable character for each byte,
as in GPT-2. A SentencePiece vocabulary with byte fallback has U+2581 for a space, and `<0x0A>` for a byte.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from bytewise.protocol.encoding import verify_depth
from bytewise.protocol.errors.actors import UnsupportedModel
from bytewise.protocol.errors.records import TooLarge

SPACE = "\u2581"
"""Character for a space in SentencePiece vocabularies."""

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def byte_characters() -> list[str]:
    """Returns the character that stands for each byte in byte-level vocabularies. A printable byte has its own character. Every
    other byte has a character from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]


class TokenTable:
    """Bytes of every token of one tokenizer. This class parses the tokenizer file at its first use."""

    def __init__(self, tokenizer_json: bytes, vocabulary: int) -> None:
        """`tokenizer_json` is the content of the file. `vocabulary` is the number of logits, at least as large as the
        tokenizer's vocabulary."""
        self.file = tokenizer_json
        self.vocabulary = vocabulary

    def verify(self) -> "TokenTable":
        """Returns the table if it has the bytes of every token. Raises `UnsupportedModel` if it has not."""
        _ = self.pieces
        return self

    def write(self, token_ids: Iterable[int]) -> bytes:
        """Returns the bytes of an answer. Control tokens and unknown ids add no bytes."""
        return b"".join(self.pieces[token] for token in token_ids if token < self.vocabulary)

    def text(self, raw: bytes) -> str:
        """Returns the text of an answer's bytes. Replaces invalid UTF-8, and removes the space that some tokenizers put before
        the text."""
        text = raw.decode("utf-8", "replace")
        return text.removeprefix(" ") if self._begins_with_space else text

    @cached_property
    def pieces(self) -> list[bytes]:
        """Bytes of each token by id. There is one entry for each logit, and the entry of a control token is empty. Raises
        `UnsupportedModel` if the file is malformed or has another kind of vocabulary."""
        try:
            names = self._names()
            silent = self.control
            if {*map(type, names), *map(type, silent)} - {int} or {*map(type, names.values())} - {str}:
                raise TypeError("a token's id is not an integer, or its name is not a text")
            write = self._byte_level() if self._has("ByteLevel") else self._sentence_piece()
            return [write(names[i]) if i in names and i not in silent else b"" for i in range(self.vocabulary)]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UnsupportedModel(f"tokenizer file: {type(error).__name__} {str(error)[:100]}") from None

    @cached_property
    def control(self) -> frozenset[int]:
        """Ids of control tokens."""
        return frozenset(each["id"] for each in self._added if each["special"])

    def _names(self) -> dict[int, str]:
        known = self._content["model"]["vocab"]
        pairs = known.items() if isinstance(known, dict) else ((piece, i) for i, (piece, _) in enumerate(known))
        return {token: name for name, token in pairs} | {each["id"]: each["content"] for each in self._added}

    def _byte_level(self) -> Callable[[str], bytes]:
        byte_of = {character: byte for byte, character in enumerate(byte_characters())}

        def write(name: str) -> bytes:
            # A name with a character for no byte is an added token, which is written as it is.
            return bytes(map(byte_of.__getitem__, name)) if byte_of.keys() >= set(name) else name.encode()

        return write

    def _sentence_piece(self) -> Callable[[str], bytes]:
        if not (self._has("ByteFallback") or self._has("Metaspace")):
            kinds = ", ".join(str(each.get("type")) for each in self._decoders) or "none"
            raise UnsupportedModel(f"tokenizer decoder {kinds[:100]}")

        def write(name: str) -> bytes:
            byte = _BYTE.fullmatch(name)
            return bytes.fromhex(byte[1]) if byte else name.replace(SPACE, " ").encode()

        return write

    @cached_property
    def _content(self) -> Mapping[str, Any]:
        try:
            content: Mapping[str, Any] = json.loads(verify_depth(self.file).decode())
        except (TooLarge, ValueError) as error:
            raise UnsupportedModel(f"tokenizer file: {str(error)[:100]}") from None
        return content

    @property
    def _added(self) -> list[Mapping[str, Any]]:
        return list(self._content.get("added_tokens") or [])

    @property
    def _decoders(self) -> list[Mapping[str, Any]]:
        decoder = self._content.get("decoder") or {}
        return list(decoder["decoders"]) if decoder.get("type") == "Sequence" else [decoder]

    def _has(self, kind: str) -> bool:
        return any(each.get("type") == kind for each in self._decoders)

    @property
    def _begins_with_space(self) -> bool:
        strips = any(each.get("type") == "Strip" and each.get("start", 0) > 0 for each in self._decoders)
        prepends = (each for each in self._decoders if each.get("type") == "Metaspace")
        return strips or any(each.get("prepend_scheme", "always") != "never" for each in prepends)

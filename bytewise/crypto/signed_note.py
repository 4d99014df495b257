"""Signed notes (c2sp.org/signed-note): a text, a blank line, and one line for each signature.

A line names the key and its id: the first 4 bytes of SHA-256(name, newline, type of the signature, public key).
"""

import base64
import binascii
import enum
import re
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey

from bytewise.crypto.ed25519 import verify_ed25519
from bytewise.protocol.digests import sha256
from bytewise.protocol.errors.records import MalformedValue

MAX_NOTE_BYTES = 2**17
"""Longest note that is read: 16 signatures of ML-DSA-87 and a text."""
MLDSA_CONTEXT = b"bytewise/v1/signed-note"
"""FIPS 204 context of ML-DSA-65 signatures of notes."""

_LINE = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")


class SignatureType(enum.Enum):
    """The types of signatures that this program reads, by their bytes in a key id."""

    ED25519 = b"\x01"
    COSIGNATURE = b"\x04"
    """Ed25519 of a witness, with a time (c2sp.org/tlog-cosignature)."""
    MLDSA65 = b"\xffbytewise/ml-dsa-65"
    """No byte is assigned to ML-DSA-65, so the type is 0xff and a name."""


_KEY_LENGTHS = {SignatureType.ED25519: 32, SignatureType.COSIGNATURE: 32, SignatureType.MLDSA65: 1952}


class NoteKey(NamedTuple):
    """A public key of notes."""

    name: str
    """Name of the signer, without spaces and plus signs."""
    kind: SignatureType
    raw: bytes
    """The public key: 32 bytes, or 1952 of ML-DSA-65."""

    @property
    def id(self) -> bytes:
        """Its 4 bytes in a signature."""
        return sha256(self.name.encode() + b"\n" + self.kind.value + self.raw)[:4]

    @property
    def text(self) -> str:
        """The key as people exchange it (a vkey): name, id and key, joined by plus signs."""
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(self.kind.value + self.raw).decode()}"

    def line(self, signature: bytes) -> "NoteSignature":
        """The line of a signature by this key."""
        return NoteSignature(self.name, self.id + signature)


class NoteSignature(NamedTuple):
    """One line of signatures."""

    name: str
    """Name of the key."""
    value: bytes
    """The id of the key and the signature."""


class SignedNote(NamedTuple):
    """A note. Nothing in it is verified."""

    text: str
    """The text, with its last newline."""
    signatures: tuple[NoteSignature, ...]
    """Lines in their order."""

    def encode(self) -> str:
        """The note as a file has it."""
        lines = "".join(f"— {each.name} {base64.b64encode(each.value).decode()}\n" for each in self.signatures)
        return f"{self.text}\n{lines}"

    def value_of(self, key: NoteKey) -> bytes | None:
        """The signature that the note claims by a key, without the id; None if there is none. `MalformedValue` if several."""
        found = [each.value[4:] for each in self.signatures if each.name == key.name and each.value[:4] == key.id]
        if len(found) > 1:
            raise MalformedValue("note", f"{len(found)} signatures by {key.name[:60]}")
        return found[0] if found else None

    def is_signed_by(self, key: NoteKey) -> bool:
        """Whether the note has a valid signature by a key. `MalformedValue` if it has several lines of the key."""
        value = self.value_of(key)
        return value is not None and _is_valid(key, self.text, value)


def parse_note(data: str) -> SignedNote:
    """The note in this text. `MalformedValue` for any text that `SignedNote.encode` would not return."""
    if len(data.encode()) > MAX_NOTE_BYTES:
        raise MalformedValue("note", f"longer than {MAX_NOTE_BYTES} bytes")
    text, gap, lines = data.rpartition("\n\n")
    if not gap or not text or not lines.endswith("\n") or _CONTROL.search(data):
        raise MalformedValue("note", "not a text, a blank line and lines of signatures")
    note = SignedNote(text + "\n", tuple(map(_signature, lines[:-1].split("\n"))))
    if note.encode() != data:
        raise MalformedValue("note", "a signature has another base64 form")
    return note


def parse_key(text: str) -> NoteKey:
    """The key that `NoteKey.text` wrote. `MalformedValue` for any other text."""
    name, *rest = text.split("+", 2)
    try:
        identifier, raw = rest[0], base64.b64decode(rest[1], validate=True)
    except (IndexError, ValueError):
        raise MalformedValue("key of notes", "not NAME+ID+BASE64") from None
    for kind, length in _KEY_LENGTHS.items():
        if raw.startswith(kind.value) and len(raw) == len(kind.value) + length:
            key = NoteKey(name, kind, raw[len(kind.value) :])
            if key.text == text and key.id.hex() == identifier and re.fullmatch(r"[^\s+]+", name):
                return key
    raise MalformedValue("key of notes", "its type is unknown, or its id is of another key")


def cosigned(text: str, at: int) -> bytes:
    """What a witness signs: the text of a checkpoint, and the Unix second at which it was the newest that the witness saw."""
    return f"cosignature/v1\ntime {at}\n{text}".encode()


def cosignature_time(value: bytes) -> int:
    """Unix second of a cosignature, without its key id."""
    return int.from_bytes(value[:8], "big")


def _signature(line: str) -> NoteSignature:
    match = _LINE.fullmatch(line)
    try:
        value = b"" if match is None else base64.b64decode(match[2], validate=True)
    except binascii.Error:
        value = b""
    if match is None or len(value) < 5:
        raise MalformedValue("note", "a line is no signature")
    return NoteSignature(match[1], value)


def _is_valid(key: NoteKey, text: str, value: bytes) -> bool:
    try:
        if key.kind is SignatureType.MLDSA65:
            MLDSA65PublicKey.from_public_bytes(key.raw).verify(value, text.encode(), MLDSA_CONTEXT)
        elif key.kind is SignatureType.COSIGNATURE:
            verify_ed25519(key.raw, value[8:], cosigned(text, cosignature_time(value)))
        else:
            verify_ed25519(key.raw, value, text.encode())
    except (InvalidSignature, ValueError):
        return False
    return True

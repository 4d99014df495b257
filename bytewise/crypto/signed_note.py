"""Signed notes (c2sp.org/signed-note). A note is a text, a blank line, and one line for each signature.

A signature line names its key and the key's id: the first 4 bytes of SHA-256(name, newline, type of the signature, public key).
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
"""Longest note that is read. It leaves room for 16 signatures of ML-DSA-87 and a text."""
MLDSA_CONTEXT = b"bytewise/v1/signed-note"
"""FIPS 204 context string under which ML-DSA-65 signs notes."""

_LINE = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")


class SignatureType(enum.Enum):
    """The types of signatures that this program reads. Each value is the type's bytes in a key id."""

    ED25519 = b"\x01"
    COSIGNATURE = b"\x04"
    """Ed25519 signature of a witness over a checkpoint and a time (c2sp.org/tlog-cosignature)."""
    MLDSA65 = b"\xffbytewise/ml-dsa-65"
    """No byte is assigned to ML-DSA-65, so the type is 0xff and a name."""


_KEY_LENGTHS = {SignatureType.ED25519: 32, SignatureType.COSIGNATURE: 32, SignatureType.MLDSA65: 1952}


class NoteKey(NamedTuple):
    """A public key that verifies signatures of notes."""

    name: str
    """Name of the signer, without spaces and plus signs."""
    kind: SignatureType
    raw: bytes
    """The public key: 1952 bytes for ML-DSA-65, 32 bytes for the other types."""

    @property
    def id(self) -> bytes:
        """The 4 bytes by which a signature line names this key."""
        return sha256(self.name.encode() + b"\n" + self.kind.value + self.raw)[:4]

    @property
    def text(self) -> str:
        """The key as people exchange it (a vkey): name, id and key, joined by plus signs."""
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(self.kind.value + self.raw).decode()}"

    def line(self, signature: bytes) -> "NoteSignature":
        """Returns the signature line for a signature that this key made."""
        return NoteSignature(self.name, self.id + signature)


class NoteSignature(NamedTuple):
    """One signature line of a note."""

    name: str
    """Name of the key that signed."""
    value: bytes
    """The 4-byte id of the key, followed by the signature."""


class SignedNote(NamedTuple):
    """A note as it was parsed. Its signatures are not verified."""

    text: str
    """The text, including its last newline."""
    signatures: tuple[NoteSignature, ...]
    """Signature lines, in the order of the note."""

    def encode(self) -> str:
        """Returns the note as the text of a file."""
        lines = "".join(f"— {each.name} {base64.b64encode(each.value).decode()}\n" for each in self.signatures)
        return f"{self.text}\n{lines}"

    def value_of(self, key: NoteKey) -> bytes | None:
        """Returns the unverified signature that the note carries for a key, without the key's id. Returns None if there is none.

        Raises `MalformedValue` if the note has several lines of the key.
        """
        found = [each.value[4:] for each in self.signatures if each.name == key.name and each.value[:4] == key.id]
        if len(found) > 1:
            raise MalformedValue("note", f"{len(found)} signatures by {key.name[:60]}")
        return found[0] if found else None

    def is_signed_by(self, key: NoteKey) -> bool:
        """Returns whether the note has a valid signature by the key.

        Raises `MalformedValue` if it has several lines of the key.
        """
        value = self.value_of(key)
        return value is not None and _is_valid(key, self.text, value)


def parse_note(data: str) -> SignedNote:
    """Parses a note. Raises `MalformedValue` for any text that `SignedNote.encode` would not return."""
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
    """Parses a key that `NoteKey.text` wrote. Raises `MalformedValue` for any other text."""
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
    """Returns the bytes that a witness signs: the text of a checkpoint and a time.

    `at` is the Unix second at which the checkpoint was the newest that the witness had seen.
    """
    return f"cosignature/v1\ntime {at}\n{text}".encode()


def cosignature_time(value: bytes) -> int:
    """Returns the Unix second in a cosignature. `value` is the cosignature without its key id."""
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

"""Checkpoints of a journal (c2sp.org/tlog-checkpoint), in the form of signed notes (c2sp.org/signed-note).

A note is a text, a blank line, and one line for each signature. A signature line names its key and the key's id: the first 4
bytes of SHA-256(name, newline, type of the signature, public key).

The text of a checkpoint has size and root of the journal's tree. Ed25519 and ML-DSA-65 sign it. Both keys come from one seed. An
attacker that breaks Ed25519 finds the scalar but not the seed, so the ML-DSA-65 key stays secret (ADR-052). The name of a journal
is a hash of both public keys. A checkpoint is therefore valid only under the keys that it names.
"""

import base64
import binascii
import enum
import re
from dataclasses import dataclass
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey, MLDSA65PublicKey

from bytewise.crypto.ed25519 import verify_ed25519
from bytewise.protocol import digests
from bytewise.protocol.digests import Label, sha256
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import MAX_SAFE_INTEGER, Blob, Digest, digest

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
    """The specification assigns no byte to ML-DSA-65. The type is therefore 0xff and a name."""


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
        """Returns the signature that the note has for a key, without the key's id. The signature is not verified. Returns None if
        the note has no line of the key.

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
    # A lone surrogate has no UTF-8 form, and so no signature covers it.
    try:
        size = len(data.encode())
    except UnicodeEncodeError as error:
        raise MalformedValue("note", f"character {error.start} is not text") from None
    if size > MAX_NOTE_BYTES:
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
            if re.fullmatch(r"[^\s+\ud800-\udfff]+", name) and key.text == text and key.id.hex() == identifier:
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


ORIGIN = "bytewise/journal/"
"""First characters of the name of every journal."""

_TEXT = re.compile(r"(bytewise/journal/[0-9a-f]{64})\n(0|[1-9][0-9]{0,15})\n([A-Za-z0-9+/]{43}=)\ntime (0|[1-9][0-9]{0,15})\n")


@dataclass(frozen=True, slots=True)
class JournalKeys:
    """The public keys of one journal."""

    ed25519: Blob
    """Key that signs entries and checkpoints, 32 bytes."""
    ml_dsa_65: Blob
    """Key that signs checkpoints, 1952 bytes."""

    @property
    def fingerprint(self) -> Digest:
        """Hash of both public keys."""
        return digests.labelled(Label.JOURNAL_KEYS, self.ed25519, self.ml_dsa_65)

    @property
    def origin(self) -> str:
        """Name of the journal in its checkpoints."""
        return ORIGIN + self.fingerprint.hex()

    @property
    def note_keys(self) -> tuple[NoteKey, NoteKey]:
        """Both keys in the form that signed notes use, Ed25519 first."""
        return (
            NoteKey(self.origin, SignatureType.ED25519, self.ed25519),
            NoteKey(self.origin, SignatureType.MLDSA65, self.ml_dsa_65),
        )

    def verify_entry(self, signature: bytes, entry: Digest) -> None:
        """Checks that the Ed25519 key signed an entry's digest.

        Raises `InvalidSignature` if it did not, and `ValueError` if the key is invalid.
        """
        verify_ed25519(self.ed25519, signature, entry)


class JournalCheckpoint(NamedTuple):
    """The content of a checkpoint."""

    origin: str
    """Name of the journal."""
    size: int
    """Number of entries that the checkpoint covers, from the first on."""
    root: Digest
    """Root of the tree of these entries (`bytewise.crypto.tree_hash`)."""
    at: int
    """Unix second at which the checkpoint was signed, by the journal's clock."""

    @property
    def text(self) -> str:
        """The text that is signed. Its last line has the time and is an extension of the format."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\ntime {self.at}\n"


class SignedCheckpoint(NamedTuple):
    """A checkpoint and the note that it came in."""

    checkpoint: JournalCheckpoint
    note: SignedNote


class CheckpointKeys:
    """The secret keys of one journal."""

    def __init__(self, ed25519: Ed25519PrivateKey) -> None:
        self._ed25519 = ed25519
        seed = digests.derive(Label.JOURNAL_MLDSA, ed25519.private_bytes_raw())
        self._mldsa = MLDSA65PrivateKey.from_seed_bytes(seed)

    @property
    def public(self) -> JournalKeys:
        """The public keys that belong to the secret keys."""
        raw = self._ed25519.public_key().public_bytes_raw(), self._mldsa.public_key().public_bytes_raw()
        return JournalKeys(*map(Blob, raw))

    def sign(self, size: int, root: Digest, at: int) -> SignedCheckpoint:
        """Makes a checkpoint of the given size, root and time, with both signatures."""
        keys = self.public
        made = JournalCheckpoint(keys.origin, size, root, at)
        raw = made.text.encode()
        values = self._ed25519.sign(raw), self._mldsa.sign(raw, MLDSA_CONTEXT)
        lines = tuple(key.line(value) for key, value in zip(keys.note_keys, values, strict=True))
        return SignedCheckpoint(made, SignedNote(made.text, lines))


def parse_checkpoint(data: str) -> SignedCheckpoint:
    """Parses the note of a checkpoint without verifying its signatures. Raises `MalformedValue` if it is not a checkpoint."""
    note = parse_note(data)
    match = _TEXT.fullmatch(note.text)
    if match is None or max(int(match[2]), int(match[4])) > MAX_SAFE_INTEGER:
        raise MalformedValue("checkpoint", "not the origin of a journal, a size, a root and a time")
    found = JournalCheckpoint(match[1], int(match[2]), digest(base64.b64decode(match[3])), int(match[4]))
    if found.text != note.text:
        raise MalformedValue("checkpoint", "its root has another base64 form")
    return SignedCheckpoint(found, note)


def signed_by(keys: JournalKeys, signed: SignedCheckpoint) -> tuple[bool, bool]:
    """Returns two booleans: whether the Ed25519 key signed the checkpoint, and whether the ML-DSA-65 key did.

    Raises `MalformedValue` if one key has several signatures in the note.
    """
    if signed.checkpoint.origin != keys.origin:
        return False, False
    ed25519, mldsa = (signed.note.is_signed_by(key) for key in keys.note_keys)
    return ed25519, mldsa


def entry_digest(number: int, at: int, kind: str, subject: bytes, body: bytes, previous: Digest) -> Digest:
    """Returns the digest of a journal entry. `body` is canonical JSON, and `previous` is the digest of the entry before."""
    return digests.labelled(Label.JOURNAL, number, at, kind.encode(), subject, body, previous)


def witness_key(name: str, key: Ed25519PrivateKey) -> NoteKey:
    """Returns the public key of a witness.

    Raises `MalformedValue` if the name is empty, has more than 100 characters, or has spaces, plus signs or characters that
    cannot be printed.
    """
    if not re.fullmatch(r"[^\s+]{1,100}", name) or not name.isprintable():
        raise MalformedValue("witness name", "must be a name such as example.org/witness, without spaces and plus signs")
    return NoteKey(name, SignatureType.COSIGNATURE, key.public_key().public_bytes_raw())


def cosign(signed: SignedCheckpoint, name: str, key: Ed25519PrivateKey, at: int) -> SignedCheckpoint:
    """Returns the checkpoint with the cosignature of a witness. An earlier cosignature of the same witness is replaced.

    Raises `MalformedValue` if the note becomes longer than `MAX_NOTE_BYTES`.
    """
    public = witness_key(name, key)
    line = public.line(at.to_bytes(8, "big") + key.sign(cosigned(signed.note.text, at)))
    others = (each for each in signed.note.signatures if (each.name, each.value[:4]) != (public.name, public.id))
    return parse_checkpoint(SignedNote(signed.note.text, (*others, line)).encode())

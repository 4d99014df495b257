"""Checkpoints of a journal (c2sp.org/tlog-checkpoint): size and root of its tree, signed by Ed25519 and by ML-DSA-65.

Both keys come from one seed. An attacker that breaks Ed25519 finds the scalar but not the seed, so the ML-DSA-65 key stays secret
(ADR-052). The name of a journal is a hash of both public keys. A checkpoint is therefore valid only under the keys that it names.
"""

import base64
import re
from dataclasses import dataclass
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey

from bytewise.crypto.ed25519 import verify_ed25519
from bytewise.crypto.signed_note import MLDSA_CONTEXT, NoteKey, SignatureType, SignedNote, cosigned, parse_note
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import MAX_SAFE_INTEGER, Blob, Digest, digest

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
        """The text that is signed. The time is in an extension line."""
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

    Raises `MalformedValue` if the name is empty, has spaces or plus signs, or more than 100 characters.
    """
    if not re.fullmatch(r"[^\s+]{1,100}", name) or not name.isprintable():
        raise MalformedValue("witness name", "must be a name such as example.org/witness, without spaces and plus signs")
    return NoteKey(name, SignatureType.COSIGNATURE, key.public_key().public_bytes_raw())


def cosign(signed: SignedCheckpoint, name: str, key: Ed25519PrivateKey, at: int) -> SignedCheckpoint:
    """Returns the checkpoint with the cosignature of a witness. An earlier cosignature of the same witness is replaced.

    Raises `MalformedValue` if the note then has so many signatures that it is longer than a reader accepts.
    """
    public = witness_key(name, key)
    line = public.line(at.to_bytes(8, "big") + key.sign(cosigned(signed.note.text, at)))
    others = (each for each in signed.note.signatures if (each.name, each.value[:4]) != (public.name, public.id))
    return parse_checkpoint(SignedNote(signed.note.text, (*others, line)).encode())

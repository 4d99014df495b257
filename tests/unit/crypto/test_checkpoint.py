"""Signed notes and checkpoints: published notes, both signatures, cosignatures of witnesses, and texts that are none."""

import base64
import dataclasses

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bytewise.crypto.checkpoint import (
    CheckpointKeys,
    NoteKey,
    NoteSignature,
    SignatureType,
    SignedNote,
    cosign,
    cosignature_time,
    parse_checkpoint,
    parse_key,
    parse_note,
    signed_by,
    witness_key,
)
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Digest

# The example of Go's package golang.org/x/mod/sumdb/note.
GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_NOTE = (
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
KEYS = CheckpointKeys(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
WITNESS = Ed25519PrivateKey.from_private_bytes(b"w" * 32)
ROOT = Digest(bytes(31) + b"\x01")
SIGNED = KEYS.sign(7, ROOT, 1_764_000_000)


def test_published_note_and_key_are_read() -> None:
    key, note = parse_key(GO_KEY), parse_note(GO_NOTE)
    assert (key.name, key.kind, key.text, note.encode()) == ("PeterNeumann", SignatureType.ED25519, GO_KEY, GO_NOTE)
    assert note.is_signed_by(key)
    assert not note._replace(text=note.text.replace("know", "knew")).is_signed_by(key)


def test_checkpoint_has_both_signatures_and_comes_back() -> None:
    data = SIGNED.note.encode()
    assert data.splitlines()[1] == "7" and parse_checkpoint(data) == SIGNED
    assert signed_by(KEYS.public, SIGNED) == (True, True)
    other = CheckpointKeys(Ed25519PrivateKey.from_private_bytes(bytes(32))).public
    assert signed_by(other, SIGNED) == (False, False)
    mixed = dataclasses.replace(KEYS.public, ml_dsa_65=other.ml_dsa_65)
    assert signed_by(mixed, SIGNED) == (False, False), "the name of the journal commits to both keys"


@pytest.mark.parametrize("place", [0, 1])
def test_each_signature_is_needed(place: int) -> None:
    lines = list(SIGNED.note.signatures)
    forged = NoteSignature(lines[place].name, lines[place].value[:4] + bytes(len(lines[place].value) - 4))
    for changed in ([*lines[:place], *lines[place + 1 :]], [*lines[:place], forged, *lines[place + 1 :]]):
        found = signed_by(KEYS.public, SIGNED._replace(note=SignedNote(SIGNED.note.text, tuple(changed))))
        assert found == (place != 0, place != 1)


@pytest.mark.parametrize("field, value", [("size", 8), ("root", Digest(bytes(32))), ("at", 1_764_000_001)])
def test_changed_field_of_a_checkpoint_is_not_signed(field: str, value: object) -> None:
    changed = SIGNED.checkpoint._replace(**{field: value})  # type: ignore[arg-type]
    assert signed_by(KEYS.public, SIGNED._replace(note=SIGNED.note._replace(text=changed.text))) == (False, False)


def test_witness_signs_checkpoint_and_time() -> None:
    key = witness_key("example.org/w1", WITNESS)
    both = cosign(cosign(SIGNED, key.name, WITNESS, 1_764_000_100), key.name, WITNESS, 1_764_000_200)
    read = parse_checkpoint(both.note.encode())
    assert read.note.is_signed_by(key) and parse_key(key.text) == key and signed_by(KEYS.public, read) == (True, True)
    value = read.note.value_of(key)
    assert value is not None and cosignature_time(value) == 1_764_000_200, "one line for each witness"
    later = key.line((1_764_000_300).to_bytes(8, "big") + value[8:])
    assert not SignedNote(read.note.text, (later,)).is_signed_by(key)
    assert not read.note.is_signed_by(witness_key("example.org/w2", WITNESS))
    with pytest.raises(MalformedValue):
        SignedNote(read.note.text, (*read.note.signatures, later)).is_signed_by(key)
    for name in ("", "a b", "a+b", "a\x1b"):
        with pytest.raises(MalformedValue):
            witness_key(name, WITNESS)


GOOD = SIGNED.note.encode()


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "\n\n", GOOD[:-1], GOOD + "\n", GOOD + "x", GOOD.replace("\n\n", "\n"), GOOD.replace("— ", "- "),
        "\x00" + GOOD, GOOD.replace("\n7\n", "\n07\n"), GOOD.replace("\n7\n", "\n-7\n"), GOOD.replace("\n7\n", "\n٧\n"),
        GOOD.replace("time 1", "time  1"), GOOD.replace("\n7\n", "\n9999999999999999\n"), GOOD.replace("AAE=", "AAF="),
        GOOD.replace("AAE=", "AAE"), "more\n" + GOOD, GOOD.replace("time ", "clock "),
        GOOD.replace("bytewise/journal", "bytewise/other"), GOOD.split("\n\n")[0] + "\n\n— name AAAA\n",
        GOOD.replace("\n— ", "\r\n— "), GOOD + "— x " + "A" * 2**18 + "\n", GOOD.replace("=\n", "==\n"),
    ],
)  # fmt: skip
def test_texts_that_are_no_checkpoints_are_refused(text: str) -> None:
    with pytest.raises(MalformedValue):
        parse_checkpoint(text)


@pytest.mark.parametrize(
    "text",
    ["", "a", "a+b", GO_KEY + "=", GO_KEY.replace("c74f20a3", "c74f20a4"), GO_KEY.replace("Peter", "Paul"), GO_KEY[:-4],
     GO_KEY.replace("+ARpc", "+CRpc"), GO_KEY.replace("c74f20a3", "C74F20A3"), " " + GO_KEY, "\ud800" + GO_KEY],
)  # fmt: skip
def test_texts_that_are_no_keys_are_refused(text: str) -> None:
    with pytest.raises(MalformedValue):
        parse_key(text)


NAMES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=20).filter(
    lambda name: "+" not in name
)
LINES = st.lists(st.builds(NoteSignature, NAMES, st.binary(min_size=5, max_size=90)), min_size=1, max_size=5)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], include_characters="\n"), min_size=1, max_size=200)


@given(TEXTS, LINES)
def test_note_comes_back_from_its_encoding(text: str, lines: list[NoteSignature]) -> None:
    note = SignedNote(text + "\n", tuple(lines))
    assert parse_note(note.encode()) == note


ANY_CHARACTER = st.characters(exclude_categories=())
"""Lone surrogates too, which `json.loads` can return."""


@example("\ud800")
@given(st.text(ANY_CHARACTER, max_size=200) | TEXTS.map(lambda text: text + "\n\n— a AAAAAAAA\n"))
def test_any_text_is_read_to_the_same_text_or_refused(text: str) -> None:
    try:
        note = parse_note(text)
    except MalformedValue:
        return
    assert note.encode() == text


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**53 - 1), st.binary(min_size=32, max_size=32), st.integers(0, 2**53 - 1))
def test_checkpoint_of_any_values_comes_back(size: int, root: bytes, at: int) -> None:
    made = KEYS.sign(size, Digest(root), at)
    assert parse_checkpoint(made.note.encode()) == made and signed_by(KEYS.public, made) == (True, True)


@given(NAMES, st.sampled_from(list(SignatureType)), st.data())
def test_key_comes_back_from_its_text(name: str, kind: SignatureType, data: st.DataObject) -> None:
    length = 1952 if kind is SignatureType.MLDSA65 else 32
    key = NoteKey(name, kind, data.draw(st.binary(min_size=length, max_size=length)))
    assert parse_key(key.text) == key
    assert base64.b64decode(key.text.split("+", 2)[2]).startswith(kind.value)

"""A key file that is named where a document belongs: the error names kind and place of what is wrong, and shows nothing of it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.address_book import Network
from bytewise.protocol.encoding import decode, parse, parse_typed
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.jobs import ShardRecord
from bytewise.protocol.keys.ceremony import CeremonySeat, Erasure, ShardContact
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.service.settings import load_settings
from kms.settings import ApproveSettings

HEX_KEYS = st.binary(min_size=32, max_size=32).map(bytes.hex) | st.text("0123456789", min_size=64, max_size=64)
KEY_FILES = st.builds(str.__add__, st.sampled_from(("", "0x")), HEX_KEYS).flatmap(
    lambda key: st.sampled_from((key, key + "\n", key.upper(), f'"{key}"', f"[{key}]"))
)
SEAT = {"address": "0x" + "11" * 20, "certificate": "", "channel": "", "index": 1, "url": ""}
ERASURE = {
    "at": "1", "chain_id": "1", "epoch": "1", "erased": 0, "kept": "0x" + "00" * 32, "key_epochs": "0x" + "11" * 20, "version": 0
}  # fmt: skip
READERS: tuple[Callable[[bytes], object], ...] = (
    parse,
    parse_typed,
    *(lambda data, cls=cls: decode(cls, data) for cls in (ShardRecord, ShardContact, EpochDocument, Network)),
)


def pieces(key: str) -> set[str]:
    """Every three digits of a key that stand beside each other, but those that a word of ours could have."""
    digits = re.sub("[^0-9a-fA-F]", "", key.removeprefix("0x"))
    return {each for i in range(len(digits) - 2) if re.search(r"\d", each := digits[i : i + 3])}


def said_by(read: Callable[[], object]) -> str:
    """What an error says, if there is one, without its rule, its place, and the limits that it names."""
    try:
        read()
    except BytewiseError as error:
        return re.sub(r"\[R-\d+\]|(line|column|char|byte) \d+|\d+ characters|2\^\d+|0x and 40|utf-\d+", "", str(error))
    return ""


def show_nothing(key: str, said: str) -> None:
    assert not [each for each in pieces(key) if each in said], said


def document_of(members: dict[str, object]) -> bytes:
    """Canonical bytes, but that an integer may be too large."""
    return json.dumps(members, separators=(",", ":"), sort_keys=True).encode()


@given(KEY_FILES)
def test_no_reader_of_documents_shows_a_key(key: str) -> None:
    for read in READERS:
        show_nothing(key, said_by(lambda read=read: read(key.encode())))  # type: ignore[misc]


@given(HEX_KEYS, st.sampled_from(sorted(SEAT)), st.booleans())
def test_no_value_of_a_record_is_shown(key: str, field: str, as_number: bool) -> None:
    value = int(key, 16) if as_number else key
    document = document_of(SEAT | {field: value})
    show_nothing(str(value), said_by(lambda: decode(CeremonySeat, document)))


@given(st.text("123456789", min_size=64, max_size=78) | HEX_KEYS, st.sampled_from(sorted(ERASURE)))
def test_number_that_is_too_large_is_not_shown(key: str, field: str) -> None:
    document = document_of(ERASURE | {field: key})
    show_nothing(key, said_by(lambda: decode(Erasure, document)))


@given(HEX_KEYS)
def test_a_settings_file_that_is_a_key_is_not_shown(key: str) -> None:
    with TemporaryDirectory() as folder:
        for name in ("bytewise.toml", "serve.json"):
            (path := Path(folder) / name).write_text(key)
            show_nothing(key, said_by(lambda path=path: load_settings(ApproveSettings, path)))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("74e031ab", "a number is not an integer"),
        ("9007199254740993", "an integer is not below 2^53"),
        ("7f", "Extra data: line 1 column 2 (char 1)"),
        ("\x80", "byte 0 is not utf-8"),
    ],
)
def test_error_names_kind_and_place(document: str, said: str) -> None:
    with pytest.raises(BytewiseError, match=re.escape(said)):
        parse(document.encode("latin-1"))

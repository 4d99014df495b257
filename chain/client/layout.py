"""Storage layouts: the slot in which a contract stores a variable, and the decoding of a word that `eth_getProof` proves.

The compiler writes the layouts in `chain/abi/layout/`. Immutable values and constants are code, not storage; the code hash of
the address book covers them. Source: the Solidity manual, "Layout of State Variables in Storage".
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from eth_abi.abi import encode as abi_encode
from eth_abi.exceptions import EncodingError

from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address
from chain.client.artifacts import FOLDER

WORD = 32
"""Bytes of a slot."""


@dataclass(frozen=True, slots=True)
class StorageSlot:
    """The position of a value in a contract's storage."""

    slot: int
    """Number of the slot; of the first slot if the value has several."""
    offset: int
    """Number of bytes between the value and the least significant end of the word."""
    kind: str
    """Type of the value, by its name in the layout."""


class Layout:
    """The storage layout of one contract."""

    def __init__(self, name: str, document: Mapping[str, Any]) -> None:
        self.name = name
        self.variables: Mapping[str, Any] = {each["label"]: each for each in document["storage"]}
        self._types = document["types"]

    def place(self, variable: str, *steps: Any) -> StorageSlot:
        """Returns the position of a variable, or of a part of it.

        Each step is a mapping's key, an array's index or a struct member's name. Raises `MalformedValue`, which names the step,
        if the layout does not have it.
        """
        here = self._member(variable, self.variables, StorageSlot(0, 0, ""), variable)
        for step in steps:
            here = self._inner(variable, here, step)
        return here

    def decode(self, place: StorageSlot, word: bytes) -> Any:
        """Decodes the value at `place` from its word: an int, bool, bytes, lower-case address, or the length of a dynamic array.

        Raises `MalformedValue` for an invalid value, and for a struct, mapping, fixed array or text, which do not fit in one
        word.
        """
        kind = self._types[place.kind]
        if len(word) != WORD:
            raise MalformedValue(self.name, f"a storage word of {len(word)} bytes")
        if kind["encoding"] == "dynamic_array":
            return int.from_bytes(word, "big")
        if kind["encoding"] != "inplace" or "members" in kind or "base" in kind:
            raise MalformedValue(self.name, f"{kind['label']} is not in one word: name what is in it")
        end = WORD - place.offset
        return self._value(kind["label"], word[end - int(kind["numberOfBytes"]) : end])

    def _value(self, label: str, raw: bytes) -> Any:
        if label == "address" or label.startswith(("contract ", "address ")):
            return Address("0x" + raw.hex())
        if label == "bool":
            if raw[0] > 1:
                raise MalformedValue(self.name, f"a bool of {raw[0]}")
            return raw[0] == 1
        return raw if label.startswith("bytes") else int.from_bytes(raw, "big", signed=label.startswith("int"))

    def _inner(self, where: str, here: StorageSlot, step: Any) -> StorageSlot:
        """Returns the position of a struct's member, a mapping's value or an array's element."""
        kind = self._types[here.kind]
        if "members" in kind:
            return self._member(where, {each["label"]: each for each in kind["members"]}, here, step)
        if kind["encoding"] == "mapping":
            key = self._key(where, kind["key"], step)
            return StorageSlot(int.from_bytes(keccak256(key + here.slot.to_bytes(WORD, "big")), "big"), 0, kind["value"])
        if "base" in kind:
            return self._element(where, here, kind, step)
        raise MalformedValue(f"{self.name}.{where}", f"nothing is in {kind['label']}")

    def _member(self, where: str, members: Mapping[str, Any], here: StorageSlot, name: Any) -> StorageSlot:
        if not isinstance(name, str) or name not in members:
            raise MalformedValue(f"{self.name}.{where}", f"no {name!r}: one of {sorted(members)}")
        found = members[name]
        return StorageSlot(here.slot + int(found["slot"]), found["offset"], found["type"])

    def _key(self, where: str, kind: str, key: Any) -> bytes:
        """Returns a mapping's key as a word. No contract of ours has keys of text."""
        entry = self._types[kind]
        is_address = entry["label"] == "address" or entry["label"].startswith("contract ")
        is_number = entry["label"].startswith("enum ") or kind.startswith("t_userDefinedValueType")
        named = f"uint{8 * int(entry['numberOfBytes'])}" if is_number else entry["label"]
        try:
            return bytes(abi_encode(["address" if is_address else named], [key]))
        except (EncodingError, TypeError, ValueError) as error:
            raise MalformedValue(f"{self.name}.{where}", f"the key {key!r}: {str(error)[:120]}") from None

    def _element(self, where: str, here: StorageSlot, array: Mapping[str, Any], index: Any) -> StorageSlot:
        """Returns the position of an array's element. Raises `MalformedValue` for an index outside a fixed array."""
        size = int(self._types[array["base"]]["numberOfBytes"])
        is_dynamic = array["encoding"] == "dynamic_array"
        first = int.from_bytes(keccak256(here.slot.to_bytes(WORD, "big")), "big") if is_dynamic else here.slot
        length = None if is_dynamic else int(array["label"].rsplit("[", 1)[1][:-1])
        if type(index) is not int or index < 0 or (length is not None and index >= length):
            raise MalformedValue(f"{self.name}.{where}", f"no element {index!r} in {array['label']}")
        if size > WORD // 2:
            return StorageSlot(first + index * -(-size // WORD), 0, array["base"])
        row, column = divmod(index, WORD // size)
        return StorageSlot(first + row, column * size, array["base"])


@cache
def layout(name: str) -> Layout:
    """Loads the committed layout of a contract, once. Raises `ConfigurationError` if it is missing or unreadable."""
    path = FOLDER / "layout" / f"{name}.json"
    try:
        return Layout(name, json.loads(path.read_text()))
    except (OSError, KeyError, ValueError) as error:
        raise ConfigurationError(path.name, f"cannot be read ({type(error).__name__}): install Bytewise again") from None

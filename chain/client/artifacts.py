"""Compiled contracts as committed in `chain/abi/`. This module encodes calls, and decodes results, events and errors by name.

A struct is decoded to a dict keyed by its Solidity names, a `bytes32` to 32 bytes, an address to lower-case text. `to_struct` and
`from_struct` convert between records and structs. Contracts do not check that a `string` is UTF-8. Other bytes are decoded to
surrogates, from which `text_bytes` restores the bytes.
"""

import dataclasses
import enum
import json
import re
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from eth_abi.abi import decode as abi_decode
from eth_abi.abi import encode as abi_encode
from eth_abi.exceptions import DecodingError, EncodingError
from eth_utils.crypto import keccak

from bytewise.protocol.encoding import field_types
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.signing import camel
from bytewise.protocol.units import Address, Digest

FOLDER = Path(__file__).parent.parent / "abi"

CONTRACTS = (
    "Charter", "AccessManager", "TimelockController", "GovernanceToken", "BytewiseGovernor", "Params", "Guardian", "Ledger",
    "StakeVault", "Registry", "StakeTree", "RandaoSource", "BlsKeys", "KeyEpochs", "FeeMarket", "ReceiptAnchor",
    "Demands", "Settlement", "Rounds", "Breaker", "Disputes", "Keeper", "Audits", "Lens",
)  # fmt: skip
"""Contracts of a deployment, each deployed once or several times. `chain.deployment.plan` has their order."""

ADAPTERS = ("EigenLayerStake",)
"""Contracts that a deployment may have in place of the vault, at `stake_vault` of the address book (ADR-034)."""

BESIDE = ("BondPool",)
"""Contracts that anybody may deploy for an existing network. No address book has them."""

EIGENLAYER = ("IAllocationManager", "IDelegationManager", "IStrategy", "IWrappedEther")
"""Interfaces of EigenLayer's contracts and of wrapped ether. The check of a deployment and `chain.reads.restaking` call them."""

_BUILT_IN = (
    {"type": "error", "name": "Error", "inputs": [{"name": "message", "type": "string"}]},
    {"type": "error", "name": "Panic", "inputs": [{"name": "code", "type": "uint256"}]},
)


class Log(NamedTuple):
    """One decoded event."""

    contract: Address
    """Address of the contract that emitted the event."""
    event: str
    """Name of the event."""
    values: Mapping[str, Any]
    """Arguments by name, indexed or not."""
    block: int
    """Block number."""
    block_hash: Digest
    """Block hash."""
    place: int
    """Position of the event in the block."""
    transaction: Digest
    """Transaction hash."""


class View(NamedTuple):
    """A read-only call of a contract. Several can be made in one round trip."""

    contract: str
    """Contract whose ABI applies."""
    at: Address
    """Address of the contract."""
    function: str
    """Name of the function."""
    arguments: tuple[Any, ...] = ()
    """Arguments of the call."""

    @property
    def request(self) -> dict[str, str]:
        """The call in the form of JSON-RPC. Raises `MalformedValue` if arguments do not fit their types."""
        return {"to": self.at, "data": "0x" + interface(self.contract).call(self.function, *self.arguments).hex()}

    def result(self, data: bytes) -> Any:
        """Decodes the answer, as `Interface.result` does."""
        return interface(self.contract).result(self.function, data)


class Reason(NamedTuple):
    """The reason of a revert: name and arguments of a custom error of our contracts, or the selector of an unknown error."""

    name: str
    """Name of the error; for an unknown error its selector in hex."""
    arguments: Mapping[str, Any]
    """Arguments of the error by name; empty if they are unknown."""

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={_shown(value)}' for name, value in self.arguments.items())})"

    @classmethod
    def of(cls, data: bytes) -> "Reason":
        """Decodes revert data. The arguments are empty if they do not fit the error."""
        entry = all_errors().get(data[:4])
        if entry is None:
            return cls(f"0x{data[:4].hex()}", {})
        try:
            return cls(entry["name"], _decode(entry["name"], entry["inputs"], data[4:]))
        except MalformedValue:
            return cls(entry["name"], {})


_PREFIX = 4
"""Number of bytes at the start of runtime code that contain no immutable value."""
_IMMUTABLE = re.compile(b"\x7f(\x00{32})")
"""Pattern of an immutable value in creation code: PUSH32 and 32 zeros, which the constructor replaces. A constant zero is
PUSH0."""


class Interface:
    """ABI and creation code of one contract."""

    def __init__(self, name: str, document: Mapping[str, Any]) -> None:
        self.name = name
        self.bytecode = bytes.fromhex(document["bytecode"][2:])
        self._runtime = bytes.fromhex(document.get("runtime", "0x")[2:])
        self._immutables: Sequence[Sequence[int]] = document.get("immutables", ())
        entries = document["abi"]
        self.constructor: Sequence[Any] = next((entry["inputs"] for entry in entries if entry["type"] == "constructor"), [])
        self.functions = {entry["name"]: entry for entry in entries if entry["type"] == "function"}
        self.events = {_hash(entry): entry for entry in entries if entry["type"] == "event"}
        self.errors = {_hash(entry)[:4]: entry for entry in (*entries, *_BUILT_IN) if entry["type"] == "error"}

    def creates(self, code: bytes) -> bool:
        """Returns whether the creation code puts this runtime code on the chain, whatever its immutable values are."""
        at = self.bytecode.find(code[:_PREFIX])
        while code and at >= 0:
            blank = bytearray(part := self.bytecode[at : at + len(code)])
            for place in _IMMUTABLE.finditer(part):
                blank[slice(*place.span(1))] = code[slice(*place.span(1))]
            if blank == code:
                return True
            at = self.bytecode.find(code[:_PREFIX], at + 1)
        return False

    def call(self, function: str, *arguments: Any) -> bytes:
        """Returns the calldata of a call. Raises `MalformedValue` if arguments do not fit their types."""
        entry = self.functions[function]
        return self.selector(function) + self._encode(function, entry["inputs"], arguments)

    def arguments(self, function: str, data: bytes) -> tuple[Any, ...]:
        """Decodes the arguments of a call, without its selector, in order. Raises `MalformedValue` if the bytes do not fit the
        ABI."""
        return tuple(_decode(f"{self.name}.{function}", self.functions[function]["inputs"], data).values())

    def selector(self, function: str) -> bytes:
        """Returns the first four bytes of the function's calldata."""
        return _hash(self.functions[function])[:4]

    def function_of(self, data: bytes) -> str | None:
        """Returns the name of the function that calldata calls. Returns None if this contract has no such function."""
        return next((name for name in self.functions if self.selector(name) == data[:4]), None)

    def writing(self) -> dict[str, Any]:
        """Returns the ABI entries of the functions that may change state, by name."""
        return {name: entry for name, entry in self.functions.items() if entry["stateMutability"] in ("nonpayable", "payable")}

    def creation(self, *arguments: Any) -> bytes:
        """Returns the data of the transaction that deploys the contract with these constructor arguments."""
        return self.bytecode + self._encode("constructor", self.constructor, arguments)

    def deployed(self, *immutables: bytes) -> bytes:
        """Returns the runtime code in which these words are the immutable values, in the order in which the contract declares
        them. Only the artifacts of `BESIDE` have the positions that this needs."""
        code = bytearray(self._runtime)
        for places, word in zip(self._immutables, immutables, strict=True):
            for place in places:
                code[place : place + 32] = word.rjust(32, b"\0")
        return bytes(code)

    def result(self, function: str, data: bytes) -> Any:
        """Decodes the result of a function. A single value is returned as it is, several values as a dict by name.

        Raises `MalformedValue` if the bytes do not fit the ABI.
        """
        outputs = self.functions[function]["outputs"]
        values = _decode(f"{self.name}.{function}", outputs, data)
        return next(iter(values.values())) if len(outputs) == 1 else values

    def event(self, topics: Sequence[bytes], data: bytes) -> tuple[str, dict[str, Any]] | None:
        """Decodes a log to the name and arguments of an event. Returns None if this contract has no such event."""
        entry = self.events.get(topics[0]) if topics else None
        if entry is None:
            return None
        where = f"{self.name}.{entry['name']}"
        indexed = [each for each in entry["inputs"] if each["indexed"]]
        plain = [each for each in entry["inputs"] if not each["indexed"]]
        return entry["name"], _decode(where, indexed, b"".join(topics[1:])) | _decode(where, plain, data)

    def topic(self, event: str) -> bytes:
        """Returns the first topic of the event with this name."""
        return next(topic for topic, entry in self.events.items() if entry["name"] == event)

    def _encode(self, where: str, inputs: Sequence[Any], arguments: Sequence[Any]) -> bytes:
        try:
            return abi_encode([kind_of(each) for each in inputs], arguments)
        except (EncodingError, TypeError, ValueError) as error:
            raise MalformedValue(f"{self.name}.{where}", str(error)[:200]) from None


@cache
def interface(name: str) -> Interface:
    """Loads the committed artifact of a contract, once. Raises `ConfigurationError` if it is missing or unreadable."""
    path = FOLDER / f"{name}.json"
    try:
        return Interface(name, json.loads(path.read_text()))
    except (OSError, KeyError, ValueError) as error:
        raise ConfigurationError(path.name, f"cannot be read ({type(error).__name__}): install Bytewise again") from None


@cache
def all_errors() -> Mapping[bytes, Any]:
    """Returns the errors of all contracts by selector, because a call of one contract can revert with the error of another."""
    known = (*CONTRACTS, *ADAPTERS, *BESIDE)
    return {selector: entry for name in known for selector, entry in interface(name).errors.items()}


def text_bytes(text: str) -> bytes:
    """Returns the bytes from which a `string` was decoded."""
    return text.encode("utf-8", "surrogateescape")


def legible(text: str) -> str:
    """Returns a decoded `string` for terminals and JSON. Bytes that are no UTF-8 appear as `\\xff`."""
    return text_bytes(text).decode("utf-8", "backslashreplace")


def _decode(where: str, parameters: Sequence[Any], data: bytes) -> dict[str, Any]:
    try:
        # A `string` is encoded like `bytes`. Decode it as bytes, because the library refuses a string that is no UTF-8.
        values = abi_decode([kind_of(each).replace("string", "bytes") for each in parameters], data)
    except (DecodingError, ValueError, OverflowError) as error:
        raise MalformedValue(where, str(error)[:200]) from None
    named = enumerate(zip(parameters, values, strict=True))
    return {each["name"] or str(place): _named(each, value) for place, (each, value) in named}


def _named(parameter: Mapping[str, Any], value: Any) -> Any:
    kind = parameter["type"]
    if kind.endswith("]"):
        inner = {**parameter, "type": kind[: kind.rindex("[")]}
        return tuple(_named(inner, item) for item in value)
    if kind == "tuple":
        return {each["name"]: _named(each, item) for each, item in zip(parameter["components"], value, strict=True)}
    return value.decode("utf-8", "surrogateescape") if kind == "string" else value


def kind_of(parameter: Mapping[str, Any]) -> str:
    """Returns the type of a parameter as function signatures write it. A tuple is written as the types of its components."""
    if not parameter["type"].startswith("tuple"):
        return str(parameter["type"])
    inner = ",".join(kind_of(each) for each in parameter["components"])
    return f"({inner}){parameter['type'][5:]}"


def _hash(entry: Mapping[str, Any]) -> bytes:
    return keccak(f"{entry['name']}({','.join(kind_of(each) for each in entry['inputs'])})".encode())


def _shown(value: Any) -> str:
    return f"0x{value.hex()}" if isinstance(value, bytes) else legible(str(value))


# Records and structs have the same fields in the same order. Records use snake case, structs camel case.

T = TypeVar("T")


def to_struct(record: Any) -> tuple[Any, ...]:
    """Returns the record as an argument of a contract call."""
    return tuple(_plain(getattr(record, name)) for name in field_types(type(record)))


def from_struct(cls: type[T], raw: Mapping[str, Any]) -> T:
    """Builds a record from a decoded struct, which may have more fields. Call it inside `reading_answer`."""
    return cls(**{name: _read(kind, raw[camel(name)]) for name, kind in field_types(cls).items()})


def _plain(value: Any) -> Any:
    return to_struct(value) if dataclasses.is_dataclass(value) else value


def _read(kind: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return from_struct(kind, value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple and dataclasses.is_dataclass(arguments[0]):
        return tuple(_read(arguments[0], each) for each in value)
    return value

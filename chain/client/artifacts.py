"""Compiled contracts as committed in `chain/abi/`: encode calls, decode results, events and errors by name.

Structs, including nested ones, decode to dicts keyed by their Solidity names; `bytes32` to 32 bytes; addresses to lower-case
text. Contracts do not check a `string`, so bytes that are no UTF-8 become surrogates; `text_bytes` restores the same bytes.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from eth_abi.abi import decode as abi_decode
from eth_abi.abi import encode as abi_encode
from eth_abi.exceptions import DecodingError, EncodingError
from eth_utils.crypto import keccak

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address, Digest

FOLDER = Path(__file__).parent.parent / "abi"

CONTRACTS = (
    "Charter", "AccessManager", "TimelockController", "GovernanceToken", "BytewiseGovernor", "Params", "Guardian", "Ledger",
    "StakeVault", "Registry", "StakeTree", "RandaoSource", "BlsKeys", "KeyEpochs", "FeeMarket", "ReceiptAnchor",
    "Demands", "Settlement", "Rounds", "Breaker", "Disputes", "Keeper", "Audits", "Lens",
)  # fmt: skip
"""Contracts of a deployment, each deployed once or more. `chain.deployment.plan` has their order."""

ADAPTERS = ("EigenLayerStake",)
"""Contracts that a deployment may have at `stake_vault` of the address book (ADR-030)."""

BESIDE = ("BondPool",)
"""Contracts that anybody may deploy for a network. No address book has them."""

EIGENLAYER = ("IAllocationManager", "IDelegationManager", "IStrategy", "IWrappedEther")
"""Interfaces of EigenLayer's contracts, to check a deployment against."""

_BUILT_IN = (
    {"type": "error", "name": "Error", "inputs": [{"name": "message", "type": "string"}]},
    {"type": "error", "name": "Panic", "inputs": [{"name": "code", "type": "uint256"}]},
)


class Log(NamedTuple):
    """One decoded event."""

    contract: Address
    """Address that emitted it."""
    event: str
    """Name of the event."""
    values: Mapping[str, Any]
    """Arguments by name, indexed or not."""
    block: int
    """Block number."""
    block_hash: Digest
    """Block hash."""
    place: int
    """Position in the block."""
    transaction: Digest
    """Transaction hash."""


class View(NamedTuple):
    """A read-only call, for making several at once."""

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
        """The call in JSON-RPC. `MalformedValue` for arguments outside their types."""
        return {"to": self.at, "data": "0x" + interface(self.contract).call(self.function, *self.arguments).hex()}

    def result(self, data: bytes) -> Any:
        """The decoded answer, as by `Interface.result`."""
        return interface(self.contract).result(self.function, data)


class Reason(NamedTuple):
    """Why a call reverted: a custom error of any contract of ours by name and arguments, or the selector of an unknown error."""

    name: str
    """Name of the error."""
    arguments: Mapping[str, Any]
    """Its arguments by name."""

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={_shown(value)}' for name, value in self.arguments.items())})"

    @classmethod
    def of(cls, data: bytes) -> "Reason":
        """The reason that revert data encodes."""
        entry = all_errors().get(data[:4])
        if entry is None:
            return cls(f"0x{data[:4].hex()}", {})
        try:
            return cls(entry["name"], _decode(entry["name"], entry["inputs"], data[4:]))
        except MalformedValue:
            return cls(entry["name"], {})


_PREFIX = 4
"""Bytes of runtime code that come before any immutable value."""
_IMMUTABLE = re.compile(b"\x7f(\x00{32})")
"""Place of an immutable value in creation code: PUSH32 and zeros, which the constructor replaces. A constant zero is PUSH0."""


class Interface:
    """One contract's ABI and creation code."""

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
        """Whether the creation code leaves this runtime code on the chain, with any immutable values."""
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
        """Calldata. `MalformedValue` for arguments outside their types."""
        entry = self.functions[function]
        return self.selector(function) + self._encode(function, entry["inputs"], arguments)

    def arguments(self, function: str, data: bytes) -> tuple[Any, ...]:
        """Arguments of a call without its selector, in order. `MalformedValue` if the bytes do not fit the ABI."""
        return tuple(_decode(f"{self.name}.{function}", self.functions[function]["inputs"], data).values())

    def selector(self, function: str) -> bytes:
        """First four bytes of a call."""
        return _hash(self.functions[function])[:4]

    def function_of(self, data: bytes) -> str | None:
        """Name of the function that calldata calls; None if this contract has no such function."""
        return next((name for name in self.functions if self.selector(name) == data[:4]), None)

    def writing(self) -> dict[str, Any]:
        """Functions that may change state, by name."""
        return {name: entry for name, entry in self.functions.items() if entry["stateMutability"] in ("nonpayable", "payable")}

    def creation(self, *arguments: Any) -> bytes:
        """Data of the deploying transaction."""
        return self.bytecode + self._encode("constructor", self.constructor, arguments)

    def deployed(self, *immutables: bytes) -> bytes:
        """Runtime code with these words as immutable values, in the order of their declarations (`BESIDE`)."""
        code = bytearray(self._runtime)
        for places, word in zip(self._immutables, immutables, strict=True):
            for place in places:
                code[place : place + 32] = word.rjust(32, b"\0")
        return bytes(code)

    def result(self, function: str, data: bytes) -> Any:
        """The decoded result: a single value as it is, several values as a dict by name. `MalformedValue` if the bytes do not fit
        the ABI."""
        outputs = self.functions[function]["outputs"]
        values = _decode(f"{self.name}.{function}", outputs, data)
        return next(iter(values.values())) if len(outputs) == 1 else values

    def event(self, topics: Sequence[bytes], data: bytes) -> tuple[str, dict[str, Any]] | None:
        """Name and arguments of a log; None for an event that this contract does not have."""
        entry = self.events.get(topics[0]) if topics else None
        if entry is None:
            return None
        where = f"{self.name}.{entry['name']}"
        indexed = [each for each in entry["inputs"] if each["indexed"]]
        plain = [each for each in entry["inputs"] if not each["indexed"]]
        return entry["name"], _decode(where, indexed, b"".join(topics[1:])) | _decode(where, plain, data)

    def topic(self, event: str) -> bytes:
        """First topic of the named event."""
        return next(topic for topic, entry in self.events.items() if entry["name"] == event)

    def _encode(self, where: str, inputs: Sequence[Any], arguments: Sequence[Any]) -> bytes:
        try:
            return abi_encode([kind_of(each) for each in inputs], arguments)
        except (EncodingError, TypeError, ValueError) as error:
            raise MalformedValue(f"{self.name}.{where}", str(error)[:200]) from None


@cache
def interface(name: str) -> Interface:
    """The committed artifact of a contract. `ConfigurationError` if it is missing or unreadable."""
    path = FOLDER / f"{name}.json"
    try:
        return Interface(name, json.loads(path.read_text()))
    except (OSError, KeyError, ValueError) as error:
        raise ConfigurationError(path.name, f"cannot be read ({type(error).__name__}): install Bytewise again") from None


@cache
def all_errors() -> Mapping[bytes, Any]:
    """Errors of all contracts by selector, because a call of one contract can revert with the error of another."""
    known = (*CONTRACTS, *ADAPTERS, *BESIDE)
    return {selector: entry for name in known for selector, entry in interface(name).errors.items()}


def text_bytes(text: str) -> bytes:
    """The bytes from which a `string` was decoded."""
    return text.encode("utf-8", "surrogateescape")


def legible(text: str) -> str:
    """A decoded `string` for terminals and JSON; bytes that are no UTF-8 appear as `\\xff`."""
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
    """The type of a parameter as function signatures write it; a tuple by its components."""
    if not parameter["type"].startswith("tuple"):
        return str(parameter["type"])
    inner = ",".join(kind_of(each) for each in parameter["components"])
    return f"({inner}){parameter['type'][5:]}"


def _hash(entry: Mapping[str, Any]) -> bytes:
    return keccak(f"{entry['name']}({','.join(kind_of(each) for each in entry['inputs'])})".encode())


def _shown(value: Any) -> str:
    return f"0x{value.hex()}" if isinstance(value, bytes) else legible(str(value))

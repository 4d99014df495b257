"""Reads every event and transaction of a chain from genesis over plain JSON-RPC, and decodes them by the contracts' ABI.

It uses none of the product's readers, so that a mistake in `chain.reads` cannot hide itself. It reads the transaction receipts of
each block instead of filtered logs, because anvil omits logs from its filters after deep reorganisations.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
from eth_abi.abi import decode
from eth_account import Account
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from eth_utils.crypto import keccak
from hexbytes import HexBytes

from bytewise.protocol.address_book import Network

ABI = Path(__file__).parents[2] / "chain" / "abi"
BLOCKS_PER_CALL = 50
TIMEOUT_S = 60.0
CONTRACTS = {
    "disputes": "Disputes", "rounds": "Rounds", "settlement": "Settlement", "ledger": "Ledger", "stake_vault": "StakeVault",
    "receipt_anchor": "ReceiptAnchor", "audits": "Audits",
}  # fmt: skip
"""Contracts whose events are read, by name in the address book."""


@dataclass(frozen=True, slots=True)
class Event:
    """One decoded event of a contract."""

    name: str
    """Contract and event, as `Contract.Event`."""
    values: Mapping[str, Any]
    """Arguments by name, with addresses in lower case."""
    block: int
    time: int
    """Timestamp of the event's block."""
    sender: str
    """Account that sent the transaction."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A signed call of a contract of the network."""

    sender: str
    name: str
    """Contract and function, as `Contract.function`."""
    values: Mapping[str, Any]
    """Arguments by name."""


@dataclass(frozen=True, slots=True)
class History:
    """Events, transactions, times and final balances of the chain."""

    events: list[Event]
    transactions: list[Transaction]
    """Mined transactions, including failed ones."""
    times: list[int]
    """Timestamp of each block."""
    balances: Mapping[str, int]
    """Balance of each contract of `CONTRACTS` at the end, in wei."""
    pots: int
    """Result of `Ledger.totalPots` at the end, in wei."""
    is_whole: bool = True
    """Whether the chain has lost no block."""

    def of(self, name: str) -> list[Event]:
        """Returns the events with this name, in order."""
        return [each for each in self.events if each.name == name]


class Decoder:
    """Decoder of logs and calls by the contracts' ABI."""

    def __init__(self, network: Network) -> None:
        at = asdict(network.addresses)
        self.contracts = {str(at[name]).lower(): contract for name, contract in CONTRACTS.items()}

    def event(self, log: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """Returns name and arguments of a log. Returns None for a log of another contract, and for an unknown event."""
        contract = self.contracts.get(log["address"].lower())
        if contract is None:
            return None
        topics = [bytes.fromhex(each[2:]) for each in log["topics"]]
        entry = entries(contract, "event").get(topics[0])
        if entry is None:
            return None
        inputs = entry["inputs"]
        plain = [each for each in inputs if not each["indexed"]]
        values = dict(zip((each["name"] for each in plain), _decoded(plain, bytes.fromhex(log["data"][2:])), strict=True))
        indexed = (each for each in inputs if each["indexed"])
        values |= {each["name"]: _decoded([each], topic)[0] for each, topic in zip(indexed, topics[1:], strict=True)}
        return f"{contract}.{entry['name']}", values

    def call(self, to: str, data: bytes) -> tuple[str, dict[str, Any]] | None:
        """Returns name and arguments of a call. Returns None for a call of another contract, and for an unknown function."""
        contract = self.contracts.get(to.lower())
        entry = None if contract is None else entries(contract, "function").get(data[:4])
        if contract is None or entry is None:
            return None
        values = _decoded(entry["inputs"], data[4:])
        return f"{contract}.{entry['name']}", dict(zip((each["name"] for each in entry["inputs"]), values, strict=True))

    def signed(self, raw: str) -> Transaction | None:
        """Decodes a signed transaction that an actor sent. Returns None if it calls another contract, or if the bytes are no
        transaction."""
        try:
            sent = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
            sender = str(Account.recover_transaction(raw)).lower()
        except (ValueError, TypeError):
            return None
        found = self.call("0x" + bytes(sent["to"]).hex(), bytes(sent["data"]))
        return None if found is None else Transaction(sender, *found)


@cache
def entries(contract: str, kind: str) -> dict[bytes, dict[str, Any]]:
    """Returns the entries of a contract's ABI: events by topic, or functions by selector."""
    found = [each for each in json.loads((ABI / f"{contract}.json").read_text())["abi"] if each["type"] == kind]
    size = 32 if kind == "event" else 4
    return {keccak(text=f"{each['name']}({','.join(map(_type, each['inputs']))})")[:size]: each for each in found}


def read_history(url: str, network: Network) -> History:
    """Reads the chain up to its newest block. If anvil lost a block in a reorganisation, nobody can read past it, and the chain
    is read up to the block before."""
    decoder, events, transactions, times = Decoder(network), list[Event](), list[Transaction](), list[int]()
    with httpx2.Client(timeout=TIMEOUT_S) as http:
        head = int(_batch(http, url, [("eth_blockNumber", [])])[0], 16)
        for block, receipts in until_lost(_blocks(http, url, head)):
            time = int(block["timestamp"], 16)
            times.append(time)
            for sent in block["transactions"]:
                call = decoder.call(sent["to"] or "0x", bytes.fromhex(sent["input"][2:]))
                if call is not None:
                    transactions.append(Transaction(sent["from"].lower(), *call))
            for receipt in receipts:
                for log in receipt["logs"]:
                    if (said := decoder.event(log)) is not None:
                        events.append(Event(*said, len(times) - 1, time, receipt["from"].lower()))
        at = hex(len(times) - 1)
        addresses = {contract: address for address, contract in decoder.contracts.items()}
        found = _batch(http, url, [("eth_getBalance", [address, at]) for address in addresses.values()])
        pots = {"to": addresses["Ledger"], "data": "0x" + keccak(text="totalPots()")[:4].hex()}
        (raw,) = _batch(http, url, [("eth_call", [pots, at])])
    balances = dict(zip(addresses, (int(each, 16) for each in found), strict=True))
    return History(events, transactions, times, balances, int(raw, 16), is_whole=len(times) == head + 1)


def until_lost(blocks: Iterable[tuple[dict[str, Any] | None, Any]]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yields blocks with their receipts up to the first block that the chain has lost, which is None."""
    for block, receipts in blocks:
        if block is None:
            return
        yield block, receipts


def handed_in(record: Path, network: Network) -> list[Transaction]:
    """Returns all transactions that actors signed and sent through the proxy. A transaction that was sent several times counts
    once."""
    decoder = Decoder(network)
    raws = dict.fromkeys(json.loads(line)["raw"] for line in record.read_text().splitlines())
    return [found for raw in raws if (found := decoder.signed(raw)) is not None]


def _blocks(http: httpx2.Client, url: str, head: int) -> Iterator[tuple[dict[str, Any] | None, list[dict[str, Any]]]]:
    for first in range(0, head + 1, BLOCKS_PER_CALL):
        numbers = [hex(number) for number in range(first, min(first + BLOCKS_PER_CALL, head + 1))]
        blocks = _batch(http, url, [("eth_getBlockByNumber", [number, True]) for number in numbers])
        receipts = _batch(http, url, [("eth_getBlockReceipts", [number]) for number in numbers])
        yield from zip(blocks, receipts, strict=True)


def _batch(http: httpx2.Client, url: str, calls: list[tuple[str, list[Any]]]) -> list[Any]:
    body = [{"jsonrpc": "2.0", "id": place, "method": method, "params": params} for place, (method, params) in enumerate(calls)]
    answers = sorted(http.post(url, json=body).raise_for_status().json(), key=lambda each: int(each["id"]))
    return [each["result"] for each in answers]


def _type(entry: Mapping[str, Any]) -> str:
    kind = str(entry["type"])
    if not kind.startswith("tuple"):
        return kind
    return f"({','.join(map(_type, entry['components']))}){kind[5:]}"


def _decoded(inputs: list[dict[str, Any]], data: bytes) -> list[Any]:
    values = decode([_type(each) for each in inputs], data)
    return [_named(each, value) for each, value in zip(inputs, values, strict=True)]


def _named(entry: Mapping[str, Any], value: Any) -> Any:
    kind = str(entry["type"])
    if kind.startswith("tuple"):
        if kind != "tuple":
            return [_named({**entry, "type": kind[: kind.rindex("[")]}, each) for each in value]
        return {part["name"]: _named(part, each) for part, each in zip(entry["components"], value, strict=True)}
    if kind == "address":
        return str(value).lower()
    return value

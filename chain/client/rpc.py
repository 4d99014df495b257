"""JSON-RPC to one node: every read of bytes has a timeout, the chain id is checked once, failures become catalogue errors.

`TryAgain`: no answer, a broken answer or a busy node. `RpcRefused`: the node refuses. `ChainReverted`: a revert, with its
decoded custom error. A view with a broken answer is repeated once. Nothing else is repeated, because the caller tries again in
its next tick. Callers encode arguments outside `reading_answer`, because a wrong argument is not the node's fault.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from bytewise.protocol.errors.actors import ChainReverted, ConfigurationError, RpcRefused, TryAgain
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address, Digest, address, digest
from chain.client.artifacts import Log, Reason, View, interface
from chain.client.node import NodeHTTPProvider, verify_url

DEFAULT_TIMEOUT_S = 10.0
"""Longest time of one request in seconds: longer than the execution of any block, shorter than a phase of a dispute."""

LOGS_PER_CALL_BLOCKS = 2_000
"""Largest number of blocks in one `eth_getLogs`. Public nodes refuse more than some thousands."""


T = TypeVar("T")


class BrokenAnswer(TryAgain):
    """The answer of a node does not have the expected form."""


@contextmanager
def reading_answer(what: str) -> Iterator[None]:
    """Context manager, also a decorator, around code that parses a node's answer. An error about the answer's form becomes
    `BrokenAnswer`."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, MalformedValue) as error:
        raise BrokenAnswer("chain", f"{what}: broken answer ({type(error).__name__})") from error


class OtherChain(ConfigurationError):
    """The node is on another chain than the caller."""


class Block(NamedTuple):
    """The fields of a block header that this program needs."""

    number: int
    """Height of the block."""
    hash: Digest
    """Hash of the block."""
    parent: Digest
    """Hash of the block before."""
    timestamp: int
    """Time of the block in Unix seconds."""
    base_fee_wei: int
    """EIP-1559 base fee per gas."""


class Inclusion(NamedTuple):
    """The content of a transaction's receipt."""

    number: int
    """Number of the transaction's block."""
    block_hash: Digest
    """Hash of the transaction's block."""
    succeeded: bool
    """Whether the transaction did not revert."""
    gas_used: int
    """Gas that the transaction used."""
    transaction: Digest
    """Hash of the transaction."""
    gas_price_wei: int
    """Price that the transaction paid per gas, including the tip."""


class Read(NamedTuple):
    """One of several reads in one round trip."""

    name: str
    """Name that distinguishes the read from other reads."""
    method: str
    """Method of JSON-RPC."""
    params: tuple[Any, ...]
    """Parameters of the method."""
    decode: Callable[[Any], Any]
    """Converts the node's answer into the result."""
    number: int | None = None
    """Height, if the read is of a block itself; else None."""


class SlotProof(NamedTuple):
    """Trie nodes that prove a storage word (EIP-1186). The node may lie, so the caller checks them."""

    account: tuple[bytes, ...]
    """Nodes from the state root to the account."""
    storage: tuple[bytes, ...]
    """Nodes from the account's storage root to the slot."""
    word: bytes
    """The 32 bytes in the slot."""


class Calldata(NamedTuple):
    """Address and calldata of a transaction."""

    to: Address | None
    """Address that was called; None if the transaction creates a contract."""
    data: bytes
    """Calldata of the transaction."""


class ChainClient:
    """A client of one JSON-RPC endpoint of one chain. It implements `chain.client.access.Chain`."""

    def __init__(self, url: str, chain_id: int, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        verify_url(url)
        self.chain_id = chain_id
        self._node = NodeHTTPProvider(url, timeout_s=timeout_s)
        self._checked = False

    def name_place(self, place: int) -> None:
        """Sets the position of this endpoint in the settings, by which metrics name it."""
        self._node.place = place

    def rpc(self, method: str, *params: Any) -> Any:
        """Makes one call and returns its result. The chain id is checked before the first call."""
        self._check_chain()
        return self._request(method, params)

    def rpc_int(self, method: str, *params: Any) -> int:
        """Makes one call whose result is a quantity, and returns it as integer."""
        raw = self.rpc(method, *params)
        with reading_answer(method):
            return quantity(raw)

    def rpc_many(self, calls: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        """Makes several calls in one round trip and returns their results. Raises the first failure."""
        self._check_chain()
        answers = self._node.batch(calls)
        return [_result(name, answer) for (name, _), answer in zip(calls, answers, strict=True)]

    def read_many(self, reads: Sequence[Read]) -> list[Any]:
        """Makes several reads in one round trip and returns their results in order. A failed read has its error in place of a
        result."""
        self._check_chain()
        answers = self._node.batch([(each.method, each.params) for each in reads])
        return [_decoded(read, answer) for read, answer in zip(reads, answers, strict=True)]

    def call(self, contract: str, at: Address, function: str, *arguments: Any, block: str | dict[str, Any]) -> Any:
        """Calls a view at a block, named by `at_number` or `at_hash`, and returns its decoded result."""
        view = View(contract, at, function, arguments)
        return _once_more(lambda: _viewed(view, self.rpc("eth_call", view.request, block)))

    def views(self, views: Sequence[View], block: str | dict[str, Any]) -> list[Any]:
        """Calls several views at one block in one round trip, and returns their decoded results. Raises the first failure."""
        calls = [("eth_call", (each.request, block)) for each in views]
        return _once_more(lambda: [_viewed(each, raw) for each, raw in zip(views, self.rpc_many(calls), strict=True)])

    def head(self, tag: str = "latest") -> Block:
        """Reads the newest block with a tag: latest, safe or finalized."""
        return self._block(tag)

    def block(self, number: int) -> Block:
        """Reads the canonical block at a height. Raises `TryAgain` if the node does not have it."""
        return self._block(hex(number))

    def raw_block(self, number: int) -> Any:
        """Reads the canonical block at a height in the form of JSON-RPC, without transactions. Returns None if the node does not
        have it."""
        return self.rpc("eth_getBlockByNumber", hex(number), False)

    def logs(self, contract: str, at: Address, events: Sequence[str], from_block: int, to_block: int) -> list[Log]:
        """Reads the named events of one contract in a closed range of blocks, in chain order."""
        topics = ["0x" + interface(contract).topic(name).hex() for name in events]
        found: list[Log] = []
        for start in range(from_block, to_block + 1, LOGS_PER_CALL_BLOCKS):
            end = min(start + LOGS_PER_CALL_BLOCKS - 1, to_block)
            query = {"address": at, "fromBlock": hex(start), "toBlock": hex(end), "topics": [topics]}
            raw = self.rpc("eth_getLogs", query)
            with reading_answer("eth_getLogs"):
                found += [log for each in raw if (log := decode_log(contract, each)) is not None]
        return sorted(found, key=lambda log: (log.block, log.place))

    def logs_of(self, contracts: Mapping[Address, str], from_block: int, to_block: int) -> list[Log]:
        """Reads the known events of several contracts (address → name) in a closed range of blocks, in chain order."""
        found: list[Log] = []
        for start in range(from_block, to_block + 1, LOGS_PER_CALL_BLOCKS):
            end = min(start + LOGS_PER_CALL_BLOCKS - 1, to_block)
            raw = self.rpc("eth_getLogs", {"address": list(contracts), "fromBlock": hex(start), "toBlock": hex(end)})
            with reading_answer("eth_getLogs"):
                decoded = (decode_log(contracts[address(each["address"])], each) for each in raw)
                found += [log for log in decoded if log is not None]
        return sorted(found, key=lambda log: (log.block, log.place))

    def raw_blocks(self, numbers: Sequence[int]) -> list[Any]:
        """Reads canonical blocks in the form of JSON-RPC, in one round trip. A block that the node does not have is None."""
        return self.rpc_many([("eth_getBlockByNumber", (hex(number), False)) for number in numbers]) if numbers else []

    def codes(self, where: Sequence[Address], block: str | dict[str, Any] = "latest") -> list[bytes]:
        """Reads the code at these addresses as of a block, in one round trip. An address without code has empty bytes."""
        answers = self.rpc_many([("eth_getCode", (each, block)) for each in where])
        with reading_answer("eth_getCode"):
            return [hex_bytes(answer) for answer in answers]

    def slot_proof(self, at: Address, slot: int, block: str | dict[str, Any]) -> SlotProof:
        """Reads the proof of a storage word at a block. Most nodes have the state of only some hundred
        blocks. Archive nodes have the state of all blocks."""
        raw = self.rpc("eth_getProof", at, [f"0x{slot:064x}"], block)
        with reading_answer("eth_getProof"):
            (found,) = raw["storageProof"]
            account, storage = (tuple(hex_bytes(each) for each in part) for part in (raw["accountProof"], found["proof"]))
            return SlotProof(account, storage, quantity(found["value"]).to_bytes(32, "big"))

    def raw_receipts(self, number: int) -> Any:
        """Reads the receipts of all transactions of the canonical block at a height, in the form of JSON-RPC. Returns None if
        the node does not have the block."""
        return self.rpc("eth_getBlockReceipts", hex(number))

    def calldata(self, transaction: Digest) -> Calldata | None:
        """Reads address and calldata of a transaction. Returns None if the node does not have it."""
        raw = self.rpc("eth_getTransactionByHash", "0x" + transaction.hex())
        if raw is None:
            return None
        with reading_answer("eth_getTransactionByHash"):
            return Calldata(None if raw["to"] is None else address(raw["to"]), hex_bytes(raw["input"]))

    def balance(self, account: Address, block: str | dict[str, Any]) -> int:
        """Reads the balance of an account in wei, at a block."""
        return self.rpc_int("eth_getBalance", account, block)

    def nonce(self, account: Address, block: str | dict[str, Any] = "latest") -> int:
        """Reads the number of transactions that the account has in the chain at a block."""
        return self.rpc_int("eth_getTransactionCount", account, block)

    def receipts(self, hashes: Sequence[Digest], seen: Block | None = None) -> list[Inclusion | None]:
        """Reads the receipts of transactions in one round trip. A transaction without receipt has None.

        With `seen`, raises `TryAgain` if the node does not have that block, because a node that lags does not know newer
        receipts.
        """
        calls = [("eth_getTransactionReceipt", ("0x" + each.hex(),)) for each in hashes]
        if seen is None:
            answers = self.rpc_many(calls)
        else:
            # Both reads are in one round trip, because several nodes may be behind one URL.
            block, *answers = self.rpc_many([("eth_getBlockByNumber", (hex(seen.number), False)), *calls])
            if _block(block, hex(seen.number)).hash != seen.hash:
                raise TryAgain("chain", f"the node is on another block {seen.number}")
        with reading_answer("eth_getTransactionReceipt"):
            asked = zip(hashes, answers, strict=True)
            return [None if raw is None else _inclusion(each, raw) for each, raw in asked]

    def estimate(self, request: Mapping[str, Any]) -> int:
        """Returns the gas of a transaction on the newest block. Raises `ChainReverted` if it would revert, and `RpcRefused` if
        the account lacks the money."""
        return self.rpc_int("eth_estimateGas", request, "latest")

    def replay(self, request: Mapping[str, Any], block: str | dict[str, Any], changed: Mapping[str, Any] | None = None) -> None:
        """Repeats a call on the state after a block. `changed` overrides parts of that state. Raises `ChainReverted` if the call
        reverts."""
        self.rpc("eth_call", request, block, *([changed] if changed else []))

    def knows(self, transaction: Digest) -> bool:
        """Returns whether the node has the transaction, in its pool or in a block."""
        return bool(self.rpc("eth_getTransactionByHash", "0x" + transaction.hex()))

    def broadcast(self, raw: bytes) -> None:
        """Sends a signed transaction to the node. Raises `RpcRefused` if the node does not accept it."""
        self.rpc("eth_sendRawTransaction", "0x" + raw.hex())

    def _block(self, name: str) -> Block:
        return _block(self.rpc("eth_getBlockByNumber", name, False), name)

    def _check_chain(self) -> None:
        if self._checked:
            return
        raw = self._request("eth_chainId", ())
        with reading_answer("eth_chainId"):
            found = quantity(raw)
        if found != self.chain_id:
            raise OtherChain("chain", f"the node is on chain {found}, not {self.chain_id}")
        self._checked = True

    def _request(self, method: str, params: Sequence[Any]) -> Any:
        return _result(method, self._node.single(method, params))


def at_number(number: int) -> str:
    """Returns the JSON-RPC name of the canonical block at a height."""
    return hex(number)


def at_hash(block_hash: Digest) -> dict[str, Any]:
    """Returns the JSON-RPC name of exactly this block, which is valid only while the block is canonical (EIP-1898)."""
    return {"blockHash": "0x" + block_hash.hex(), "requireCanonical": True}


def decode_log(contract: str, raw: dict[str, Any]) -> Log | None:
    """Decodes a log of the contract with this name. Returns None if the contract has no such event. Call it inside
    `reading_answer`."""
    topics = [hex_bytes(topic) for topic in raw["topics"]]
    decoded = interface(contract).event(topics, hex_bytes(raw["data"]))
    if decoded is None:
        return None
    return Log(
        contract=address(raw["address"]),
        event=decoded[0],
        values=decoded[1],
        block=quantity(raw["blockNumber"]),
        block_hash=digest(hex_bytes(raw["blockHash"])),
        place=quantity(raw["logIndex"]),
        transaction=digest(hex_bytes(raw["transactionHash"])),
    )


def view_read(name: str, view: View, block: str | dict[str, Any]) -> Read:
    """Returns the read of a view at a block, for `ChainClient.read_many`."""
    return Read(name, "eth_call", (view.request, block), lambda raw: _viewed(view, raw))


def block_read(number: int) -> Read:
    """Returns the read of the canonical block at a height, for `ChainClient.read_many`."""
    name = at_number(number)
    return Read(name, "eth_getBlockByNumber", (name, False), lambda raw: _block(raw, name), number)


def hex_bytes(raw: Any) -> bytes:
    """Decodes the 0x-hex bytes in an answer. Call it inside `reading_answer`."""
    return bytes.fromhex(_text(raw)[2:])


def quantity(raw: Any) -> int:
    """Decodes the 0x-hex number in an answer. Call it inside `reading_answer`."""
    return int(_text(raw), 16)


def _block(raw: Any, name: str) -> Block:
    if not isinstance(raw, dict) or not raw.get("hash"):
        raise TryAgain("chain", f"no block {name}")
    with reading_answer("eth_getBlockByNumber"):
        return Block(
            number=quantity(raw["number"]),
            hash=digest(hex_bytes(raw["hash"])),
            parent=digest(hex_bytes(raw["parentHash"])),
            timestamp=quantity(raw["timestamp"]),
            base_fee_wei=quantity(raw.get("baseFeePerGas", "0x0")),
        )


def _once_more(read: Callable[[], T]) -> T:
    """Makes a read, and repeats it once if the answer is broken. A busy node, or another node behind the same address, may then
    give a good answer."""
    try:
        return read()
    except BrokenAnswer:
        return read()


def _decoded(read: Read, answer: Any) -> Any:
    try:
        return read.decode(_result(read.method, answer))
    except (ChainReverted, Unavailable) as error:
        return error


def _viewed(view: View, raw: Any) -> Any:
    if raw == "0x":
        # Every node gives this answer for an address without code.
        name = f"{view.contract}.{view.function}"
        raise BrokenAnswer("chain", f"{name}: an empty answer: the contract is not in that block, or the node has not its state")
    with reading_answer(f"{view.contract}.{view.function}"):
        return view.result(hex_bytes(raw))


def _inclusion(transaction: Digest, raw: Any) -> Inclusion:
    return Inclusion(
        number=quantity(raw["blockNumber"]),
        block_hash=digest(hex_bytes(raw["blockHash"])),
        succeeded=quantity(raw["status"]) == 1,
        gas_used=quantity(raw["gasUsed"]),
        transaction=transaction,
        gas_price_wei=quantity(raw.get("effectiveGasPrice", "0x0")),
    )


def _result(method: str, answer: Any) -> Any:
    if not isinstance(answer, dict):
        raise TryAgain("chain", f"{method}: no JSON-RPC answer")
    error = answer.get("error")
    if error is None:
        return answer.get("result")
    known = error if isinstance(error, dict) else {"message": error}
    message, data = str(known.get("message", ""))[:200], known.get("data")
    if isinstance(data, str) and data.startswith("0x") and len(data) >= 10:
        with reading_answer(method):
            reason = Reason.of(hex_bytes(data))
        raise ChainReverted(method, reason, reason)
    if "revert" in message.lower():
        raise ChainReverted(method, message)
    raise RpcRefused(method, message, known.get("code"))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("0x"):
        raise MalformedValue("JSON-RPC result", str(value)[:60])
    return value

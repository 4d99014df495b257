"""Merkle-Patricia tries of Ethereum: RLP, proofs that a value is present or absent, and the trie of a short list.

Sources: the yellow paper, appendices B and D. Several proofs of one trie share their nodes, so a proof here is a set of nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import rlp

from bytewise.protocol.digests import keccak256
from bytewise.protocol.units import Digest

Item: TypeAlias = "bytes | list[Item]"
"""A value that RLP encodes: bytes, or a list of items."""

MAX_RLP_DEPTH = 8
"""Deepest nesting of lists that is decoded. Headers and accounts have one level, transaction receipts four, embedded nodes some
more."""

EMPTY_TRIE = b"\x80"
"""RLP of a trie without values."""
EMPTY_ROOT = keccak256(EMPTY_TRIE)
"""Root of a trie without values."""

_BRANCH, _PAIR = 17, 2
"""Numbers of items of the two kinds of nodes."""


class BrokenProof(Exception):
    """Exception: bytes are no RLP or no trie node, or a node that the path needs is missing."""


def decode_rlp(data: bytes) -> Item:
    """Decodes canonical RLP bytes. Raises `BrokenProof` for any other bytes, and for lists nested deeper than
    `MAX_RLP_DEPTH`."""
    item, end = _item(data, 0, len(data), 0)
    if end != len(data):
        raise BrokenProof("bytes after the end of an RLP item")
    return item


def decode_list(data: bytes, least: int) -> list[bytes]:
    """Decodes an RLP list of at least `least` byte strings. Raises `BrokenProof` for anything else."""
    item = decode_rlp(data)
    if isinstance(item, bytes) or len(item) < least:
        raise BrokenProof(f"no RLP list of at least {least} items")
    if not all(isinstance(each, bytes) for each in item):
        raise BrokenProof("a list in an RLP list of byte strings")
    return item  # type: ignore[return-value]


def to_integer(data: Item) -> int:
    """Returns the integer of an RLP string. Raises `BrokenProof` for a list and for leading zeros."""
    if not isinstance(data, bytes) or data[:1] == b"\0":
        raise BrokenProof("no canonical integer")
    return int.from_bytes(data)


class ProofNodes:
    """Nodes of one or more tries by their hashes. The object records which nodes a read has needed."""

    def __init__(self, nodes: Iterable[bytes]) -> None:
        self._nodes: dict[Digest, bytes] = {}
        self._count = 0
        for node in nodes:
            self._nodes[keccak256(node)] = node
            self._count += 1
        self._used: set[Digest] = set()

    @property
    def surplus(self) -> int:
        """Number of nodes that no read has needed, including doubled nodes."""
        return self._count - len(self._used)

    @property
    def needed(self) -> tuple[bytes, ...]:
        """Nodes that a read has needed."""
        return tuple(node for digest, node in self._nodes.items() if digest in self._used)

    def value(self, root: Digest, path: str) -> bytes | None:
        """Returns the value under a path of nibbles (lower-case hex). Returns None if the nodes prove that there is no value.

        Raises `BrokenProof` if the nodes prove neither.
        """
        if root == EMPTY_ROOT:
            return None
        node: Item = self._load(root)
        while True:
            if isinstance(node, bytes) or len(node) not in (_BRANCH, _PAIR):
                raise BrokenProof("no node of a trie")
            if len(node) == _BRANCH:
                following = node[16] if not path else node[int(path[0], 16)]
                if not path:
                    return _bytes(following) or None
                path = path[1:]
            else:
                nibbles, is_leaf = _unpacked(node[0])
                if not path.startswith(nibbles) or (is_leaf and path != nibbles):
                    return None
                path, following = path[len(nibbles) :], node[1]
                if is_leaf:
                    return _bytes(following)
            if following == b"":
                return None
            node = self._load(Digest(following)) if isinstance(following, bytes) else following

    def _load(self, digest: Digest) -> Item:
        if digest not in self._nodes:
            raise BrokenProof("a node of the path is missing")
        self._used.add(digest)
        return decode_rlp(self._nodes[digest])


def trie_of_list(values: Sequence[bytes]) -> tuple[Digest, Mapping[Digest, bytes]]:
    """Returns root and nodes of the trie of a list, such as the receipts of a block. Its keys are RLP-encoded indices."""
    if not values:
        return EMPTY_ROOT, {}
    nodes: dict[Digest, bytes] = {}
    leaves = {index_path(index): value for index, value in enumerate(values)}
    root = bytes(rlp.encode(_built(leaves, nodes)))
    nodes[keccak256(root)] = root
    return keccak256(root), nodes


def index_path(index: int) -> str:
    """Returns the path of an index in the trie of a list, in nibbles."""
    return bytes(rlp.encode(index)).hex()


def _built(leaves: Mapping[str, bytes], nodes: dict[Digest, bytes]) -> Item:
    """Builds the node over these leaves. Adds each node below it to `nodes` if that node has 32 bytes or more."""
    if len(leaves) == 1:
        ((path, value),) = leaves.items()
        return [_packed(path, True), value]
    shared = _shared(list(leaves))
    if shared:
        return [_packed(shared, False), _child({path[len(shared) :]: value for path, value in leaves.items()}, nodes)]
    branch: list[Item] = [b""] * _BRANCH
    for nibble in range(16):
        below = {path[1:]: value for path, value in leaves.items() if path[:1] == f"{nibble:x}"}
        if below:
            branch[nibble] = _child(below, nodes)
    branch[16] = leaves.get("", b"")
    return branch


def _child(leaves: Mapping[str, bytes], nodes: dict[Digest, bytes]) -> Item:
    node = _built(leaves, nodes)
    data = bytes(rlp.encode(node))
    if len(data) < 32:
        return node
    nodes[keccak256(data)] = data
    return keccak256(data)


def _shared(paths: Sequence[str]) -> str:
    first, last = min(paths), max(paths)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:length]


def _packed(nibbles: str, is_leaf: bool) -> bytes:
    flag = 2 * is_leaf + len(nibbles) % 2
    return bytes.fromhex(f"{flag:x}{'' if len(nibbles) % 2 else '0'}{nibbles}")


def _unpacked(item: Item) -> tuple[str, bool]:
    nibbles = _bytes(item).hex()
    if not nibbles or nibbles[0] not in "0123" or (nibbles[0] in "02" and nibbles[1] != "0"):
        raise BrokenProof("no path of a node")
    return nibbles[1 if nibbles[0] in "13" else 2 :], nibbles[0] in "23"


def _bytes(item: Item) -> bytes:
    if not isinstance(item, bytes):
        raise BrokenProof("a list in the place of bytes")
    return item


def _item(data: bytes, at: int, end: int, depth: int) -> tuple[Item, int]:
    """Decodes the item that begins at `at`. Returns it with the position after it, which is at most `end`."""
    if at >= end:
        raise BrokenProof("an RLP item is cut")
    head = data[at]
    if head < 0x80:
        return data[at : at + 1], at + 1
    is_list, size = head >= 0xC0, head - (0xC0 if head >= 0xC0 else 0x80)
    start = at + 1
    if size > 55:
        width = size - 55
        size = int.from_bytes(data[start : start + width])
        if start + width > end or data[start] == 0 or size < 56:
            raise BrokenProof("a length of RLP is not canonical")
        start += width
    stop = start + size
    if stop > end:
        raise BrokenProof("an RLP item is cut")
    if not is_list:
        if size == 1 and data[start] < 0x80:
            raise BrokenProof("a byte of RLP is not canonical")
        return data[start:stop], stop
    if depth == MAX_RLP_DEPTH:
        raise BrokenProof(f"RLP lists nested deeper than {MAX_RLP_DEPTH}")
    items: list[Item] = []
    while start < stop:
        item, start = _item(data, start, stop, depth + 1)
        items.append(item)
    return items, stop

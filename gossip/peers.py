"""`peers.json`: the peers that the duty process knows as registered, written by it and read by the gossip process.

The file is replaced by an atomic rename, so that a reader never sees half of it.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gossip.messages import GossipRefused, canonical, is_digest

MAX_FILE_BYTES = 4 * 2**20
"""Largest file that is read."""
MAX_ADDRESSES = 8
"""Most addresses of one peer."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One registered member."""

    account: str
    """Its account, `0x` and 40 hexadecimal characters."""
    key: str
    """Its Ed25519 peer key, `0x` and 64 hexadecimal characters. Its account signed it (`GossipIdentity`)."""
    addresses: tuple[str, ...] = ()
    """Multiaddresses at which it listens."""


@dataclass(frozen=True, slots=True)
class PeersFile:
    """Everything that the gossip process knows of the chain."""

    chain: str
    """Chain id, decimal."""
    epoch: int = 0
    """Active key epoch. Messages of this epoch and of the one before are taken."""
    peers: tuple[Peer, ...] = ()
    disputes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Accounts with seats in the current round of each open dispute, by dispute id."""
    envelopes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Accounts that may pass an envelope to each other, by its hash: the seats of its dispute."""

    def account_of(self, key: str) -> str | None:
        """The account of a peer key, or None."""
        return next((each.account for each in self.peers if each.key == key), None)


def possession_of(account: str) -> bytes:
    """What a peer key signs to say that it is the key of an account's gossip process."""
    return b"bytewise gossip process of " + account.lower().encode()


def write_peers(path: Path, peers: PeersFile) -> None:
    """Replaces the file, unless it has these bytes already."""
    data = canonical({
        "chain": peers.chain, "epoch": peers.epoch,
        "peers": [{"account": each.account, "addresses": list(each.addresses), "key": each.key} for each in peers.peers],
        "disputes": {name: list(who) for name, who in peers.disputes.items()},
        "envelopes": {name: list(who) for name, who in peers.envelopes.items()},
    })  # fmt: skip
    if path.exists() and path.read_bytes() == data:
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(data)
    draft.replace(path)


def read_peers(path: Path) -> PeersFile:
    """The file's content. `GossipRefused` if there is none, or if it is no such file."""
    try:
        data = path.read_bytes() if path.stat().st_size <= MAX_FILE_BYTES else b""
        return _from_json(json.loads(data))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise GossipRefused("peers_file", f"{path.name}: {type(error).__name__}; the duty process writes it") from None


class PeersOnDisk:
    """The newest content of `peers.json`: what the duty process writes in a block holds for messages of the same block."""

    def __init__(self, path: Path) -> None:
        """`GossipRefused` if the file cannot be read."""
        self._path = path
        self._read: tuple[object, PeersFile] = (_mark(path), read_peers(path))

    def newest(self) -> PeersFile:
        """The content, parsed again only if the file was replaced. One that cannot be read changes nothing. Thread-safe."""
        mark = _mark(self._path)
        if mark != self._read[0]:
            found = self._read[1]
            with contextlib.suppress(GossipRefused):
                found = read_peers(self._path)
            self._read = mark, found
        return self._read[1]


def _mark(path: Path) -> object:
    """What differs after each replacement."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _from_json(value: dict[str, Any]) -> PeersFile:
    peers = tuple(Peer(str(each["account"]), str(each["key"]), _addresses(each["addresses"])) for each in value["peers"])
    if not all(is_digest(each.key) for each in peers):
        raise ValueError("peer key")
    return PeersFile(
        str(value["chain"]), int(value["epoch"]), peers,
        {str(name): tuple(map(str, who)) for name, who in value["disputes"].items()},
        {str(name): tuple(map(str, who)) for name, who in value["envelopes"].items()},
    )  # fmt: skip


def _addresses(values: list[Any]) -> tuple[str, ...]:
    return tuple(str(each) for each in values[:MAX_ADDRESSES])

"""The file `peers.json`: registered peers, open disputes and their envelopes. The duty process writes it from the chain, and the
gossip process reads it.

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
"""Size of the largest file that is read, in bytes."""
MAX_ADDRESSES = 8
"""Most addresses of one peer. Further addresses in the file are ignored."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One registered member or watchtower."""

    account: str
    """The account, `0x` and 40 hexadecimal characters."""
    key: str
    """The Ed25519 peer key, `0x` and 64 hexadecimal characters. The account signed this key (`GossipIdentity`)."""
    addresses: tuple[str, ...] = ()
    """Multiaddresses at which the gossip process of the peer listens."""


@dataclass(frozen=True, slots=True)
class PeersFile:
    """The content of `peers.json`: everything that the gossip process knows about the chain."""

    chain: str
    """Chain id as decimal text."""
    epoch: int = 0
    """Number of the active key epoch. Messages of this epoch and of the epoch before it are taken."""
    peers: tuple[Peer, ...] = ()
    disputes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Accounts with seats in the current round of each dispute in which members commit or reveal now, by dispute id."""
    envelopes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Accounts with seats in the dispute about an envelope, by the envelope's hash. Only these may pass it to each other."""

    def account_of(self, key: str) -> str | None:
        """Returns the account of a peer key, or None if no registered peer has this key."""
        return next((each.account for each in self.peers if each.key == key), None)


def possession_of(account: str) -> bytes:
    """Returns the bytes that a gossip process signs with its peer key, to state that the key belongs to this account."""
    return b"bytewise gossip process of " + account.lower().encode()


def write_peers(path: Path, peers: PeersFile) -> None:
    """Writes `peers.json` and replaces the old file. Does nothing if the file has the same content already."""
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
    """Reads `peers.json`. Raises `GossipRefused` if the file is missing, too large or malformed."""
    try:
        data = path.read_bytes() if path.stat().st_size <= MAX_FILE_BYTES else b""
        return _from_json(json.loads(data))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise GossipRefused("peers_file", f"{path.name}: {type(error).__name__}; the duty process writes it") from None


class PeersOnDisk:
    """Reader of `peers.json` that always returns the newest content, so that a change applies to the next message."""

    def __init__(self, path: Path) -> None:
        """Reads the file a first time. Raises `GossipRefused` if it cannot be read."""
        self._path = path
        self._read: tuple[object, PeersFile] = (_mark(path), read_peers(path))

    def newest(self) -> PeersFile:
        """Returns the newest content. The file is parsed again only if it was replaced. If the new file cannot be read, the last
        good content is returned. Thread-safe."""
        mark = _mark(self._path)
        if mark != self._read[0]:
            found = self._read[1]
            with contextlib.suppress(GossipRefused):
                found = read_peers(self._path)
            self._read = mark, found
        return self._read[1]


def _mark(path: Path) -> object:
    """Returns the file's inode, time of change and size, which differ after each replacement. Returns None without a file."""
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

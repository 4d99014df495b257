"""Decides which messages a gossip process relays and stores for its duty process.

A message is admitted only if all of these conditions hold. A registered peer made it. It keeps the limits. It belongs to this
network. It belongs to the active key epoch or to the epoch before. On the topics `root` and `have`, the account of the peer has a
seat in a dispute to which the message belongs.

Cheap checks come first: the origin, repetition, the origin's rate, the size. Only then is the message parsed. A repeated message
does not count against the rate.

This module never asks the chain. So it admits a well-formed message of a registered peer even if the message states something
false. The duty process that receives such a message refuses it.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from hashlib import sha256
from typing import Generic, TypeVar

from gossip.messages import HAVE, HINT, MAX_MESSAGE_BYTES, ROOT, GossipMessage, GossipRefused, is_digest, read_message
from gossip.peers import PeersFile

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate limit: at most `count` messages in any period of `seconds` seconds."""

    count: int
    seconds: float


RATES = {HINT: Rate(20, 10.0), ROOT: Rate(50, 10.0), HAVE: Rate(50, 10.0)}
"""Rate limit for the messages of one origin, by topic."""
PER_ROUND = 8
"""Most messages of one origin about one round of a dispute. One run of a member needs about five (a commitment, an opened vote,
three signatures), and a restarted member sends some again."""
MAX_SEEN = 10_000
"""Number of admitted messages that are remembered, so that a repeated message is recognised."""


class Memory(Generic[K]):
    """A bounded counter of keys. It keeps the `size` keys that were counted last, each with its count, and forgets older keys."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._counts: OrderedDict[K, int] = OrderedDict()

    def __contains__(self, key: K) -> bool:
        return key in self._counts

    def count(self, key: K) -> int:
        """Adds one to the count of a key, and returns the new count."""
        self._counts[key] = self._counts.get(key, 0) + 1
        self._counts.move_to_end(key)
        if len(self._counts) > self._size:
            self._counts.popitem(last=False)
        return self._counts[key]


class Admission:
    """Checks every message that arrives from a peer, and every message that this process publishes itself."""

    def __init__(self, newest: Callable[[], PeersFile]) -> None:
        """`newest` returns the newest content of `peers.json`. Each message calls it anew. The reason is that the duty process
        may add a dispute to the file in the same block in which a member sends its first message about that dispute."""
        self._newest = newest
        self._times: dict[tuple[str, str], deque[float]] = {}
        self._seen: Memory[bytes] = Memory(MAX_SEEN)
        self._rounds: Memory[tuple[str, str, int]] = Memory(MAX_SEEN)

    def admit(self, topic: str, key: str, data: bytes, now: float) -> GossipMessage:
        """Checks a message, and returns the parsed message if the process may relay and store it. Raises `GossipRefused` if not.

        `key` is the peer key of the message's origin, and `now` a monotonic time in seconds.
        """
        peers = self._newest()
        account = peers.account_of(key)
        if account is None:
            raise GossipRefused("unregistered", f"{key[:18]} is no registered peer")
        if topic not in RATES:
            raise GossipRefused("topic", f"{topic[:40]!r} is none of ours")
        name = sha256(topic.encode() + data[: MAX_MESSAGE_BYTES + 1]).digest()
        if name in self._seen:
            raise GossipRefused("seen", "was taken before")
        self._limit(topic, key, now)
        message = read_message(data)
        if message.chain != peers.chain:
            raise GossipRefused("chain", f"is of chain {message.chain[:20]}, this one is {peers.chain}")
        if message.epoch not in (peers.epoch, peers.epoch - 1):
            raise GossipRefused("epoch", f"is of epoch {message.epoch}, this one is {peers.epoch}")
        if topic == ROOT:
            self._limit_round(peers, account, key, message)
        if topic == HAVE and not _may_have(peers, account, message):
            raise GossipRefused("no_seat", "speaks for another, or no open dispute of its seats names this envelope")
        self._seen.count(name)
        return message

    def _limit(self, topic: str, key: str, now: float) -> None:
        rate, times = RATES[topic], self._times.setdefault((topic, key), deque())
        while times and now - times[0] >= rate.seconds:
            times.popleft()
        if len(times) >= rate.count:
            raise GossipRefused("rate", f"more than {rate.count} on {topic} in {rate.seconds:g} s")
        times.append(now)

    def _limit_round(self, peers: PeersFile, account: str, key: str, message: GossipMessage) -> None:
        named = message.dispute
        if named is None or account not in peers.disputes.get(named[0], ()):
            raise GossipRefused("no_seat", "names no open dispute in which its account has seats")
        if self._rounds.count((key, *named)) > PER_ROUND:
            raise GossipRefused("rate", f"more than {PER_ROUND} about one round")

    def forget_removed(self) -> None:
        """Drops the rate counters of peers that are no longer in `peers.json`."""
        known = {each.key for each in self._newest().peers}
        self._times = {key: kept for key, kept in self._times.items() if key[1] in known}


def _may_have(peers: PeersFile, account: str, message: GossipMessage) -> bool:
    digest = message.body.get("envelope")
    named = is_digest(digest) and account in peers.envelopes.get(str(digest), ())
    return named and message.body.get("account") == account

"""The libp2p side of gossip: TCP, Noise, Yamux, gossipsub. No other module of the project imports trio and libp2p.

The node closes a connection at once if `peers.json` does not name the peer. `Admission` checks every message before the node
relays it or stores it for the duty process. The process has one key, the peer key, which can neither vote nor pay.
"""

import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import trio
from libp2p import new_host
from libp2p.crypto.ed25519 import Ed25519PublicKey, create_new_key_pair
from libp2p.crypto.serialization import deserialize_public_key
from libp2p.network.config import ConnectionConfig
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import info_from_p2p_addr
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pubsub import Pubsub
from libp2p.request_response import BytesCodec, RequestResponse, RequestResponseConfig
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

from gossip.admission import Admission
from gossip.envelopes import MAX_ENVELOPE_BYTES, MAX_REQUEST_BYTES, PIECE_BYTES, EnvelopeShelf, write_request
from gossip.handover import FETCH_TIMEOUT_S, HandOverServer, Ring
from gossip.messages import MAX_MESSAGE_BYTES, TOPICS, GossipRefused, topic_name, write_message
from gossip.peers import PeersFile, PeersOnDisk, possession_of
from gossip.settings import GossipProcessSettings

PUBSUB = "/meshsub/1.1.0"
ENVELOPE = "/bytewise/1/envelope"
DEGREE = 4
BACK_OFF_S = 5
"""Seconds for which other peers keep a peer out of their gossipsub mesh after it left. The time is short, because a member that
restarts comes back soon."""
FETCH_S = FETCH_TIMEOUT_S - 5
"""Seconds in which all pieces of one envelope must arrive."""
MAX_CONNECTIONS = 64
PER_PEER = 2
MAX_RPC_BYTES = 64 * 1024
DIAL_PAUSE_S = 2.0
"""Seconds between two passes that read `peers.json`, close unregistered connections and dial missing peers."""
MAX_RSS_BYTES = 300 * 2**20
MAX_AGE_S = 86_400
"""Age in seconds at which the process ends by itself. It also ends at `MAX_RSS_BYTES` of memory. Its supervisor starts it again.
Both limits exist because libp2p keeps a task for each peer that was killed."""


class GossipNode:
    """The libp2p node of one gossip process: its host, its connections, its topics and its hand-over to the duty process."""

    def __init__(self, settings: GossipProcessSettings, peers: PeersOnDisk) -> None:
        self._settings = settings
        self._on_disk = peers
        self._admission = Admission(peers.newest)
        self._refused_here: dict[bytes, GossipRefused | None] = {}
        """The refusal of each message that is being published, or None while there is none. It is noted here because the library
        does not report it to the publisher."""
        self._ring = Ring()
        self._name = os.urandom(8).hex()
        self._refusals: Counter[str] = Counter()
        settings.envelopes_folder.mkdir(parents=True, exist_ok=True)
        self._shelf = EnvelopeShelf(settings.envelopes_folder)
        pair = create_new_key_pair(_seed(settings.key_file))
        self._own_key = "0x" + pair.public_key.to_bytes().hex()
        self._host = new_host(
            key_pair=pair, muxer_preference="YAMUX", disable_identify_address_discovery=True,
            connection_config=ConnectionConfig(
                max_connections=MAX_CONNECTIONS, max_connections_per_peer=PER_PEER, min_connections=0, low_watermark=0,
                high_watermark=MAX_CONNECTIONS,
            ),
        )  # fmt: skip
        router = GossipSub(
            protocols=[PUBSUB], degree=DEGREE, degree_low=3, degree_high=8, heartbeat_interval=1,
            max_messages_per_topic_per_second=500, eclipse_protection_enabled=False,
            prune_back_off=BACK_OFF_S, unsubscribe_back_off=BACK_OFF_S,
        )  # fmt: skip
        self._topics = {topic_name(self._peers.chain, each): each for each in TOPICS}
        self._pubsub = Pubsub(
            self._host, router, strict_signing=True, max_inbound_rpc_size=MAX_RPC_BYTES, max_subscriptions_per_peer=len(TOPICS),
            allowed_topics=frozenset(self._topics), validation_cache_size=10_000,
        )  # fmt: skip
        # The library starts its message counter at the time in seconds. A process that sends more than one message a second and
        # restarts would repeat numbers, and peers would drop those messages as seen.
        self._pubsub.counter = time.time_ns()
        self._router = router
        self._requests = RequestResponse(self._host)
        self._token = trio.lowlevel.current_trio_token()
        self._started = time.monotonic()

    @property
    def _peers(self) -> PeersFile:
        return self._on_disk.newest()

    async def run(self) -> None:
        """Listens, dials peers and answers calls, until the process uses too much memory or is too old. Then it returns, so that
        the process is restarted. It also ends when its task is cancelled."""
        address = Multiaddr(self._settings.listen)
        async with (
            self._host.run(listen_addrs=[address]),
            background_trio_service(self._pubsub),
            background_trio_service(self._router),
            trio.open_nursery() as nursery,
        ):
            self._host.get_network().register_notifee(_Doorkeeper(self._close_unregistered))
            for name in self._topics:
                self._pubsub.set_topic_validator(name, self._validate, False)
                nursery.start_soon(self._drain, await self._pubsub.subscribe(name))
            config = RequestResponseConfig(max_request_size=MAX_REQUEST_BYTES, max_response_size=PIECE_BYTES + 64)
            self._requests.set_handler(ENVELOPE, self._give_piece, BytesCodec(), config)
            server = HandOverServer(self._settings.socket, self._called)
            log("gossip.started", peer=self._host.get_id().to_string(), key=self._own_key)
            try:
                await self._keep_connected()
            finally:
                server.close()
                nursery.cancel_scope.cancel()

    # --- messages ---

    def _validate(self, _forwarder: ID, message: Any) -> bool:
        """Returns whether a message may be relayed. libp2p calls it for every message, also for messages of this process."""
        key = _key_of(ID(message.from_id), message.key)
        topics = [self._topics.get(each, "") for each in message.topicIDs]
        try:
            if len(topics) != 1:
                raise GossipRefused("topic", f"{len(topics)} topics")
            admitted = self._admission.admit(topics[0], key, message.data, time.monotonic())
        except GossipRefused as error:
            self._refusals[error.reason] += 1
            if key == self._own_key and message.data in self._refused_here:
                self._refused_here[message.data] = error
            return False
        if key != self._own_key:
            account = self._peers.account_of(key) or ""
            self._ring.put(topics[0], account, admitted.body, len(message.data))
        return True

    async def _drain(self, subscription: Any) -> None:
        """Empties the library's queue of 32 messages. `_validate` has stored each message already."""
        while True:
            await subscription.get()

    # --- the duty process's calls, in threads of the hand-over ---

    def _called(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["call"]:
            case "publish":
                topic, body = str(request["topic"]), request["body"]
                data = write_message(self._peers.chain, self._peers.epoch, body)
                if topic not in TOPICS or len(data) > MAX_MESSAGE_BYTES:
                    raise GossipRefused("topic", f"{topic[:40]!r} is none of {', '.join(TOPICS)}")
                self._in_loop(partial(self._publish, topic_name(self._peers.chain, topic), data))
                return {}
            case "take":
                page = self._ring.take(int(request["after"]), int(request["most"]))
                found = [{"topic": each.topic, "account": each.account, "body": each.body} for each in page.messages]
                return {"messages": found, "lost": page.lost, "last": page.last, "process": self._name}
            case "offer":
                return {"size": self._shelf.offer(str(request["envelope"]), Path(request["file"]))}
            case "fetch":
                size, account = int(request["size"]), str(request["account"])
                file = self._shelf.inside(str(request["envelope"]), Path(request["file"]))
                self._in_loop(partial(self._fetch, str(request["envelope"]), size, account, file))
                return {}
            case "state":
                connected = len(self._host.get_connected_peers())
                memory = _memory()
                return {"connected": connected, "refusals": dict(self._refusals), "rss": memory, "process": self._name}
        raise GossipRefused("malformed", f"no call {str(request['call'])[:40]!r}")

    async def _publish(self, name: str, data: bytes) -> None:
        """Publishes a message. Raises `GossipRefused` if no peer listens to the topic, or if `Admission` refuses the message. The
        duty process sends a refused message of the topics `root` and `have` again later, but drops a hint. A message that was
        published before is no error."""
        if not self._pubsub.peer_topics.get(name):
            raise GossipRefused("no_peers", "no peer listens yet")
        self._refused_here[data] = None
        try:
            await self._pubsub.publish(name, data)
        finally:
            error = self._refused_here.pop(data, None)
        if error is not None and error.reason != "seen":
            raise error

    def _in_loop(self, task: Callable[[], Awaitable[None]]) -> None:
        trio.from_thread.run(task, trio_token=self._token)

    # --- envelopes ---

    async def _give_piece(self, request: bytes, context: Any) -> bytes:
        """Answers the request of a peer for a piece: a byte 1 and the piece, or a byte 0 if the request is refused."""
        account = self._peers.account_of(_key_of(context.peer_id, b"")) or ""
        try:
            return b"\1" + self._shelf.piece(account, request, self._peers, time.time())
        except GossipRefused as error:
            self._refusals[error.reason] += 1
            return b"\0"

    async def _fetch(self, envelope: str, size: int, account: str, file: Path) -> None:
        """Fetches an envelope from a peer into a file. It gives up before the duty process's own timeout ends, so that a slow
        peer keeps no call open."""
        with trio.move_on_after(FETCH_S):
            file.write_bytes(await self._pieces(envelope, size, account))
            return
        raise GossipRefused("slow", f"{account} did not give {size} bytes in {FETCH_S:g} s")

    async def _pieces(self, envelope: str, size: int, account: str) -> bytes:
        peer = next((each for each in self._peers.peers if each.account == account), None)
        if peer is None or not 0 < size <= MAX_ENVELOPE_BYTES:
            raise GossipRefused("unknown", "no such peer, or a size out of bounds")
        data = bytearray()
        config = RequestResponseConfig(max_request_size=MAX_REQUEST_BYTES, max_response_size=PIECE_BYTES + 64)
        while len(data) < size:
            request = write_request(envelope, len(data))
            try:
                piece = await self._requests.send_request(_id_of(peer.key), [ENVELOPE], request, BytesCodec(), config)
            except Exception as error:  # noqa: BLE001 - the library's errors have no common class
                raise GossipRefused("peer_away", f"{account}: {type(error).__name__}") from None
            if piece[:1] != b"\1" or not min(PIECE_BYTES, size - len(data)) < len(piece) <= PIECE_BYTES + 1:
                raise GossipRefused("refused", f"{account} gives no whole piece from byte {len(data)} on")
            data += piece[1:]
        return bytes(data[:size])

    # --- connections ---

    async def _close_unregistered(self, peer: ID) -> None:
        if self._peers.account_of(_key_of(peer, b"")) is None:
            self._refusals["unregistered"] += 1
            await self._host.get_network().close_peer(peer)

    async def _keep_connected(self) -> None:
        """Closes connections of peers that left `peers.json`, and dials registered peers that are not connected. Returns when a
        restart is due."""
        while _memory() < MAX_RSS_BYTES and time.monotonic() - self._started < MAX_AGE_S:
            self._admission.forget_removed()
            connected = set(self._host.get_connected_peers())
            for each in connected:
                await self._close_unregistered(each)
            async with trio.open_nursery() as nursery:
                for peer in self._peers.peers:
                    # Only one peer of each pair dials, so that the pair has one connection.
                    if peer.key != self._own_key and self._own_key < peer.key and _id_of(peer.key) not in connected:
                        nursery.start_soon(self._dial, peer.addresses, _id_of(peer.key))
            await trio.sleep(DIAL_PAUSE_S)

    async def _dial(self, addresses: tuple[str, ...], peer: ID) -> None:
        # Without this, the library does not dial a peer for a minute after a failure, and a restarted member would be missing
        # for that minute.
        self._host.get_network().unblock_peer(peer)
        for each in addresses:
            with trio.move_on_after(5):
                try:
                    await self._host.connect(info_from_p2p_addr(Multiaddr(f"{each}/p2p/{peer.to_string()}")))
                    return
                except Exception:  # noqa: BLE001 - the library's errors have no common class
                    self._refusals["dial"] += 1


class _Doorkeeper:
    """Listener for libp2p's network events that closes connections of unregistered peers. The library's own filter knows only
    network addresses, not peers."""

    def __init__(self, look: Callable[[ID], Awaitable[None]]) -> None:
        self._look = look

    async def connected(self, _network: Any, connection: Any) -> None:
        """Closes the connection of an unregistered peer."""
        await self._look(connection.muxed_conn.peer_id)

    async def disconnected(self, _network: Any, _connection: Any) -> None:
        """Does nothing."""

    async def opened_stream(self, _network: Any, _stream: Any) -> None:
        """Does nothing."""

    async def closed_stream(self, _network: Any, _stream: Any) -> None:
        """Does nothing."""

    async def listen(self, _network: Any, _address: Any) -> None:
        """Does nothing."""

    async def listen_close(self, _network: Any, _address: Any) -> None:
        """Does nothing."""


def identity(key_file: Path, account: str) -> tuple[str, str]:
    """Returns the public peer key of a key file and that key's signature for an account, both in hex. A missing key file is
    created."""
    pair = create_new_key_pair(_seed(key_file))
    return "0x" + bytes(pair.public_key.to_bytes()).hex(), "0x" + bytes(pair.private_key.sign(possession_of(account))).hex()


def run(settings: GossipProcessSettings) -> int:
    """Runs the node until SIGTERM or until a restart is due, and returns exit code 0. Raises `GossipRefused` if `peers.json`
    cannot be read."""
    trio.run(_main, settings, PeersOnDisk(settings.peers_file))
    return 0


async def _main(settings: GossipProcessSettings, peers: PeersOnDisk) -> None:
    # Made before the nursery opens: inside it, the refusal of a setting would reach the caller wrapped in an exception group.
    node = GossipNode(settings, peers)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_on_signal, nursery.cancel_scope)
        await node.run()
        nursery.cancel_scope.cancel()


async def _stop_on_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()
            return


def log(event: str, **values: object) -> None:
    """Writes one log line to standard error, as JSON in the form that duty processes use."""
    print(json.dumps({"event": event, **values}, sort_keys=True), file=sys.stderr, flush=True)


def _seed(path: Path) -> bytes:
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(os.urandom(32))
    seed = path.read_bytes()
    if len(seed) != 32 or path.stat().st_mode & 0o077:
        raise GossipRefused("settings", f"{path.name}: needs 32 bytes and mode 0600")
    return seed


def _id_of(key: str) -> ID:
    return ID.from_pubkey(Ed25519PublicKey.from_bytes(bytes.fromhex(key[2:])))


def _key_of(peer: ID, shown: bytes) -> str:
    """Returns the Ed25519 key of a peer id in hex: the key inside the id, or else the key `shown` in a message if it fits the id.
    Returns an empty text if there is no such key."""
    data = peer.to_bytes()
    try:
        key = deserialize_public_key(data[2:] if data[:1] == b"\0" else shown)
        return "0x" + key.to_bytes().hex() if ID.from_pubkey(key) == peer and len(key.to_bytes()) == 32 else ""
    except Exception:  # noqa: BLE001 - the library's errors have no common class
        return ""


def _memory() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

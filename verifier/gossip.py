"""The duty process's side of gossip (ADR-031).

`GossipClient` passes messages to the gossip process of this node and takes messages from it. `PeersWriter` writes `peers.json`
for the gossip process: the registered members, the peer keys that their accounts signed, their seats, and the envelopes that
seats may pass to each other.

Watchtowers that the settings name are peers, too, so that they get hints. They cannot publish on the other topics, because these
accept only messages of members with seats. Members exchange their identities as files over any channel. No channel needs to be
trusted, because account and peer key sign for each other.
"""

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cryptography.exceptions import InvalidSignature

from bytewise.crypto.ed25519 import verify_ed25519
from bytewise.protocol.address_book import Network
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import Action
from bytewise.protocol.decisions.snapshot import Holdings, Snapshot
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.records.statements import GossipIdentity
from bytewise.protocol.signing import Domain, Signer, typed_digest, typed_preimage, verify_signature
from bytewise.protocol.units import U64, Address, Blob, digest, hex0x, unhex
from bytewise.service import metrics, telemetry
from bytewise.service.clock import monotonic_s
from bytewise.service.files import read_regular_file
from bytewise.service.readiness import Check, ReadinessRegistry
from bytewise.storage.archive import Archive
from gossip.handover import HandOverClient, ProcessState
from gossip.messages import TOPICS, GossipRefused
from gossip.peers import Peer, PeersFile, possession_of, write_peers
from verifier.settings import GossipSettings
from verifier.watch.envelope_exchange import envelopes_of_seats

MAX_KEPT = 4096
"""Most messages of one topic that wait until a part takes them. The oldest are dropped first."""
PAUSE_S = 20.0
"""Seconds for which this process does not call a gossip process again that did not answer in time."""


class GossipClient:
    """Client of the gossip process over its UNIX socket. Implements `ports.GossipPort` and `envelope_exchange.EnvelopeGossip`."""

    def __init__(self, socket: Path) -> None:
        self._handover = HandOverClient(socket)
        self._kept: dict[str, deque[dict[str, Any]]] = {topic: deque(maxlen=MAX_KEPT) for topic in TOPICS}
        self._is_away = False
        self._seen: ProcessState | None = None
        """State that the gossip process reported last."""
        self._not_before = 0.0
        """Monotonic time before which a hung gossip process is not called again. Without it, each part of a tick would wait for
        the process."""

    def publish(self, topic: str, body: dict[str, Any]) -> None:
        """Hands a message body to the gossip process for publication. Raises `TryAgain` if the gossip process is away or refuses
        it."""
        with self._answering():
            self._handover.publish(topic, body)
        metrics.GOSSIP_MESSAGES.labels(topic=topic, direction="out").inc()

    def take(self, topic: str) -> Sequence[dict[str, Any]]:
        """Returns the message bodies that arrived on a topic since the last call for this topic. Raises `TryAgain` if the gossip
        process is away, and logs only the first of several such failures in a row."""
        with self._answering():
            while taken := self._handover.take():
                for each in taken:
                    self._kept[each.topic].append(each.body)
                    metrics.GOSSIP_MESSAGES.labels(topic=each.topic, direction="in").inc()
        if self._is_away:
            telemetry.log("gossip.returned")
        self._is_away = False
        found = tuple(self._kept[topic])
        self._kept[topic].clear()
        return found

    def offer(self, envelope: str, file: Path) -> None:
        """Lets other seats of the dispute fetch the bytes of a file. Raises `TryAgain` if the gossip process is away or refuses
        it."""
        with self._answering():
            self._handover.offer(envelope, file)

    def fetch(self, envelope: str, size: int, account: str, file: Path) -> None:
        """Fetches an envelope of `size` bytes from another member's account, and writes the bytes into a file. The caller checks
        the bytes. This takes up to a minute. Raises `TryAgain` if the member gives nothing."""
        try:
            self._handover.fetch(envelope, size, account, file)
        except GossipRefused as error:
            raise TryAgain("gossip", str(error)) from None

    def observe(self) -> None:
        """Sets the metrics about the gossip process, which serves no metrics itself."""
        try:
            with self._answering():
                state = self._handover.state()
        except TryAgain:
            metrics.GOSSIP_PEERS.set(0)
            return
        metrics.GOSSIP_PEERS.set(state.connected)
        # A restarted process counts from 0 again.
        before = self._seen.refusals if self._seen is not None and self._seen.process == state.process else {}
        for reason, count in state.refusals.items():
            metrics.GOSSIP_DROPPED.labels(reason=reason).inc(max(count - before.get(reason, 0), 0))
        self._seen = state

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        if monotonic_s() < self._not_before:
            raise TryAgain("gossip", "hung a moment ago")
        try:
            yield
        except GossipRefused as error:
            if error.reason == "hung":
                self._not_before = monotonic_s() + PAUSE_S
            if error.reason in ("away", "hung") and not self._is_away:
                self._is_away = True
                telemetry.log("gossip.away", do="nothing: the node acts alone; is the gossip process started?", detail=str(error))
            raise TryAgain("gossip", str(error)) from None


VALID_S = 180 * 86_400
"""Seconds for which this node's signed identity is valid. The node renews it at each start, and after half of this time."""
RENEW_AGAIN_S = 3_600
"""Seconds of chain time after which the node tries again to renew an identity that it could not write."""
WARN_S = 30 * 86_400
"""The check `gossip_identities` fails from this many seconds before a peer's identity expires."""
REFRESH_BLOCKS = 32
"""Blocks after which identity files and registrations are read again."""
MAX_IDENTITIES = 512
MAX_IDENTITY_BYTES = 4096


@dataclass(frozen=True, slots=True)
class IdentityFile:
    """The identity of one member, with its signatures and addresses. Members give this file to each other."""

    identity: GossipIdentity
    addresses: tuple[str, ...]
    """Multiaddresses of the peer. No signature covers them, because a wrong address only leads to no peer."""
    signature: Blob
    """The account's signature over the identity."""
    possession: Blob
    """The peer key's signature over the account, so that nobody can claim another member's peer key."""


class HoldingsReader(Protocol):
    """The part of the chain from which registrations are read."""

    def holdings(self, who: Address, block: int) -> Holdings:
        """Returns an account's registrations and amounts in all its roles, at a block."""
        ...


class PeersWriter:
    """The part of a node that keeps `peers.json` in agreement with the chain. It decides no action. Implements
    `node.NodePart`."""

    def __init__(
        self, chain: HoldingsReader, network: Network, signer: Signer, settings: GossipSettings, archive: Archive,
        readiness: ReadinessRegistry,
    ) -> None:  # fmt: skip
        """Connects the writer to the chain and the files. The settings must have gossip switched on."""
        assert settings.peers_file is not None and settings.identities_folder is not None
        self._chain = chain
        self._network = network
        self._domain = network.disputes_domain
        self._signer = signer
        self._settings = settings
        self._archive = archive
        self._file, self._folder = settings.peers_file, settings.identities_folder
        self._peers: tuple[Peer, ...] = ()
        self._read_at = -REFRESH_BLOCKS
        self._readiness = readiness
        self._check = identities_check((), 0)
        self._renew_at = 0

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Writes `peers.json` from this snapshot. Returns no action. A failed write is only logged. Errors of the chain, and of
        the signer at the first write of the identity, pass through."""
        try:
            self._write(snapshot)
        except OSError as error:
            telemetry.log("gossip.peers_not_written", error=type(error).__name__)
        self._readiness.record([self._check])
        return ()

    def _write(self, snapshot: Snapshot) -> None:
        if snapshot.timestamp >= self._renew_at:
            self._renew(snapshot.timestamp)
        if abs(snapshot.number - self._read_at) >= REFRESH_BLOCKS:
            self._read_identities(snapshot)
        seats = {
            hex0x(each.id): tuple(seat.voter for seat in each.members)
            for each in snapshot.disputes if each.phase in (Phase.COMMIT, Phase.REVEAL)
        }  # fmt: skip
        envelopes = {hex0x(each): who for each, who in envelopes_of_seats(snapshot, self._archive).items()}
        write_peers(self._file, PeersFile(str(self._network.chain_id), snapshot.active_epoch, self._peers, seats, envelopes))

    def _renew(self, now: int) -> None:
        """Renews this node's signed identity. If that fails and this process has written an identity before, the failure is only
        logged, so that peers and seats are still written. Otherwise the error of the signer or the file passes through."""
        try:
            path = write_identity(self._folder, self._domain, self._signer, self._settings, now)
        except (BytewiseError, OSError) as error:
            if not self._renew_at:
                raise
            self._renew_at = now + RENEW_AGAIN_S
            telemetry.log_error("gossip.identity_not_written", error, do="find out why, before other members drop this one")
            return
        self._renew_at = now + VALID_S // 2
        telemetry.log("gossip.identity_written", file=str(path), do="send this file to the other members")

    def _read_identities(self, snapshot: Snapshot) -> None:
        now = snapshot.timestamp
        found = [
            each for each in read_identities(self._folder, self._domain)
            if each.identity.who in self._settings.watchtowers
            or any(self._chain.holdings(each.identity.who, snapshot.number).pool)
        ]  # fmt: skip
        valid = [each for each in found if each.identity.not_after >= now]
        self._peers = tuple(Peer(each.identity.who, hex0x(each.identity.peer_key), each.addresses) for each in valid)
        self._check, self._read_at = identities_check(found, now), snapshot.number
        metrics.GOSSIP_REGISTERED.set(sum(each.account != self._signer.address for each in self._peers))


def identities_check(identities: Sequence[IdentityFile], now: int) -> Check:
    """Returns a check that fails if a peer's identity has expired or expires within `WARN_S` seconds. An expired identity is no
    peer any more, but the check still names it."""
    ends = sorted((each.identity.not_after, each.identity.who) for each in identities)
    value = f"{len(ends)} identities"
    if ends:
        days = (ends[0][0] - now) // 86_400
        value += f", {ends[0][1]} {'expired' if days < 0 else f'expires in {days} days'} first"
    ok = not ends or ends[0][0] >= now + WARN_S
    advice = "Ask that account for its present file, and put it into gossip.identities_folder; or remove its file."
    return Check("gossip_identities", ok, value, f"no identity ends within {WARN_S // 86_400} days", advice)


def write_identity(folder: Path, domain: Domain, signer: Signer, settings: GossipSettings, now: int) -> Path:
    """Signs this node's identity, writes it into the folder under the name of its account, and returns the path of the file."""
    identity = GossipIdentity(signer.address, digest(unhex(settings.peer_key)), U64(now + VALID_S))
    signature = Blob(signer.sign_preimage(typed_preimage(domain, identity)))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{signer.address}.json"
    path.write_bytes(encode(IdentityFile(identity, settings.addresses, signature, Blob(unhex(settings.peer_proof)))))
    return path


def read_identities(folder: Path, domain: Domain) -> list[IdentityFile]:
    """Reads the identity files of a folder. Leaves out each file that the account and the peer key did not both sign. Expired
    identities are included. Returns, for each account, the identity that expires last."""
    newest: dict[Address, IdentityFile] = {}
    for path in sorted(folder.glob("*.json"))[:MAX_IDENTITIES]:
        try:
            data = read_regular_file(path, MAX_IDENTITY_BYTES)
            if len(data) > MAX_IDENTITY_BYTES:
                continue
            found = decode(IdentityFile, data)
            who, until = found.identity.who, found.identity.not_after
            verify_signature("gossip identity", typed_digest(domain, found.identity), found.signature, who)
            verify_ed25519(found.identity.peer_key, found.possession, possession_of(who))
        except (BytewiseError, OSError, ValueError, InvalidSignature) as error:
            telemetry.log("gossip.identity_refused", file=path.name, error=type(error).__name__)
            continue
        if who not in newest or newest[who].identity.not_after < until:
            newest[who] = found
    return list(newest.values())

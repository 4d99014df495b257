"""Writes `peers.json` for the gossip process: which members are registered, which peer keys their accounts signed, who has seats.

Members hand each other their identity as a file. Account and peer key sign for each other, so any way of handing it over will do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature

from bytewise.crypto.ed25519 import verify_ed25519
from bytewise.protocol.address_book import Network
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import Action
from bytewise.protocol.decisions.snapshot import Holdings, Snapshot
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.records.statements import GossipIdentity
from bytewise.protocol.signing import Domain, Signer, typed_digest, typed_preimage, verify_signature
from bytewise.protocol.units import U64, Address, Blob, digest, hex0x, unhex
from bytewise.service import telemetry
from bytewise.storage.archive import Archive
from gossip.peers import Peer, PeersFile, possession_of, write_peers
from verifier.settings import GossipSettings
from verifier.watch.envelope_exchange import envelopes_of_seats

VALID_S = 180 * 86_400
"""Seconds for which an own identity holds. It is renewed at each start."""
REFRESH_BLOCKS = 32
"""Blocks after which identities and stakes are read again."""
MAX_IDENTITIES = 512
MAX_IDENTITY_BYTES = 4096


@dataclass(frozen=True, slots=True)
class IdentityFile:
    """An identity with its signature and addresses, as members hand it to each other."""

    identity: GossipIdentity
    addresses: tuple[str, ...]
    """Multiaddresses. They are no part of what is signed: a wrong one leads to no peer."""
    signature: Blob
    """The account's signature over the identity."""
    possession: Blob
    """The peer key's signature over the account, so that nobody claims another member's key."""


class HoldingsReader(Protocol):
    """The part of the chain from which registrations are read."""

    def holdings(self, who: Address, block: int) -> Holdings:
        """An account in its roles."""
        ...


class PeersWriter:
    """Keeps `peers.json` as the chain is. Implements `node.NodePart`; decides nothing."""

    def __init__(
        self, chain: HoldingsReader, network: Network, signer: Signer, settings: GossipSettings, archive: Archive
    ) -> None:
        """The settings have gossip switched on."""
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
        self._introduced = False

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Writes the file if anything changed."""
        try:
            self._write(snapshot)
        except OSError as error:
            telemetry.log("gossip.peers_not_written", error=type(error).__name__)
        return ()

    def _write(self, snapshot: Snapshot) -> None:
        if not self._introduced:
            write_identity(self._folder, self._domain, self._signer, self._settings, snapshot.timestamp)
            self._introduced = True
        if abs(snapshot.number - self._read_at) >= REFRESH_BLOCKS:
            self._peers, self._read_at = tuple(self._registered(snapshot)), snapshot.number
        seats = {
            hex0x(each.id): tuple(seat.voter for seat in each.members)
            for each in snapshot.disputes if each.phase in (Phase.COMMIT, Phase.REVEAL)
        }  # fmt: skip
        envelopes = {hex0x(each): who for each, who in envelopes_of_seats(snapshot, self._archive).items()}
        write_peers(self._file, PeersFile(str(self._network.chain_id), snapshot.active_epoch, self._peers, seats, envelopes))

    def _registered(self, snapshot: Snapshot) -> Iterator[Peer]:
        for found in read_identities(self._folder, self._domain, snapshot.timestamp):
            who = found.identity.who
            if any(self._chain.holdings(who, snapshot.number).pool):
                yield Peer(who, hex0x(found.identity.peer_key), found.addresses)


def write_identity(folder: Path, domain: Domain, signer: Signer, settings: GossipSettings, now: int) -> None:
    """Writes the own identity into the folder, under the account's name."""
    identity = GossipIdentity(signer.address, digest(unhex(settings.peer_key)), U64(now + VALID_S))
    signature = Blob(signer.sign_preimage(typed_preimage(domain, identity)))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{signer.address}.json").write_bytes(
        encode(IdentityFile(identity, settings.addresses, signature, Blob(unhex(settings.peer_proof))))
    )


def read_identities(folder: Path, domain: Domain, now: int) -> list[IdentityFile]:
    """Identities that account and peer key signed and that still hold: the one of each account that holds longest."""
    newest: dict[Address, IdentityFile] = {}
    for path in sorted(folder.glob("*.json"))[:MAX_IDENTITIES]:
        try:
            if path.stat().st_size > MAX_IDENTITY_BYTES:
                continue
            found = decode(IdentityFile, path.read_bytes())
            who, until = found.identity.who, found.identity.not_after
            verify_signature("gossip identity", typed_digest(domain, found.identity), found.signature, who)
            verify_ed25519(found.identity.peer_key, found.possession, possession_of(who))
        except (BytewiseError, OSError, ValueError, InvalidSignature) as error:
            telemetry.log("gossip.identity_refused", file=path.name, error=type(error).__name__)
            continue
        if until >= now and (who not in newest or newest[who].identity.not_after < until):
            newest[who] = found
    return list(newest.values())

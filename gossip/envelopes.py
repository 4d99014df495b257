"""Envelopes that one seat passes to another, piece by piece. They are ciphertext; the receiver's duty process checks the hash."""

import json
from collections import defaultdict
from pathlib import Path

from gossip.messages import GossipRefused, canonical, is_digest
from gossip.peers import PeersFile

PIECE_BYTES = 256 * 1024
"""Most bytes of one answer."""
MAX_ENVELOPE_BYTES = 16 * 2**20
"""Largest envelope that is fetched."""
DAILY_BYTES = 64 * 2**20
"""Most bytes that one peer gets in a day."""
MAX_REQUEST_BYTES = 256
DAY_S = 86_400


class EnvelopeShelf:
    """Files that may be passed on. All of them lie in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._files: dict[str, Path] = {}
        self._given: dict[tuple[str, int], int] = defaultdict(int)

    def offer(self, envelope: str, file: Path) -> int:
        """Notes the file of an envelope, and returns its size. `GossipRefused` for a file elsewhere."""
        self._files[envelope] = self.inside(envelope, file)
        return self._files[envelope].stat().st_size

    def inside(self, envelope: str, file: Path) -> Path:
        """The path of a file in the folder. `GossipRefused` otherwise."""
        if not is_digest(envelope) or file.resolve().parent != self._folder:
            raise GossipRefused("malformed", "an envelope has a digest, and a file in the folder of envelopes")
        return file.resolve()

    def piece(self, account: str, request: bytes, peers: PeersFile, now: float) -> bytes:
        """The answer to a peer's request: the piece, or nothing after the end.

        `GossipRefused` for an account without a seat in the envelope's dispute, for an unknown envelope, and above the daily
        limit.
        """
        envelope, offset = read_request(request)
        if account not in peers.envelopes.get(envelope, ()):
            raise GossipRefused("no_seat", "the account has no seat in a dispute about this envelope")
        file = self._files.get(envelope)
        if file is None or not file.is_file():
            raise GossipRefused("unknown", "no such envelope here")
        day = account, int(now // DAY_S)
        if self._given[day] >= DAILY_BYTES:
            raise GossipRefused("rate", f"more than {DAILY_BYTES} bytes in a day")
        with file.open("rb") as stream:
            stream.seek(offset)
            data = stream.read(PIECE_BYTES)
        self._given[day] += len(data)
        return data


def write_request(envelope: str, offset: int) -> bytes:
    """Asks for the piece of an envelope from an offset on."""
    return canonical({"envelope": envelope, "offset": offset})


def read_request(data: bytes) -> tuple[str, int]:
    """Envelope and offset of a request. `GossipRefused` if it is none; its size is checked before it is parsed."""
    if len(data) > MAX_REQUEST_BYTES:
        raise GossipRefused("too_large", f"{len(data)} bytes, at most {MAX_REQUEST_BYTES}")
    try:
        value = json.loads(data)
        envelope, offset = value["envelope"], value["offset"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise GossipRefused("malformed", "is no request for a piece") from None
    if not is_digest(envelope) or type(offset) is not int or not 0 <= offset <= MAX_ENVELOPE_BYTES:
        raise GossipRefused("malformed", "names no digest or no offset")
    return envelope, offset

"""Passes envelopes from one committee member to another, in pieces. The bytes are ciphertext, and the receiving duty process
checks their hash."""

import json
from collections import defaultdict
from pathlib import Path

from gossip.messages import GossipRefused, canonical, is_digest
from gossip.peers import PeersFile

PIECE_BYTES = 256 * 1024
"""Most bytes of an envelope in one answer, called a piece."""
MAX_ENVELOPE_BYTES = 16 * 2**20
"""Size of the largest envelope that is fetched, in bytes."""
DAILY_BYTES = 64 * 2**20
"""An account that got this many bytes in one day gets no further piece on that day."""
MAX_REQUEST_BYTES = 256
DAY_S = 86_400


class EnvelopeShelf:
    """The files of envelopes that peers may fetch from this process. All of them lie in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._files: dict[str, Path] = {}
        self._given: dict[tuple[str, int], int] = defaultdict(int)

    def offer(self, envelope: str, file: Path) -> int:
        """Lets peers fetch an envelope from a file, and returns the file's size in bytes. `envelope` is the envelope's hash.
        Raises `GossipRefused` if the file is outside the folder of envelopes."""
        self._files[envelope] = self.inside(envelope, file)
        return self._files[envelope].stat().st_size

    def inside(self, envelope: str, file: Path) -> Path:
        """Returns the resolved path of a file in the folder of envelopes. Raises `GossipRefused` if the file is outside it, or if
        `envelope` is no hash."""
        if not is_digest(envelope) or file.resolve().parent != self._folder:
            raise GossipRefused("malformed", "an envelope has a digest, and a file in the folder of envelopes")
        return file.resolve()

    def piece(self, account: str, request: bytes, peers: PeersFile, now: float) -> bytes:
        """Returns the piece of an envelope for which a peer asks. Returns empty bytes if the offset is at or after the envelope's
        end. `account` is the account of the asking peer, and `now` is the time in Unix seconds.

        Raises `GossipRefused` if the account has no seat in a dispute about this envelope, if the envelope was not offered, or if
        the account reached its daily limit.
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
    """Returns the bytes of a request for the piece of an envelope that begins at an offset. `envelope` is its hash."""
    return canonical({"envelope": envelope, "offset": offset})


def read_request(data: bytes) -> tuple[str, int]:
    """Parses a request for a piece, and returns the envelope's hash and the offset. Raises `GossipRefused` if the data is no such
    request. The size is checked before anything is parsed."""
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

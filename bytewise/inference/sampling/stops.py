"""Stop strings. An answer ends at the token that completes one of them. They are compared as bytes, independent of token
boundaries."""

from collections.abc import Sequence


class StopStrings:
    """Search for stop strings in the bytes of one answer, while the answer grows."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._stops = [text.encode() for text in texts]
        self._kept = max(map(len, self._stops), default=1) - 1
        self._tail = b""

    def add(self, piece: bytes) -> bool:
        """Adds the bytes of one token, and returns whether the answer now contains a stop string."""
        seen = self._tail + piece
        self._tail = seen[-self._kept :] if self._kept else b""
        return any(stop in seen for stop in self._stops)


def before_stop(raw: bytes, texts: Sequence[str]) -> bytes:
    """Returns the bytes of an answer before its first stop string, or all bytes if there is none."""
    found = [at for at in (raw.find(text.encode()) for text in texts) if at >= 0]
    return raw[: min(found)] if found else raw

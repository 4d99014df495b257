"""Reads the evidence capsules in a folder in which a node keeps them (the node's settings `[capsules]`). Pages show each capsule
beside the dispute that it proves."""

import os
import threading
from collections import OrderedDict
from pathlib import Path

from bytewise.protocol.digests import sha256
from bytewise.protocol.units import hex0x
from chain.capsule.conclusion import conclude, preflight_of
from chain.capsule.report import Result
from chain.capsule.schema import MAX_BYTES, MEDIA_TYPE, SUFFIX
from chain.capsule.verification import Trust, verify_capsule
from dashboard.views.records import CapsuleNote, PreflightLine

REMEMBERED = 256
"""Most verification results that stay in memory. With them each capsule is verified once, not once for each visitor."""


class CapsuleShelf:
    """A folder of evidence capsules, each named after its dispute. Another process may change the folder at any time. This class
    is thread-safe."""

    media_type = MEDIA_TYPE
    """Media type of a capsule file."""

    def __init__(self, folder: Path | None = None, trust: Trust | None = None) -> None:
        """Without `folder`, no dispute has a capsule. `trust` names what a verification takes as given, for example the accepted
        deployments."""
        self._folder = folder
        self._trust = trust or Trust()
        self._lock = threading.Lock()
        self._notes: OrderedDict[tuple[object, ...], CapsuleNote] = OrderedDict()

    def state(self) -> str:
        """Returns a text that identifies the present content of the folder. The text changes when a file is added, removed or
        changed."""
        if self._folder is None:
            return ""
        try:
            with os.scandir(self._folder) as entries:
                found = sorted((each.name, *_version(each.stat())) for each in entries)
        except OSError:
            return "unreadable"
        return sha256(repr(found).encode()).hex()

    def read(self, dispute: bytes) -> bytes | None:
        """Returns the bytes of a dispute's capsule. Returns None if the dispute has no capsule, if the file cannot be read, or if
        it is larger than a verification accepts."""
        file = self._file(dispute)
        if file is None:
            return None
        try:
            with file.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
        except OSError:
            return None
        return data if len(data) <= MAX_BYTES else None

    def note(self, dispute: bytes) -> CapsuleNote | None:
        """Verifies a dispute's capsule, or takes the result of an earlier verification, and returns the result for the page.
        Returns None if the dispute has no capsule that `read` returns."""
        file = self._file(dispute)
        try:
            found = file.stat() if file is not None else None
        except OSError:
            found = None
        if found is None:
            return None
        key = (dispute, *_version(found))
        # Only one verification runs at a time. Other visitors wait for it, so no capsule is verified twice.
        with self._lock:
            if key not in self._notes:
                data = self.read(dispute)
                if data is None:
                    return None
                self._notes[key] = _note(dispute, data, self._trust)
                while len(self._notes) > REMEMBERED:
                    self._notes.popitem(last=False)
            return self._notes[key]

    def _file(self, dispute: bytes) -> Path | None:
        return None if self._folder is None else self._folder / file_name(dispute)


def _version(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def file_name(dispute: bytes) -> str:
    """Returns the file name of a dispute's capsule."""
    return f"{hex0x(dispute)}{SUFFIX}"


def _note(dispute: bytes, data: bytes, trust: Trust) -> CapsuleNote:
    report = verify_capsule(data, trust)
    end, checklist = conclude(report), preflight_of(report)
    is_wrong, conditions = report.result is Result.FAIL, end.conditions
    if report.capsule is not None and report.capsule.claim.dispute != dispute:
        is_wrong, conditions = True, ("It is of another dispute than its name says.",)
    return CapsuleNote(
        url=f"/disputes/{hex0x(dispute)}/capsule", size=len(data), sha256=hex0x(sha256(data)), is_wrong=is_wrong,
        shows=() if is_wrong else end.shows, conditions=conditions,
        preflight=() if checklist is None or is_wrong else tuple(
            PreflightLine(point=point.name.lower(), words=point.value, result=mark.value) for point, mark in checklist.marks
        ),
        claim=None if checklist is None or is_wrong else checklist.claim,
    )  # fmt: skip

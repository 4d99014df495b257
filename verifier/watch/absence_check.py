"""Makes sure that bytes are missing before the node risks money on it. It asks DA for the bytes again, between two proofs that DA
works.

`ProbedStore` proves that DA serves this node: it fetches bytes that must be there. `AbsenceCheck` demands such a proof before and
after each question about missing bytes.
"""

import time
from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

from bytewise.ports import BlobStore
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.errors.actors import BadCertificate, CallerError, NotServed
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.units import Digest
from bytewise.service import telemetry

OWN_BLOB_BYTES = 64
"""Size of a probe in bytes. A probe is data that this node stores to test DA. The data is random, so that no store has it by
chance."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 15.0, 600.0
"""First and longest pause, in seconds of wall time, between two probes. The pause doubles while DA does not return a probe, so
that a DA which only accepts bytes is not filled with probes."""


class _ServedBlob(NamedTuple):
    locator: str
    digest: Digest


class ProbedStore:
    """A `BlobStore` that remembers locator and hash of the last bytes that DA gave, and can test whether DA still works."""

    def __init__(self, da: BlobStore, rng: Callable[[int], bytes], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._da = da
        self._rng = rng
        self._monotonic = monotonic
        self._last: _ServedBlob | None = None
        self._own: _ServedBlob | None = None
        self._pause_s = FIRST_PAUSE_S
        self._not_before = 0.0

    def put(self, data: bytes) -> str:
        """Stores bytes in DA, as `BlobStore.put` describes."""
        return self._da.put(data)

    def get(self, locator: str, accept: Callable[[bytes], bool] | None = None) -> bytes:
        """Gets bytes from DA, as `BlobStore.get` describes, and remembers their locator and hash for the next test."""
        data = self._da.get(locator, accept)
        self._last = _ServedBlob(locator, _digest(data))
        return data

    def works(self) -> bool:
        """Returns whether DA gives the last bytes again now. If DA does not, or nothing was read yet, the test uses a probe that
        this node stored."""
        if self._last is not None and self._gives(self._last):
            return True
        if self._own is not None and self._own != self._last and self._gives(self._own):
            self._last = self._own
            return True
        own = self._put_own() if self._monotonic() >= self._not_before else None
        if own is None or not self._gives(own):
            return False
        self._last, self._pause_s = own, FIRST_PAUSE_S
        self._not_before = self._monotonic() + self._pause_s
        return True

    def _put_own(self) -> _ServedBlob | None:
        """Stores a new probe, and returns it if DA accepted it. Only an accepted probe starts a pause. A DA that refuses probes
        is not filled by them, and a seat must be able to vote soon after DA returns."""
        data = self._rng(OWN_BLOB_BYTES)
        try:
            self._own = _ServedBlob(self._da.put(data), _digest(data))
        except (Unavailable, CallerError) as error:
            # Any proxy can answer 400, so that answer must not end this process.
            telemetry.log_error("da.probe_refused", error)
            return None
        self._not_before = self._monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return self._own

    def _gives(self, given: _ServedBlob) -> bool:
        try:
            self._da.get(given.locator, lambda data: _digest(data) == given.digest)
        except (Unavailable, BadCertificate, CallerError) as error:
            telemetry.log_error("da.probe_failed", error)
            return False
        return True


def _digest(data: bytes) -> Digest:
    return labelled(Label.ENVELOPE, data)


QUESTIONS_PER_STEP = 2
"""Most questions in one step. Each question asks DA three times, and a tick must end."""
PAUSE_S = 15
"""Seconds of the protocol clock in which no question is asked after DA did not prove that it works."""
HOLDS_S = 30
"""Seconds of chain time for which the result that bytes are missing counts. A node that loses the chain for longer asks again."""
HAND_IN_S = 60
"""Seconds of wall time within which the node must send a transaction that relies on such a result. After that, the node decides
the action again."""


class DaHealth(Protocol):
    """An object that tests whether DA serves this node at all."""

    def works(self) -> bool:
        """Returns whether DA serves this node now."""
        ...


class AbsenceCheck:
    """The check that finds out whether bytes are certainly missing from DA. It remembers a missing subject only as long as each
    call of `begin` names that subject."""

    def __init__(self, control: DaHealth) -> None:
        self._control = control
        self._gone: dict[Digest, int] = {}
        """Chain timestamp at which each subject was found missing."""
        self._left = 0
        self._not_before = 0

    def begin(self, subjects: Collection[Digest]) -> None:
        """Starts a new step about these subjects. Forgets the results about all other subjects."""
        self._gone = {subject: since for subject, since in self._gone.items() if subject in subjects}
        self._left = QUESTIONS_PER_STEP

    def is_gone(self, subject: Digest, ask: Callable[[], object], snapshot: Snapshot) -> bool:
        """Returns whether DA lacks the right bytes, although it gives other bytes. `ask` asks DA for the bytes; it must raise
        `NotServed` if DA gave none that fit."""
        if subject in self._gone and snapshot.timestamp - self._gone[subject] <= HOLDS_S:
            return True
        if self._left == 0 or snapshot.clock < self._not_before:
            return False
        self._left -= 1
        if not self._works(snapshot) or not self._fails(ask, subject) or not self._works(snapshot):
            return False
        self._gone[subject] = snapshot.timestamp
        return True

    def _works(self, snapshot: Snapshot) -> bool:
        works = self._control.works()
        if not works:
            self._not_before = snapshot.clock + PAUSE_S
        return works

    def _fails(self, ask: Callable[[], object], subject: Digest) -> bool:
        try:
            ask()
        except NotServed as error:
            telemetry.log_error("bytes.missed", error, subject=subject)
            return True
        except (Fault, Unavailable) as error:
            telemetry.log_error("bytes.check_failed", error, subject=subject)
        return False

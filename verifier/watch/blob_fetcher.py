"""Fetches bytes from DA, or with the help of an operator's answer to a demand, and decides when a failed fetch is tried again.

Such an answer is a list on the chain, or a new locator of an envelope. An operator that answered in time has done its duty, even
if the first locator no longer works.

`Backlog` orders the fetches: keys with the fewest failures come first, and each failure makes a key wait longer. So a hundred
batches with missing bytes cost little, and none of them delays a batch that was just anchored.
"""

from typing import Generic, NamedTuple, TypeVar

from bytewise.ports import BlobStore, DemandView
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.errors.actors import BadCertificate, CallerError, NotServed
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.records.receipt import BatchHeader, list_subject
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Digest
from bytewise.service import telemetry


class BlobFetcher:
    """A fetcher of lists and envelopes, which accepts only bytes with the expected hash. Its methods raise `NotServed` if DA was
    just asked and gave no bytes that fit. All other errors come from the chain."""

    def __init__(self, chain: DemandView, da: BlobStore, demands: Domain) -> None:
        self._chain = chain
        self._da = da
        self._subjects = demands

    def list_of(self, header: BatchHeader, snapshot: Snapshot) -> bytes:
        """Gets the list of a batch from DA, or else from the operator's answer on the chain."""
        what = f"list of batch {header.batch_id}"
        try:
            return self._get(header.locator, Label.LIST, header.list_hash, what)
        except NotServed:
            batch = snapshot.batch(header.batch_id)
            if batch is not None and not batch.list_answered:
                raise
            subject = list_subject(self._subjects, header.batch_id)
            answer = self._chain.answered(subject, header.block, snapshot.number)
            if answer is None or labelled(Label.LIST, answer) != header.list_hash:
                raise
            return answer

    def envelope(self, locator: str, envelope_hash: Digest, receipt_id: Digest) -> bytes:
        """Gets an envelope from DA by the locator in the list."""
        return self._get(locator, Label.ENVELOPE, envelope_hash, f"envelope of receipt {receipt_id.hex()}")

    def cured_envelope(self, envelope_hash: Digest, receipt_id: Digest, header: BatchHeader, snapshot: Snapshot) -> bytes | None:
        """Gets an envelope from DA by the locator in the operator's answer to a demand. Returns None if there is no such
        answer."""
        answer = self._chain.answered(receipt_id, header.block, snapshot.number)
        # An operator may post any bytes. Bytes that are no text become a locator at which nothing is found.
        return None if answer is None else self.envelope(answer.decode("utf-8", "replace"), envelope_hash, receipt_id)

    def _get(self, locator: str, label: Label, wanted: Digest, what: str) -> bytes:
        # Bytes that do not fit are no fault of the operator, because a proxy of DA may answer with anything.
        try:
            return self._da.get(locator, lambda data: labelled(label, data) == wanted)
        except CallerError as error:
            # An operator chose the locator, and any proxy can answer 400. Neither proves that this program is wrong.
            telemetry.log_error("da.locator_refused", error, of=what)
            raise NotServed(what, str(error)) from None
        except (Unavailable, BadCertificate) as error:
            raise NotServed(what, str(error)) from None


K = TypeVar("K")

FIRST_PAUSE_S = 1
"""Seconds of chain time for which a key waits after its first failure. The pause doubles with each further failure."""
LONGEST_PAUSE_S = 64


class _Tries(NamedTuple):
    failures: int
    not_before: int


class Backlog(Generic[K]):
    """Keys in the order in which they were added, each with its number of failures. Times are seconds of chain time."""

    def __init__(self) -> None:
        self._tries: dict[K, _Tries] = {}

    def __len__(self) -> int:
        return len(self._tries)

    def add(self, key: K) -> None:
        """Adds a key. A key that is already there keeps its failures."""
        self._tries.setdefault(key, _Tries(0, 0))

    def drop(self, key: K) -> None:
        """Removes a key if it is there."""
        self._tries.pop(key, None)

    def clear(self) -> None:
        """Removes all keys."""
        self._tries.clear()

    def due(self, now: int) -> list[K]:
        """Returns the keys whose pause is over. Keys with the fewest failures come first."""
        found = [key for key, tries in self._tries.items() if tries.not_before <= now]
        return sorted(found, key=lambda key: self._tries[key].failures)

    def failures(self, key: K) -> int:
        """Returns how often a key has failed, or 0 if the key is unknown."""
        return self._tries[key].failures if key in self._tries else 0

    def failed(self, key: K, now: int) -> None:
        """Counts a failure of a known key and starts its pause."""
        failures = self._tries[key].failures
        pause_s = min(FIRST_PAUSE_S << min(failures, 30), LONGEST_PAUSE_S)
        self._tries[key] = _Tries(failures + 1, now + pause_s)

"""Fetches bytes from DA, or with the help of an operator's answer to a demand.

Such an answer is a list on the chain, or a new locator of an envelope. An operator that answered in time has done its duty, even
if the first locator no longer works.
"""

from bytewise.ports import BlobStore, DemandView
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.errors.actors import BadCertificate, NotServed
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.records.receipt import BatchHeader, list_subject
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Digest


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
        # Bytes that do not fit are no fault of the operator, because any proxy may answer with anything.
        try:
            return self._da.get(locator, lambda data: labelled(label, data) == wanted)
        except (Unavailable, BadCertificate) as error:
            raise NotServed(what, str(error)) from None

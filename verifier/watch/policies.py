"""The appraisal policy in force as bytes: what enclaves and shards judge each other by, found in the chain's events once."""

from bytewise.ports import Documents
from bytewise.protocol.errors import UnknownEnvironment
from bytewise.protocol.evidence.appraisal_policy import policy_digest
from bytewise.protocol.units import ZERO_DIGEST, Blob, Digest


class Policies:
    """Keeps the one that was asked for last: policies change once in months."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._last = ZERO_DIGEST, Blob(b"")

    def document(self, digest: Digest, block: int) -> Blob:
        """Canonical bytes of the policy with this digest; `UnknownEnvironment` if the chain shows none up to the block."""
        if self._last[0] != digest:
            data = Blob(self._documents.policy_document(digest, block))
            if policy_digest(data) != digest:
                raise UnknownEnvironment("policy", digest.hex(), "its document is another's")
            self._last = digest, data
        return self._last[1]

"""Receipts that clients give to a watchtower, because they are not on the chain or their envelope is missing.

Each receipt is a file in a folder of the watchtower: the `receipt.signed` member of an answer. The watchtower does not need the
other members of the answer, which would show the client's request.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bytewise.protocol.encoding import from_json, verify_depth
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.receipt import SignedReceipt, verify_receipt
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Digest
from bytewise.service import telemetry
from bytewise.service.files import read_regular_file

MAX_FILES = 4096
"""Most files that are read at a time. Further files wait until others are removed."""
MAX_FILE_BYTES = 32 * 1024
"""Largest accepted file in bytes. A receipt with its locator takes a few kilobytes."""

MAX_PROMISE_S = 7 * 86_400
"""Most seconds after the time of a file for which `prune` waits for the receipt's `anchorBy`. The contract does not limit
`anchorBy`, so a file with a very late one would otherwise stay for a very long time. No anchor can be demanded before
`anchorBy`."""

_ADDRESS_BOOK = "network.json"


class _File(NamedTuple):
    """Identity of a file. A changed file is read again, because it may have been read while it was being copied."""

    name: str
    changed_ns: int
    size: int

    @property
    def changed_at(self) -> int:
        """Time of the last change of the file, in Unix seconds."""
        return self.changed_ns // 10**9


class ReceiptInbox:
    """The receipts in one folder, which is read at each step. A file without a receipt of this network is logged once, and again
    if the file changes.

    Raises `ConfigurationError` if the folder is missing. Also raises it if the folder has settings or an address book, because
    `prune` deletes old files that are no receipts.
    """

    def __init__(self, folder: Path, anchor: Domain) -> None:
        if not folder.is_dir():
            raise ConfigurationError("inbox_folder", f"{folder.name} is no folder")
        if (folder / _ADDRESS_BOOK).exists() or any(folder.glob("*.toml")):
            raise ConfigurationError("inbox_folder", f"{folder.name} has settings or an address book: name a folder of its own")
        self._folder = folder
        self._anchor = anchor
        self._read: dict[_File, tuple[Digest, SignedReceipt] | None] = {}

    def receipts(self) -> Mapping[Digest, SignedReceipt]:
        """Returns the receipts in the first `MAX_FILES` files of the folder, by id. The operator's signature of each was
        verified."""
        names = sorted(path.name for path in self._folder.glob("*.json"))[:MAX_FILES]
        files = [file for file in map(self._stat, names) if file is not None]
        self._read = {file: self._read[file] if file in self._read else self._open(file) for file in files}
        return dict(found for found in self._read.values() if found is not None)

    def prune(self, before: int) -> int:
        """Deletes the file of each receipt whose `anchorBy` is before the Unix second `before`. Also deletes each unreadable file
        that was last changed before it. Leaves folders, pipes and devices where they are. Returns the number of deleted files.

        The caller chooses `before` so that neither the chain nor the settings need an older receipt
        (`Retention.receipts_before`). The contract would still take a demand to anchor such a receipt, but this node makes none
        any more. If `anchorBy` is more than `MAX_PROMISE_S` after the time of the file, that limit counts instead.
        """
        gone = 0
        for file, found in list(self._read.items()):
            at = file.changed_at if found is None else min(found[1].receipt.anchor_by, file.changed_at + MAX_PROMISE_S)
            path = self._folder / file.name
            if at < before and self._stat(file.name) == file and path.is_file():
                path.unlink(missing_ok=True)
                gone += 1
        return gone

    def _stat(self, name: str) -> _File | None:
        try:
            found = (self._folder / name).stat()
        except OSError:  # The file was removed meanwhile.
            return None
        return _File(name, found.st_mtime_ns, found.st_size)

    def _open(self, stored: _File) -> tuple[Digest, SignedReceipt] | None:
        name = stored.name
        try:
            data = read_regular_file(self._folder / name, MAX_FILE_BYTES)
            if len(data) > MAX_FILE_BYTES:
                raise MalformedValue(name, f"more than {MAX_FILE_BYTES} bytes")
            signed = from_json(SignedReceipt, json.loads(verify_depth(data)))
            found = verify_receipt(self._anchor, signed), signed
        except (OSError, ValueError) as error:
            telemetry.log("inbox.read_failed", file=name, error=type(error).__name__)
            return None
        except Fault as fault:
            telemetry.log_error("inbox.refused", fault, file=name)
            return None
        telemetry.log("inbox.accepted", file=name, receipt=found[0])
        anchor_by = signed.receipt.anchor_by
        if anchor_by > stored.changed_at + MAX_PROMISE_S:
            telemetry.log("inbox.promise_too_late", file=name, receipt=found[0], anchor_by=anchor_by)
        return found

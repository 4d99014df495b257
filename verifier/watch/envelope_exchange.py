"""Passes ciphertext from seat to seat over gossip while a dispute is open, so that a DA layer that is down costs no vote.

A member with a seat announces on the topic `have` that it has the envelope, and gives it to other seats in parts. A member that
lacks the envelope asks one of these members at a time. The hash in the receipt decides whether the bytes are right, so a liar
costs one attempt. No part of the node waits for this exchange. The node also goes on asking DA.
"""

import contextlib
import re
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from bytewise.ports import GossipPort
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import Action
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.units import Address, Digest, hex0x
from bytewise.service import telemetry
from bytewise.storage.archive import Archive

TOPIC = "have"
"""Gossip topic on which a member says that it has the bytes of an envelope."""
REPEAT_BLOCKS = 10
"""Most blocks after which a member repeats that it has an envelope, because other members may learn of the dispute or join gossip
later. The first pause is one block, and each further pause is twice as long."""
MAX_FAILURES = 4
"""Number of failed transfers after which a member is not asked for an envelope again. Wrong bytes count as this many failures."""
_FILE = re.compile(r"[0-9a-f]{64}(?:\.new|\.given)?")


class EnvelopeGossip(GossipPort, Protocol):
    """The interface of the gossip process for passing ciphertext between members. The bytes may be wrong, so the caller checks
    their hash."""

    def offer(self, envelope: str, file: Path) -> None:
        """Lets other seats of the envelope's dispute fetch the bytes of a file. Raises `Unavailable` if that is not possible
        now."""
        ...

    def fetch(self, envelope: str, size: int, account: str, file: Path) -> None:
        """Fetches an envelope of `size` bytes from the member `account`, and writes the bytes into a file. Raises `Unavailable`
        if the member gives nothing."""
        ...


class EnvelopeExchange:
    """This member's part in the exchange of envelopes. Implements `node.NodePart`, but decides no action."""

    def __init__(self, gossip: EnvelopeGossip, archive: Archive, me: Address, folder: Path) -> None:
        """`folder` is the folder of envelopes that this process and the gossip process share. `me` is this member's account."""
        self._gossip = gossip
        self._archive = archive
        self._me = me
        self._folder = folder.resolve()
        self._told: dict[Digest, tuple[int, int]] = {}
        """Block at which this member last said that it has an envelope, and the blocks after which it says so again."""
        self._holders: dict[Digest, dict[str, int]] = {}
        """Accounts that said they have an envelope, each with the size that it said, by envelope."""
        self._failures: dict[Digest, Counter[str]] = {}
        """Number of failed transfers from each account, by envelope."""
        self._running: _Transfer | None = None

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Offers envelopes that this node has, and fetches those that it lacks. Returns no action. If the gossip process is away,
        nothing happens."""
        passed = envelopes_of_seats(snapshot, self._archive)
        wanted = frozenset(each for each, seats in passed.items() if self._me in seats)
        try:
            self._forget(wanted)
            self._hear(wanted)
            for each in sorted(wanted):
                data = self._archive.envelope(each)
                if data is not None:
                    self._offer(each, data, snapshot.number)
            self._collect(wanted)
        except Unavailable:
            pass
        except OSError as error:
            telemetry.log("envelope.folder_failed", folder=self._folder.name, error=type(error).__name__)
        return ()

    def _hear(self, wanted: frozenset[Digest]) -> None:
        names = {hex0x(each): each for each in wanted}
        for body in self._gossip.take(TOPIC):
            envelope, account, size = names.get(str(body.get("envelope"))), body.get("account"), body.get("size")
            if envelope is None or not isinstance(account, str) or type(size) is not int or account == self._me:
                continue
            self._holders.setdefault(envelope, {})[account] = size

    def _offer(self, envelope: Digest, data: bytes, block: int) -> None:
        file = self._file(envelope)
        if not file.exists():
            draft = file.with_suffix(".new")
            self._folder.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(data)
            draft.replace(file)
        # A gossip process that was started again knows no offer.
        self._gossip.offer(hex0x(envelope), file)
        last, pause = self._told.get(envelope, (block - 1, 1))
        if abs(block - last) >= pause:
            body: dict[str, Any] = {"account": self._me, "at": block, "envelope": hex0x(envelope), "size": len(data)}
            # The gossip process refuses a message that would reach nobody yet. The next block sends it again.
            with contextlib.suppress(Unavailable):
                self._gossip.publish(TOPIC, body)
                self._told[envelope] = block, min(2 * pause if envelope in self._told else 1, REPEAT_BLOCKS)

    def _collect(self, wanted: frozenset[Digest]) -> None:
        if self._running is not None and not self._running.done.is_set():
            return
        ended, self._running = self._running, None
        if ended is not None:
            self._finish(ended)
        for envelope in sorted(wanted):
            failures = self._failures.setdefault(envelope, Counter())
            holders = {who: size for who, size in self._holders.get(envelope, {}).items() if failures[who] < MAX_FAILURES}
            if holders and self._archive.envelope(envelope) is None:
                # The account that failed least is asked first, so that a liar cannot keep this node from an honest seat.
                account = min(holders, key=lambda who: failures[who])
                self._folder.mkdir(parents=True, exist_ok=True)
                self._running = _Transfer(self._gossip, envelope, holders[account], account, self._draft(envelope))
                return

    def _finish(self, ended: "_Transfer") -> None:
        """Stores the bytes of a finished transfer if their hash is right. Otherwise counts a failure of the account that gave
        them."""
        envelope, failures = ended.envelope, self._failures.setdefault(ended.envelope, Counter())
        if ended.error is not None and not isinstance(ended.error, Unavailable):
            raise ended.error
        if ended.error is not None or not ended.file.exists():
            failures[ended.account] += 1
            why = "its file is gone" if ended.error is None else str(ended.error)
            telemetry.log("envelope.not_given", envelope=envelope, member=ended.account, detail=why)
            return
        data = ended.file.read_bytes()
        ended.file.unlink()
        if labelled(Label.ENVELOPE, data) == envelope:
            self._archive.keep_envelope(data)
            telemetry.log("envelope.given", envelope=envelope, member=ended.account, size=len(data))
        else:
            failures[ended.account] += MAX_FAILURES
            telemetry.log("envelope.wrong_bytes", envelope=envelope, member=ended.account)

    def _forget(self, wanted: frozenset[Digest]) -> None:
        """Forgets all envelopes that no open dispute of this member needs, and deletes their files, even those of an earlier
        process."""
        for kept in (self._told, self._holders, self._failures):
            for each in kept.keys() - wanted:
                kept.pop(each)
        names = {each.hex() for each in wanted}
        for file in self._folder.iterdir() if self._folder.is_dir() else ():
            if _FILE.fullmatch(file.name) and file.stem not in names:
                file.unlink(missing_ok=True)

    def _file(self, envelope: Digest) -> Path:
        return self._folder / envelope.hex()

    def _draft(self, envelope: Digest) -> Path:
        return self._folder / f"{envelope.hex()}.given"


class _Transfer:
    """One transfer in a thread of its own. The thread is a daemon, so the process can end while it runs."""

    def __init__(self, gossip: EnvelopeGossip, envelope: Digest, size: int, account: str, file: Path) -> None:
        self.envelope, self.account, self.file = envelope, account, file
        self.error: Exception | None = None
        self.done = threading.Event()
        threading.Thread(target=self._run, args=(gossip, size), name="envelope", daemon=True).start()

    def _run(self, gossip: EnvelopeGossip, size: int) -> None:
        try:
            gossip.fetch(hex0x(self.envelope), size, self.account, self.file)
        except Exception as error:  # noqa: BLE001 - raised again in the thread that asked
            self.error = error
        finally:
            self.done.set()


def envelopes_of_seats(snapshot: Snapshot, archive: Archive) -> Mapping[Digest, tuple[Address, ...]]:
    """Returns the accounts with seats in the present round, by the hash of the envelope that they need for their vote. Only
    disputes in the commit phase count. Receipts that this node has not seen yet are left out."""
    found: dict[Digest, tuple[Address, ...]] = {}
    for each in snapshot.disputes:
        seen = archive.receipt(each.receipt_id) if each.phase is Phase.COMMIT else None
        if seen is not None:
            envelope = seen.signed.receipt.envelope_hash
            found[envelope] = (*found.get(envelope, ()), *(seat.voter for seat in each.members))
    return found

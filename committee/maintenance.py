"""Commands that a person gives for a member: decline a duty, move the votes to another machine, resume a stopped account."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Dispute
from bytewise.protocol.errors.actors import (
    ConfigurationError,
    NoProgress,
    WrongPhase,
)
from bytewise.protocol.errors.branches import (
    BytewiseError,
    Fault,
    Unavailable,
)
from bytewise.protocol.units import Digest, digest, unhex
from bytewise.service import telemetry
from bytewise.service.clock import SystemClock
from bytewise.service.node_files.key_lock import hold_key
from bytewise.storage.duties import DONE, MISSED, Duties
from bytewise.storage.engine import check_revision, open_database
from bytewise.storage.nonce_lease import NonceLease, hold_lease
from bytewise.storage.protection import Protection
from chain.client.access import open_chain
from chain.client.address_book import read_network, verify_code
from chain.reads.reader import SnapshotReader
from committee.ballots import KIND
from verifier.settings import NodeSettings


def decline(settings: NodeSettings, dispute: str) -> int:
    """Records that this member does not vote in one dispute and accepts the penalty. A vote that is committed already, on the
    chain or under a root, is still revealed. Returns exit code 0.

    Raises `WrongPhase` if the dispute is final on the chain, and `NoProgress` if the duty is done or missed in the database. In
    both cases nothing is recorded. If the dispute is not known yet or the chain cannot be read, the decision is still recorded.
    """
    try:
        subject = digest(unhex(dispute))
    except Fault:
        raise ConfigurationError(
            "DISPUTE", "must be 0x and 64 hex digits, as `bytewise network show --output json` has it"
        ) from None
    database = open_database(settings.db.location)
    check_revision(database)
    duties = Duties(database, SystemClock())
    known = duties.find(KIND, subject)
    if known is not None and known.state in (DONE, MISSED):
        raise NoProgress(f"duty of dispute {dispute}", f"it has ended: {known.state}")
    case = _case(settings, subject)
    if case is not None and case.phase is Phase.FINAL:
        raise WrongPhase(dispute, Phase.FINAL.name, "votes")
    duty = duties.decline(subject, KIND)
    telemetry.log("duty.declined", dispute=dispute, state=duty.state)
    return 0


def _case(settings: NodeSettings, dispute: Digest) -> Dispute | None:
    network = read_network(settings.network_file)
    client = open_chain(*settings.chain.rpc, network.chain_id, settings.chain.timeout_s)
    try:
        reader = SnapshotReader(client, verify_code(client, network))
        return reader.dispute(dispute, reader.head())
    except Unavailable as error:
        telemetry.log_error("duty.chain_check_failed", error)
        return None


def export_votes(lease: NonceLease, key_file: Path, file: Path) -> int:
    """Writes every vote of a member's protection table to a new file, and returns their number. Raises `KeyInUse` or `LeaseTaken`
    if the member runs."""
    with _stopped(lease, key_file):
        table = Protection(lease.engine, lease.clock)
        count, document = len(table.rows()), table.export()
        _write_new(file, document)
        try:
            lease.renew()
        except BytewiseError:
            # A member may have started and voted while this process was paused. No file is better than a file that lacks a vote.
            file.unlink()
            raise
    return count


def import_votes(lease: NonceLease, key_file: Path, file: Path) -> int:
    """Adds the votes of an exported file to the protection table, and returns the number of votes in the file. Raises
    `SecondVote`, and adds no vote, if one contradicts a stored vote. Raises `KeyInUse` or `LeaseTaken` if the member runs."""
    try:
        document = file.read_bytes()
        with _stopped(lease, key_file):
            return Protection(lease.engine, lease.clock, lease).import_votes(document)
    except OSError as error:
        raise ConfigurationError(file.name, error.strerror) from None
    except Fault as error:
        raise ConfigurationError(file.name, f"is no protection export: {error}") from None


def resume(lease: NonceLease, key_file: Path) -> str:
    """Lets an account of any role send transactions again after a node stopped it, for example because someone else sent with its
    key. Returns the reason of the stop, or an empty text if it was not stopped. Raises `KeyInUse` or `LeaseTaken` if its node
    runs."""
    with _stopped(lease, key_file):
        reason = lease.stop_reason()
        lease.resume()
    return reason


@contextmanager
def _stopped(lease: NonceLease, key_file: Path) -> Iterator[None]:
    # Only the holder of the nonce lease may send for the account. While this command holds it, no node can start.
    with hold_key(key_file), hold_lease(lease, threading.Event(), wait=False):
        yield


def _write_new(file: Path, content: bytes) -> None:
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
    except OSError as error:
        raise ConfigurationError(file.name, error.strerror) from None

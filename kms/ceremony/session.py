"""The coordinator's program, which runs one ceremony from settings to result. It makes or loads the plan, keeps the log and
reaches the shards."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from bytewise.crypto.curve import Rng
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import CeremonyFailed, ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import BadSignature
from bytewise.protocol.jobs import Contracts, ShardRecord
from bytewise.protocol.keys.ceremony import (
    CeremonyPlan,
    CeremonyPurpose,
    CeremonySeat,
    ShardContact,
    SharesSource,
    SignedPlan,
    sign_plan,
    verify_plan,
)
from bytewise.protocol.keys.ceremony_log import MAX_EXCHANGE_BYTES, MAX_EXCHANGE_MARKS, Exchange, ExchangeAnswer
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import Address, Blob, Digest
from bytewise.service.clock import monotonic_s
from bytewise.service.files import replace_file, shown_name
from bytewise.storage.ceremonies import Ceremonies
from bytewise.storage.engine import check_revision, open_database
from kms.ceremony.coordinator import Coordinator, epoch_document, seats_by_address
from kms.ceremony.state import CeremonyPhase, CeremonyState
from kms.ceremony.state_machine import replay
from kms.settings import CeremonySettings
from kms.shard_client import ShardClient
from kms.storage.keyring import load_document


class HttpsLink:
    """HTTPS connection to one shard of a plan, with the certificate that the plan names. It is a context manager."""

    def __init__(self, seat: CeremonySeat) -> None:
        record = ShardRecord(seat.index, seat.address, seat.url, seat.channel, seat.certificate, Blob(b""))
        self._client = ShardClient(record, most=MAX_EXCHANGE_BYTES)

    def __enter__(self) -> "HttpsLink":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._client.__exit__(kind, error, trace)

    def exchange(self, asked: Exchange, timeout_s: float) -> ExchangeAnswer:
        """Sends the log and returns the shard's answer. Raises `TryAgain` if the shard cannot be reached or is too slow, or
        `ShardRefused` with the shard's rule if it refuses."""
        answer = self._client.call("POST", "/v1/ceremony", encode(asked), timeout_s)
        return decode(ExchangeAnswer, answer, MAX_EXCHANGE_MARKS)


T = TypeVar("T")

PAUSE_S = 0.25
"""Seconds to wait after a round in which no shard sent a message."""


def make_plan(
    settings: CeremonySettings, purpose: CeremonyPurpose, contracts: Contracts, coordinator: Address, rng: Rng
) -> CeremonyPlan:
    """Makes the plan from these settings and the files that they name. Raises `ConfigurationError` or `CeremonyRefused` if they
    make no valid plan."""
    receivers = _numbered(settings.entries)
    dealers, source, heir = receivers, None, None
    if purpose is not CeremonyPurpose.GENERATE:
        document = _source(settings)
        dealers = tuple(CeremonySeat(s.index, s.address, s.url, s.channel, s.certificate) for s in document.record.shards)
        source = SharesSource(settings.source_version, document.commitments)
        receivers = receivers or dealers
    if purpose is CeremonyPurpose.REPAIR:
        heir = next((seat for seat in dealers if seat.index == settings.repair_index), None)
        dealers = tuple(seat for seat in dealers if seat.index != settings.repair_index)
        receivers = tuple(CeremonySeat(i, s.address, s.url, s.channel, s.certificate) for i, s in enumerate(dealers, start=1))
    return CeremonyPlan(
        purpose=purpose, chain_id=contracts.chain_id, key_epochs=contracts.key_epochs, epoch=settings.epoch,
        attempt=Digest(rng(32)), scribe=coordinator, dealers=dealers, receivers=receivers, heir=heir,
        threshold=settings.threshold, quorum=settings.quorum, reveal_budget=settings.reveal_budget, source=source,
        assurance=settings.assurance,
    )  # fmt: skip


def read_plan(file: Path) -> CeremonyPlan:
    """Reads a plan file. Raises `ConfigurationError` if it is none, or if its coordinator did not sign it."""
    return _verified(file, _read(SignedPlan, file))


def load_or_make_plan(
    settings: CeremonySettings, purpose: CeremonyPurpose, contracts: Contracts, signer: LocalSigner, rng: Rng
) -> SignedPlan:
    """Loads the plan from `plan_file`, or makes the plan and writes it if the file does not exist.

    Operators approve the plan's digest. Raises `ConfigurationError` if the settings ask for another plan than the file has.
    """
    for name in ("plan_file", "out_file"):
        folder = getattr(settings, name).parent
        if not folder.is_dir():
            raise ConfigurationError(name, f"{folder}: no such folder. Make it, or name a file in an existing folder")
    if not settings.plan_file.exists():
        signed = sign_plan(signer, make_plan(settings, purpose, contracts, signer.address, rng))
        replace_file(settings.plan_file, encode(signed))
    signed = _read(SignedPlan, settings.plan_file)
    plan = _verified(settings.plan_file, signed)
    if (plan.purpose, plan.epoch, plan.coordinator) != (purpose, settings.epoch, signer.address):
        raise ConfigurationError(settings.plan_file.name, "holds the plan of another ceremony: name another plan_file")
    wanted = make_plan(settings, purpose, contracts, signer.address, rng)
    # The source is not compared. It names the shares in force at the start, and the chain may name other shares after the
    # ceremony.
    other = [
        each.name for each in fields(CeremonyPlan) if each.name not in ("attempt", "source") and _differ(plan, wanted, each.name)
    ]
    if other:
        raise ConfigurationError(
            settings.plan_file.name,
            f"differs from the settings in {', '.join(other)}: restore these settings, or name a new plan_file",
        )
    return signed


def _differ(plan: CeremonyPlan, wanted: CeremonyPlan, name: str) -> bool:
    return bool(getattr(plan, name) != getattr(wanted, name))


def run_ceremony(settings: CeremonySettings, signed: SignedPlan, signer: LocalSigner) -> CeremonyState:
    """Runs a ceremony to its end, or continues one that was interrupted. Writes the epoch document if the ceremony made shares
    for all its receivers. Returns the final state."""
    plan, records = signed.plan, _records(settings)
    with _links(plan) as links:
        coordinator = Coordinator(plan, signer, records, links)
        state = coordinator.run(settings.phase_s, PAUSE_S, monotonic_s, threading.Event().wait)
    if state.phase is CeremonyPhase.DONE and plan.repair_target is None:
        replace_file(settings.out_file, encode(epoch_document(state)))
    return state


def finished_ceremony(settings: CeremonySettings) -> CeremonyState:
    """Recomputes an ended ceremony from its plan and the stored log.

    Raises `CeremonyFailed` if the ceremony failed or has not ended. Raises `ConfigurationError` for a repair, because a repair
    puts no new shares in force.
    """
    plan = read_plan(settings.plan_file)
    kept = _records(settings).find(plan.digest)
    state = replay(plan, kept.log if kept else ())
    if plan.repair_target is not None:
        raise ConfigurationError(
            settings.plan_file.name, "is of a repair, which puts nothing in force: the repaired shard has its share"
        )
    if state.phase is not CeremonyPhase.DONE:
        unfinished = f"it has not ended and is in phase {state.phase.name}: run its command again until it ends"
        raise CeremonyFailed(plan.digest.hex()[:16], state.reason or unfinished)
    return state


def _records(settings: CeremonySettings) -> Ceremonies:
    engine = open_database(settings.database_url)
    check_revision(engine)
    return Ceremonies(engine)


@contextlib.contextmanager
def _links(plan: CeremonyPlan) -> Iterator[Mapping[Address, HttpsLink]]:
    with contextlib.ExitStack() as stack:
        yield {address: stack.enter_context(HttpsLink(seat)) for address, seat in seats_by_address(plan).items()}


def _numbered(files: tuple[Path, ...]) -> tuple[CeremonySeat, ...]:
    entries = [_read(ShardContact, file) for file in files]
    return tuple(
        CeremonySeat(i, each.address, each.url, each.channel, each.certificate) for i, each in enumerate(entries, start=1)
    )


def _source(settings: CeremonySettings) -> EpochDocument:
    if settings.source_file is None:
        raise ConfigurationError("source_file", "missing: name the epoch document of the shares to deal again")
    document = load_document(settings.source_file)
    if document.record.epoch != settings.epoch:
        raise ConfigurationError(settings.source_file.name, f"is of key epoch {document.record.epoch}")
    return document


def _verified(file: Path, signed: SignedPlan) -> CeremonyPlan:
    try:
        return verify_plan(signed)
    except BadSignature as error:
        raise ConfigurationError(file.name, f"its coordinator did not sign it: {error}") from None


def _read(cls: type[T], path: Path) -> T:
    try:
        return decode(cls, path.read_bytes())
    except OSError as error:
        raise ConfigurationError(shown_name(path), error.strerror) from None
    except Fault as error:
        raise ConfigurationError(path.name, str(error)[:200]) from None

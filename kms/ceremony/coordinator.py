"""The coordinator of a ceremony: sends the log to every shard, appends the shards' messages and closes phases until the end.

The coordinator has no secret of the key, and everything that it stores is public. After a crash it continues from its stored log.
It signs the head of every log that it sends. It stores the log before it signs, so it never signs two heads of the same length.

The coordinator's program runs one ceremony from settings to result. It makes or loads the plan, keeps the log and reaches the
shards over HTTPS.
"""

import contextlib
import math
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

from bytewise.crypto.curve import Rng, encode_point
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import (
    CeremonyFailed,
    CeremonyRefused,
    ConfigurationError,
    LogForked,
    NoProgress,
    SharesUnproven,
)
from bytewise.protocol.errors.branches import BytewiseError, Fault
from bytewise.protocol.errors.records import BadSignature
from bytewise.protocol.jobs import Contracts, EpochRecord, ShardRecord
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
from bytewise.protocol.keys.ceremony_log import (
    MAX_EXCHANGE_BYTES,
    MAX_EXCHANGE_MARKS,
    PAGE_BYTES,
    Close,
    Exchange,
    ExchangeAnswer,
    Message,
    make_exchange,
    next_head,
    sign_message,
)
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import Address, Blob, Digest
from bytewise.service import telemetry
from bytewise.service.clock import monotonic_s
from bytewise.service.files import replace_file, shown_name
from bytewise.storage.ceremonies import Ceremonies
from bytewise.storage.engine import check_revision, open_database
from kms.ceremony.state import CeremonyPhase, CeremonyState, joining_seats, receiving_seats
from kms.ceremony.state_machine import apply, awaited_addresses, is_complete, replay
from kms.settings import CeremonySettings
from kms.shard_client import ShardClient
from kms.storage.keyring import load_document

END_PHASES = (CeremonyPhase.DONE, CeremonyPhase.FAILED)

MAX_EXCHANGE_S = 20.0
"""Most seconds for one exchange with one shard, which may need some seconds to verify and answer."""
MIN_EXCHANGE_S = 5.0
"""Fewest seconds that each shard gets for an exchange, even if less of the phase is left, so that a slow shard does not exclude
other shards."""
T = TypeVar("T")
PAUSE_S = 0.25
"""Seconds to wait after a round in which no shard sent a message."""


class ShardLink(Protocol):
    """Connection of the coordinator to one shard."""

    def exchange(self, asked: Exchange, timeout_s: float) -> ExchangeAnswer:
        """Sends the log to the shard and returns its answer, within `timeout_s` seconds. Raises a `BytewiseError` if that
        fails."""
        ...


class Coordinator:
    """The coordinator of one ceremony, which keeps its log."""

    def __init__(self, plan: CeremonyPlan, signer: LocalSigner, records: Ceremonies, links: Mapping[Address, ShardLink]) -> None:
        self.signed: SignedPlan = sign_plan(signer, plan)
        self._signer = signer
        self._records = records
        self._links = links
        self._log = list(records.open(self.signed, b"").log)
        self.heads = list(accumulate(self._log, next_head, initial=plan.digest))
        self._lengths = dict.fromkeys(links, 0)
        self._failed: dict[Address, str] = {}
        self.state: CeremonyState = replay(plan, tuple(self._log))

    def run(self, phase_s: float, pause_s: float, clock: Callable[[], float], wait: Callable[[float], object]) -> CeremonyState:
        """Runs all phases and returns the final state.

        A phase closes when every shard has sent its messages, or after `phase_s` seconds. The last exchange tells every shard
        that answers how the ceremony ended. A shard that delays its answers extends a phase by at most `MIN_EXCHANGE_S`.
        """
        while self.state.phase not in END_PHASES:
            until, phase = clock() + phase_s, self.state.phase
            telemetry.log(
                "ceremony.phase_started", phase=phase.name, waits_for=len(awaited_addresses(self.state)), waits_s=phase_s
            )
            while self.state.phase is phase:
                spoken = self.exchange_round(until, clock)
                if is_complete(self.state) or clock() >= until:
                    if left := awaited_addresses(self.state):
                        urls = [seat.url for address, seat in seats_by_address(self.state.plan).items() if address in left]
                        telemetry.log("ceremony.phase_timed_out", phase=phase.name, silent=urls)
                    self._append(sign_message(self._signer, self.state.id, Close(phase, self.state.head)))
                elif not spoken:
                    wait(pause_s)
        self.exchange_round()
        return self.state

    def exchange_round(self, until: float = math.inf, clock: Callable[[], float] = monotonic_s) -> bool:
        """Exchanges once with every shard. Returns whether any shard sent a new message. `until` is the end of the phase, in
        seconds of the clock.

        For each shard, the method divides the time that is left equally between this shard and those that it has not asked yet.
        """
        spoken = False
        for after, (address, link) in zip(range(len(self._links), 0, -1), self._links.items(), strict=True):
            spoken |= self._exchange(address, link, min(MAX_EXCHANGE_S, max(MIN_EXCHANGE_S, (until - clock()) / after)))
        return spoken

    def _exchange(self, address: Address, link: ShardLink, timeout_s: float) -> bool:
        length = self._lengths[address]
        page = self._page(length)
        try:
            answer = link.exchange(make_exchange(self._signer, self.signed, length, page, self.heads[length]), timeout_s)
            self._verify_same_log(address, answer)
        except BytewiseError as error:
            self._log_failure(address, error)
            return False
        if self._failed.pop(address, None) is not None:
            telemetry.log("ceremony.shard_reached", shard=address)
        self._lengths[address] = answer.length
        return any([self._receive(address, message) for message in answer.messages])

    def _log_failure(self, address: Address, error: BytewiseError) -> None:
        """Logs why an exchange failed, once for each different reason, because exchanges repeat several times a second for
        minutes."""
        if self._failed.get(address) != str(error):
            self._failed[address] = str(error)
            telemetry.log_error("ceremony.exchange_failed", error, shard=address)

    def _page(self, first: int) -> tuple[Message, ...]:
        page: list[Message] = []
        size = 0
        for message in self._log[first:]:
            size += len(encode(message))
            if page and size > PAGE_BYTES:
                break
            page.append(message)
        return tuple(page)

    def _verify_same_log(self, address: Address, answer: ExchangeAnswer) -> ExchangeAnswer:
        if not 0 <= answer.length <= len(self._log):
            raise LogForked(
                self.state.id.hex()[:16], f"shard {address} has {answer.length} messages, the coordinator has {len(self._log)}"
            )
        if answer.head != self.heads[answer.length]:
            raise LogForked(self.state.id.hex()[:16], f"shard {address} has another log of {answer.length} messages")
        return answer

    def _receive(self, address: Address, message: Message) -> bool:
        """Appends a shard's message to the log if the rules allow it, and returns whether it did. Logs the error of a refused
        message."""
        try:
            if message.sender != address:
                raise LogForked(self.state.id.hex()[:16], f"shard {address} sent a message of {message.sender}")
            self._append(message)
        except NoProgress:
            return False
        except Fault as error:
            telemetry.log_error("ceremony.message_refused", error, shard=address)
            return False
        return True

    def _append(self, message: Message) -> None:
        after = apply(self.state, message)
        self._records.append(self.state.id, len(self._log), (message,))
        self._log.append(message)
        self.heads.append(after.head)
        self.state = after


def seats_by_address(plan: CeremonyPlan) -> dict[Address, CeremonySeat]:
    """Returns every seat of a ceremony, by account."""
    return {seat.address: seat for seat in (*plan.dealers, *joining_seats(plan))}


def share_signatures(state: CeremonyState) -> tuple[Blob, ...]:
    """Returns the signatures of the new shares for the contract `KeyEpochs`, one for each receiver in order. The entry of a
    receiver that did not confirm is empty."""
    return tuple(state.signatures.get(seat.index, Blob(b"")) for seat in state.plan.receivers)


def share_consents(state: CeremonyState) -> tuple[Blob, ...]:
    """Returns the signatures with which holders of the old shares consent to the new shares, for the contract `KeyEpochs`. The
    entries are in the order of the old shares' indices, from 1. The entry of a holder that did not sign is empty. A ceremony for
    a new key has no consents."""
    last = max(state.consents, default=0)
    return tuple(state.consents.get(index, Blob(b"")) for index in range(1, last + 1))


def transcript_of(state: CeremonyState) -> Digest:
    """Returns the digest of the transcript that the shards signed. Raises `CeremonyRefused` before there is a result."""
    if state.result is None:
        raise CeremonyRefused(state.id.hex()[:16], f"no transcript in phase {state.phase.name}")
    return state.result.transcript


def unproven_shares(state: CeremonyState) -> dict[int, str]:
    """Returns, by index, each receiver that did not prove its share before the log closed, with the reason. The canary did not
    test the shares of these receivers."""
    missing = [seat for seat in receiving_seats(state.plan) if seat.index not in state.partials]
    return {seat.index: _why_unproven(state, seat) for seat in missing}


def verify_shares_proven(state: CeremonyState, without: Collection[int] = ()) -> CeremonyState:
    """Returns the ceremony if every receiver proved its share. Receivers with an index in `without` need not prove it. Raises
    `SharesUnproven` otherwise.

    Raises `ConfigurationError` if `without` names a receiver that proved its share, or an index that receives none.
    """
    missing = unproven_shares(state)
    for index in sorted(set(without) - missing.keys()):
        known = index in {seat.index for seat in receiving_seats(state.plan)}
        raise ConfigurationError(
            f"--without {index}", "this shard proved its share" if known else "no shard gets a share of this index"
        )
    left = [f"{index} ({why})" for index, why in missing.items() if index not in without]
    if left:
        raise SharesUnproven(state.id.hex()[:16], ", ".join(left))
    return state


def _why_unproven(state: CeremonyState, seat: CeremonySeat) -> str:
    if seat.address in state.faults:
        return f"was found lying: {state.faults[seat.address]}"
    joined = state.plan.repair_target is not None or seat.index in state.keys
    return "was silent at the end" if joined else "did not join and has no share"


def epoch_document(state: CeremonyState) -> EpochDocument:
    """Returns the epoch document for clients, after a ceremony that made shares for its receivers. Raises `CeremonyRefused`
    before the end of the ceremony, and for a repair."""
    plan, result = state.plan, state.result
    if state.phase is not CeremonyPhase.DONE or result is None or plan.repair_target is not None:
        raise CeremonyRefused(state.id.hex()[:16], f"no document in phase {state.phase.name}")
    shards = tuple(
        ShardRecord(
            seat.index,
            seat.address,
            seat.url,
            seat.channel,
            seat.certificate,
            encode_point(result.verification_key(seat.index)),
        )
        for seat in plan.receivers
    )
    record = EpochRecord(plan.epoch, result.public_key, plan.threshold, shards, plan.assurance, result.hybrid)
    return EpochDocument(record, result.commitments)


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
    """Reads a plan file. Raises `ConfigurationError` if the file contains no plan, or if the plan's coordinator did not sign
    it."""
    return _verified(file, _read(SignedPlan, file))


def load_or_make_plan(
    settings: CeremonySettings, purpose: CeremonyPurpose, contracts: Contracts, signer: LocalSigner, rng: Rng
) -> SignedPlan:
    """Loads the plan from `plan_file`, or makes the plan and writes it if the file does not exist.

    If shards must approve the plan, its digest goes into their `approved_plans`. Raises `ConfigurationError` if the settings ask
    for another plan than the file has, or name a file in a folder that does not exist.
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
    """Runs a ceremony to its end, or continues one that was interrupted. Writes the epoch document, unless the ceremony failed or
    was a repair. Returns the final state."""
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

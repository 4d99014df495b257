"""A shard's side of ceremonies: it stores the coordinator's log, answers with its messages and makes its new share.

The shard stores each thing before anything else depends on it. It stores the sealed seed first. It stores the log before it sends
messages about the log, and the new share before it signs for the share. It stores each message before it sends the message. After
a crash between any two steps the next exchange continues.
"""

import threading
from dataclasses import dataclass
from pathlib import Path

from bytewise.crypto.curve import Rng
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import CeremonyRefused, ConfigurationError, LogForked, ShareMissing
from bytewise.protocol.errors.records import TooLarge
from bytewise.protocol.keys.ceremony import CeremonyPlan, SignedPlan, verify_plan
from bytewise.protocol.keys.ceremony_log import (
    MAX_EXCHANGE_BYTES,
    MAX_EXCHANGE_MARKS,
    Confirm,
    Exchange,
    ExchangeAnswer,
    Message,
    find_fork,
    head_after,
    segment_of,
    sign_message,
    verify_exchange,
)
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import Digest
from bytewise.service import telemetry
from bytewise.service.secret import Secret
from bytewise.storage.ceremonies import Ceremonies, StoredCeremony
from kms.ceremony.authority import CeremonyView, TrustSettings, is_wanted, verify_authority
from kms.ceremony.responses import SEED_BYTES, ParticipantSecrets, due_messages, kem_seed, new_share
from kms.ceremony.state import CeremonyPhase, CeremonyState, receiving_seats
from kms.ceremony.state_machine import apply, initial_state
from kms.storage import keyring
from kms.storage.sealing import Sealer


@dataclass(frozen=True, slots=True)
class ParticipantConfig:
    """Folder, account and settings of a participant."""

    folder: Path
    """Folder with keys and shares (`kms.storage.keyring`)."""
    signer: LocalSigner
    """The shard's account."""
    trust: TrustSettings
    """Settings that say which ceremonies the shard may join."""
    sealer: Sealer
    """Sealer of shares and seeds."""


class ParticipantKeys:
    """The secrets of one shard in ceremonies: it draws the seed, finds the old share and stores the new one."""

    def __init__(self, config: ParticipantConfig, view: CeremonyView, rng: Rng) -> None:
        self._config = config
        self._view = view
        self._rng = rng

    def new_seed(self, ceremony: Digest) -> bytes:
        """Draws a seed for a ceremony and returns it sealed."""
        return self._config.sealer.seal(self._rng(SEED_BYTES), seed_context(ceremony))

    def secrets(self, state: CeremonyState, kept: StoredCeremony) -> ParticipantSecrets:
        """Returns the shard's account, its seed for this ceremony, and the old share that it deals again, if any. `kept` contains
        the sealed seed."""
        seed = self._config.sealer.open(kept.seed, seed_context(state.id))
        return ParticipantSecrets(self._config.signer, seed, self._old_share(state.plan, state.phase))

    def store(self, state: CeremonyState, kept: StoredCeremony) -> None:
        """Stores the new share, and its ML-KEM key, beside the old one. A second call changes nothing.

        Raises `ShareMissing` if the ceremony gave this shard no share, and `CeremonyRefused` if the chain no longer needs that
        share.
        """
        plan, result, folder, own = state.plan, state.result, self._config.folder, self._config.signer.address
        secrets = self.secrets(state, kept)
        share = new_share(state, secrets)
        if result is None:
            raise ShareMissing(own, "no result")
        if not is_wanted(plan, result.commitments, self._view.key_epoch(plan.epoch)):
            raise CeremonyRefused(state.id.hex()[:16], f"the chain needs no such share of key epoch {plan.epoch} any more")
        index = next(each.index for each in receiving_seats(plan) if each.address == own)
        self._store_kem(state, index, secrets)
        try:
            # The share exists if it was stored before the shard signed, or before a crash.
            keyring.find_share(folder, plan.epoch, result.commitments, self._config.sealer)
        except ConfigurationError:
            value = int.from_bytes(share.reveal())
            keyring.seal_share(folder, plan.epoch, index, value, f"-{state.id.hex()[:16]}", self._config.sealer)

    def _old_share(self, plan: CeremonyPlan, phase: CeremonyPhase) -> Secret | None:
        own = next((seat for seat in plan.dealers if seat.address == self._config.signer.address), None)
        if plan.source is None or own is None or phase > CeremonyPhase.DEALING:
            return None
        try:
            held = keyring.find_share(self._config.folder, plan.epoch, plan.source.commitments, self._config.sealer)
        except ConfigurationError as error:
            telemetry.log_error("ceremony.share_not_found", error)
            return None
        return Secret(held.scalar().to_bytes(32, "big")) if held.index == own.index else None

    def _store_kem(self, state: CeremonyState, index: int, secrets: ParticipantSecrets) -> None:
        plan, folder = state.plan, self._config.folder
        if not plan.hybrid:
            return
        seed = kem_seed(state, secrets).reveal()
        try:
            # The key exists after a crash between this file and the share.
            keyring.find_kem(folder, plan.epoch, index, state.kem_keys[index], self._config.sealer)
        except ConfigurationError:
            keyring.seal_kem(folder, plan.epoch, index, seed, f"-{state.id.hex()[:16]}", self._config.sealer)


def seed_context(ceremony: Digest) -> Digest:
    """Returns the associated data of a sealed seed, which binds the seed to its ceremony."""
    return digests.labelled(Label.CEREMONY_SEED, ceremony)


class Participant:
    """The part of a shard that takes part in all its ceremonies. It handles one exchange at a time."""

    def __init__(self, config: ParticipantConfig, records: Ceremonies, view: CeremonyView, rng: Rng) -> None:
        self._config = config
        self._records = records
        self._view = view
        self._keys = ParticipantKeys(config, view, rng)
        self._states: dict[Digest, CeremonyState] = {}
        self._lock = threading.Lock()

    @property
    def sealer(self) -> Sealer:
        """Sealer of the shard's folder."""
        return self._config.sealer

    def exchange(self, body: bytes) -> ExchangeAnswer:
        """Answers one request of the coordinator. It stores the part of the ceremony's log that the request contains, and returns
        this shard's next messages. Raises a `Fault` or `Unavailable` that says why there is no answer."""
        if len(body) > MAX_EXCHANGE_BYTES:
            raise TooLarge(f"{len(body)} bytes, at most {MAX_EXCHANGE_BYTES}")
        asked = decode(Exchange, body, MAX_EXCHANGE_MARKS)
        # Checked before the lock: plans are large and hashed, and a plan of an unknown account must not delay others.
        if asked.plan.plan.coordinator != self._config.trust.coordinator and self._records.find(asked.plan.plan.digest) is None:
            why = f"it names coordinator {asked.plan.plan.coordinator}, the shard's settings {self._config.trust.coordinator}"
            raise CeremonyRefused("plan", why)
        with self._lock:
            return self._exchange(asked)

    def _exchange(self, asked: Exchange) -> ExchangeAnswer:
        plan = verify_plan(verify_exchange(asked).plan)
        # A ceremony that this shard joined continues to its end, even after the chain has its result.
        kept = self._records.find(plan.digest) or self._begin(asked.plan)
        state = self._extended(plan, kept, asked)
        messages = () if kept.ended else self._messages(state, kept)
        return ExchangeAnswer(state.length, state.head, state.phase, messages)

    def _begin(self, signed: SignedPlan) -> StoredCeremony:
        plan = signed.plan
        verify_authority(plan, self._config.trust, self._config.signer.address, self._view)
        self._verify_own_seat(plan)
        return self._records.open(signed, self._keys.new_seed(plan.digest))

    def _verify_own_seat(self, plan: CeremonyPlan) -> CeremonyPlan:
        certificate = keyring.certificate(self._config.folder)
        for seat in (*plan.dealers, *plan.receivers, *((plan.repair_target,) if plan.repair_target else ())):
            if seat.address == self._config.signer.address and seat.certificate != certificate:
                raise CeremonyRefused(
                    plan.digest.hex()[:16], "the plan has another certificate for this shard than tls.pem in its folder"
                )
        return plan

    def _extended(self, plan: CeremonyPlan, kept: StoredCeremony, asked: Exchange) -> CeremonyState:
        """Returns the state after the request's log. The shard stores no message that its rules refuse, and no message after a
        gap."""
        state, first = self._replayed(plan, kept.log), asked.before.length
        if first > state.length:
            return state
        self._verify_same_log(state, kept, asked)
        length, fresh = state.length, asked.messages[state.length - first :]
        for message in fresh:
            state = apply(state, message)
        if fresh:
            self._records.append(plan.digest, length, fresh, asked.after)
        self._states[plan.digest] = state
        return state

    def _verify_same_log(self, state: CeremonyState, kept: StoredCeremony, asked: Exchange) -> Exchange:
        """Returns the request if its log continues the stored log. Otherwise stores the evidence against the coordinator and
        raises `LogForked`."""
        first, last = asked.before.length, asked.after.length
        begun = state.head if first == state.length else head_after(state.id, kept.log[:first])
        if asked.before.head == begun and asked.messages[: state.length - first] == kept.log[first:last]:
            return asked
        fork = find_fork(kept.signed, kept.log, kept.end, segment_of(asked)) if kept.end is not None else None
        if fork is not None and self._records.keep_fork(fork):
            telemetry.log(
                "ceremony.log_forked", ceremony=state.id.hex(), coordinator=state.plan.coordinator, length=fork.shorter.length
            )
        raise LogForked(state.id.hex()[:16], f"in its messages {first} to {last}")

    def _replayed(self, plan: CeremonyPlan, log: tuple[Message, ...]) -> CeremonyState:
        state = self._states.get(plan.digest)
        if state is None or state.length > len(log):
            state = initial_state(plan)
        for message in log[state.length :]:
            state = apply(state, message)
        return state

    def _messages(self, state: CeremonyState, kept: StoredCeremony) -> tuple[Message, ...]:
        if state.phase in (CeremonyPhase.DONE, CeremonyPhase.FAILED):
            self._end(state, kept)
            return ()
        bodies = due_messages(state, self._keys.secrets(state, kept))
        if any(isinstance(body, Confirm) for body in bodies):
            # The coordinator may send this message to the chain, and show the shard a log without it, in which the ceremony
            # failed. The share must therefore be stored before the shard confirms.
            self._keys.store(state, kept)
        return tuple(self._records.keep(sign_message(self._config.signer, state.id, body)) for body in bodies)

    def _end(self, state: CeremonyState, kept: StoredCeremony) -> None:
        """Erases the seed. If this shard is a receiver that could not sign for its new share, it stores that share now, if the
        ceremony made one."""
        plan, own = state.plan, self._config.signer.address
        how = state.phase.name.lower()
        if state.phase is CeremonyPhase.DONE and any(each.address == own for each in receiving_seats(plan)):
            try:
                self._keys.store(state, kept)
            except (ShareMissing, CeremonyRefused) as error:
                how = "missing" if isinstance(error, ShareMissing) else "unwanted"
                telemetry.log_error("ceremony.share_missed", error)
        self._records.end(state.id, how)
        self._states.pop(state.id, None)
        telemetry.log("ceremony.ended", ceremony=state.id.hex(), how=how, reason=state.reason, liars=len(state.faults))

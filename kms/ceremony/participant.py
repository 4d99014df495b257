"""A shard's side of ceremonies: takes the log from the scribe, stores it, answers what it has to say, prepares its new share.

Order of what is made durable: the sealed seed before anything depends on it, the log before anything is said about it, the new
share before it is signed for, each word before it is sent. After a crash between any two the next exchange goes on.
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
from bytewise.protocol.signing import Signer
from bytewise.protocol.units import Digest
from bytewise.service import telemetry
from bytewise.service.secret import Secret
from bytewise.storage.ceremonies import Ceremonies, StoredCeremony
from kms.ceremony.authority import CeremonyView, Trust, is_wanted, verify_authority
from kms.ceremony.responses import SEED_BYTES, Member, due, kem_seed, new_share
from kms.ceremony.state import Ceremony, Phase, getting
from kms.ceremony.state_machine import apply, begin
from kms.storage import keyring
from kms.storage.sealing import Sealer


@dataclass(frozen=True, slots=True)
class Holding:
    """What a desk reaches: its folder, its accounts, its settings."""

    folder: Path
    """Keys and shares (`kms.storage.keyring`)."""
    signer: Signer
    """The shard's account."""
    trust: Trust
    """Its operator's settings."""
    sealer: Sealer
    """What seals shares and seeds."""


class Desk:
    """All ceremonies of one shard. One exchange at a time: a ceremony is never in a hurry."""

    def __init__(self, holding: Holding, records: Ceremonies, view: CeremonyView, rng: Rng) -> None:
        self._holding = holding
        self._records = records
        self._view = view
        self._rng = rng
        self._states: dict[Digest, Ceremony] = {}
        self._lock = threading.Lock()

    def exchange(self, body: bytes) -> ExchangeAnswer:
        """What this shard says, given the log of the request. A `Fault` or `Unavailable` names why it says nothing."""
        if len(body) > MAX_EXCHANGE_BYTES:
            raise TooLarge(f"{len(body)} bytes, at most {MAX_EXCHANGE_BYTES}")
        asked = decode(Exchange, body, MAX_EXCHANGE_MARKS)
        # Before the lock: a stranger's plan is large and hashed, and keeps nobody else waiting.
        if asked.plan.plan.scribe != self._holding.trust.scribe and self._records.find(asked.plan.plan.digest) is None:
            raise CeremonyRefused("plan", f"the plan is kept by {asked.plan.plan.scribe}, not by the scribe of our settings")
        with self._lock:
            return self._exchange(asked)

    def _exchange(self, asked: Exchange) -> ExchangeAnswer:
        plan = verify_plan(verify_exchange(asked).plan)
        # A ceremony that we are in goes on to its end, also after the chain has its result.
        kept = self._records.find(plan.digest) or self._begin(asked.plan)
        state = self._extended(plan, kept, asked)
        words = () if kept.ended else self._speak(state, kept)
        return ExchangeAnswer(state.length, state.head, state.phase, words)

    def _begin(self, signed: SignedPlan) -> StoredCeremony:
        plan = signed.plan
        verify_authority(plan, self._holding.trust, self._holding.signer.address, self._view)
        self._verify_own_seat(plan)
        return self._records.open(signed, self._holding.sealer.seal(self._rng(SEED_BYTES), _bound(plan.digest)))

    def _verify_own_seat(self, plan: CeremonyPlan) -> CeremonyPlan:
        certificate = keyring.certificate(self._holding.folder)
        for seat in (*plan.dealers, *plan.receivers, *((plan.heir,) if plan.heir else ())):
            if seat.address == self._holding.signer.address and seat.certificate != certificate:
                raise CeremonyRefused(plan.digest.hex()[:16], "the plan has another certificate of ours")
        return plan

    def _extended(self, plan: CeremonyPlan, kept: StoredCeremony, asked: Exchange) -> Ceremony:
        """The state after the request's log. What our rules refuse is not stored, and neither is what comes after a gap."""
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

    def _verify_same_log(self, state: Ceremony, kept: StoredCeremony, asked: Exchange) -> Exchange:
        """The exchange, if it goes on from our log; else `LogForked`, and what convicts its scribe is stored."""
        first, last = asked.before.length, asked.after.length
        begun = state.head if first == state.length else head_after(state.id, kept.log[:first])
        if asked.before.head == begun and asked.messages[: state.length - first] == kept.log[first:last]:
            return asked
        fork = find_fork(kept.signed, kept.log, kept.end, segment_of(asked)) if kept.end is not None else None
        if fork is not None and self._records.keep_fork(fork):
            telemetry.log("kms.scribe_forked", ceremony=state.id.hex(), scribe=state.plan.scribe, length=fork.shorter.length)
        raise LogForked(state.id.hex()[:16], f"in its messages {first} to {last}")

    def _replayed(self, plan: CeremonyPlan, log: tuple[Message, ...]) -> Ceremony:
        state = self._states.get(plan.digest)
        if state is None or state.length > len(log):
            state = begin(plan)
        for message in log[state.length :]:
            state = apply(state, message)
        return state

    def _speak(self, state: Ceremony, kept: StoredCeremony) -> tuple[Message, ...]:
        if state.phase in (Phase.DONE, Phase.FAILED):
            self._end(state, kept)
            return ()
        bodies = due(state, self._member(state, kept))
        if any(isinstance(body, Confirm) for body in bodies):
            # The chain may see this word, and we a log without it in which the ceremony failed: the scribe chooses.
            self._store(state, kept)
        return tuple(self._records.keep(sign_message(self._holding.signer, state.id, body)) for body in bodies)

    def _member(self, state: Ceremony, kept: StoredCeremony) -> Member:
        seed = self._holding.sealer.open(kept.seed, _bound(state.id))
        return Member(self._holding.signer, seed, self._old_share(state.plan, state.phase))

    def _old_share(self, plan: CeremonyPlan, phase: Phase) -> Secret | None:
        own = next((seat for seat in plan.dealers if seat.address == self._holding.signer.address), None)
        if plan.source is None or own is None or phase > Phase.DEALING:
            return None
        try:
            held = keyring.find_share(self._holding.folder, plan.epoch, plan.source.commitments, self._holding.sealer)
        except ConfigurationError as error:
            telemetry.log_error("kms.ceremony_without_share", error)
            return None
        return Secret(held.scalar().to_bytes(32, "big")) if held.index == own.index else None

    def _end(self, state: Ceremony, kept: StoredCeremony) -> None:
        """Forgets the seed; who could not sign for its new share gets it now, if the ceremony made one."""
        plan, own = state.plan, self._holding.signer.address
        how = state.phase.name.lower()
        if state.phase is Phase.DONE and any(each.address == own for each in getting(plan)):
            try:
                self._store(state, kept)
            except (ShareMissing, CeremonyRefused) as error:
                how = "missing" if isinstance(error, ShareMissing) else "unwanted"
                telemetry.log_error("kms.share_missing", error)
        self._records.end(state.id, how)
        self._states.pop(state.id, None)
        telemetry.log("kms.ceremony_ended", ceremony=state.id.hex(), how=how, reason=state.reason, liars=len(state.lies))

    def _store(self, state: Ceremony, kept: StoredCeremony) -> None:
        """Puts the new share, and its ML-KEM key, beside the old one, once.

        `ShareMissing` if the ceremony gave us none, `CeremonyRefused` if the chain wants no such share any more.
        """
        plan, result, folder, own = state.plan, state.result, self._holding.folder, self._holding.signer.address
        member = self._member(state, kept)
        share = new_share(state, member)
        if result is None:
            raise ShareMissing(own, "no result")
        if not is_wanted(plan, result.commitments, self._view.key_epoch(plan.epoch)):
            raise CeremonyRefused(state.id.hex()[:16], f"the chain wants no such share of key epoch {plan.epoch} any more")
        index = next(each.index for each in getting(plan) if each.address == own)
        self._store_kem(state, index, member)
        try:
            # It is there if it was stored when it was signed for, or before a crash.
            keyring.find_share(folder, plan.epoch, result.commitments, self._holding.sealer)
        except ConfigurationError:
            value = int.from_bytes(share.reveal())
            keyring.seal_share(folder, plan.epoch, index, value, f"-{state.id.hex()[:16]}", self._holding.sealer)

    def _store_kem(self, state: Ceremony, index: int, member: Member) -> None:
        plan, folder = state.plan, self._holding.folder
        if not plan.hybrid:
            return
        seed = kem_seed(state, member).reveal()
        try:
            # It is there after a crash between this file and the share.
            keyring.find_kem(folder, plan.epoch, index, state.kem_keys[index], self._holding.sealer)
        except ConfigurationError:
            keyring.seal_kem(folder, plan.epoch, index, seed, f"-{state.id.hex()[:16]}", self._holding.sealer)


def _bound(ceremony: Digest) -> Digest:
    return digests.labelled(Label.CEREMONY_SEED, ceremony)

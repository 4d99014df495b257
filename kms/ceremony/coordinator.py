"""The scribe: brings the log to every shard, adds what they say, closes phases, until the ceremony has ended.

It holds no secret of the key. What it stores is public; a scribe that crashed goes on from its log. Shards take it from nobody
else: it signs the head of all that it brings, and never two of one number of messages, for the log is durable first.
"""

import math
from collections.abc import Callable, Collection, Mapping
from itertools import accumulate
from typing import Protocol

from bytewise.crypto.curve import encode_point
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import CeremonyRefused, ConfigurationError, LogForked, NoProgress, SharesUnproven
from bytewise.protocol.errors.branches import BytewiseError, Fault
from bytewise.protocol.jobs import EpochRecord, ShardRecord
from bytewise.protocol.keys.ceremony import CeremonyPlan, CeremonySeat, SignedPlan, sign_plan
from bytewise.protocol.keys.ceremony_log import (
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
from bytewise.protocol.signing import Signer
from bytewise.protocol.units import Address, Blob, Digest
from bytewise.service import telemetry
from bytewise.service.clock import monotonic_s
from bytewise.storage.ceremonies import Ceremonies
from kms.ceremony.state import Ceremony, Phase, getting, newcomers
from kms.ceremony.state_machine import apply, is_complete, replay, silent

ENDED = (Phase.DONE, Phase.FAILED)

EXCHANGE_S = 20.0
"""Most of one exchange with one shard, which may verify and answer for some seconds."""
LEAST_S = 5.0
"""What each shard has for an exchange however little of the phase is left, so that who is slow shuts nobody else out."""


class ShardLink(Protocol):
    """How the scribe reaches one shard."""

    def exchange(self, asked: Exchange, timeout_s: float) -> ExchangeAnswer:
        """One exchange, which ends after `timeout_s`; a `BytewiseError` if it fails."""
        ...


class Scribe:
    """Keeps the log of one ceremony."""

    def __init__(self, plan: CeremonyPlan, signer: Signer, records: Ceremonies, links: Mapping[Address, ShardLink]) -> None:
        self.signed: SignedPlan = sign_plan(signer, plan)
        self._signer = signer
        self._records = records
        self._links = links
        self._log = list(records.open(self.signed, b"").log)
        self.heads = list(accumulate(self._log, next_head, initial=plan.digest))
        self._lengths = dict.fromkeys(links, 0)
        self._failed: dict[Address, str] = {}
        self.state: Ceremony = replay(plan, tuple(self._log))

    def run(self, phase_s: float, pause_s: float, clock: Callable[[], float], wait: Callable[[float], object]) -> Ceremony:
        """All phases; each is closed when everybody spoke, or after `phase_s` seconds. The end is brought to whoever answers.

        A shard that spins out its answers makes a phase longer by `LEAST_S` at most.
        """
        while self.state.phase not in ENDED:
            until, phase = clock() + phase_s, self.state.phase
            telemetry.log("kms.scribe_phase", phase=phase.name, waits_for=len(silent(self.state)), waits_s=phase_s)
            while self.state.phase is phase:
                spoken = self.turn(until, clock)
                if is_complete(self.state) or clock() >= until:
                    if left := silent(self.state):
                        urls = [seat.url for address, seat in seats(self.state.plan).items() if address in left]
                        telemetry.log("kms.scribe_waited", phase=phase.name, silent=urls)
                    self._post(sign_message(self._signer, self.state.id, Close(phase, self.state.head)))
                elif not spoken:
                    wait(pause_s)
        self.turn()
        return self.state

    def turn(self, until: float = math.inf, clock: Callable[[], float] = monotonic_s) -> bool:
        """One exchange with every shard; whether any said something new. `until`: when the phase ends, in seconds of the clock.

        A shard has its part of what is left until then, equal for all that are still to be asked.
        """
        spoken = False
        for after, (address, link) in zip(range(len(self._links), 0, -1), self._links.items(), strict=True):
            spoken |= self._exchange(address, link, min(EXCHANGE_S, max(LEAST_S, (until - clock()) / after)))
        return spoken

    def _exchange(self, address: Address, link: ShardLink, timeout_s: float) -> bool:
        length = self._lengths[address]
        page = self._page(length)
        try:
            answer = link.exchange(make_exchange(self._signer, self.signed, length, page, self.heads[length]), timeout_s)
            self._verify_same_log(address, answer)
        except BytewiseError as error:
            self._fails(address, error)
            return False
        if self._failed.pop(address, None) is not None:
            telemetry.log("kms.scribe_reached", shard=address)
        self._lengths[address] = answer.length
        return any([self._hear(address, message) for message in answer.messages])

    def _fails(self, address: Address, error: BytewiseError) -> None:
        """Says why an exchange failed, once until that changes: it is tried several times a second, for minutes."""
        if self._failed.get(address) != str(error):
            self._failed[address] = str(error)
            telemetry.log_error("kms.scribe_exchange_failed", error, shard=address)

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
            raise LogForked(self.state.id.hex()[:16], f"shard {address} has {answer.length} messages, we {len(self._log)}")
        if answer.head != self.heads[answer.length]:
            raise LogForked(self.state.id.hex()[:16], f"shard {address} has another log of {answer.length} messages")
        return answer

    def _hear(self, address: Address, message: Message) -> bool:
        """Adds what a shard said of itself, if the rules let it stand in the log; it is named if they do not."""
        try:
            if message.sender != address:
                raise LogForked(self.state.id.hex()[:16], f"shard {address} brought words of {message.sender}")
            self._post(message)
        except NoProgress:
            return False
        except Fault as error:
            telemetry.log_error("kms.scribe_refused", error, shard=address)
            return False
        return True

    def _post(self, message: Message) -> None:
        after = apply(self.state, message)
        self._records.append(self.state.id, len(self._log), (message,))
        self._log.append(message)
        self.heads.append(after.head)
        self.state = after


def seats(plan: CeremonyPlan) -> dict[Address, CeremonySeat]:
    """Everybody who has a part in a ceremony, by account."""
    return {seat.address: seat for seat in (*plan.dealers, *newcomers(plan))}


def share_signatures(state: Ceremony) -> tuple[Blob, ...]:
    """For `KeyEpochs`: one signature for each receiver in order, empty for who did not confirm."""
    return tuple(state.signatures.get(seat.index, Blob(b"")) for seat in state.plan.receivers)


def share_consents(state: Ceremony) -> tuple[Blob, ...]:
    """For `KeyEpochs`: one signature for each index of the shares before, empty for who did not sign; none for a new key."""
    last = max(state.consents, default=0)
    return tuple(state.consents.get(index, Blob(b"")) for index in range(1, last + 1))


def transcript_of(state: Ceremony) -> Digest:
    """What the shards signed; `CeremonyRefused` before there is a result."""
    if state.result is None:
        raise CeremonyRefused(state.id.hex()[:16], f"no transcript in phase {state.phase.name}")
    return state.result.transcript


def unproven(state: Ceremony) -> dict[int, str]:
    """Who gets a share and did not prove it before the log closed, by index, and why: the canary says nothing of their shares."""
    missing = [seat for seat in getting(state.plan) if seat.index not in state.partials]
    return {seat.index: _why_unproven(state, seat) for seat in missing}


def verify_proven(state: Ceremony, without: Collection[int] = ()) -> Ceremony:
    """The ceremony, if all who get a share proved it but those named here; else `SharesUnproven`.

    `ConfigurationError` if one who is named did prove its share, or gets none.
    """
    missing = unproven(state)
    for index in sorted(set(without) - missing.keys()):
        known = index in {seat.index for seat in getting(state.plan)}
        raise ConfigurationError(
            f"--without {index}", "this shard proved its share" if known else "no shard gets a share of this index"
        )
    left = [f"{index} ({why})" for index, why in missing.items() if index not in without]
    if left:
        raise SharesUnproven(state.id.hex()[:16], ", ".join(left))
    return state


def _why_unproven(state: Ceremony, seat: CeremonySeat) -> str:
    if seat.address in state.lies:
        return f"was found lying: {state.lies[seat.address]}"
    joined = state.plan.heir is not None or seat.index in state.keys
    return "was silent at the end" if joined else "did not join, and has no share"


def epoch_document(state: Ceremony) -> EpochDocument:
    """What clients need of the epoch after a ceremony that made shares for its receivers; `CeremonyRefused` before its end."""
    plan, result = state.plan, state.result
    if state.phase is not Phase.DONE or result is None or plan.heir is not None:
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

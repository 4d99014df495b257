"""The state machine of a ceremony: a pure function of a plan and a log, the same for every shard and every observer.

    JOINING     receivers post a fresh deal key, in a hybrid epoch also an ML-KEM key; dealers post the hash of their commitments
    DEALING     dealers open the hash, prove that they know f(0), and seal a value for each receiver
    JUDGING     receivers open every deal; each sends one message: public complaints, or a statement that every deal is good
    REPAIRING   (repair only) helpers send their values to the repair target
    CONFIRMING  receivers sign the transcript and prove their share on the canary; in a resharing, old holders consent
    DONE, FAILED

The coordinator closes each phase. A shard that sent nothing until then counts as silent. Rules of this file:

- A message with a bad signature, of a wrong phase or of no seat is refused and leaves the state unchanged.
- A message about another log is refused in the same way. The coordinator may have shown that log to the author, so the author is
  not excluded.
- A message whose content is a lie stays in the log as evidence. Its author is excluded, and the ceremony continues.
- Two different messages of one kind by one seat are a lie. The same message twice is refused, since it changes nothing.
- A new key needs the deal of every dealer that committed. Otherwise a dealer could choose between two keys by silence (ADR-038).
- A result needs enough seats in every phase. Otherwise the ceremony fails, and the shares before it stay in force.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto.curve import decode_point
from bytewise.crypto.mlkem import verify_key
from bytewise.crypto.shares import verification_key, verify_partial
from bytewise.protocol.errors.actors import CeremonyFailed, CeremonyRefused, DealerLied, ShardLied
from bytewise.protocol.errors.records import BadSignature, MalformedValue
from bytewise.protocol.keys.ceremony import CeremonyPlan, CeremonyPurpose, CeremonySeat
from bytewise.protocol.keys.ceremony_log import (
    Close,
    Complaint,
    Confirm,
    Consent,
    Deal,
    DealCommit,
    DealReview,
    Join,
    KemKey,
    Message,
    RepairValue,
    next_head,
    read_message,
)
from bytewise.protocol.signing import verify_signature
from kms.ceremony import canary
from kms.ceremony.deals import judge_complaint, repair_context, verify_deal, verify_sealed
from kms.ceremony.state import (
    CeremonyPhase,
    CeremonyState,
    exclude,
    fail_ceremony,
    joining_seats,
    repeat_of,
    result_of,
    seat_of,
    shares_digest,
    verify_phase_head,
)


def _close(state: CeremonyState, message: Message, body: Close) -> CeremonyState:
    """Handles the message with which the coordinator ends the phase. The next phase begins. The ceremony ends after the last
    phase, or if too few seats are left."""
    if message.sender != state.plan.coordinator or body.phase != state.phase or body.head != state.head:
        raise CeremonyRefused(state.id.hex()[:16], f"{message.sender} closes phase {body.phase} while {state.phase.name}")
    try:
        return _CLOSINGS[state.phase](state)
    except CeremonyFailed as failure:
        return fail_ceremony(state, str(failure.values[-1]))


def _close_joining(state: CeremonyState) -> CeremonyState:
    _require(state, "receivers", len(state.keys), state.plan.quorum)
    _require(state, "commitments", len(state.commits), state.plan.fewest_dealers)
    if state.plan.hybrid:
        _require(state, "ML-KEM keys", len(state.kem_keys), len(state.plan.receivers))
    if state.plan.repair_target is not None and state.repair_key is None:
        raise CeremonyFailed(state.id.hex()[:16], "the repair target did not join")
    return replace(state, phase=CeremonyPhase.DEALING)


def _close_dealing(state: CeremonyState) -> CeremonyState:
    if state.plan.source is None:
        verify_all_opened(state)
    _require(state, "deals", len(state.polynomials), state.plan.fewest_dealers)
    return replace(state, phase=CeremonyPhase.JUDGING)


def verify_all_opened(state: CeremonyState) -> CeremonyState:
    """Returns the state if every dealer that committed also dealt, or was excluded. Raises `CeremonyFailed` with the silent
    dealers otherwise. Only a ceremony for a new key has this rule.

    A silent dealer could choose between two keys: the key with its deal and the key without it. The last dealer knows both keys
    before it deals, because it sees the commitments of the others (ADR-038).
    """
    unopened = [seat for seat in _committed_seats(state) if seat.index not in state.deals]
    if unopened:
        who = ", ".join(f"{seat.index} ({seat.address})" for seat in unopened)
        raise CeremonyFailed(
            state.id.hex()[:16], f"dealer {who} committed and did not deal: the ceremony would let it choose between two keys"
        )
    return state


def _close_judging(state: CeremonyState) -> CeremonyState:
    _require(state, "deals", len(state.polynomials), state.plan.fewest_dealers)
    result = result_of(state.plan, state.head, state.polynomials, state.kem_keys)
    repair = state.plan.purpose is CeremonyPurpose.REPAIR
    return replace(state, result=result, phase=CeremonyPhase.REPAIRING if repair else CeremonyPhase.CONFIRMING)


def _close_handing(state: CeremonyState) -> CeremonyState:
    _require(state, "repair values", len(state.repair_values), state.plan.threshold)
    return replace(state, phase=CeremonyPhase.CONFIRMING)


def _close_confirming(state: CeremonyState) -> CeremonyState:
    plan, result = state.plan, state.result
    if plan.repair_target is not None:
        _require(state, "confirmations", len(state.partials), 1)
    elif result is not None:
        _require(state, "confirmations", len(state.partials), plan.quorum)
        if plan.source is not None:
            _require(state, "consents", len(state.consents), len(plan.source.commitments))
        canary.verify_canary(result.transcript, result.public_key, plan.threshold, state.partials)
    return replace(state, phase=CeremonyPhase.DONE)


def _require(state: CeremonyState, what: str, have: int, want: int) -> int:
    if have < want:
        raise CeremonyFailed(state.id.hex()[:16], f"{have} {what}, {want} needed")
    return have


_CLOSINGS: Mapping[CeremonyPhase, Callable[[CeremonyState], CeremonyState]] = {
    CeremonyPhase.JOINING: _close_joining,
    CeremonyPhase.DEALING: _close_dealing,
    CeremonyPhase.JUDGING: _close_judging,
    CeremonyPhase.REPAIRING: _close_handing,
    CeremonyPhase.CONFIRMING: _close_confirming,
}
"""Functions that end each phase."""


def _joined_seats(state: CeremonyState) -> tuple[CeremonySeat, ...]:
    return tuple(seat for seat in state.plan.receivers if seat.index in state.keys)


def _committed_seats(state: CeremonyState) -> tuple[CeremonySeat, ...]:
    return tuple(seat for seat in state.plan.dealers if seat.index in state.commits)


def _confirming_seats(state: CeremonyState) -> tuple[CeremonySeat, ...]:
    return _joined_seats(state) if state.plan.repair_target is None else (state.plan.repair_target,)


def _consenting_seats(state: CeremonyState) -> tuple[CeremonySeat, ...]:
    # Only dealers that committed are awaited here, because they were reachable a moment ago.
    return _committed_seats(state) if state.plan.purpose is CeremonyPurpose.RESHARE else ()


AWAITED_KINDS: Mapping[CeremonyPhase, tuple[tuple[str, Callable[[CeremonyState], tuple[CeremonySeat, ...]]], ...]] = {
    CeremonyPhase.JOINING: (
        ("join", lambda state: joining_seats(state.plan)),
        ("kem", lambda state: state.plan.receivers if state.plan.hybrid else ()),
        ("commit", lambda state: state.plan.dealers),
    ),
    CeremonyPhase.DEALING: (("deal", _committed_seats),),
    CeremonyPhase.JUDGING: (("judgement", _joined_seats),),
    CeremonyPhase.REPAIRING: (("hand", _joined_seats),),
    CeremonyPhase.CONFIRMING: (("confirm", _confirming_seats), ("consent", _consenting_seats)),
}
"""Kinds of messages that each phase awaits, with the seats that must send them."""


def _apply_join(state: CeremonyState, message: Message, body: Join) -> CeremonyState:
    """Takes a receiver's deal key."""
    seat = seat_of(state, joining_seats(state.plan), message)
    if (again := repeat_of(state, message)) is not None:
        return again
    try:
        decode_point(body.deal_key)
    except MalformedValue as error:
        return exclude(state, seat.address, str(error))
    if seat == state.plan.repair_target:
        return replace(state, repair_key=body.deal_key)
    return replace(state, keys={**state.keys, seat.index: body.deal_key})


def _apply_kem_key(state: CeremonyState, message: Message, body: KemKey) -> CeremonyState:
    """Takes a receiver's ML-KEM-768 key, in a hybrid epoch."""
    seat = seat_of(state, state.plan.receivers if state.plan.hybrid else (), message)
    if (again := repeat_of(state, message)) is not None:
        return again
    try:
        verify_key(body.key)
    except MalformedValue as error:
        return exclude(state, seat.address, str(error))
    return replace(state, kem_keys={**state.kem_keys, seat.index: body.key})


def _apply_commit(state: CeremonyState, message: Message, body: DealCommit) -> CeremonyState:
    """Takes a dealer's hash of its commitments."""
    seat = seat_of(state, state.plan.dealers, message)
    return repeat_of(state, message) or replace(state, commits={**state.commits, seat.index: body.digest})


def _apply_deal(state: CeremonyState, message: Message, body: Deal) -> CeremonyState:
    """Takes a dealer's commitments and sealed values, and checks everything public about them."""
    seat = seat_of(state, state.plan.dealers, message)
    verify_phase_head(state, message, body.begun)
    if (again := repeat_of(state, message)) is not None:
        return again
    committed = state.commits.get(seat.index)
    if committed is None:
        raise CeremonyRefused(state.id.hex()[:16], f"deal of {message.sender}, which did not commit")
    plan = state.plan
    try:
        points = verify_deal(state.id, seat.index, body, committed, plan.threshold, sorted(state.keys))
        _verify_constant(plan, seat.index, points)
    except DealerLied as lie:
        return exclude(state, seat.address, str(lie))
    deals, polynomials = {**state.deals, seat.index: body}, {**state.polynomials, seat.index: points}
    return replace(state, deals=deals, polynomials=polynomials)


def _apply_judgement(state: CeremonyState, message: Message, body: DealReview) -> CeremonyState:
    """Takes a receiver's complaints and judges each at once."""
    seat = seat_of(state, state.plan.receivers, message)
    verify_phase_head(state, message, body.begun)
    if (again := repeat_of(state, message)) is not None:
        return again
    accused = [each.dealer for each in body.complaints]
    if seat.index not in state.keys or accused != sorted(set(accused)) or not set(accused) <= set(state.deals):
        raise CeremonyRefused(state.id.hex()[:16], f"judgement of {message.sender} about {accused[:8]}")
    for complaint in body.complaints:
        state = _apply_complaint(state, seat, complaint)
    if len(state.revealed) > state.plan.reveal_budget:
        return fail_ceremony(state, f"values of {len(state.revealed)} receivers were made public by false complaints")
    return state


def _apply_complaint(state: CeremonyState, seat: CeremonySeat, complaint: Complaint) -> CeremonyState:
    if complaint.dealer not in state.polynomials:
        return state  # this dealer is excluded already: its deal is not in the sum
    dealer = next(each for each in state.plan.dealers if each.index == complaint.dealer)
    sealed = next(each for each in state.deals[complaint.dealer].sealed if each.receiver == seat.index)
    lie = judge_complaint(state.id, complaint, sealed, state.keys[seat.index], state.polynomials[complaint.dealer])
    if isinstance(lie, DealerLied):
        return exclude(state, dealer.address, str(lie))
    after = exclude(state, seat.address, f"complains falsely about dealer {complaint.dealer}")
    return after if lie is not None else replace(after, revealed=after.revealed | {seat.index})


def _apply_repair_value(state: CeremonyState, message: Message, body: RepairValue) -> CeremonyState:
    """Takes a helper's value for the repair target."""
    seat, target = seat_of(state, state.plan.receivers, message), state.plan.repair_target
    verify_phase_head(state, message, body.begun)
    if (again := repeat_of(state, message)) is not None:
        return again
    result = state.result
    if target is None or result is None or seat.index not in state.keys or body.sealed.receiver != target.index:
        return exclude(state, seat.address, "sends something other than its value for the repair target")
    try:
        verify_sealed(repair_context(state.id, result.transcript), seat.index, body.sealed)
    except DealerLied as lie:
        return exclude(state, seat.address, str(lie))
    return replace(state, repair_values={**state.repair_values, seat.index: body})


def _apply_confirm(state: CeremonyState, message: Message, body: Confirm) -> CeremonyState:
    """Takes a receiver's signature of the transcript, with the proof of its share."""
    target, result = state.plan.repair_target, state.result
    seat = seat_of(state, state.plan.receivers if target is None else (target,), message)
    if result is None or body.transcript != result.transcript:
        raise CeremonyRefused(state.id.hex()[:16], f"{message.sender} confirms another transcript")
    if (again := repeat_of(state, message)) is not None:
        return again
    base, key = canary.canary_point(result.transcript), result.verification_key(seat.index)
    try:
        point = verify_partial(body.partial, seat.index, key, base, result.transcript)
        verify_signature("shares", shares_digest(state.plan, result), body.signature, seat.address)
    except (ShardLied, BadSignature) as lie:
        return exclude(state, seat.address, str(lie))
    signatures = {**state.signatures, seat.index: body.signature}
    return replace(state, partials={**state.partials, seat.index: point}, signatures=signatures)


def _apply_consent(state: CeremonyState, message: Message, body: Consent) -> CeremonyState:
    """Takes an old holder's consent: its signature for the new shares."""
    plan, result = state.plan, state.result
    seat = seat_of(state, plan.dealers if plan.purpose is CeremonyPurpose.RESHARE else (), message)
    if result is None or body.transcript != result.transcript:
        raise CeremonyRefused(state.id.hex()[:16], f"{message.sender} consents to another transcript")
    if (again := repeat_of(state, message)) is not None:
        return again
    try:
        verify_signature("shares", shares_digest(plan, result), body.signature, seat.address)
    except BadSignature as lie:
        return exclude(state, seat.address, str(lie))
    return replace(state, consents={**state.consents, seat.index: body.signature})


def _verify_constant(plan: CeremonyPlan, dealer: int, points: tuple[EccPoint, ...]) -> EccPoint:
    # A dealer of an old share must deal exactly its share. Otherwise the key would change.
    if plan.source is not None:
        have = verification_key(dealer, [decode_point(each) for each in plan.source.commitments])
        if points[0] != have:
            raise DealerLied(dealer, "deals another value than its share")
    return points[0]


def initial_state(plan: CeremonyPlan) -> CeremonyState:
    """Returns the state before the first message. Raises `CeremonyRefused` if the source's commitments are no points."""
    try:
        for each in plan.source.commitments if plan.source else ():
            decode_point(each)
    except MalformedValue as error:
        raise CeremonyRefused("plan", f"source: {error}") from None
    return CeremonyState(plan, plan.digest, plan.digest, plan.digest)


def apply(state: CeremonyState, message: Message) -> CeremonyState:
    """Returns the state after one more message. Raises a `Fault` if the log may not contain the message at this place."""
    if message.ceremony != state.id:
        raise CeremonyRefused(state.id.hex()[:16], "message of another ceremony")
    body = read_message(message)
    step = _STEPS.get((state.phase, type(body)))
    if step is None:
        raise CeremonyRefused(state.id.hex()[:16], f"{message.kind} while {state.phase.name}")
    after = step(state, message, body)
    bodies = {**state.bodies, (message.sender, message.kind): message.body}
    head = next_head(state.head, message)
    phase_head = state.phase_head if after.phase is state.phase else head
    return replace(after, bodies=bodies, head=head, phase_head=phase_head, length=state.length + 1)


def replay(plan: CeremonyPlan, log: tuple[Message, ...]) -> CeremonyState:
    """Returns the state after a whole log."""
    state = initial_state(plan)
    for message in log:
        state = apply(state, message)
    return state


def is_complete(state: CeremonyState) -> bool:
    """Returns whether every seat that can still send in this phase has sent its messages, so that the coordinator need not wait
    longer."""
    return not awaited_addresses(state)


def awaited_addresses(state: CeremonyState) -> tuple[str, ...]:
    """Returns the addresses of the shards that can still send in this phase and have not sent all their messages."""
    kinds = AWAITED_KINDS.get(state.phase, ())
    awaited = ((seat.address, kind) for kind, seats in kinds for seat in seats(state) if seat.address not in state.faults)
    return tuple(dict.fromkeys(address for address, kind in awaited if (address, kind) not in state.bodies))


_STEPS: Mapping[tuple[CeremonyPhase, type], Callable[[CeremonyState, Message, Any], CeremonyState]] = {
    (CeremonyPhase.JOINING, Join): _apply_join,
    (CeremonyPhase.JOINING, KemKey): _apply_kem_key,
    (CeremonyPhase.JOINING, DealCommit): _apply_commit,
    (CeremonyPhase.DEALING, Deal): _apply_deal,
    (CeremonyPhase.JUDGING, DealReview): _apply_judgement,
    (CeremonyPhase.REPAIRING, RepairValue): _apply_repair_value,
    (CeremonyPhase.CONFIRMING, Confirm): _apply_confirm,
    (CeremonyPhase.CONFIRMING, Consent): _apply_consent,
    **{(phase, Close): _close for phase in CeremonyPhase if phase < CeremonyPhase.DONE},
}
"""Functions that handle a message, by phase and kind of message. A message with no entry here is refused."""

"""The state machine of a ceremony: a pure function of a plan and a log, the same for every shard and every onlooker.

    JOINING     receivers post a fresh deal key, in a hybrid epoch also their ML-KEM key, dealers the hash of their commitments
    DEALING     dealers open the hash, prove that they know f(0), and seal a value for each receiver
    JUDGING     receivers open every deal and complain in public, once, or say that all is well
    HANDING     (repair only) helpers hand their values to the heir
    CONFIRMING  who has a share now signs the transcript and proves the share on the canary; of a key that is dealt again,
                who had a share before signs that the new ones may follow
    DONE, FAILED

The scribe closes each phase; silence until then is silence. Rules of this file:
- A message that is not well signed, not in its phase or not of a seat is refused and leaves the state as it was.
- So is a word about another log than this one: its author may have been shown that, and is not named for it.
- A message in the log whose content is a lie stays there as evidence and names its author; the author is out, the rest goes on.
- Two different messages of one kind by one seat are a lie. The same twice is refused: it changes nothing.
- No new key is made without a deal that was committed to: its dealer could choose between two keys by silence (ADR-034).
- There is a result only if enough seats are left in every phase. Otherwise the ceremony failed, and what was before is in force.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto.curve import decode_point
from bytewise.crypto.mlkem import verify_key
from bytewise.crypto.proofs import verify_partial
from bytewise.crypto.shares import verification_key
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
from kms.ceremony.deals import handing, judge, verify_deal, verify_sealed
from kms.ceremony.state import Ceremony, Phase, failed, newcomers, out, result_of, seat_of, second, signed_shares, verify_begun

# What the end of each phase leads to, and who is waited for until then (`kms.ceremony.state_machine` has the rules).


def close(state: Ceremony, message: Message, body: Close) -> Ceremony:
    """The scribe ends the phase: the next one, or the end of the ceremony if too few are left."""
    if message.sender != state.plan.scribe or body.phase != state.phase or body.head != state.head:
        raise CeremonyRefused(state.id.hex()[:16], f"{message.sender} closes phase {body.phase} while {state.phase.name}")
    try:
        return _CLOSINGS[state.phase](state)
    except CeremonyFailed as failure:
        return failed(state, str(failure.values[-1]))


def _close_joining(state: Ceremony) -> Ceremony:
    _need(state, "receivers", len(state.keys), state.plan.quorum)
    _need(state, "commitments", len(state.commits), state.plan.fewest_dealers)
    if state.plan.hybrid:
        _need(state, "ML-KEM keys", len(state.kem_keys), len(state.plan.receivers))
    if state.plan.heir is not None and state.heir_key is None:
        raise CeremonyFailed(state.id.hex()[:16], "the heir did not join")
    return replace(state, phase=Phase.DEALING)


def _close_dealing(state: Ceremony) -> Ceremony:
    if state.plan.source is None:
        _verify_opened(state)
    _need(state, "deals", len(state.polynomials), state.plan.fewest_dealers)
    return replace(state, phase=Phase.JUDGING)


def _verify_opened(state: Ceremony) -> Ceremony:
    """The ceremony, if every dealer of a new key that committed opened, or was found lying; else it ends, and names the silent.

    Who deals last has seen the others' commitments, and who keeps the log sees all: a key without a deal that was committed to
    would be the choice of one of them (ADR-034).
    """
    unopened = [seat for seat in _committed(state) if seat.index not in state.deals]
    if unopened:
        who = ", ".join(f"{seat.index} ({seat.address})" for seat in unopened)
        raise CeremonyFailed(state.id.hex()[:16], f"committed and did not open, so that a new key could be chosen: dealer {who}")
    return state


def _close_judging(state: Ceremony) -> Ceremony:
    _need(state, "deals", len(state.polynomials), state.plan.fewest_dealers)
    result = result_of(state.plan, state.head, state.polynomials, state.kem_keys)
    repair = state.plan.purpose is CeremonyPurpose.REPAIR
    return replace(state, result=result, phase=Phase.HANDING if repair else Phase.CONFIRMING)


def _close_handing(state: Ceremony) -> Ceremony:
    _need(state, "hands", len(state.hands), state.plan.threshold)
    return replace(state, phase=Phase.CONFIRMING)


def _close_confirming(state: Ceremony) -> Ceremony:
    plan, result = state.plan, state.result
    if plan.heir is not None:
        _need(state, "confirmations", len(state.partials), 1)
    elif result is not None:
        _need(state, "confirmations", len(state.partials), plan.quorum)
        if plan.source is not None:
            _need(state, "consents", len(state.consents), len(plan.source.commitments))
        canary.verify_canary(result.transcript, result.public_key, plan.threshold, state.partials)
    return replace(state, phase=Phase.DONE)


def _need(state: Ceremony, what: str, have: int, want: int) -> int:
    if have < want:
        raise CeremonyFailed(state.id.hex()[:16], f"{have} {what}, {want} needed")
    return have


_CLOSINGS: Mapping[Phase, Callable[[Ceremony], Ceremony]] = {
    Phase.JOINING: _close_joining,
    Phase.DEALING: _close_dealing,
    Phase.JUDGING: _close_judging,
    Phase.HANDING: _close_handing,
    Phase.CONFIRMING: _close_confirming,
}
"""What the end of a phase leads to."""


def _joined(state: Ceremony) -> tuple[CeremonySeat, ...]:
    return tuple(seat for seat in state.plan.receivers if seat.index in state.keys)


def _committed(state: Ceremony) -> tuple[CeremonySeat, ...]:
    return tuple(seat for seat in state.plan.dealers if seat.index in state.commits)


def _confirming(state: Ceremony) -> tuple[CeremonySeat, ...]:
    return _joined(state) if state.plan.heir is None else (state.plan.heir,)


def _consenting(state: Ceremony) -> tuple[CeremonySeat, ...]:
    # Who dealt was there a moment ago.
    return _committed(state) if state.plan.purpose is CeremonyPurpose.RESHARE else ()


EXPECTED: Mapping[Phase, tuple[tuple[str, Callable[[Ceremony], tuple[CeremonySeat, ...]]], ...]] = {
    Phase.JOINING: (
        ("join", lambda state: newcomers(state.plan)),
        ("kem", lambda state: state.plan.receivers if state.plan.hybrid else ()),
        ("commit", lambda state: state.plan.dealers),
    ),
    Phase.DEALING: (("deal", _committed),),
    Phase.JUDGING: (("judgement", _joined),),
    Phase.HANDING: (("hand", _joined),),
    Phase.CONFIRMING: (("confirm", _confirming), ("consent", _consenting)),
}
"""Who is waited for in each phase."""


# What each message of a log does to the state of its ceremony (`kms.ceremony.state_machine` has the rules).


def join(state: Ceremony, message: Message, body: Join) -> Ceremony:
    """A receiver's deal key."""
    seat = seat_of(state, newcomers(state.plan), message)
    if (again := second(state, message)) is not None:
        return again
    try:
        decode_point(body.deal_key)
    except MalformedValue as error:
        return out(state, seat.address, str(error))
    if seat == state.plan.heir:
        return replace(state, heir_key=body.deal_key)
    return replace(state, keys={**state.keys, seat.index: body.deal_key})


def kem(state: Ceremony, message: Message, body: KemKey) -> Ceremony:
    """A receiver's ML-KEM-768 key, in a hybrid epoch."""
    seat = seat_of(state, state.plan.receivers if state.plan.hybrid else (), message)
    if (again := second(state, message)) is not None:
        return again
    try:
        verify_key(body.key)
    except MalformedValue as error:
        return out(state, seat.address, str(error))
    return replace(state, kem_keys={**state.kem_keys, seat.index: body.key})


def commit(state: Ceremony, message: Message, body: DealCommit) -> Ceremony:
    """A dealer's hash."""
    seat = seat_of(state, state.plan.dealers, message)
    return second(state, message) or replace(state, commits={**state.commits, seat.index: body.digest})


def deal(state: Ceremony, message: Message, body: Deal) -> Ceremony:
    """A dealer's commitments and sealed values; all that is public about them is checked here."""
    seat = seat_of(state, state.plan.dealers, message)
    verify_begun(state, message, body.begun)
    if (again := second(state, message)) is not None:
        return again
    committed = state.commits.get(seat.index)
    if committed is None:
        raise CeremonyRefused(state.id.hex()[:16], f"deal of {message.sender}, who did not commit")
    plan = state.plan
    try:
        points = verify_deal(state.id, seat.index, body, committed, plan.threshold, sorted(state.keys))
        _verify_constant(plan, seat.index, points)
    except DealerLied as lie:
        return out(state, seat.address, str(lie))
    deals, polynomials = {**state.deals, seat.index: body}, {**state.polynomials, seat.index: points}
    return replace(state, deals=deals, polynomials=polynomials)


def judgement(state: Ceremony, message: Message, body: DealReview) -> Ceremony:
    """A receiver's complaints, each judged at once."""
    seat = seat_of(state, state.plan.receivers, message)
    verify_begun(state, message, body.begun)
    if (again := second(state, message)) is not None:
        return again
    accused = [each.dealer for each in body.complaints]
    if seat.index not in state.keys or accused != sorted(set(accused)) or not set(accused) <= set(state.deals):
        raise CeremonyRefused(state.id.hex()[:16], f"judgement of {message.sender} about {accused[:8]}")
    for complaint in body.complaints:
        state = _complaint(state, seat, complaint)
    if len(state.revealed) > state.plan.reveal_budget:
        return failed(state, f"values of {len(state.revealed)} receivers were made public by false complaints")
    return state


def _complaint(state: Ceremony, seat: CeremonySeat, complaint: Complaint) -> Ceremony:
    if complaint.dealer not in state.polynomials:
        return state  # it is out already: nothing that this shows is in the sum
    dealer = next(each for each in state.plan.dealers if each.index == complaint.dealer)
    sealed = next(each for each in state.deals[complaint.dealer].sealed if each.receiver == seat.index)
    lie = judge(state.id, complaint, sealed, state.keys[seat.index], state.polynomials[complaint.dealer])
    if isinstance(lie, DealerLied):
        return out(state, dealer.address, str(lie))
    after = out(state, seat.address, f"complains falsely about dealer {complaint.dealer}")
    return after if lie is not None else replace(after, revealed=after.revealed | {seat.index})


def hand(state: Ceremony, message: Message, body: RepairValue) -> Ceremony:
    """A helper's value for the heir."""
    seat, heir = seat_of(state, state.plan.receivers, message), state.plan.heir
    verify_begun(state, message, body.begun)
    if (again := second(state, message)) is not None:
        return again
    result = state.result
    if heir is None or result is None or seat.index not in state.keys or body.sealed.receiver != heir.index:
        return out(state, seat.address, "hands something else than its value to the heir")
    try:
        verify_sealed(handing(state.id, result.transcript), seat.index, body.sealed)
    except DealerLied as lie:
        return out(state, seat.address, str(lie))
    return replace(state, hands={**state.hands, seat.index: body})


def confirm(state: Ceremony, message: Message, body: Confirm) -> Ceremony:
    """A signature of the transcript, and a share that proves itself."""
    heir, result = state.plan.heir, state.result
    seat = seat_of(state, state.plan.receivers if heir is None else (heir,), message)
    if result is None or body.transcript != result.transcript:
        raise CeremonyRefused(state.id.hex()[:16], f"{message.sender} confirms another transcript")
    if (again := second(state, message)) is not None:
        return again
    base, key = canary.base(result.transcript), result.verification_key(seat.index)
    try:
        point = verify_partial(body.partial, seat.index, key, base, result.transcript)
        verify_signature("shares", signed_shares(state.plan, result), body.signature, seat.address)
    except (ShardLied, BadSignature) as lie:
        return out(state, seat.address, str(lie))
    signatures = {**state.signatures, seat.index: body.signature}
    return replace(state, partials={**state.partials, seat.index: point}, signatures=signatures)


def consent(state: Ceremony, message: Message, body: Consent) -> Ceremony:
    """A signature of who had a share until now, that the new ones may follow."""
    plan, result = state.plan, state.result
    seat = seat_of(state, plan.dealers if plan.purpose is CeremonyPurpose.RESHARE else (), message)
    if result is None or body.transcript != result.transcript:
        raise CeremonyRefused(state.id.hex()[:16], f"{message.sender} consents to another transcript")
    if (again := second(state, message)) is not None:
        return again
    try:
        verify_signature("shares", signed_shares(plan, result), body.signature, seat.address)
    except BadSignature as lie:
        return out(state, seat.address, str(lie))
    return replace(state, consents={**state.consents, seat.index: body.signature})


def _verify_constant(plan: CeremonyPlan, dealer: int, points: tuple[EccPoint, ...]) -> EccPoint:
    # Whoever deals its old share again deals exactly that: or the key would become another.
    if plan.source is not None:
        have = verification_key(dealer, [decode_point(each) for each in plan.source.commitments])
        if points[0] != have:
            raise DealerLied(dealer, "deals another value than its share")
    return points[0]


def begin(plan: CeremonyPlan) -> Ceremony:
    """The state before the first message; `CeremonyRefused` if the source's commitments are no points."""
    try:
        for each in plan.source.commitments if plan.source else ():
            decode_point(each)
    except MalformedValue as error:
        raise CeremonyRefused("plan", f"source: {error}") from None
    return Ceremony(plan, plan.digest, plan.digest, plan.digest)


def apply(state: Ceremony, message: Message) -> Ceremony:
    """The state after one more message of the log; a `Fault` if the log may not hold it here."""
    if message.ceremony != state.id:
        raise CeremonyRefused(state.id.hex()[:16], "message of another ceremony")
    body = read_message(message)
    step = _STEPS.get((state.phase, type(body)))
    if step is None:
        raise CeremonyRefused(state.id.hex()[:16], f"{message.kind} while {state.phase.name}")
    after = step(state, message, body)
    said = {**state.said, (message.sender, message.kind): message.body}
    head = next_head(state.head, message)
    begun = state.begun if after.phase is state.phase else head
    return replace(after, said=said, head=head, begun=begun, length=state.length + 1)


def replay(plan: CeremonyPlan, log: tuple[Message, ...]) -> Ceremony:
    """The state after a whole log."""
    state = begin(plan)
    for message in log:
        state = apply(state, message)
    return state


def is_complete(state: Ceremony) -> bool:
    """Whether everybody who can still speak in this phase has spoken: the scribe need not wait longer."""
    return not silent(state)


def silent(state: Ceremony) -> tuple[str, ...]:
    """Addresses of the shards who can still speak in this phase and have not said all."""
    kinds = EXPECTED.get(state.phase, ())
    awaited = ((seat.address, kind) for kind, seats in kinds for seat in seats(state) if seat.address not in state.lies)
    return tuple(dict.fromkeys(address for address, kind in awaited if (address, kind) not in state.said))


_STEPS: Mapping[tuple[Phase, type], Callable[[Ceremony, Message, Any], Ceremony]] = {
    (Phase.JOINING, Join): join,
    (Phase.JOINING, KemKey): kem,
    (Phase.JOINING, DealCommit): commit,
    (Phase.DEALING, Deal): deal,
    (Phase.JUDGING, DealReview): judgement,
    (Phase.HANDING, RepairValue): hand,
    (Phase.CONFIRMING, Confirm): confirm,
    (Phase.CONFIRMING, Consent): consent,
    **{(phase, Close): close for phase in Phase if phase < Phase.DONE},
}
"""What may be said in which phase."""

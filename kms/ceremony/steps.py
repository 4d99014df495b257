"""What each message of a log does to the state of its ceremony (`kms.ceremony.state_machine` has the rules)."""

from dataclasses import replace

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto.curve import decode_point
from bytewise.crypto.mlkem import verify_key
from bytewise.crypto.proofs import verify_partial
from bytewise.crypto.shares import verification_key
from bytewise.protocol.errors import BadSignature, CeremonyRefused, DealerLied, MalformedValue, ShardLied
from bytewise.protocol.keys.ceremony import CeremonySeat, Plan, Purpose
from bytewise.protocol.keys.ceremony_log import (
    Commit,
    Complaint,
    Confirm,
    Consent,
    Deal,
    Hand,
    Join,
    Judgement,
    KemKey,
    Message,
)
from bytewise.protocol.signing import verify_signature
from kms.ceremony import canary
from kms.ceremony.complaints import judge
from kms.ceremony.deals import verify_deal
from kms.ceremony.result import signed_shares
from kms.ceremony.sealing import handing, verify_sealed
from kms.ceremony.state import Ceremony, failed, newcomers, out, seat_of, second, verify_begun


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


def commit(state: Ceremony, message: Message, body: Commit) -> Ceremony:
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


def judgement(state: Ceremony, message: Message, body: Judgement) -> Ceremony:
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


def hand(state: Ceremony, message: Message, body: Hand) -> Ceremony:
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
    seat = seat_of(state, plan.dealers if plan.purpose is Purpose.RESHARE else (), message)
    if result is None or body.transcript != result.transcript:
        raise CeremonyRefused(state.id.hex()[:16], f"{message.sender} consents to another transcript")
    if (again := second(state, message)) is not None:
        return again
    try:
        verify_signature("shares", signed_shares(plan, result), body.signature, seat.address)
    except BadSignature as lie:
        return out(state, seat.address, str(lie))
    return replace(state, consents={**state.consents, seat.index: body.signature})


def _verify_constant(plan: Plan, dealer: int, points: tuple[EccPoint, ...]) -> EccPoint:
    # Whoever deals its old share again deals exactly that: or the key would become another.
    if plan.source is not None:
        have = verification_key(dealer, [decode_point(each) for each in plan.source.commitments])
        if points[0] != have:
            raise DealerLied(dealer, "deals another value than its share")
    return points[0]

"""What one shard says next in a ceremony: a pure function of its seed, its old share and the log.

Nothing is remembered between two calls, so a shard that crashed anywhere says what it would have said. Who must not say two
different things signs only what it has stored before (`kms.ceremony.participant`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from bytewise.crypto import hpke
from bytewise.crypto.curve import GENERATOR, Rng, decode_point, encode_point, encode_scalar, random_scalar
from bytewise.crypto.proofs import prove_partial
from bytewise.crypto.shares import combine_values, verification_key
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import DealerLied, ShareMissing
from bytewise.protocol.keys.ceremony import CeremonyPurpose, CeremonySeat
from bytewise.protocol.keys.ceremony_log import (
    Body,
    Complaint,
    Confirm,
    Consent,
    DealCommit,
    DealReview,
    Join,
    KemKey,
    RepairValue,
    SealedDeal,
)
from bytewise.protocol.signing import Signer
from bytewise.service.secret import Secret
from kms.ceremony import canary
from kms.ceremony.deals import (
    Opening,
    commitment_digest,
    complain,
    deal,
    handing,
    open_deal,
    prepare,
    seal,
    unseal,
    weighted_value,
)
from kms.ceremony.state import Ceremony, Phase, Result, newcomers, signed_shares, weights

# All randomness of one shard in one ceremony, from one seed that is kept until the ceremony has ended.

SEED_BYTES = 32


def stream(seed: Secret, *name: bytes | int) -> Rng:
    """A generator of bytes that depends on the seed and on its name alone."""
    key = digests.labelled(Label.CEREMONY_STREAM, seed.reveal(), *name)
    blocks = 0

    def read(size: int) -> bytes:
        nonlocal blocks
        data = b""
        while len(data) < size:
            data += digests.labelled(Label.CEREMONY_STREAM, key, blocks)
            blocks += 1
        return data[:size]

    return read


class Member(NamedTuple):
    """One shard in one ceremony."""

    signer: Signer
    """Its account."""
    seed: Secret
    """Fresh for this ceremony, 32 bytes; erased when it has ended."""
    old_share: Secret | None
    """Its share of the plan's source, 32 bytes, if it deals from one."""


def due(state: Ceremony, member: Member) -> tuple[Body, ...]:
    """What the member has to say in this phase and the log does not hold."""
    if member.signer.address in state.lies:
        return ()
    speeches = _SPEECHES.get(state.phase, {})
    unsaid = [speak for kind, speak in speeches.items() if (member.signer.address, kind) not in state.said]
    return tuple(body for speak in unsaid for body in speak(state, member))


def new_share(state: Ceremony, member: Member) -> Secret:
    """The share that the ceremony gave this member, 32 bytes; `ShareMissing` if what was dealt to it does not make one."""
    plan, result = state.plan, state.result
    seat = _seat(plan.receivers if plan.heir is None else (plan.heir,), member)
    if result is None or seat is None:
        raise ShareMissing(member.signer.address, f"none in phase {state.phase.name}")
    value = _dealt_value(state, member, seat.index) if plan.heir is None else _inherited(state, member, result)
    if value == 0 or GENERATOR * value != result.verification_key(seat.index):
        raise ShareMissing(seat.index, "does not fit the commitments")
    return Secret(encode_scalar(value))


def _join(state: Ceremony, member: Member) -> Iterator[Body]:
    if _seat(newcomers(state.plan), member) is not None:
        yield Join(encode_point(GENERATOR * _deal_secret(state, member)))


def kem_seed(state: Ceremony, member: Member) -> Secret:
    """The member's ML-KEM-768 key of a hybrid epoch."""
    return Secret(_rng(state, member, b"kem key")(hpke.KEM_SEED_BYTES))


def _kem(state: Ceremony, member: Member) -> Iterator[Body]:
    if state.plan.hybrid and _seat(state.plan.receivers, member) is not None:
        yield KemKey(hpke.kem_key(kem_seed(state, member).reveal()))


def _commit(state: Ceremony, member: Member) -> Iterator[Body]:
    dealer = _dealer(state, member)
    if dealer is not None:
        opening = _opening(state, member, dealer)
        yield DealCommit(commitment_digest(state.id, dealer.index, opening.commitments, opening.e, opening.f))


def _deal(state: Ceremony, member: Member) -> Iterator[Body]:
    dealer = _dealer(state, member)
    if dealer is not None and dealer.index in state.commits:
        # Its name holds what is sealed to whom: anything else draws other ephemerals and nonces.
        opening = _opening(state, member, dealer)
        receivers = (part for index in sorted(state.keys) for part in (index, state.keys[index]))
        rng = _rng(state, member, b"deal", *opening.commitments, *receivers)
        yield deal(state.id, state.begun, dealer.index, opening, state.keys, rng)


def _judge(state: Ceremony, member: Member) -> Iterator[Body]:
    seat = _seat(state.plan.receivers, member)
    if seat is not None and seat.index in state.keys:
        yield DealReview(state.begun, tuple(_complaints(state, member, seat.index)))


def _complaints(state: Ceremony, member: Member, receiver: int) -> Iterator[Complaint]:
    for dealer in sorted(state.polynomials):
        try:
            _open(state, member, dealer, receiver)
        except DealerLied:
            sealed = _sealed(state, dealer, receiver)
            rng = _rng(state, member, b"complaint", dealer, sealed.enc)
            yield complain(state.id, dealer, sealed, _deal_secret(state, member), rng)


def _hand(state: Ceremony, member: Member) -> Iterator[Body]:
    seat, heir = _seat(state.plan.receivers, member), state.plan.heir
    if seat is None or seat.index not in state.keys or heir is None or state.heir_key is None or state.result is None:
        return
    try:
        value = _dealt_value(state, member, seat.index)
    except ShareMissing:
        return
    rng = _rng(state, member, b"hand", state.result.transcript, state.heir_key)
    place = handing(state.id, state.result.transcript)
    yield RepairValue(state.begun, seal(place, seat.index, heir.index, value, state.heir_key, rng))


def _confirm(state: Ceremony, member: Member) -> Iterator[Body]:
    heir, result = state.plan.heir, state.result
    seat = _seat(state.plan.receivers if heir is None else (heir,), member)
    if seat is None or result is None or (heir is None and seat.index not in state.keys):
        return
    try:
        share = int.from_bytes(new_share(state, member).reveal())
    except ShareMissing:
        return
    rng = _rng(state, member, b"confirm", result.transcript, seat.index)
    base = canary.base(result.transcript)
    proven = prove_partial(seat.index, share, base, result.transcript, rng)
    yield Confirm(result.transcript, proven, member.signer.sign(signed_shares(state.plan, result)))


def _consent(state: Ceremony, member: Member) -> Iterator[Body]:
    # Also who lost its share: the chain asks those that it names.
    plan, result = state.plan, state.result
    if plan.purpose is CeremonyPurpose.RESHARE and result is not None and _seat(plan.dealers, member) is not None:
        yield Consent(result.transcript, member.signer.sign(signed_shares(plan, result)))


def _dealt_value(state: Ceremony, member: Member, receiver: int) -> int:
    result = state.result
    if result is None or receiver not in state.keys:
        raise ShareMissing(receiver, "was not dealt")
    try:
        values = {dealer: _open(state, member, dealer, receiver) for dealer in result.qualified}
    except DealerLied as lie:
        raise ShareMissing(receiver, str(lie)) from None
    return weighted_value(weights(state.plan, result.qualified), values)


def _inherited(state: Ceremony, member: Member, result: Result) -> int:
    """The heir's share: the handed values that are on the dealt polynomial, interpolated at 0."""
    dealt, key = [decode_point(each) for each in result.dealt], state.heir_key
    place = handing(state.id, result.transcript)
    values = {}
    for index, hand in sorted(state.hands.items()):
        point = decode_point(hand.sealed.enc) * _deal_secret(state, member)
        try:
            value = unseal(place, index, hand.sealed, point, key) if key is not None else 0
        except DealerLied:
            continue
        if value and GENERATOR * value == verification_key(index, dealt):
            values[index] = value
    if len(values) < state.plan.threshold:
        raise ShareMissing(member.signer.address, f"{len(values)} of {state.plan.threshold} helpers handed their value")
    return combine_values(dict(sorted(values.items())[: state.plan.threshold]))


def _open(state: Ceremony, member: Member, dealer: int, receiver: int) -> int:
    sealed = _sealed(state, dealer, receiver)
    point = decode_point(sealed.enc) * _deal_secret(state, member)
    return open_deal(state.id, dealer, sealed, point, state.keys[receiver], state.polynomials[dealer])


def _sealed(state: Ceremony, dealer: int, receiver: int) -> SealedDeal:
    return next(each for each in state.deals[dealer].sealed if each.receiver == receiver)


def _opening(state: Ceremony, member: Member, dealer: CeremonySeat) -> Opening:
    plan = state.plan
    rng = _rng(state, member, b"polynomial", dealer.index)
    constant = random_scalar(rng) if member.old_share is None else int.from_bytes(member.old_share.reveal())
    return prepare(state.id, dealer.index, constant, plan.threshold, rng)


def _deal_secret(state: Ceremony, member: Member) -> int:
    return random_scalar(_rng(state, member, b"deal key"))


def _rng(state: Ceremony, member: Member, *name: bytes | int) -> Rng:
    return stream(member.seed, state.id, *name)


def _dealer(state: Ceremony, member: Member) -> CeremonySeat | None:
    # Who lost its share of the source deals nothing, and still gets a new one.
    able = state.plan.source is None or member.old_share is not None
    return _seat(state.plan.dealers, member) if able else None


def _seat(seats: tuple[CeremonySeat, ...], member: Member) -> CeremonySeat | None:
    return next((each for each in seats if each.address == member.signer.address), None)


_SPEECHES: Mapping[Phase, Mapping[str, Callable[[Ceremony, Member], Iterator[Body]]]] = {
    Phase.JOINING: {"join": _join, "kem": _kem, "commit": _commit},
    Phase.DEALING: {"deal": _deal},
    Phase.JUDGING: {"judgement": _judge},
    Phase.HANDING: {"hand": _hand},
    Phase.CONFIRMING: {"confirm": _confirm, "consent": _consent},
}
"""What a member says in each phase, by kind of message."""

"""Computes the messages that one shard sends next in a ceremony. The messages depend only on the shard's seed, its old share and
the log.

No state is kept between two calls, so a shard that crashed sends the same messages again. `kms.ceremony.participant` stores each
signed message before it sends it, and sends the stored one from then on. So a shard never sends two different messages of a kind.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from bytewise.crypto import hpke
from bytewise.crypto.curve import GENERATOR, Rng, decode_point, encode_point, encode_scalar, random_scalar
from bytewise.crypto.shares import combine_values, prove_partial, verification_key
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
from bytewise.protocol.signing import LocalSigner
from bytewise.service.secret import Secret
from kms.ceremony import canary
from kms.ceremony.deals import (
    DealerPolynomial,
    commitment_digest,
    draw_polynomial,
    make_complaint,
    make_deal,
    open_deal,
    open_value,
    repair_context,
    seal_value,
    weighted_value,
)
from kms.ceremony.state import CeremonyPhase, CeremonyResult, CeremonyState, dealer_weights, joining_seats, shares_digest

# All randomness of one shard in one ceremony comes from one seed, which the shard keeps until the ceremony ends.

SEED_BYTES = 32


def seeded_rng(seed: Secret, *name: bytes | int) -> Rng:
    """Returns a generator of bytes that depends only on the seed and the name."""
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


class ParticipantSecrets(NamedTuple):
    """The account and secrets of one shard in one ceremony."""

    signer: LocalSigner
    """Account of the shard."""
    seed: Secret
    """Seed of 32 bytes that was drawn for this ceremony. It is erased when the ceremony ends."""
    old_share: Secret | None
    """The shard's share of the plan's source, 32 bytes, if the shard deals an existing share again. Otherwise None."""


def due_messages(state: CeremonyState, secrets: ParticipantSecrets) -> tuple[Body, ...]:
    """Returns the messages that the shard must send in this phase and that are not in the log yet."""
    if secrets.signer.address in state.faults:
        return ()
    responses = _RESPONSES.get(state.phase, {})
    missing = [respond for kind, respond in responses.items() if (secrets.signer.address, kind) not in state.bodies]
    return tuple(body for respond in missing for body in respond(state, secrets))


def new_share(state: CeremonyState, secrets: ParticipantSecrets) -> Secret:
    """Returns the share that the ceremony gave this shard, 32 bytes. Raises `ShareMissing` if the dealt values do not make a
    valid share."""
    plan, result = state.plan, state.result
    seat = _seat(plan.receivers if plan.repair_target is None else (plan.repair_target,), secrets)
    if result is None or seat is None:
        raise ShareMissing(secrets.signer.address, f"none in phase {state.phase.name}")
    value = dealt_value(state, secrets, seat.index) if plan.repair_target is None else _repaired_share(state, secrets, result)
    if value == 0 or GENERATOR * value != result.verification_key(seat.index):
        raise ShareMissing(seat.index, "does not fit the commitments")
    return Secret(encode_scalar(value))


def _join(state: CeremonyState, secrets: ParticipantSecrets) -> Iterator[Body]:
    if _seat(joining_seats(state.plan), secrets) is not None:
        yield Join(encode_point(GENERATOR * _deal_secret(state, secrets)))


def kem_seed(state: CeremonyState, secrets: ParticipantSecrets) -> Secret:
    """Derives the seed of the shard's ML-KEM-768 key for a hybrid epoch."""
    return Secret(_rng(state, secrets, b"kem key")(hpke.KEM_SEED_BYTES))


def _kem(state: CeremonyState, secrets: ParticipantSecrets) -> Iterator[Body]:
    if state.plan.hybrid and _seat(state.plan.receivers, secrets) is not None:
        yield KemKey(hpke.kem_key(kem_seed(state, secrets).reveal()))


def _commit(state: CeremonyState, secrets: ParticipantSecrets) -> Iterator[Body]:
    dealer = _dealer(state, secrets)
    if dealer is not None:
        opening = _opening(state, secrets, dealer)
        yield DealCommit(commitment_digest(state.id, dealer.index, opening.commitments, opening.e, opening.f))


def _deal(state: CeremonyState, secrets: ParticipantSecrets) -> Iterator[Body]:
    dealer = _dealer(state, secrets)
    if dealer is not None and dealer.index in state.commits:
        # The name contains all sealed content and its receivers, so that different content uses different ephemeral keys and
        # nonces.
        opening = _opening(state, secrets, dealer)
        receivers = (part for index in sorted(state.keys) for part in (index, state.keys[index]))
        rng = _rng(state, secrets, b"deal", *opening.commitments, *receivers)
        yield make_deal(state.id, state.phase_head, dealer.index, opening, state.keys, rng)


def _judge(state: CeremonyState, secrets: ParticipantSecrets) -> Iterator[Body]:
    seat = _seat(state.plan.receivers, secrets)
    if seat is not None and seat.index in state.keys:
        yield DealReview(state.phase_head, tuple(_complaints(state, secrets, seat.index)))


def _complaints(state: CeremonyState, secrets: ParticipantSecrets, receiver: int) -> Iterator[Complaint]:
    for dealer in sorted(state.polynomials):
        try:
            _open(state, secrets, dealer, receiver)
        except DealerLied:
            sealed = _sealed(state, dealer, receiver)
            rng = _rng(state, secrets, b"complaint", dealer, sealed.enc)
            yield make_complaint(state.id, dealer, sealed, _deal_secret(state, secrets), rng)


def _repair_value(state: CeremonyState, secrets: ParticipantSecrets) -> Iterator[Body]:
    seat, heir = _seat(state.plan.receivers, secrets), state.plan.repair_target
    if seat is None or seat.index not in state.keys or heir is None or state.repair_key is None or state.result is None:
        return
    try:
        value = dealt_value(state, secrets, seat.index)
    except ShareMissing:
        return
    rng = _rng(state, secrets, b"hand", state.result.transcript, state.repair_key)
    place = repair_context(state.id, state.result.transcript)
    yield RepairValue(state.phase_head, seal_value(place, seat.index, heir.index, value, state.repair_key, rng))


def _confirm(state: CeremonyState, secrets: ParticipantSecrets) -> Iterator[Body]:
    heir, result = state.plan.repair_target, state.result
    seat = _seat(state.plan.receivers if heir is None else (heir,), secrets)
    if seat is None or result is None or (heir is None and seat.index not in state.keys):
        return
    try:
        share = int.from_bytes(new_share(state, secrets).reveal())
    except ShareMissing:
        return
    rng = _rng(state, secrets, b"confirm", result.transcript, seat.index)
    base = canary.canary_point(result.transcript)
    proven = prove_partial(seat.index, share, base, result.transcript, rng)
    yield Confirm(result.transcript, proven, secrets.signer.sign(shares_digest(state.plan, result)))


def _consent(state: CeremonyState, secrets: ParticipantSecrets) -> Iterator[Body]:
    # A dealer that lost its share signs, too: the chain requires consents of a threshold of the holders, with or without a share.
    plan, result = state.plan, state.result
    if plan.purpose is CeremonyPurpose.RESHARE and result is not None and _seat(plan.dealers, secrets) is not None:
        yield Consent(result.transcript, secrets.signer.sign(shares_digest(plan, result)))


def dealt_value(state: CeremonyState, secrets: ParticipantSecrets, receiver: int) -> int:
    """Returns the weighted sum of the values that the qualified dealers sealed for this receiver. Raises `ShareMissing` if one of
    their deals does not open."""
    result = state.result
    if result is None or receiver not in state.keys:
        raise ShareMissing(receiver, "was not dealt")
    try:
        values = {dealer: _open(state, secrets, dealer, receiver) for dealer in result.qualified}
    except DealerLied as lie:
        raise ShareMissing(receiver, str(lie)) from None
    return weighted_value(dealer_weights(state.plan, result.qualified), values)


def _repaired_share(state: CeremonyState, secrets: ParticipantSecrets, result: CeremonyResult) -> int:
    """Returns the repair target's share: the repair values that are on the dealt polynomial, interpolated at 0."""
    dealt, key = [decode_point(each) for each in result.dealt], state.repair_key
    place = repair_context(state.id, result.transcript)
    values = {}
    for index, given in sorted(state.repair_values.items()):
        point = decode_point(given.sealed.enc) * _deal_secret(state, secrets)
        try:
            value = open_value(place, index, given.sealed, point, key) if key is not None else 0
        except DealerLied:
            continue
        if value and GENERATOR * value == verification_key(index, dealt):
            values[index] = value
    if len(values) < state.plan.threshold:
        raise ShareMissing(secrets.signer.address, f"{len(values)} of {state.plan.threshold} helpers sent a usable value")
    return combine_values(dict(sorted(values.items())[: state.plan.threshold]))


def _open(state: CeremonyState, secrets: ParticipantSecrets, dealer: int, receiver: int) -> int:
    sealed = _sealed(state, dealer, receiver)
    point = decode_point(sealed.enc) * _deal_secret(state, secrets)
    return open_deal(state.id, dealer, sealed, point, state.keys[receiver], state.polynomials[dealer])


def _sealed(state: CeremonyState, dealer: int, receiver: int) -> SealedDeal:
    return next(each for each in state.deals[dealer].sealed if each.receiver == receiver)


def _opening(state: CeremonyState, secrets: ParticipantSecrets, dealer: CeremonySeat) -> DealerPolynomial:
    plan = state.plan
    rng = _rng(state, secrets, b"polynomial", dealer.index)
    constant = random_scalar(rng) if secrets.old_share is None else int.from_bytes(secrets.old_share.reveal())
    return draw_polynomial(state.id, dealer.index, constant, plan.threshold, rng)


def _deal_secret(state: CeremonyState, secrets: ParticipantSecrets) -> int:
    return random_scalar(_rng(state, secrets, b"deal key"))


def _rng(state: CeremonyState, secrets: ParticipantSecrets, *name: bytes | int) -> Rng:
    return seeded_rng(secrets.seed, state.id, *name)


def _dealer(state: CeremonyState, secrets: ParticipantSecrets) -> CeremonySeat | None:
    # A shard that lost its share of the source deals nothing and still receives a new one.
    able = state.plan.source is None or secrets.old_share is not None
    return _seat(state.plan.dealers, secrets) if able else None


def _seat(seats: tuple[CeremonySeat, ...], secrets: ParticipantSecrets) -> CeremonySeat | None:
    return next((each for each in seats if each.address == secrets.signer.address), None)


_RESPONSES: Mapping[CeremonyPhase, Mapping[str, Callable[[CeremonyState, ParticipantSecrets], Iterator[Body]]]] = {
    CeremonyPhase.JOINING: {"join": _join, "kem": _kem, "commit": _commit},
    CeremonyPhase.DEALING: {"deal": _deal},
    CeremonyPhase.JUDGING: {"judgement": _judge},
    CeremonyPhase.REPAIRING: {"hand": _repair_value},
    CeremonyPhase.CONFIRMING: {"confirm": _confirm, "consent": _consent},
}
"""Functions that make each kind of message, by phase."""

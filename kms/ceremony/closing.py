"""What the end of each phase leads to, and who is waited for until then (`kms.ceremony.state_machine` has the rules)."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from bytewise.protocol.errors import CeremonyFailed, CeremonyRefused
from bytewise.protocol.keys.ceremony import CeremonySeat, Purpose
from bytewise.protocol.keys.ceremony_log import Close, Message
from kms.ceremony import canary
from kms.ceremony.result import result_of
from kms.ceremony.state import Ceremony, Phase, failed, newcomers


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
    would be the choice of one of them (ADR 195).
    """
    unopened = [seat for seat in _committed(state) if seat.index not in state.deals]
    if unopened:
        who = ", ".join(f"{seat.index} ({seat.address})" for seat in unopened)
        raise CeremonyFailed(state.id.hex()[:16], f"committed and did not open, so that a new key could be chosen: dealer {who}")
    return state


def _close_judging(state: Ceremony) -> Ceremony:
    _need(state, "deals", len(state.polynomials), state.plan.fewest_dealers)
    result = result_of(state.plan, state.head, state.polynomials, state.kem_keys)
    repair = state.plan.purpose is Purpose.REPAIR
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
    return _committed(state) if state.plan.purpose is Purpose.RESHARE else ()


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

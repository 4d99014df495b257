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
- No new key is made without a deal that was committed to: its dealer could choose between two keys by silence (docs/adr/195).
- There is a result only if enough seats are left in every phase. Otherwise the ceremony failed, and what was before is in force.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from bytewise.crypto.curve import decode_point
from bytewise.protocol.errors import CeremonyRefused, MalformedValue
from bytewise.protocol.keys.ceremony import Plan
from bytewise.protocol.keys.ceremony_log import (
    Close,
    Commit,
    Confirm,
    Consent,
    Deal,
    Hand,
    Join,
    Judgement,
    KemKey,
    Message,
    next_head,
    read_message,
)
from kms.ceremony import closing, steps
from kms.ceremony.state import Ceremony, Phase


def begin(plan: Plan) -> Ceremony:
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


def replay(plan: Plan, log: tuple[Message, ...]) -> Ceremony:
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
    kinds = closing.EXPECTED.get(state.phase, ())
    awaited = ((seat.address, kind) for kind, seats in kinds for seat in seats(state) if seat.address not in state.lies)
    return tuple(dict.fromkeys(address for address, kind in awaited if (address, kind) not in state.said))


_STEPS: Mapping[tuple[Phase, type], Callable[[Ceremony, Message, Any], Ceremony]] = {
    (Phase.JOINING, Join): steps.join,
    (Phase.JOINING, KemKey): steps.kem,
    (Phase.JOINING, Commit): steps.commit,
    (Phase.DEALING, Deal): steps.deal,
    (Phase.JUDGING, Judgement): steps.judgement,
    (Phase.HANDING, Hand): steps.hand,
    (Phase.CONFIRMING, Confirm): steps.confirm,
    (Phase.CONFIRMING, Consent): steps.consent,
    **{(phase, Close): closing.close for phase in Phase if phase < Phase.DONE},
}
"""What may be said in which phase."""

"""What a dishonest shard can say in a ceremony, each as a function from what it owes to what it says."""

import os
from collections.abc import Iterator
from dataclasses import replace

from bytewise.crypto.curve import GENERATOR, encode_point, encode_scalar, random_scalar
from bytewise.crypto.proofs import prove_log
from bytewise.crypto.shares import evaluate
from bytewise.protocol.digests import Label
from bytewise.protocol.keys.ceremony_log import Body, Commit, Complaint, Confirm, Consent, Deal, Hand, Join, Judgement
from bytewise.protocol.keys.epochs import Partial
from bytewise.protocol.units import Blob, Digest
from kms.ceremony.deals import Opening, commitment_digest, complain, deal, handing, prepare, seal
from kms.ceremony.responses import _deal_secret
from tests.unit.kms.ceremonies import Meddling, Party, Town
from tests.unit.kms.sealers import sealed_garbage, spying, with_sealed

IDENTITY = Blob(b"\x04" + bytes(64))


def index_of(town: Town, who: Party) -> int:
    """The party's index as a dealer."""
    return next(each.index for each in town.plan.dealers if each.address == who.signer.address)


def silent(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Commits, and then deals nothing."""
    if not isinstance(body, Deal):
        yield body


def mute(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Says nothing at all."""
    yield from ()


def _altered_deal(town: Town, body: Deal, value: Blob | None) -> Deal:
    victim = body.sealed[0].receiver if len(body.sealed) < 2 else body.sealed[1].receiver
    sealed = tuple(replace(each, ciphertext=value) if each.receiver == victim and value else each for each in body.sealed)
    return replace(body, sealed=sealed)


def garbage(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Seals random bytes to one receiver."""
    if not isinstance(body, Deal):
        yield body
        return
    victim = body.sealed[0].receiver if len(body.sealed) < 2 else body.sealed[1].receiver
    yield with_sealed(body, {victim: sealed_garbage(town.state.id, index_of(town, who), victim)})


def wrong_share(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Seals a value that is not on its polynomial to one receiver."""
    if not isinstance(body, Deal):
        yield body
        return
    index, victim = index_of(town, who), body.sealed[-1].receiver
    other = seal(town.state.id, index, victim, random_scalar(os.urandom), town.state.keys[victim], os.urandom)
    yield replace(body, sealed=(*body.sealed[:-1], other))


def wrong_commitment(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Deals another polynomial than it committed to."""
    if isinstance(body, Deal):
        opening = prepare(town.state.id, index_of(town, who), random_scalar(os.urandom), town.plan.threshold, os.urandom)
        yield deal(town.state.id, town.state.begun, index_of(town, who), opening, town.state.keys, os.urandom)
    else:
        yield body


def two_deals(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Deals twice, differently."""
    yield body
    if isinstance(body, Deal):
        yield _altered_deal(town, body, Blob(os.urandom(48)))


def two_commits(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Commits twice, differently."""
    yield body
    if isinstance(body, Commit):
        yield Commit(Digest(os.urandom(32)))


def two_keys(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Joins twice, with different keys."""
    yield body
    if isinstance(body, Join):
        yield Join(encode_point(GENERATOR * random_scalar(os.urandom)))


def bad_key(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Joins with a key that is no point."""
    yield Join(IDENTITY) if isinstance(body, Join) else body


def _recommitting(town: Town, who: Party, body: Body, make: str) -> Iterator[Body]:
    """Commits to a polynomial that is wrong in itself, and deals that."""
    if not isinstance(body, Commit | Deal):
        yield body
        return
    index = index_of(town, who)
    opening = _CRAFTED.setdefault((town.state.id, index), _craft(town, index, make))
    if isinstance(body, Commit):
        yield Commit(commitment_digest(town.state.id, index, opening.commitments, opening.e, opening.f))
        return
    values = {receiver: evaluate(opening.coefficients, receiver) or 1 for receiver in town.state.keys}
    keys = town.state.keys
    sealed = tuple(seal(town.state.id, index, each, values[each], keys[each], os.urandom) for each in sorted(keys))
    yield Deal(town.state.begun, opening.commitments, opening.e, opening.f, sealed)


_CRAFTED: dict[tuple[Digest, int], Opening] = {}


def _craft(town: Town, index: int, make: str) -> Opening:
    threshold, ceremony = town.plan.threshold, town.state.id
    constant = random_scalar(os.urandom)
    if make in ("low", "high"):
        # The proof is of the threshold that the plan has: nothing but the number of commitments is wrong.
        other = prepare(ceremony, index, constant, threshold + (1 if make == "high" else -1), os.urandom)
        statement = ceremony, index, threshold
        e, f = prove_log(Label.CEREMONY_KNOWLEDGE, constant, os.urandom, *statement, *other.commitments)
        return replace(other, e=encode_scalar(e), f=encode_scalar(f))
    good = prepare(ceremony, index, constant, threshold, os.urandom)
    if make == "identity":
        return replace(good, commitments=(IDENTITY, *good.commitments[1:]))
    if make == "flat":
        return replace(
            good,
            coefficients=(constant, *([0] * (threshold - 1))),
            commitments=(good.commitments[0], *[IDENTITY] * (threshold - 1)),
        )
    if make == "rogue":
        # A constant that it does not know: what is left of a wanted key when the others' constants are taken away.
        unknown = encode_point(GENERATOR * random_scalar(os.urandom) + GENERATOR * random_scalar(os.urandom))
        return replace(good, commitments=(unknown, *good.commitments[1:]))
    if make == "copied":
        # The proof of a dealer with another index.
        return prepare(ceremony, index + 1, constant, threshold, os.urandom)
    return prepare(Digest(os.urandom(32)), index, constant, threshold, os.urandom)


def crafted(make: str) -> Meddling:
    """A dealer whose polynomial or proof is wrong in itself."""

    def meddle(town: Town, who: Party, body: Body) -> Iterator[Body]:
        yield from _recommitting(town, who, body, make)

    return meddle


def _accused(town: Town, who: Party) -> int | None:
    return next((each for each in sorted(town.state.polynomials) if each != index_of(town, who)), None)


def false_complaint(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Complains about a good deal and opens it."""
    accused = _accused(town, who)
    if not isinstance(body, Judgement) or accused is None:
        yield body
        return
    receiver = next(each.index for each in town.plan.receivers if each.address == who.signer.address)
    sealed = next(each for each in town.state.deals[accused].sealed if each.receiver == receiver)
    yield Judgement(
        town.state.begun, (complain(town.state.id, accused, sealed, _deal_secret(town.state, who.member), os.urandom),)
    )


def unproven_complaint(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Complains about a good deal with a point that does not open it."""
    accused = _accused(town, who)
    if not isinstance(body, Judgement) or accused is None:
        yield body
        return
    point = encode_point(GENERATOR * 5)
    yield Judgement(town.state.begun, (Complaint(accused, point, encode_scalar(1), encode_scalar(2)),))


def garbage_hand(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Hands random bytes to the heir of a repair."""
    if isinstance(body, Hand) and town.state.result is not None:
        index = next(each.index for each in town.plan.receivers if each.address == who.signer.address)
        yield Hand(
            town.state.begun, sealed_garbage(handing(town.state.id, town.state.result.transcript), index, body.sealed.receiver)
        )
    else:
        yield body


def deal_as_hand(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Hands to the heir what the dealer of its own number as a receiver, another shard, sealed to the receiver of the heir's."""
    if isinstance(body, Hand):
        index = next(each.index for each in town.plan.receivers if each.address == who.signer.address)
        yield Hand(
            town.state.begun, next(each for each in town.state.deals[index].sealed if each.receiver == body.sealed.receiver)
        )
    else:
        yield body


def copied_hand(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Hands the heir of a repair what another helper handed to it."""
    yield next(iter(town.state.hands.values()), body) if isinstance(body, Hand) else body


def other_transcript(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Signs another transcript."""
    yield replace(body, transcript=Digest(os.urandom(32))) if isinstance(body, Confirm) else body


def wrong_partial(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Proves another share than its own."""
    if isinstance(body, Confirm):
        partial = Partial(body.partial.index, encode_point(GENERATOR * 9), body.partial.e, body.partial.f)
        yield Confirm(body.transcript, partial, body.signature)
    else:
        yield body


def unsigned(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Proves its share and signs something else for the chain."""
    yield replace(body, signature=who.signer.sign(Digest(os.urandom(32)))) if isinstance(body, Confirm) else body


def other_consent(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Consents to another transcript."""
    yield replace(body, transcript=Digest(os.urandom(32))) if isinstance(body, Consent) else body


def unsigned_consent(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Signs something else than the new shares for the chain."""
    yield replace(body, signature=who.signer.sign(Digest(os.urandom(32)))) if isinstance(body, Consent) else body


def other_log(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Speaks of another log than this one."""
    yield replace(body, begun=Digest(os.urandom(32))) if isinstance(body, Deal | Judgement | Hand) else body


def omission(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Deals to all receivers but one."""
    yield replace(body, sealed=body.sealed[:-1]) if isinstance(body, Deal) else body


DEALERS: dict[str, Meddling] = {
    "omission": omission,
    "wrong share": wrong_share,
    "garbage": garbage,
    "wrong commitment": wrong_commitment,
    "two deals": two_deals,
    "two commits": two_commits,
    "low degree": crafted("low"),
    "high degree": crafted("high"),
    "identity": crafted("identity"),
    "flat": crafted("flat"),
    "rogue key": crafted("rogue"),
    "copied proof": crafted("copied"),
    "proof of another ceremony": crafted("replayed"),
    "copied ephemeral": spying({1: 2, 2: 1, 3: 1}),
    "shifted ephemeral": spying({1: 2, 2: 1, 3: 1}, shift=7),
}
"""Dealers that must be named, and whose polynomial must not be in the sum."""

RECEIVERS: dict[str, Meddling] = {
    "two keys": two_keys,
    "key that is no point": bad_key,
    "false complaint": false_complaint,
    "unproven complaint": unproven_complaint,
    "wrong partial": wrong_partial,
    "unsigned": unsigned,
}
"""Receivers that must be named."""

HELPERS: dict[str, Meddling] = {"garbage hand": garbage_hand, "copied hand": copied_hand}
"""Helpers of a repair that hand something else; the first kind can be told by the heir alone."""

HOLDERS: dict[str, Meddling] = {"unsigned consent": unsigned_consent}
"""Holders of shares that are dealt again, who must be named."""

SILENT: dict[str, Meddling] = {"silent": silent, "mute": mute}
"""Nobody can tell these from an honest shard behind a bad network: they are not named as liars."""

ELSEWHERE: dict[str, Meddling] = {"other log": other_log, "other transcript": other_transcript, "other consent": other_consent}
"""Nobody can tell these from an honest shard to which its scribe showed another log: they are refused and not named."""

ALL = {**DEALERS, **RECEIVERS, **SILENT, **ELSEWHERE}

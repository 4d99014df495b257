"""What may happen in a network with one operator that may lie: drawn by a seed, played by `tests.whole_system`."""

import dataclasses
import enum
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.lies import MALFORMED, RECEIPT_LIES

QUESTIONS = 3
"""Of clients, each with an answer of its own."""

REQUEST_FIELDS = (
    "model_id", "model_name", "environment", "decode", "seed", "prompt", "template_digest", "tokenizer_digest",
    "prompt_commitments", "nonce", "chain_id", "expiry", "client", "reply_key",
)  # fmt: skip
OUTPUT_FIELDS = ("req_hash", "token_ids", "finish_reason", "prompt_tokens", "blind", "logprobs")


class Conduct(enum.StrEnum):
    """What a member does in a round."""

    HONEST = "says what it finds"
    ABSENT = "does nothing"
    SILENT = "commits and does not reveal"
    LAZY = "knows the result and has not held every leaf"
    OWN = "says something that nobody else says"
    COLLUDES = "says what the operator says"
    ACCUSES = "says with its friends what convicts"
    STALLS = "says with its friends that there is no key"


FALSE = (Conduct.LAZY, Conduct.OWN, Conduct.COLLUDES, Conduct.ACCUSES, Conduct.STALLS)
"""Who says something else than what it finds."""
OTHERS = (Conduct.ABSENT, Conduct.SILENT, *FALSE)


class Swap(enum.StrEnum):
    """How a false request comes into an envelope."""

    SHOWN = "in place of the one that the receipt names"
    UNSIGNED = "the receipt names it, its client signed another"
    SIGNED = "the receipt names it, a gateway signed it"


class Sealed(enum.StrEnum):
    """For whom and for what an envelope was made."""

    RIGHT = "for this receipt, to the key of its epoch"
    COPIED = "for another receipt"
    LOCKED = "to a key that nobody has"


class Hidden(enum.StrEnum):
    """What the operator keeps of a receipt."""

    NOTHING = "nothing"
    ENVELOPE = "the envelope"
    UNTIL_ASKED = "the envelope until it is demanded"
    NUMBER = "its number, in whose place stands an empty leaf"


@dataclass(frozen=True)
class Course:
    """What becomes of a dispute, as far as anybody may choose."""

    conduct: tuple[tuple[Conduct, ...], ...] = ()
    """Of each round, by members in the order of their seats; who is not named is honest."""
    accusation: int = 0
    """What those say who accuse: 0 another answer, 1 a defect, 2 that nothing is there."""
    appeal: bool = False
    refund: bool = False
    certified: bool = False
    """Whether honest members that are a quorum sign a certificate instead of voting one by one."""


@dataclass(frozen=True)
class Told:
    """One receipt: where it lies, what is kept of it, who asks."""

    question: int = 0
    receipt: frozenset[str] = frozenset()
    request: frozenset[str] = frozenset()
    swap: Swap = Swap.SHOWN
    output: frozenset[str] = frozenset()
    follows: int = 0
    """How far the receipt follows a false output: 0 not at all, 1 tokens_hash, 2 out_hash too."""
    malformed: int | None = None
    beyond: bool = False
    """The request asks for more than the environment allows, and was signed so."""
    sealed: Sealed = Sealed.RIGHT
    hidden: Hidden = Hidden.NOTHING
    twice: bool = False
    """Another receipt is signed with its number."""
    questioned: bool = True
    """By somebody honest: a dispute, or a report of what needs none."""
    demanded: bool = False
    """Its envelope."""
    course: Course = Course()


@dataclass(frozen=True)
class Posted:
    """A batch."""

    told: tuple[Told, ...]
    listed: bool = True
    """Whether its list is where everybody looks."""
    demanded: bool = True
    """Whether somebody honest asks for a list that is not there or does not fit."""
    answered: bool = True
    """Whether the operator answers that."""


Play = tuple[Posted, ...]


def drawn(seed: int) -> Play:
    """One batch or two, of one to four receipts."""
    dice = random.Random(seed)
    return tuple(
        Posted(
            tuple(_receipt(dice) for _ in range(dice.choice((1, 2, 3, 4)))), dice.random() < 0.85, dice.random() < 0.8,
            dice.random() < 0.7,
        )
        for _ in range(dice.choice((1, 2)))
    )  # fmt: skip


def simpler(play: Play) -> Iterator[Play]:
    """Plays that are this one with less in it."""
    for i, posted in enumerate(play):
        before, after = play[:i], play[i + 1 :]
        if before or after:
            yield before + after
        for j, told in enumerate(posted.told):
            others = posted.told[:j], posted.told[j + 1 :]
            if any(others):
                yield (*before, replace(posted, told=others[0] + others[1]), *after)
            for less in _simpler(told):
                yield (*before, replace(posted, told=(*others[0], less, *others[1])), *after)


def _simpler(told: Told) -> Iterator[Told]:
    plain = Told()
    for each in dataclasses.fields(Told):
        if getattr(told, each.name) != getattr(plain, each.name):
            yield replace(told, **{each.name: getattr(plain, each.name)})
    for name in ("receipt", "request", "output"):
        for lie in sorted(getattr(told, name)):
            yield replace(told, **{name: getattr(told, name) - {lie}})
    course = told.course
    for each in dataclasses.fields(Course):
        if getattr(course, each.name) != getattr(plain.course, each.name):
            yield replace(told, course=replace(course, **{each.name: getattr(plain.course, each.name)}))
    for i, conduct in enumerate(course.conduct):
        for j, said in enumerate(conduct):
            if said is not Conduct.HONEST:
                less = (*conduct[:j], Conduct.HONEST, *conduct[j + 1 :])
                yield replace(told, course=replace(course, conduct=(*course.conduct[:i], less, *course.conduct[i + 1 :])))


def _receipt(dice: random.Random) -> Told:
    """A third of them true, others with lies in one record or in several, or with something kept back."""
    questioned, demanded = dice.random() < 0.8, dice.random() < 0.2
    told = Told(question=dice.randrange(QUESTIONS), questioned=questioned, demanded=demanded, course=_course(dice))
    if dice.random() < 0.35:
        return told
    return replace(
        told, receipt=_few(dice, 0.4, tuple(sorted(RECEIPT_LIES))), request=_few(dice, 0.25, REQUEST_FIELDS),
        swap=dice.choice(tuple(Swap)), output=_few(dice, 0.5, OUTPUT_FIELDS), follows=dice.choice((0, 1, 2, 2)),
        malformed=dice.randrange(len(MALFORMED)) if dice.random() < 0.05 else None,
        beyond=dice.random() < 0.05, sealed=dice.choice(tuple(Sealed)) if dice.random() < 0.1 else Sealed.RIGHT,
        hidden=dice.choice(tuple(Hidden)) if dice.random() < 0.25 else Hidden.NOTHING, twice=dice.random() < 0.1,
    )  # fmt: skip


def _few(dice: random.Random, chance: float, names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(dice.sample(names, dice.choice((1, 1, 2, 3)))) if dice.random() < chance else frozenset()


def _course(dice: random.Random) -> Course:
    """Up to four rounds are told; all others are honest. Now and then friends are many."""
    often = dice.choice((0.1, 0.4, 0.8))
    rounds = tuple(
        tuple(dice.choice(OTHERS) if dice.random() < often else Conduct.HONEST for _ in range(5))
        for _ in range(dice.choice((0, 1, 2, 3, 4)))
    )
    return Course(rounds, dice.randrange(3), dice.random() < 0.25, dice.random() < 0.1, dice.random() < 0.05)

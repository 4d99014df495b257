"""Who runs in the demo, with which stakes, times and questions. Every figure of the demo is here."""

from dataclasses import dataclass
from pathlib import Path

from chain.params import DEVNET

ETHER = 10**18

VERIFIERS = ("ada", "ben", "cleo", "dan", "eva")
OPERATORS = ("honest", "dishonest")
SHARDS = 3
THRESHOLD = 2
CHAIN_ID = 31337
MAX_TOKENS = 64
"""Answers are at least this long: the model's stop token is practically never drawn."""

GATE_RUNS, GATE_TRAFFIC, GATE_TOKENS = 2, 2, 16
"""The gate at the end: identical requests of each kind alone and again in traffic, different ones beside each, tokens."""

STAKE_WEI = {"honest": 40 * ETHER, "dishonest": 40 * ETHER, **{name: 10 * ETHER for name in VERIFIERS}}
FUNDS_WEI = 100 * ETHER
"""Given to every account by the development chain."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request of the demo's users."""

    operator: str
    """Whom to ask."""
    text: str
    """The user message; at least 64 tokens, one token a byte."""
    temperature: float
    """0 is greedy."""
    top_p: float
    """Nucleus mass."""
    seed: int
    """Sampler seed."""


def questions(canary: str) -> tuple[Question, ...]:
    """Five for the honest operator (two sampled, one holding the canary) and three for the dishonest one."""
    honest = (
        f"Please remember the code word {canary} and tell me a short story about a lighthouse keeper and the sea.",
        "Explain to a new colleague, in simple words, why a receipt is worth more than a promise in a network of strangers.",
        "Write three sentences about the weather on a mountain where nobody has ever been, and do not mention any snow.",
        "Which questions should a careful reader ask before believing an answer that a machine gave to somebody else?",
        "Describe the colour of an old harbour at five in the morning to a person who has only ever lived in a desert.",
    )
    dishonest = (
        "Summarise the rules of a fair auction in one paragraph, for people who have never heard the word bid before.",
        "Give me a recipe for bread that needs no oven, and say why each step matters for the crust and for the crumb.",
        "Translate the idea of a stake that can be lost into the language of a village market with honest neighbours.",
    )
    sampled = (False, True, False, True, False)
    return (
        *(Question("honest", text, 0.8 if hot else 0.0, 0.9 if hot else 1.0, 7 + i)
          for i, (text, hot) in enumerate(zip(honest, sampled, strict=True))),
        *(Question("dishonest", text, 0.0, 1.0, 90 + i) for i, text in enumerate(dishonest)),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """How the demo was asked to run."""

    adversary: bool
    """False: both operators are honest (the demo must then fail, naming the missing facts)."""
    audits: bool
    """False: verifiers post no light audits."""
    watchtower: bool
    """False: nobody opens disputes on audits."""
    keep: bool
    """True: the network stays up and its endpoints are printed."""
    folder: Path
    """Where the run's files go."""


PARAMS = {
    **DEVNET,
    "window": 45,
    "commitTime": 30,
    "revealTime": 25,
    "executionBound": 15,
    "auditUnit": 10 * ETHER,
    "auditRateBps": 9000,
    "slashAmount": 8 * ETHER,
    "minOperatorStake": 8 * ETHER,
}
"""The development parameters, shortened so that the whole story fits into two minutes. One audit seat is one verifier's stake."""

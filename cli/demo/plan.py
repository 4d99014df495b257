"""The plan of the demo: actors, stakes, times, questions and options."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bytewise.protocol import digests
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.digests import Label
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.units import Digest
from chain.deployment.params import DEVNET, with_changes
from chain.deployment.plan import DEVNET_SHAPE, Shape

ETHER = 10**18

VERIFIERS = ("ada", "ben", "cleo", "dan", "eva")
OPERATORS = ("honest", "dishonest")
SHARDS = 3
THRESHOLD = 2
CHAIN_ID = 31337
MODEL_NAME = "lighthouse"
MAX_TOKENS = 64
"""Most tokens of an answer. The model itself would end later."""

FREQUENCY_PENALTY = 0.8
"""Frequency penalty of every request. Without this penalty, a small model that always takes the likeliest token repeats one
sentence for ever."""

GATE_RUNS, GATE_TRAFFIC, GATE_TOKENS = 2, 2, 16
"""Options of `bytewise gate` at the end of the demo: the identical requests of each kind, the number of other requests beside
each, and the tokens of an answer."""

STAKE_WEI = {"honest": 40 * ETHER, "dishonest": 80 * ETHER, **{name: 11 * ETHER for name in VERIFIERS}}
"""Stakes in wei. The dishonest operator has enough stake to serve after the slash of each fraud. A verifier has more stake than
an audit seat needs, so that the chain still draws the verifier for audits after a penalty."""
FUNDS_WEI = 100 * ETHER
"""Wei that the development chain gives to every account."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request of the demo's users."""

    operator: str
    """Name of the operator that gets the request."""
    text: str
    """The user message. It has at least 64 tokens."""
    temperature: float
    """Temperature of the sampler. At 0 the likeliest token is always taken."""
    top_p: float
    """Parameter `top_p` of the request: the share of probability from which the sampler draws."""
    seed: int
    """Seed of the sampler."""


def questions(canary: str) -> tuple[Question, ...]:
    """Returns nine questions: five for the honest operator, of which two are sampled, and four for the dishonest operator. The
    first question contains the random word `canary`."""
    honest = (
        f"Please remember the code word {canary} and tell me about the with statement: what happens when the block is left, who "
        "closes the file, what becomes of an exception that was raised inside, and why that is better than closing it by hand "
        "at the end of the function?",
        "What is a generator? Explain to a new colleague, in simple words, how a function with the yield statement returns an "
        "iterator, when the body of the function runs, what is kept between two values, and what happens when there is nothing "
        "more to return. A few clear sentences and the names of the functions to read about next would help most.",
        "Explain the difference between a list and a tuple. Which of the two can be changed after it was made, which can be the "
        "key of a dictionary, what does it cost to append an item to each of them, and when should a careful programmer prefer "
        "the one to the other? Please say it so that somebody who has never written a program can follow.",
        "What is a thread? Describe what a lock is for, how two threads that wait for each other can stop a whole program, what "
        "the global interpreter lock has to do with it, and when it would be better to start several processes instead of "
        "several threads. Begin with the simplest example that you can think of, please.",
        "Tell me about regular expressions. What does a pattern match, how are groups written and used in a replacement, what "
        "is the difference between search and match, and why are raw strings used for the patterns in nearly every example of "
        "the documentation? I have read the chapter twice and still mix up the two functions.",
    )
    dishonest = (
        "What is a module? Explain where the interpreter looks for the file when a program says import, what is stored in the "
        "cache beside it, what a package is, and how the names of a module are found by the functions that are defined in it. "
        "My own program finds the wrong file, and I do not see why.",
        "Explain exceptions. How does a program raise one, which handler is chosen when several could match, when is the finally "
        "clause executed, and what should a library do with an error that it does not understand and cannot repair by itself? "
        "Please name the classes that every programmer should know.",
        "Tell me about dictionaries. What may be a key and what may not, in which order are the items returned, what happens "
        "when a key is missing, and how can a program count the words of a text with a class of the collections module? "
        "A short answer will do, if it is a good one.",
        "What is an iterator? Describe the two methods that an object of that kind must have, what the for statement does with "
        "them, how the end is announced, and what the difference is between an iterator and the list that it was made from. "
        "I would like to write one of my own for the lines of several files.",
    )
    sampled = (False, True, False, True, False)
    return (
        *(Question("honest", text, 0.8 if hot else 0.0, 0.9 if hot else 1.0, 7 + i)
          for i, (text, hot) in enumerate(zip(honest, sampled, strict=True))),
        *(Question("dishonest", text, 0.0, 1.0, 90 + i) for i, text in enumerate(dishonest)),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run of the demo."""

    adversary: bool
    """True if the second operator cheats. If it is False, both operators are honest, and the demo must fail with missing
    facts."""
    audits: bool
    """True if verifiers run light audits."""
    watchtower: bool
    """True if the watchtower opens disputes."""
    epoch: int
    """Number of the key epoch that the shards make. The number selects the kind of key (`bytewise.protocol.suites`)."""
    keep: bool
    """True if the network stays up after the demo and its endpoints are printed."""
    folder: Path
    """Folder of the run's files."""
    database_server: str = ""
    """URL of a PostgreSQL server for the databases of all actors. If it is empty, each actor has a SQLite database."""


PARAMS = with_changes(DEVNET, {
    "times": {"window": 95, "commit_time": 45, "reveal_time": 25, "execution_bound": 15, "appeal_time": 6, "airgap": 6},
    "money": {"audit_unit": 10 * ETHER, "slash_amount": 8 * ETHER, "min_operator_stake": 8 * ETHER},
    "shares": {"audit_rate_bps": 9_000},
})  # fmt: skip
"""The parameters for development with shorter times, so that the demo takes minutes. Each verifier has one audit seat."""

SHAPE = replace(DEVNET_SHAPE, epoch_blocks=20, lookahead=2, shortest=2)
"""Lengths in blocks that the deployment fixes. The stake epoch is short, so that a dispute waits at most twenty blocks for its
seed."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a demo network is built with: parameters of the contracts, values that a deployment never changes, and money."""

    params: ParamSet
    """Parameters of the contracts."""
    shape: Shape
    """Values that no vote can change: lengths in blocks, the stake per unit, the first price limits."""
    stake_wei: Mapping[str, int]
    """Stake of each operator and verifier in wei, by name."""
    funds_wei: int
    """Wei that the development chain gives to every account."""


TERMS = Terms(PARAMS, SHAPE, STAKE_WEI, FUNDS_WEI)
"""The terms of the demo's network on an idle machine."""

_DEADLINES = ("window", "max_anchor_delay", "draw_time", "commit_time", "reveal_time", "rerun_time", "execution_bound")
_UNNOTICED, _MOST = 1.6, 5.0


def pace_of(slowdown: float) -> float:
    """Returns the factor for all deadlines on a machine on which a computation takes `slowdown` times as long as on an idle
    machine.

    The factor is 1 up to a slowdown of 1.6, because the deadlines of `TERMS` are long enough for that. The factor is at most 5,
    so that a run ends within a quarter of an hour.
    """
    return 1.0 if slowdown <= _UNNOTICED else min(slowdown, _MOST)


def terms_at(pace: float) -> Terms:
    """Returns `TERMS` with deadlines that are `pace` times as long, in whole seconds. The other times stay the same."""
    times = {name: round(getattr(PARAMS.times, name) * pace) for name in _DEADLINES}
    return replace(TERMS, params=with_changes(PARAMS, {"times": times}))


def pool_of(place: Environment) -> Digest:
    """Returns the digest of the pool of verifiers that check answers of this environment's arithmetic profile."""
    return digests.labelled(Label.POOL, place.profile.encode())

"""Decides from the contracts' state whether a transaction may be signed, and what a contract's refusal means for it.

The result is a `chain.sending.sender.StateAnswer`.
"""

from collections.abc import Callable
from typing import Any

from bytewise.protocol.address_book import Network
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.errors.actors import ChainReverted
from bytewise.storage.outbox import Intent
from chain.acts.disputes import ROUND_FUNCTIONS
from chain.client.access import Chain
from chain.client.artifacts import Reason, interface
from chain.client.rpc import reading_answer
from chain.sending.sender import StateAnswer

_COURT_STEPS = frozenset({"draw", "rearm", "settle"})
"""Functions of `Disputes` that are steps of a round. If the round is over, another account has made the step. The functions of
`Rounds` (`ROUND_FUNCTIONS`) are different: after their phase it is too late for them."""

_SUBJECT_BYTES = 34
"""Length of a dispute id (32) and a round number (2)."""


def check_round(client: Chain, network: Network) -> Callable[[Intent], StateAnswer]:
    """Returns a check of a planned transaction: is the dispute still in the round for which the transaction was planned? The
    check reads the round from the transaction's subject, because the calldata does not contain it."""

    def check(intent: Intent) -> StateAnswer:
        steps = {network.addresses.disputes: _COURT_STEPS, network.addresses.rounds: ROUND_FUNCTIONS}
        if intent.function not in steps.get(intent.contract, ()):
            return StateAnswer.GO
        dispute, round_number = intent.subject[:32], int.from_bytes(intent.subject[32:_SUBJECT_BYTES], "big")
        view = client.call("Lens", network.addresses.lens, "disputeView", dispute, block="latest")
        if view["dispute"]["round"] < round_number:
            return StateAnswer.WAIT
        is_counted = view["phase"] == Phase.FINAL or (intent.function in ROUND_FUNCTIONS and view["phase"] > Phase.REVEAL)
        later = view["dispute"]["round"] > round_number or is_counted
        return _too_late(intent.function) if later else _next_part(intent, view)

    return check


def _next_part(intent: Intent, view: Any) -> StateAnswer:
    """Returns DONE if the seats of a planned draw are drawn already, or if a later seed takes the place of the planned one; else
    GO."""
    if intent.function != "draw":
        return StateAnswer.GO
    first, seed = (int.from_bytes(part, "big") for part in (intent.subject[34:36], intent.subject[36:44]))
    done = view["round"]["drawn"] > first or view["round"]["seedBlock"] != seed
    return StateAnswer.DONE if done else StateAnswer.GO


_REFUSAL_RULES = {
    "open": "WAIT WindowOpen, DONE AlreadyDisputed AlreadyOpened, LATE WindowClosed",
    "join": "WAIT StakeTooSmall, DONE AlreadyVerifier",
    "draw": "WAIT SeedTooEarly SeedOutsideEpoch, DONE NoProgress, LATE SeedExpired WrongHeader",
    "rearm": "DONE SeedReadable",
    "commit": "WAIT NotVoting, DONE AlreadyCommitted, LATE TooLate",
    "commitFor": "WAIT NotVoting, LATE TooLate",
    "postCommitRoot": "WAIT NotVoting, LATE TooLate",
    "certify": "WAIT NotVoting TooEarly, DONE AlreadyCertified, LATE TooLate",
    "reveal": "WAIT NotVoting TooEarly, DONE AlreadyRevealed, LATE TooLate",
    "revealMany": "WAIT NotVoting TooEarly, LATE TooLate",
    "revealUnderRoot": "WAIT NotVoting TooEarly, DONE AlreadyRevealed, LATE TooLate",
    "settle": "WAIT TooEarly",
    "appeal": "DONE AlreadyAppealed, LATE TooLate LastLevel",
    "openAlt": "DONE NoProgress, LATE TooLate",
    "finalize": "WAIT TooEarly Held",
    "payOut": "WAIT NotArrived NotEnded, DONE AlreadyPaid",
    "settleSeats": "WAIT NotEnded, DONE NoProgress",
    "release": "WAIT WindowOpen BatchHeld, DONE AlreadyReleased",
    "demandList": "DONE AlreadyDemanded, LATE WindowClosed",
    "demandEnvelope": "DONE AlreadyDemanded, LATE WindowClosed",
    "demandAnchor": "WAIT TooEarly, DONE AlreadyDemanded NumberAnchored",
    "answerList": "DONE NotDemanded, LATE TooLate",
    "answerEnvelope": "DONE NotDemanded, LATE TooLate",
    "answerAnchor": "DONE NotDemanded, LATE TooLate",
    "expire": "WAIT TooEarly, DONE NotDemanded AlreadyPunished NothingToSlash",
    "collect": "WAIT NotArrived PaymentShort, DONE NothingToCollect NothingOwed",
    "retry": "DONE NothingDue",
    "equivocation": "DONE AlreadyPunished NothingToSlash",
    "reportSkipped": "DONE AlreadyPunished NothingToSlash",
    "post": (
        "WAIT BeaconTooEarly PoolTooSmall StakeTooSmall FeeMismatch, DONE AlreadyAudited, "
        "LATE WindowClosed BeaconExpired AlreadyDisputed"
    ),
    "claim": "WAIT RateLimited PoolEmpty NobodyAgrees NotRight DisputePending, DONE AlreadyPaid",
    "withdraw": "DONE NothingDue",
    "finishUnbond": "WAIT StakeBound, DONE NothingUnbonded",
    "quit": "DONE NotVerifier",
    "refresh": "DONE NotVerifier",
    "register": "DONE KeyTaken",
    "notePlace": "WAIT NoPlaceToNote",
}
"""For each function: answers, each with the contract errors that lead to it. `_classify_reason` has the errors that mean the same
for every function. Every other error leads to REFUSED. Contracts may share names of functions, but not names of errors."""

_MEANINGS = {
    (function, error): StateAnswer[answer]
    for function, rules in _REFUSAL_RULES.items()
    for answer, *errors in (rule.split() for rule in rules.split(", "))
    for error in errors
}


@reading_answer("reason of a revert")
def classify(function: str, error: ChainReverted) -> StateAnswer:
    """Decides what a contract's refusal of a dry run means for the transaction. An unknown refusal gives REFUSED, which ends the
    row without success."""
    reason = error.values[2] if len(error.values) > 2 else None
    if not isinstance(reason, Reason):
        return StateAnswer.REFUSED
    if reason.name == "CallFailed":
        return _classify_together(reason)
    return _classify_reason(function, reason)


def _classify_together(reason: Reason) -> StateAnswer:
    """Decides what the refusal of several calls made together means.

    If the first call was refused, it would also be refused alone. If a later call was refused, the answer is REFUSED. The next
    request for the first call then plans that call alone (`DisputeTransactions`).
    """
    function = _FUNCTIONS.get(bytes(reason.arguments["selector"]))
    if reason.arguments["index"] or function is None:
        return StateAnswer.REFUSED
    return _classify_reason(function, Reason.of(bytes(reason.arguments["reason"])))


def _classify_reason(function: str, reason: Reason) -> StateAnswer:
    """Decides what one custom error of a contract means for the transaction."""
    if reason.name == "NotNow":
        # A pause ends by itself.
        return StateAnswer.WAIT
    if reason.name == "WrongPhase":
        return _wrong_phase(function, Phase(reason.arguments["have"]))
    if reason.name == "SequenceGap":
        # Lower numbers are anchored already. Higher numbers wait for the batch before.
        return StateAnswer.DONE if reason.arguments["have"] < reason.arguments["want"] else StateAnswer.WAIT
    return _MEANINGS.get((function, reason.name), StateAnswer.REFUSED)


_FUNCTIONS = {
    interface(contract).selector(function): function for contract, function in (("Disputes", "finalize"), ("Rounds", "certify"))
}
"""Functions that can be the first of several calls made together, by their selectors."""

_BEFORE = {
    "settle": Phase.COMMIT, "appeal": Phase.APPEAL, "openAlt": Phase.APPEAL, "finalize": Phase.AIRGAP,
}  # fmt: skip
"""First phase in which a function can be due. Before it, the transaction waits."""


def _wrong_phase(function: str, have: Phase) -> StateAnswer:
    # Phase NONE: this node's chain does not have the opening of the dispute yet. `check_round` handles a dispute whose round goes
    # back to SEED.
    if have is Phase.NONE or have < _BEFORE.get(function, Phase.NONE):
        return StateAnswer.WAIT
    return _too_late(function)


def _too_late(function: str) -> StateAnswer:
    return StateAnswer.LATE if function in ROUND_FUNCTIONS else StateAnswer.DONE

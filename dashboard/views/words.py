"""Words for codes: phases, verdicts, votes, outcomes. A page shows each code in words, and never by colour alone."""

from collections.abc import Mapping
from typing import Any

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import SeatOutcome
from bytewise.protocol.errors.records import Defect
from bytewise.protocol.records.statements import CannotReason, Outcome, Verdict

PHASES = {
    Phase.NONE: "does not exist",
    Phase.SEED: "waits for a block that nobody could choose",
    Phase.DRAWING: "the committee is being drawn",
    Phase.COMMIT: "members re-execute and commit",
    Phase.REVEAL: "members open their votes",
    Phase.APPEAL: "may be appealed",
    Phase.AIRGAP: "waits before money moves",
    Phase.FINAL: "final",
}

VERDICTS = {
    Verdict.NONE: "not decided",
    Verdict.UPHELD: "the receipt is right",
    Verdict.OVERTURNED: "the receipt is wrong: a committee found another answer",
    Verdict.INVALID: "the receipt is wrong: the sealed request or answer does not match the receipt",
    Verdict.UNAVAILABLE: "the operator withheld the data",
    Verdict.DRAW: "nobody could decide",
    Verdict.REFUNDED: "the guardian ended it and everybody got its money back",
}

OUTCOMES = {
    Outcome.EXECUTED: "re-executed the request",
    Outcome.INVALID: "found a defect",
    Outcome.UNAVAILABLE: "found no data",
    Outcome.NO_KEY: "got no key from the shards",
    Outcome.CANNOT_EXECUTE: "cannot execute it on this machine",
}

SEATS = {
    SeatOutcome.NONE: "not settled",
    SeatOutcome.RIGHT: "right, paid",
    SeatOutcome.WORKED: "worked",
    SeatOutcome.NEUTRAL: "neutral",
    SeatOutcome.ABSENT: "absent, charged",
    SeatOutcome.NOT_REVEALED: "not revealed, charged",
    SeatOutcome.WRONG: "wrong, charged",
}

_EVENTS = {
    "DisputeOpened": "A receipt of batch {batchId} is disputed.",
    "Appealed": "The verdict is appealed.",
    "BatchAnchored": "Batch {batchId} of {header[count]} receipts is anchored.",
    "BatchVoided": "Batch {batchId} is void: its list was not shown.",
    "SeatsDrawn": "Seats of round {round} are drawn.",
    "CommitOpened": "Round {round} is seated: members may commit.",
    "Committed": "A member committed in round {round}.",
    "Revealed": "A member opened its vote in round {round}.",
    "Certified": "One signature speaks for {seats} seats of round {round}.",
    "AltOpened": "The challenger showed that it knew the answer.",
    "Ended": "The money of the dispute is split.",
    "Paid": "Bonds and shares are credited.",
    "SeatsSettled": "Seats of round {round} are paid or charged.",
    "Demanded": "Somebody demands a list, an envelope or an unanchored receipt of an operator.",
    "Answered": "The demand is answered.",
    "Expired": "Nobody answered the demand in time.",
    "ParamsSet": "Version {version} of the parameters is in force.",
    "Paused": "The guardian paused the network.",
    "Unpaused": "The network runs again.",
    "BreakerTripped": "The breaker tripped in an environment.",
    "VerifierJoined": "A verifier joined.",
    "VerifierLeft": "A verifier left.",
    "OperatorRegistered": "An operator registered.",
}
"""Sentences of events; names in braces are the event's arguments."""


def event_words(name: str, arguments: Mapping[str, Any]) -> str:
    """Returns a sentence that describes an event. Returns empty text if this kind of event has no sentence."""
    try:
        if name in ("Decided", "Finalized"):
            verdict = Verdict(int(arguments["verdict"])).name.lower()
            return f"The verdict is {verdict}{' for now' if name == 'Decided' else ', for good'}."
        if name == "Settled":
            verdict = Verdict(int(arguments["verdict"])).name.lower()
            return f"Round {arguments['round']} is counted: {'no verdict' if verdict == 'none' else verdict}."
        if name == "ItemMoved":
            return f"An environment or model is {ITEM_STATES[int(arguments['to'])]}."
        if name == "EpochMoved":
            return f"Key epoch {arguments['epoch']} is {EPOCH_STATES[int(arguments['to'])]}."
        return _EVENTS.get(name, "").format(**arguments)
    except (LookupError, ValueError, TypeError):
        return ""


ASSURANCES = {0: "unknown", 1: "simulated", 2: "hardware"}
AUDIT_RESULTS = {1: "match", 2: "mismatch", 3: "none"}
DEMAND_KINDS = {1: "list", 2: "envelope", 3: "anchor"}
DEMAND_STATES = {1: "open", 2: "answered", 3: "expired"}
ITEM_STATES = {0: "none", 1: "proposed", 2: "active", 3: "closed"}
EPOCH_STATES = {0: "none", 1: "pending", 2: "active", 3: "draining", 4: "retired", 5: "compromised"}

DEFECTS = {each.code: (each.__doc__ or "").partition(".")[0].partition(" (")[0] for each in Defect.__subclasses__()}
"""Meanings of the codes of INVALID votes."""


def code_words(outcome: int, code: int) -> str:
    """Returns the content of a vote in words: its outcome, and its code if it has one."""
    if outcome not in tuple(Outcome):
        return "" if outcome == 0 else f"outcome {outcome}"
    said = OUTCOMES[Outcome(outcome)]
    if not code:
        return said
    if outcome == Outcome.CANNOT_EXECUTE and code in tuple(CannotReason):
        return f"{said}: {CannotReason(code).name.lower().replace('_', ' ')}"
    if outcome == Outcome.INVALID and code in DEFECTS:
        return f"{said}: {DEFECTS[code]}"
    return f"{said}: code {code}"

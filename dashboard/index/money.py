"""Handlers that compute the facts of money from events: stake, credits, and sums of the ledger.

The ledger contract keeps money in pots. A pot is a balance for one purpose, for example one dispute, demand or report.
"""

from collections.abc import Callable, Mapping
from typing import Any

from bytewise.storage.index.tables import BatchFact, CreditFact, DisputeFact, LedgerFact, StakeFact
from dashboard.index.fold import HANDLERS, Handler, Moment

POTS, CREDITS, TREASURY, BURNED, FUNDED = "pots", "credits", "treasury", "burned", "funded"
"""Names of the facts that hold sums of the ledger, in wei. `funded` is the sum of all money that was ever given to the
treasury."""

SOURCES = ("none", "bond", "appeal bond", "demand bond", "slash", "penalty", "advance", "fee")
"""Words for the codes of `ILedger.Source`: why money entered a pot. A seat's penalty has the code of a slash."""
REASONS = ("none", "bond back", "challenger's share", "seat pay", "operator's share", "report", "demand answered", "bounty")
"""Words for the codes of `ILedger.Reason`: why an account was credited."""
BURN_REASONS = ("none", "remainder", "penalty", "report")
"""Words for the codes of `ILedger.BurnReason`: why money was burned. Only penalties of seats are burned as `penalty`."""
SEAT_PENALTY = "seat penalty"
"""Word for the penalty of a seat, where people see it."""


@HANDLERS.on("Ledger", "Taken")
def taken(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds money that entered a pot to the sum of all pots, and to the sum for its source."""
    _move(at, v["amount"], POTS)
    _note(at, "taken", SOURCES, v["source"], v["amount"])


@HANDLERS.on("Ledger", "Credited")
def credited(at: Moment, v: Mapping[str, Any]) -> None:
    """Moves money from a pot to the credit of an account, and counts it by its reason."""
    _move(at, v["amount"], CREDITS, POTS)
    _note(at, "credited", REASONS, v["reason"], v["amount"])
    at.facts.add(CreditFact, v["account"], owed=v["amount"], earned=v["amount"])


@HANDLERS.on("Ledger", "CreditedEach")
def credited_each(at: Moment, v: Mapping[str, Any]) -> None:
    """Moves one amount from a pot to the credit of each account in the event. An account that the event names twice gets the
    amount twice."""
    total = v["amount"] * len(v["accounts"])
    _move(at, total, CREDITS, POTS)
    _note(at, "credited", REASONS, v["reason"], total)
    for account in v["accounts"]:
        at.facts.add(CreditFact, account, owed=v["amount"], earned=v["amount"])


@HANDLERS.on("Ledger", "Burned")
def burned(at: Moment, v: Mapping[str, Any]) -> None:
    """Moves money from a pot to the burned sum, and counts it by its reason. Burned money can never leave the ledger."""
    _move(at, v["amount"], BURNED, POTS)
    _note(at, "burned", BURN_REASONS, v["reason"], v["amount"])


@HANDLERS.on("Ledger", "Advanced")
def advanced(at: Moment, v: Mapping[str, Any]) -> None:
    """Moves money from the treasury to a pot. The treasury advances the fees of later rounds."""
    _move(at, v["amount"], POTS, TREASURY)


@HANDLERS.on("Ledger", "Repaid")
def repaid(at: Moment, v: Mapping[str, Any]) -> None:
    """Moves money from a pot back to the treasury, which repays an advance."""
    _move(at, v["amount"], TREASURY, POTS)


@HANDLERS.on("Ledger", "Funded")
def funded(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds money that somebody gave to the treasury."""
    _move(at, v["amount"], TREASURY)
    at.facts.add(LedgerFact, FUNDED, amount=v["amount"])


@HANDLERS.on("Ledger", "Withdrawn")
def withdrawn(at: Moment, v: Mapping[str, Any]) -> None:
    """Subtracts money that was paid to an account from the account's credit."""
    at.facts.add(LedgerFact, CREDITS, amount=-v["amount"])
    at.facts.add(CreditFact, v["account"], owed=-v["amount"], withdrawn=v["amount"])


def _move(at: Moment, amount: int, to: str, source: str | None = None) -> None:
    at.facts.add(LedgerFact, to, amount=amount)
    if source is not None:
        at.facts.add(LedgerFact, source, amount=-amount)


def _note(at: Moment, what: str, words: tuple[str, ...], code: int, amount: int) -> None:
    word = words[code] if code < len(words) else f"code {code}"
    at.facts.add(LedgerFact, f"{what}: {word}", amount=amount)


# --- stake, in the network's own vault or at EigenLayer ---


def _on_stake(*events: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for contract in ("StakeVault", "EigenLayerStake"):
            HANDLERS.on(contract, *events)(handler)
        return handler

    return register


@_on_stake("Deposited", "Synced")
def stake_set(at: Moment, v: Mapping[str, Any]) -> None:
    """Sets the stake of an account to the amount that the event states. The event `Synced` states stake at EigenLayer. Such a
    record of stake counts for a limited number of blocks, so the fact also has the block of the event."""
    synced = at.block if at.event.name == "Synced" else None
    at.facts.put(StakeFact, v["account"], active=v["stake"], synced_block=synced)


def is_lapsed(stake: Mapping[str, Any], life: int | None, block: int) -> bool:
    """Returns whether an account's record of stake at EigenLayer is too old to count at a block. `life` is the number of blocks
    for which a record counts; -1 means that no record counts. `life` is None if nobody knows that number. Then every record
    counts."""
    synced = stake["synced_block"]
    return life is not None and synced is not None and block - synced > life


@_on_stake("UnbondRequested")
def unbond_requested(at: Moment, v: Mapping[str, Any]) -> None:
    """Subtracts stake that an account begins to withdraw, because such stake no longer counts. For stake at EigenLayer it does
    nothing, because the next `Synced` event states the stake that is left."""
    if at.event.contract == "StakeVault":
        at.facts.add(StakeFact, v["account"], active=-v["amount"])


@_on_stake("Slashed")
def slashed(at: Moment, v: Mapping[str, Any]) -> None:
    """Subtracts slashed stake. If a dispute slashes its operator, also ends the lock of that dispute. For stake at EigenLayer the
    active stake stays as it is, because the next `Synced` event states the stake that is left."""
    if at.event.contract == "StakeVault":
        at.facts.add(StakeFact, v["account"], active=-v["taken"])
    dispute = at.facts.find(DisputeFact, v["ref"])
    unlocked_now = dispute["operator_locked"] if dispute and dispute["operator"] == v["account"] else 0
    at.facts.add(StakeFact, v["account"], slashed=v["taken"], locked=-unlocked_now)


@_on_stake("Locked")
def locked(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds stake of an account to the stake that open disputes lock. Records the amount with the dispute, too."""
    at.facts.add(StakeFact, v["account"], locked=v["amount"])
    at.facts.amend(DisputeFact, v["ref"], operator_locked=v["amount"])


@_on_stake("Unlocked")
def unlocked(at: Moment, v: Mapping[str, Any]) -> None:
    """Subtracts locked stake that a dispute sets free."""
    at.facts.add(StakeFact, v["account"], locked=-v["amount"])


@_on_stake("Reserved")
def reserved(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds stake that is bound as collateral for the open receipts of a batch."""
    at.facts.add(StakeFact, v["account"], collateral=v["amount"])


@_on_stake("Released")
def released(at: Moment, v: Mapping[str, Any]) -> None:
    """Subtracts collateral of a batch whose challenge window is over, and marks the batch as released."""
    at.facts.add(StakeFact, v["account"], collateral=-v["amount"])
    at.facts.amend(BatchFact, v["batchId"], released=True)


@_on_stake("Obliged")
def obliged(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds stake that an open availability demand binds."""
    at.facts.add(StakeFact, v["account"], obliged=v["amount"])


@_on_stake("Discharged")
def discharged(at: Moment, v: Mapping[str, Any]) -> None:
    """Subtracts stake that an ended availability demand sets free."""
    at.facts.add(StakeFact, v["account"], obliged=-v["amount"])

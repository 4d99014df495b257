"""Facts of money: stake, credits, and the sums that the ledger keeps."""

from collections.abc import Callable, Mapping
from typing import Any

from bytewise.storage.index.tables import BatchFact, CreditFact, DisputeFact, LedgerFact, StakeFact
from dashboard.index.fold import HANDLERS, Handler, Moment

POTS, CREDITS, TREASURY, BURNED, FUNDED = "pots", "credits", "treasury", "burned", "funded"
"""Sums of the ledger, by the names of their facts; `funded` is all that was given to the treasury."""

SOURCES = ("none", "bond", "appeal bond", "demand bond", "slash", "penalty", "advance", "fee")
"""`ILedger.Source` in words."""
REASONS = ("none", "bond back", "challenger's share", "seat pay", "operator's share", "report", "demand answered", "bounty")
"""`ILedger.Reason` in words."""
BURN_REASONS = ("none", "remainder", "penalty", "report")
"""`ILedger.BurnReason` in words."""


@HANDLERS.on("Ledger", "Taken")
def taken(at: Moment, v: Mapping[str, Any]) -> None:
    """Money entered a pot."""
    _move(at, v["amount"], POTS)
    _note(at, "taken", SOURCES, v["source"], v["amount"])


@HANDLERS.on("Ledger", "Credited")
def credited(at: Moment, v: Mapping[str, Any]) -> None:
    """Money of a pot is owed to an account."""
    _move(at, v["amount"], CREDITS, POTS)
    _note(at, "credited", REASONS, v["reason"], v["amount"])
    at.facts.add(CreditFact, v["account"], owed=v["amount"], earned=v["amount"])


@HANDLERS.on("Ledger", "CreditedEach")
def credited_each(at: Moment, v: Mapping[str, Any]) -> None:
    """The same for several accounts, as often as each is named."""
    total = v["amount"] * len(v["accounts"])
    _move(at, total, CREDITS, POTS)
    _note(at, "credited", REASONS, v["reason"], total)
    for account in v["accounts"]:
        at.facts.add(CreditFact, account, owed=v["amount"], earned=v["amount"])


@HANDLERS.on("Ledger", "Burned")
def burned(at: Moment, v: Mapping[str, Any]) -> None:
    """Money that can never leave."""
    _move(at, v["amount"], BURNED, POTS)
    _note(at, "burned", BURN_REASONS, v["reason"], v["amount"])


@HANDLERS.on("Ledger", "Advanced")
def advanced(at: Moment, v: Mapping[str, Any]) -> None:
    """The treasury fills a pot."""
    _move(at, v["amount"], POTS, TREASURY)


@HANDLERS.on("Ledger", "Repaid")
def repaid(at: Moment, v: Mapping[str, Any]) -> None:
    """The treasury gets an advance back."""
    _move(at, v["amount"], TREASURY, POTS)


@HANDLERS.on("Ledger", "Funded")
def funded(at: Moment, v: Mapping[str, Any]) -> None:
    """Somebody gave to the treasury."""
    _move(at, v["amount"], TREASURY)
    at.facts.add(LedgerFact, FUNDED, amount=v["amount"])


@HANDLERS.on("Ledger", "Withdrawn")
def withdrawn(at: Moment, v: Mapping[str, Any]) -> None:
    """An account was paid."""
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
    """Stake that counts, as the contract says it."""
    synced = at.block if at.event.name == "Synced" else None
    at.facts.put(StakeFact, v["account"], active=v["stake"], synced_block=synced)


def is_lapsed(stake: Mapping[str, Any], life: int | None, block: int) -> bool:
    """Whether a record of stake at EigenLayer is too old to count at a block. `life` in blocks; None: not known."""
    synced = stake["synced_block"]
    return life is not None and synced is not None and block - synced > life


@_on_stake("UnbondRequested")
def unbond_requested(at: Moment, v: Mapping[str, Any]) -> None:
    """Stake that counts no more. At EigenLayer the next `Synced` says what is left."""
    if at.event.contract == "StakeVault":
        at.facts.add(StakeFact, v["account"], active=-v["amount"])


@_on_stake("Slashed")
def slashed(at: Moment, v: Mapping[str, Any]) -> None:
    """Stake is taken; a lock for this dispute ends with it."""
    if at.event.contract == "StakeVault":
        at.facts.add(StakeFact, v["account"], active=-v["taken"])
    dispute = at.facts.find(DisputeFact, v["ref"])
    unlocked_now = dispute["operator_locked"] if dispute and dispute["operator"] == v["account"] else 0
    at.facts.add(StakeFact, v["account"], slashed=v["taken"], locked=-unlocked_now)


@_on_stake("Locked")
def locked(at: Moment, v: Mapping[str, Any]) -> None:
    """Stake that an open dispute binds."""
    at.facts.add(StakeFact, v["account"], locked=v["amount"])
    at.facts.amend(DisputeFact, v["ref"], operator_locked=v["amount"])


@_on_stake("Unlocked")
def unlocked(at: Moment, v: Mapping[str, Any]) -> None:
    """It is free again."""
    at.facts.add(StakeFact, v["account"], locked=-v["amount"])


@_on_stake("Reserved")
def reserved(at: Moment, v: Mapping[str, Any]) -> None:
    """Stake that open receipts bind."""
    at.facts.add(StakeFact, v["account"], collateral=v["amount"])


@_on_stake("Released")
def released(at: Moment, v: Mapping[str, Any]) -> None:
    """The window of a batch is over."""
    at.facts.add(StakeFact, v["account"], collateral=-v["amount"])
    at.facts.amend(BatchFact, v["batchId"], released=True)


@_on_stake("Obliged")
def obliged(at: Moment, v: Mapping[str, Any]) -> None:
    """Stake that an open demand binds."""
    at.facts.add(StakeFact, v["account"], obliged=v["amount"])


@_on_stake("Discharged")
def discharged(at: Moment, v: Mapping[str, Any]) -> None:
    """It is free again."""
    at.facts.add(StakeFact, v["account"], obliged=-v["amount"])

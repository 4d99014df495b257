"""Handlers that compute the facts of disputes from events: rounds, seats, votes, verdicts and money."""

from collections.abc import Mapping
from typing import Any

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import PAID, SeatOutcome
from bytewise.protocol.records.statements import Verdict
from bytewise.storage.index.tables import (
    BatchFact,
    DisputeFact,
    ItemFact,
    PlaceFact,
    PoolFact,
    RoundFact,
    SeatFact,
    SettingFact,
    VoteFact,
)
from dashboard.index.fold import HANDLERS, Moment, some, somebody
from dashboard.index.registry import clock_at

NOBODY = 2**16 - 1
"""Position in a stake tree that a contract writes for a seat without a holder (`IStakeTree.NOBODY`)."""

_AMOUNTS = {
    "bond": "bond", "appeal_bond": "appealBond", "advanced": "advanced", "slashed": "slashed", "penalties": "penalties",
    "per_seat": "perSeat", "to_challenger": "toChallenger", "to_appellant": "toAppellant", "to_operator": "toOperator",
    "to_verifiers": "toVerifiers", "repaid": "repaid", "burned": "burned",
}  # fmt: skip
"""The columns of a dispute that hold amounts, each with its member of `ISettlement.Account`."""


@HANDLERS.on("Disputes", "DisputeOpened")
def opened(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds a dispute, with the environment, model, key epoch and parameters version of the receipt's batch."""
    batch = at.facts.find(BatchFact, v["batchId"]) or {}
    params = batch.get("params_version", 0)
    at.facts.put(
        DisputeFact, v["id"], receipt_id=v["receiptId"], operator=v["operator"], challenger=v["challenger"],
        batch_id=v["batchId"], environment=batch.get("environment", b""), model_id=batch.get("model_id", b""),
        key_epoch=batch.get("key_epoch", 0), params_version=params, opened_block=at.block, opened_at=at.timestamp,
        phase=int(Phase.SEED), bond=_required_bond(at, params),
    )  # fmt: skip


@HANDLERS.on("Disputes", "SeedNamed")
def seed_named(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that a round begins, and the block whose mix will draw the round's seats. The contract may name another block
    later in the same round. Then the draw begins again, so this clears the seats that were drawn before."""
    if not at.facts.amend(DisputeFact, v["id"], phase=int(Phase.SEED), level=v["level"], round=v["round"]):
        return
    before = at.facts.find(RoundFact, v["id"], v["round"])
    for seat in range(before["drawn"] if before else 0):
        at.facts.put(SeatFact, v["id"], v["round"], seat, place=NOBODY, voter="")
    at.facts.put(
        RoundFact, v["id"], v["round"], level=v["level"], seats=_seats(at, v["id"], v["level"]), seed_block=v["seedBlock"],
        rearms=v["rearms"], drawn=0,
    )  # fmt: skip


@HANDLERS.on("Disputes", "SeatsDrawn")
def seats_drawn(at: Moment, v: Mapping[str, Any]) -> None:
    """Records the accounts that hold the seats in this event, and moves the dispute to the phase DRAWING. One event may contain
    only some of the round's seats."""
    round_ = at.facts.find(RoundFact, v["id"], v["round"])
    if round_ is None:
        return
    tree = _tree(at, v["id"])
    for seat, place in enumerate(v["places"], v["from"]):
        held = at.facts.find(PlaceFact, tree, place) if place != NOBODY else None
        at.facts.put(SeatFact, v["id"], v["round"], seat, place=place, voter=held["account"] if held else "")
    drawn = v["from"] + len(v["places"])
    at.facts.put(RoundFact, v["id"], v["round"], drawn=drawn, seats=max(drawn, round_["seats"]))
    at.facts.amend(DisputeFact, v["id"], phase=int(Phase.DRAWING))


@HANDLERS.on("Disputes", "CommitOpened")
def commit_opened(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that all seats are drawn, so members may commit from now on."""
    at.facts.amend(
        RoundFact, v["id"], v["round"], seed=bytes(v["seed"]), round_seed=bytes(v["roundSeed"]), commit_end=v["commitEnd"],
        reveal_end=v["revealEnd"],
    )  # fmt: skip
    at.facts.amend(DisputeFact, v["id"], phase=int(Phase.COMMIT))


@HANDLERS.on("Rounds", "Committed")
def committed(at: Moment, v: Mapping[str, Any]) -> None:
    """Records a member's commitment. If this commitment is the last that was missing, the commit phase ends at once, and the
    reveal phase keeps its length."""
    round_ = at.facts.find(RoundFact, v["id"], v["round"])
    if round_ is None:
        return
    at.facts.put(
        VoteFact, v["id"], v["round"], v["voter"], seat_mask=v["seatMask"], commitment=bytes(v["commitment"]),
        committed_block=at.block,
    )  # fmt: skip
    count = round_["committed"] + v["seatMask"].bit_count()
    ends = {}
    if count == round_["seats"] == round_["drawn"]:
        now = clock_at(at.facts.find(SettingFact, "clock"), at.timestamp)
        ends = {"commit_end": now - 1, "reveal_end": now + round_["reveal_end"] - round_["commit_end"]}
    at.facts.put(RoundFact, v["id"], v["round"], committed=count, **ends)


@HANDLERS.on("Rounds", "CommitRootPosted")
def commit_root_posted(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that somebody posted a commit root. The members committed off the chain, and the root does not show which members
    committed."""
    at.facts.amend(RoundFact, v["id"], v["round"], rooted=True)


@HANDLERS.on("Rounds", "Revealed")
def revealed(at: Moment, v: Mapping[str, Any]) -> None:
    """Records a vote that a member revealed. Of the quote in the event the index keeps only hash and size."""
    vote = v["vote"]
    at.facts.put(
        VoteFact, v["id"], v["round"], v["voter"], seat_mask=vote["seatMask"], revealed_block=at.block, said=vote["outcome"],
        code=vote["code"], tokens_hash=some(vote["tokensHash"]), trace_root=some(vote["traceRoot"]),
        round_digest=some(vote["roundDigest"]), quote_hash=some(vote["quoteHash"]), quote_bytes=len(v["quote"]),
    )  # fmt: skip
    at.facts.add(RoundFact, v["id"], v["round"], revealed=vote["seatMask"].bit_count())


@HANDLERS.on("Rounds", "Certified")
def certified(at: Moment, v: Mapping[str, Any]) -> None:
    """Records one vote for each member whose seats signed a certificate. The certificate's BLS signature replaces the single
    votes of these members."""
    finding, mask = v["finding"], v["signers"]
    round_ = at.facts.find(RoundFact, v["id"], v["round"])
    masks: dict[str, int] = {}
    for seat in range(round_["drawn"] if round_ else 0):
        held = at.facts.find(SeatFact, v["id"], v["round"], seat)
        if held is not None and mask >> seat & 1 and held["voter"]:
            masks[held["voter"]] = masks.get(held["voter"], 0) | 1 << seat
    for voter, seats in masks.items():
        at.facts.put(
            VoteFact, v["id"], v["round"], voter, seat_mask=seats, revealed_block=at.block, certified=True,
            said=finding["outcome"], code=finding["code"], tokens_hash=some(finding["tokensHash"]),
            trace_root=some(finding["traceRoot"]), round_digest=some(finding["roundDigest"]),
        )  # fmt: skip
    at.facts.amend(RoundFact, v["id"], v["round"], certified=mask.bit_count())


@HANDLERS.on("Disputes", "Settled")
def settled(at: Moment, v: Mapping[str, Any]) -> None:
    """Records the count of a round's votes. A round with a verdict also becomes the deciding round of its dispute. The challenger
    may open its commitment to the winning answer afterwards, so this records that it has not done so yet."""
    tally = v["tally"]
    at.facts.amend(
        RoundFact, v["id"], v["round"], settled=True, verdict=v["verdict"], equal=tally["equal"], lead=tally["lead"],
        unavailable=tally["unavailable"], no_key=tally["noKey"], cannot_execute=tally["cannotExecute"],
        not_revealed=tally["notRevealed"], absent=tally["absent"], lead_verdict=tally["leadVerdict"],
        lead_key=some(tally["leadKey"]), lead_out_hash=some(tally["leadOutHash"]),
    )  # fmt: skip
    if v["verdict"] != Verdict.NONE:
        at.facts.amend(DisputeFact, v["id"], decided_round=v["round"], knew=False)


@HANDLERS.on("Disputes", "Decided")
def decided(at: Moment, v: Mapping[str, Any]) -> None:
    """Records the verdict that is in force now, and when the appeal time and the airgap end. If the dispute has no appeal time,
    the airgap begins at once."""
    phase = Phase.APPEAL if v["appealEnd"] else Phase.AIRGAP
    at.facts.amend(
        DisputeFact, v["id"], verdict=v["verdict"], appeal_end=v["appealEnd"], airgap_end=v["airgapEnd"], phase=int(phase)
    )


@HANDLERS.on("Disputes", "Appealed")
def appealed(at: Moment, v: Mapping[str, Any]) -> None:
    """Records an appeal: its sender, its bond, and the verdict that it appeals. A larger committee now votes again."""
    dispute = at.facts.find(DisputeFact, v["id"])
    if dispute is not None:
        at.facts.put(
            DisputeFact, v["id"], appellant=v["by"], appealed_verdict=dispute["verdict"], appeal_bond=v["bond"], appeal_end=0,
            airgap_end=0,
        )  # fmt: skip


@HANDLERS.on("Disputes", "AltOpened")
def alternative_opened(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that the challenger opened its commitment to the winning answer. The challenger made this commitment before anybody
    voted."""
    at.facts.amend(DisputeFact, v["id"], knew=True)


@HANDLERS.on("Disputes", "Finalized")
def finalized(at: Moment, v: Mapping[str, Any]) -> None:
    """Records the final verdict of a dispute. If the event names an `out_hash` that replaces the receipt's, records that, too."""
    at.facts.amend(DisputeFact, v["id"], phase=int(Phase.FINAL), verdict=v["verdict"], replacement=some(v["replacement"]))


@HANDLERS.on("Settlement", "Advanced")
def advanced(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds fees that the treasury advanced for a dispute, in wei."""
    if at.facts.find(DisputeFact, v["id"]) is not None:
        at.facts.add(DisputeFact, v["id"], advanced=v["amount"])


@HANDLERS.on("Settlement", "Ended")
def ended(at: Moment, v: Mapping[str, Any]) -> None:
    """Records how the money of an ended dispute is split, in wei. It leaves out the penalties of seats, because `seats_settled`
    adds these."""
    amounts = {column: v["account"][name] for column, name in _AMOUNTS.items() if column != "penalties"}
    at.facts.amend(DisputeFact, v["id"], ended=True, appellant=somebody(v["account"]["appellant"]), **amounts)


@HANDLERS.on("Settlement", "Paid")
def paid(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that the bonds and rewards of a dispute were credited to its parties."""
    at.facts.amend(DisputeFact, v["id"], paid=True)


@HANDLERS.on("Settlement", "SeatsSettled")
def seats_settled(at: Moment, v: Mapping[str, Any]) -> None:
    """Records how each settled seat ended and what it was paid. Also records the penalty of each member that was charged. Amounts
    are in wei."""
    id_, round_ = v["id"], v["round"]
    if at.facts.find(DisputeFact, id_) is None:
        return
    for seat, (voter, code) in enumerate(zip(v["holders"], v["standings"], strict=True), v["from"]):
        pay = v["perSeat"] if SeatOutcome(code) in PAID else 0
        at.facts.put(SeatFact, id_, round_, seat, voter=somebody(voter) or "", outcome=code, pay=pay)
    for charge in v["charges"]:
        mask = sum(1 << seat for seat, voter in enumerate(v["holders"], v["from"]) if voter == charge["voter"])
        known = at.facts.find(VoteFact, id_, round_, charge["voter"])
        at.facts.put(VoteFact, id_, round_, charge["voter"], seat_mask=(known["seat_mask"] if known else 0) | mask)
        at.facts.add(VoteFact, id_, round_, charge["voter"], penalty=charge["amount"])
        at.facts.add(DisputeFact, id_, penalties=charge["amount"])
    at.facts.amend(RoundFact, id_, round_, paid_seats=v["from"] + len(v["holders"]))


def _params(at: Moment, version: int) -> Mapping[str, Any]:
    # Versions never change; each is a fact of its own name.
    found = at.facts.find(SettingFact, f"params {version}")
    return found["content"] if found else {}


def _seats(at: Moment, dispute: bytes, level: int) -> int:
    found = at.facts.find(DisputeFact, dispute)
    params = _params(at, found["params_version"]) if found else {}
    return int(params["committee"]["seats"][level - 1]) if params and 1 <= level <= 3 else 0


def _required_bond(at: Moment, version: int) -> int:
    params = _params(at, version)
    if not params:
        return 0
    return int(params["committee"]["seats"][0]) * int(params["money"]["feePerSeat"]) + int(params["money"]["privacyPrice"])


def _tree(at: Moment, dispute: bytes) -> str:
    found = at.facts.find(DisputeFact, dispute)
    item = at.facts.find(ItemFact, found["environment"]) if found else None
    pool = at.facts.find(PoolFact, item["pool"]) if item else None
    return pool["tree"] if pool else ""

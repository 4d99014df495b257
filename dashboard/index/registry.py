"""Facts of operators, verifiers, pools, environments, models, key epochs and the rules of the network."""

from collections.abc import Mapping
from typing import Any

from bytewise.storage.index.tables import (
    ItemFact,
    KeyEpochFact,
    OperatorFact,
    PlaceFact,
    PoolFact,
    ProposalFact,
    SettingFact,
    VerifierFact,
)
from dashboard.index.fold import HANDLERS, Moment, plain, some

NO_END = 2**64 - 1
"""`operatorUntil` of an operator that is not suspended."""
PENDING_EPOCH = 1


@HANDLERS.on("Registry", "OperatorRegistered")
def operator_registered(at: Moment, v: Mapping[str, Any]) -> None:
    """An operator, or its new endpoint."""
    known = at.facts.find(OperatorFact, v["operator"])
    block = known["registered_block"] if known else at.block
    at.facts.put(OperatorFact, v["operator"], endpoint=v["endpoint"], registered_block=block)


@HANDLERS.on("Registry", "OperatorMoved")
def operator_moved(at: Moment, v: Mapping[str, Any]) -> None:
    """Suspended by the breaker, or taken back by governance."""
    at.facts.put(OperatorFact, v["operator"], suspended_until=None if v["until"] == NO_END else v["until"])


@HANDLERS.on("Registry", "VerifierJoined")
def verifier_joined(at: Moment, v: Mapping[str, Any]) -> None:
    """A verifier on its machine."""
    at.facts.put(
        VerifierFact, v["verifier"], pool=bytes(v["pool"]), platform_id=bytes(v["platformId"]),
        measurement=bytes(v["measurement"]), joined_block=at.block,
    )  # fmt: skip


@HANDLERS.on("Registry", "VerifierLeft")
def verifier_left(at: Moment, v: Mapping[str, Any]) -> None:
    """It left its pool."""
    at.facts.amend(VerifierFact, v["verifier"], pool=None, platform_id=None, measurement=None)


@HANDLERS.on("StakeTree", "UnitsSet")
def units_set(at: Moment, v: Mapping[str, Any]) -> None:
    """Weight of an account from a stake epoch on. Places are never given back."""
    at.facts.put(PlaceFact, at.event.address, v["place"], account=v["account"], units=v["units"], epoch=v["epoch"])


@HANDLERS.on("Registry", "PoolAdded")
def pool_added(at: Moment, v: Mapping[str, Any]) -> None:
    """A pool with its stake tree."""
    at.facts.put(PoolFact, v["pool"], tree=v["tree"])


@HANDLERS.on("Registry", "PoolStopped")
def pool_stopped(at: Moment, v: Mapping[str, Any]) -> None:
    """Too few verifiers weigh: open windows stand still."""
    at.facts.amend(PoolFact, v["pool"], stopped_since=v["since"])


@HANDLERS.on("Registry", "PoolResumed")
def pool_resumed(at: Moment, v: Mapping[str, Any]) -> None:
    """Windows go on."""
    at.facts.amend(PoolFact, v["pool"], stopped_since=None, stopped_s=v["stopped"])


@HANDLERS.on("Registry", "ItemProposed")
def item_proposed(at: Moment, v: Mapping[str, Any]) -> None:
    """An environment, or without a pool a model. What certified an earlier proposal counts no more."""
    at.facts.put(
        ItemFact, v["digest"], pool=some(v["pool"]), vectors=some(v["vectors"]), certified=0, document=bytes(v["document"])
    )


@HANDLERS.on("Registry", "ItemMoved")
def item_moved(at: Moment, v: Mapping[str, Any]) -> None:
    """Proposed, active or closed."""
    at.facts.put(ItemFact, v["digest"], status=v["to"])


@HANDLERS.on("Registry", "ItemCertified")
def item_certified(at: Moment, v: Mapping[str, Any]) -> None:
    """A verifier reproduced its vectors."""
    at.facts.put(ItemFact, v["digest"], certified=v["certified"])


@HANDLERS.on("Breaker", "BreakerTripped")
def breaker_tripped(at: Moment, v: Mapping[str, Any]) -> None:
    """Convictions of too many operators in one environment wait; too many draws close it."""
    if not v["closed"]:
        at.facts.put(ItemFact, v["environment"], held=True)
    at.facts.add(ItemFact, v["environment"], tripped=1)


@HANDLERS.on("Breaker", "BreakerReset")
def breaker_reset(at: Moment, v: Mapping[str, Any]) -> None:
    """Governance lets convictions go on."""
    at.facts.put(ItemFact, v["environment"], held=False)


@HANDLERS.on("Registry", "MeasurementSet")
def measurement_set(at: Moment, v: Mapping[str, Any]) -> None:
    """A program that verifiers may run, or may no longer."""
    at.facts.put(SettingFact, f"measurement {plain(v['measurement'])}", version=int(v["allowed"]), content={})


@HANDLERS.on("Registry", "PolicySet")
def policy_set(at: Moment, v: Mapping[str, Any]) -> None:
    """The appraisal policy in force."""
    at.facts.put(SettingFact, "policy", version=v["serial"], content={"digest": plain(v["digest"])})


# --- keys ---


@HANDLERS.on("KeyEpochs", "EpochOpened")
def epoch_opened(at: Moment, v: Mapping[str, Any]) -> None:
    """A key and its holders."""
    at.facts.put(
        KeyEpochFact, v["epoch"], state=PENDING_EPOCH, assurance=v["assurance"], threshold=v["threshold"],
        shards=list(v["shards"]), policy_digest=bytes(v["policyDigest"]), public_key=bytes(v["publicKey"]),
        opened_block=at.block,
    )  # fmt: skip


@HANDLERS.on("KeyEpochs", "SharesConfirmed")
def shares_confirmed(at: Moment, v: Mapping[str, Any]) -> None:
    """The holders signed for their shares."""
    at.facts.amend(KeyEpochFact, v["epoch"], confirmed=True, version=v["version"])


@HANDLERS.on("KeyEpochs", "SharesDealt")
def shares_dealt(at: Moment, v: Mapping[str, Any]) -> None:
    """The same key in other hands."""
    at.facts.amend(KeyEpochFact, v["epoch"], version=v["version"], threshold=v["threshold"], shards=list(v["shards"]))


@HANDLERS.on("KeyEpochs", "EpochMoved")
def epoch_moved(at: Moment, v: Mapping[str, Any]) -> None:
    """Active, draining, retired or compromised."""
    at.facts.amend(KeyEpochFact, v["epoch"], state=v["to"])


# --- rules ---


@HANDLERS.on("Params", "ParamsSet")
def params_set(at: Moment, v: Mapping[str, Any]) -> None:
    """New parameters: `params` are those in force, and each version keeps a name of its own."""
    content = plain(v["params"])
    at.facts.put(SettingFact, "params", version=v["version"], content=content)
    at.facts.put(SettingFact, f"params {v['version']}", version=v["version"], content=content)


@HANDLERS.on("FeeMarket", "LimitsSet")
def fee_limits_set(at: Moment, v: Mapping[str, Any]) -> None:
    """Bounds of the price of anchoring."""
    at.facts.put(SettingFact, "fee_limits", version=0, content=plain(v))


@HANDLERS.on("FeeMarket", "PriceMoved")
def price_moved(at: Moment, v: Mapping[str, Any]) -> None:
    """The price of anchoring one receipt."""
    at.facts.put(SettingFact, "fee_price", version=v["epoch"], content={"price": str(v["price"])})


@HANDLERS.on("Guardian", "Paused")
def paused(at: Moment, v: Mapping[str, Any]) -> None:
    """The clock stands still."""
    before = at.facts.find(SettingFact, "clock")
    last = before["content"] if before else {"from": 0, "until": 0, "stopped_before": 0}
    stopped = last["stopped_before"] + last["until"] - last["from"]
    at.facts.put(
        SettingFact, "clock", version=at.block, content={"from": at.timestamp, "until": v["until"], "stopped_before": stopped}
    )


@HANDLERS.on("Guardian", "Unpaused")
def unpaused(at: Moment, v: Mapping[str, Any]) -> None:
    """It runs again before the pause was over."""
    before = at.facts.find(SettingFact, "clock")
    if before is not None:
        at.facts.put(SettingFact, "clock", content={**before["content"], "until": at.timestamp})


@HANDLERS.on("BytewiseGovernor", "ProposalCreated")
def proposal_created(at: Moment, v: Mapping[str, Any]) -> None:
    """Calls that holders of the token may vote for."""
    calls = [{"target": to, "data": plain(data)} for to, data in zip(v["targets"], v["calldatas"], strict=True)]
    at.facts.put(
        ProposalFact, "vote", str(v["proposalId"]), state="voting", proposed_block=at.block, proposer=v["proposer"],
        vote_start=v["voteStart"], vote_end=v["voteEnd"], targets=calls, text=v["description"],
    )  # fmt: skip


@HANDLERS.on("BytewiseGovernor", "VoteCast", "VoteCastWithParams")
def vote_cast(at: Moment, v: Mapping[str, Any]) -> None:
    """Against (0), for (1) or abstaining (2)."""
    column = ("votes_against", "votes_for", "votes_abstain")[v["support"]] if v["support"] < 3 else "votes_abstain"
    if at.facts.find(ProposalFact, "vote", str(v["proposalId"])) is not None:
        at.facts.add(ProposalFact, "vote", str(v["proposalId"]), **{column: v["weight"]})


@HANDLERS.on("BytewiseGovernor", "ProposalQueued")
def proposal_queued(at: Moment, v: Mapping[str, Any]) -> None:
    """The short timelock holds it."""
    at.facts.amend(ProposalFact, "vote", str(v["proposalId"]), state="queued", ready_at=v["etaSeconds"])


@HANDLERS.on("BytewiseGovernor", "ProposalExecuted", "ProposalCanceled")
def proposal_ended(at: Moment, v: Mapping[str, Any]) -> None:
    """It was done, or taken back."""
    state = "executed" if at.event.name == "ProposalExecuted" else "cancelled"
    at.facts.amend(ProposalFact, "vote", str(v["proposalId"]), state=state)


@HANDLERS.on("TimelockController", "CallScheduled")
def call_scheduled(at: Moment, v: Mapping[str, Any]) -> None:
    """A timelock holds a call."""
    kind, id_ = at.event.address, plain(v["id"])
    known = at.facts.find(ProposalFact, kind, id_)
    calls = [*(known["targets"] if known else []), {"target": v["target"], "data": plain(v["data"])}]
    at.facts.put(
        ProposalFact, kind, id_, state="scheduled", proposed_block=at.block, ready_at=at.timestamp + v["delay"], targets=calls
    )


@HANDLERS.on("TimelockController", "CallExecuted", "Cancelled")
def call_ended(at: Moment, v: Mapping[str, Any]) -> None:
    """It was done, or taken back."""
    state = "executed" if at.event.name == "CallExecuted" else "cancelled"
    at.facts.amend(ProposalFact, at.event.address, plain(v["id"]), state=state)

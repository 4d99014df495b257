"""Handlers that compute the facts of the network's members and rules from events: operators, verifiers, pools, environments,
models, key epochs, parameters, proposals and pauses. The protocol clock follows from the pauses, so this module also computes
it."""

from collections.abc import Iterable, Mapping
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
"""Value of `operatorUntil` for an operator that is not suspended."""
PENDING_EPOCH = 1


@HANDLERS.on("Registry", "OperatorRegistered")
def operator_registered(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds an operator, or changes the endpoint of a registered operator."""
    known = at.facts.find(OperatorFact, v["operator"])
    block = known["registered_block"] if known else at.block
    at.facts.put(OperatorFact, v["operator"], endpoint=v["endpoint"], registered_block=block)


@HANDLERS.on("Registry", "OperatorMoved")
def operator_moved(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that the breaker suspended an operator, or that the curator readmitted it."""
    at.facts.put(OperatorFact, v["operator"], suspended_until=None if v["until"] == NO_END else v["until"])


@HANDLERS.on("Registry", "VerifierJoined")
def verifier_joined(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds a verifier with its pool, its platform and the measurement of its enclave."""
    at.facts.put(
        VerifierFact, v["verifier"], pool=bytes(v["pool"]), platform_id=bytes(v["platformId"]),
        measurement=bytes(v["measurement"]), joined_block=at.block,
    )  # fmt: skip


@HANDLERS.on("Registry", "VerifierLeft")
def verifier_left(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that a verifier left its pool. The verifier stays in the index without pool, platform and measurement."""
    at.facts.amend(VerifierFact, v["verifier"], pool=None, platform_id=None, measurement=None)


@HANDLERS.on("StakeTree", "UnitsSet")
def units_set(at: Moment, v: Mapping[str, Any]) -> None:
    """Sets the weight of an account in a pool's stake tree. The weight is the account's stake in whole units. It counts
    from the stake epoch that the event names. An account keeps its place in the tree for ever."""
    at.facts.put(PlaceFact, at.event.address, v["place"], account=v["account"], units=v["units"], epoch=v["epoch"])


@HANDLERS.on("Registry", "PoolAdded")
def pool_added(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds a pool, with the address of its stake tree. A pool is the set of verifiers that judge certain environments."""
    at.facts.put(PoolFact, v["pool"], tree=v["tree"])


@HANDLERS.on("Registry", "PoolStopped")
def pool_stopped(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that a pool became too small to judge. From then on, the open challenge windows of its environments stand still."""
    at.facts.amend(PoolFact, v["pool"], stopped_since=v["since"])


@HANDLERS.on("Registry", "PoolResumed")
def pool_resumed(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that a pool is large enough again, so that challenge windows run again. The event's `stopped` is the length of all
    stops together, in seconds."""
    at.facts.amend(PoolFact, v["pool"], stopped_since=None, stopped_s=v["stopped"])


@HANDLERS.on("Registry", "ItemProposed")
def item_proposed(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds a proposed environment, or a proposed model if the event names no pool. Sets the certified weight to zero, because
    earlier certificates were for an earlier proposal."""
    at.facts.put(
        ItemFact, v["digest"], pool=some(v["pool"]), vectors=some(v["vectors"]), certified=0, document=bytes(v["document"])
    )


@HANDLERS.on("Registry", "ItemMoved")
def item_moved(at: Moment, v: Mapping[str, Any]) -> None:
    """Records a new status of an environment or model: proposed, active or closed."""
    at.facts.put(ItemFact, v["digest"], status=v["to"])


@HANDLERS.on("Registry", "ItemCertified")
def item_certified(at: Moment, v: Mapping[str, Any]) -> None:
    """Sets the certified weight of a proposed environment or model: the stake, in units, of all verifiers that have certified
    this proposal so far."""
    at.facts.put(ItemFact, v["digest"], certified=v["certified"])


@HANDLERS.on("Breaker", "BreakerTripped")
def breaker_tripped(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that the breaker tripped in an environment. After too many convictions the breaker holds all convictions there.
    After too many DRAWs the environment is closed instead."""
    if not v["closed"]:
        at.facts.put(ItemFact, v["environment"], held=True)
    at.facts.add(ItemFact, v["environment"], tripped=1)


@HANDLERS.on("Breaker", "BreakerReset")
def breaker_reset(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that the curator reset the breaker in an environment. The breaker no longer holds convictions there."""
    at.facts.put(ItemFact, v["environment"], held=False)


@HANDLERS.on("Registry", "MeasurementSet")
def measurement_set(at: Moment, v: Mapping[str, Any]) -> None:
    """Records whether verifiers may run the program with this measurement. Version 1 means that they may, and 0 that they may
    not."""
    at.facts.put(SettingFact, f"measurement {plain(v['measurement'])}", version=int(v["allowed"]), content={})


@HANDLERS.on("Registry", "PolicySet")
def policy_set(at: Moment, v: Mapping[str, Any]) -> None:
    """Records the serial number and the digest of the appraisal policy in force."""
    at.facts.put(SettingFact, "policy", version=v["serial"], content={"digest": plain(v["digest"])})


# --- keys ---


@HANDLERS.on("KeyEpochs", "EpochOpened")
def epoch_opened(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds a key epoch in state PENDING, with its public key, its threshold and its shards."""
    at.facts.put(
        KeyEpochFact, v["epoch"], state=PENDING_EPOCH, assurance=v["assurance"], threshold=v["threshold"],
        shards=list(v["shards"]), policy_digest=bytes(v["policyDigest"]), public_key=bytes(v["publicKey"]),
        opened_block=at.block,
    )  # fmt: skip


@HANDLERS.on("KeyEpochs", "SharesConfirmed")
def shares_confirmed(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that enough shards signed that they hold their shares of a key epoch."""
    at.facts.amend(KeyEpochFact, v["epoch"], confirmed=True, version=v["version"])


@HANDLERS.on("KeyEpochs", "SharesDealt")
def shares_dealt(at: Moment, v: Mapping[str, Any]) -> None:
    """Records new shares of the same key: their version, their threshold and the shards that hold them."""
    at.facts.amend(KeyEpochFact, v["epoch"], version=v["version"], threshold=v["threshold"], shards=list(v["shards"]))


@HANDLERS.on("KeyEpochs", "EpochMoved")
def epoch_moved(at: Moment, v: Mapping[str, Any]) -> None:
    """Records a new state of a key epoch: active, draining, retired or compromised."""
    at.facts.amend(KeyEpochFact, v["epoch"], state=v["to"])


# --- rules ---


@HANDLERS.on("Params", "ParamsSet")
def params_set(at: Moment, v: Mapping[str, Any]) -> None:
    """Records a version of the parameters under two names. `params` has the parameters in force. `params N` has version N and
    never changes."""
    content = plain(v["params"])
    at.facts.put(SettingFact, "params", version=v["version"], content=content)
    at.facts.put(SettingFact, f"params {v['version']}", version=v["version"], content=content)


@HANDLERS.on("FeeMarket", "LimitsSet")
def fee_limits_set(at: Moment, v: Mapping[str, Any]) -> None:
    """Records the bounds of the anchoring price."""
    at.facts.put(SettingFact, "fee_limits", version=0, content=plain(v))


@HANDLERS.on("FeeMarket", "PriceMoved")
def price_moved(at: Moment, v: Mapping[str, Any]) -> None:
    """Records the price of anchoring one receipt, in wei."""
    at.facts.put(SettingFact, "fee_price", version=v["epoch"], content={"price": str(v["price"])})


@HANDLERS.on("BytewiseGovernor", "ProposalCreated")
def proposal_created(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds a governance proposal: the calls on which token holders vote, and the first and last block of the vote."""
    calls = [{"target": to, "data": plain(data)} for to, data in zip(v["targets"], v["calldatas"], strict=True)]
    at.facts.put(
        ProposalFact, "vote", str(v["proposalId"]), state="voting", proposed_block=at.block, proposer=v["proposer"],
        vote_start=v["voteStart"], vote_end=v["voteEnd"], targets=calls, text=v["description"],
    )  # fmt: skip


@HANDLERS.on("BytewiseGovernor", "VoteCast", "VoteCastWithParams")
def vote_cast(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds the weight of a vote on a proposal: against (0), for (1) or abstaining (2)."""
    column = ("votes_against", "votes_for", "votes_abstain")[v["support"]] if v["support"] < 3 else "votes_abstain"
    if at.facts.find(ProposalFact, "vote", str(v["proposalId"])) is not None:
        at.facts.add(ProposalFact, "vote", str(v["proposalId"]), **{column: v["weight"]})


@HANDLERS.on("BytewiseGovernor", "ProposalQueued")
def proposal_queued(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that an accepted proposal waits in the short timelock. Also records the time from which it may be executed."""
    at.facts.amend(ProposalFact, "vote", str(v["proposalId"]), state="queued", ready_at=v["etaSeconds"])


@HANDLERS.on("BytewiseGovernor", "ProposalExecuted", "ProposalCanceled")
def proposal_ended(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that a proposal was executed or cancelled."""
    state = "executed" if at.event.name == "ProposalExecuted" else "cancelled"
    at.facts.amend(ProposalFact, "vote", str(v["proposalId"]), state=state)


@HANDLERS.on("TimelockController", "CallScheduled")
def call_scheduled(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds a call that a timelock delays. Several calls with one id are one operation."""
    kind, id_ = at.event.address, plain(v["id"])
    known = at.facts.find(ProposalFact, kind, id_)
    calls = [*(known["targets"] if known else []), {"target": v["target"], "data": plain(v["data"])}]
    at.facts.put(
        ProposalFact, kind, id_, state="scheduled", proposed_block=at.block, ready_at=at.timestamp + v["delay"], targets=calls
    )


@HANDLERS.on("TimelockController", "CallExecuted", "Cancelled")
def call_ended(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that a delayed operation of a timelock was executed or cancelled."""
    state = "executed" if at.event.name == "CallExecuted" else "cancelled"
    at.facts.amend(ProposalFact, at.event.address, plain(v["id"]), state=state)


# --- the protocol clock: the time of the chain without the pauses of the guardian (`Guardian.clock`) ---


@HANDLERS.on("Guardian", "Paused")
def paused(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that the guardian paused the protocol clock. The fact has the beginning and the end of the pause, and the length of
    all earlier pauses in seconds."""
    before = at.facts.find(SettingFact, "clock")
    last = before["content"] if before else {"from": 0, "until": 0, "stopped_before": 0}
    stopped = last["stopped_before"] + last["until"] - last["from"]
    at.facts.put(
        SettingFact, "clock", version=at.block, content={"from": at.timestamp, "until": v["until"], "stopped_before": stopped}
    )


@HANDLERS.on("Guardian", "Unpaused")
def unpaused(at: Moment, v: Mapping[str, Any]) -> None:
    """Sets the end of the recorded pause to the time of this event, because the guardian ended the pause early. The protocol
    clock runs again."""
    before = at.facts.find(SettingFact, "clock")
    if before is not None:
        at.facts.put(SettingFact, "clock", content={**before["content"], "until": at.timestamp})


def clock_at(pause: Mapping[str, Any] | None, timestamp: int) -> int:
    """Returns the protocol clock at a block's `timestamp`, in seconds. `pause` is the newest version of the setting `clock`,
    which describes the last pause. `pause` is None if the network was never paused."""
    if pause is None:
        return timestamp
    last = pause["content"]
    if timestamp < last["until"]:
        return int(last["from"] - last["stopped_before"])
    return int(timestamp - last["stopped_before"] - (last["until"] - last["from"]))


def wall_time(pauses: Iterable[Mapping[str, Any]], protocol_time: int) -> int:
    """Returns the wall time, in Unix seconds, at which the protocol clock passes `protocol_time`. It assumes that no further
    pause comes. `pauses` are all versions of the setting `clock`, oldest first. A pause delays only times that the clock had not
    reached when the pause began."""
    passed = protocol_time
    # A pause that ended early has two versions with one beginning. The later version has the real end.
    for last in {each["content"]["from"]: each["content"] for each in pauses}.values():
        if last["from"] - last["stopped_before"] < protocol_time:
            passed = protocol_time + last["stopped_before"] + last["until"] - last["from"]
    return passed


def is_paused(pause: Mapping[str, Any] | None, timestamp: int) -> bool:
    """Returns whether the protocol clock stands still at a block's `timestamp`. `pause` is as in `clock_at`."""
    return pause is not None and timestamp < pause["content"]["until"]

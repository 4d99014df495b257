"""Check, before anything is sent, that EigenLayer is ready for a deployment whose stake it holds.

`EigenLayerStake` refuses most of this too, but only when other contracts are already on the chain.
"""

from typing import Any

from bytewise.protocol.errors.actors import ChainReverted, ConfigurationError
from bytewise.protocol.units import ZERO_ADDRESS, Address
from chain.client.access import Chain
from chain.client.artifacts import interface
from chain.client.rpc import BrokenAnswer
from chain.deployment.plan import DeploymentPlan, EigenLayerSettings

MANAGER, STRATEGY, SET, MAX_AGE = "--allocation-manager", "--strategy", "--operator-set", "--max-age"
"""Options of `bytewise chain deploy` that errors name."""

_LISTED = "take it from EigenLayer's list of deployments for this chain"


def verify_eigenlayer(client: Chain, site: DeploymentPlan, stake: EigenLayerSettings) -> None:
    """`ConfigurationError` unless EigenLayer exists, its delays outlast every dispute, and the strategy holds wrapped ether."""
    for option, at in ((MANAGER, stake.allocations), (STRATEGY, stake.strategy)):
        if not client.codes([at])[0]:
            raise ConfigurationError(option, f"there is no contract at {at}: {_LISTED}")
    manager = (MANAGER, "IAllocationManager", stake.allocations)
    delegation = _ask(client, *manager, "delegation")
    delays = {
        "deallocation": _ask(client, *manager, "DEALLOCATION_DELAY"),
        "withdrawal": _ask(client, MANAGER, "IDelegationManager", delegation, "minWithdrawalDelayBlocks"),
    }
    for name, blocks in delays.items():
        _verify_delay(stake, name, int(blocks))
    token = _ask(client, STRATEGY, "IStrategy", stake.strategy, "underlyingToken")
    unwrap = "0x" + interface("IWrappedEther").call("withdraw", 0).hex()
    try:
        client.replay({"from": site.at["StakeVault"], "to": token, "data": unwrap}, "latest")
    except ChainReverted:
        raise ConfigurationError(
            STRATEGY, f"the token of {stake.strategy}, {token}, is no wrapped ether: name the strategy of wrapped ether"
        ) from None


def verify_operator_set(client: Chain, site: DeploymentPlan, stake: EigenLayerSettings) -> None:
    """`ConfigurationError` unless the operator set exists, has the strategy, and names the planned stake source."""
    named, source = (stake.avs, stake.set_id), site.at["StakeVault"]
    shown = f"{stake.avs}:{stake.set_id}"

    def ask(function: str) -> Any:
        return _ask(client, MANAGER, "IAllocationManager", stake.allocations, function, named)

    if not ask("isOperatorSet"):
        raise ConfigurationError(
            SET,
            f"EigenLayer has no set {shown}: its service creates it first (createRedistributingOperatorSets), with "
            f"{source} as slasher and as redistribution recipient",
        )
    if stake.strategy not in ask("getStrategiesInOperatorSet"):
        raise ConfigurationError(
            STRATEGY, f"{stake.strategy} is none of set {shown}: its service adds it first (addStrategiesToOperatorSet)"
        )
    recipient, slasher = ask("getRedistributionRecipient"), ask("getSlasher")
    if recipient != source:
        raise ConfigurationError(
            SET,
            f"what is slashed in {shown} goes to {recipient}, not to the planned stake source {source}, and EigenLayer lets "
            f"nobody change that: its service creates another set with {source} as recipient and slasher",
        )
    if slasher != source:
        raise ConfigurationError(
            SET,
            f"the slasher of {shown} is {slasher}, not the planned stake source {source}: its service names that one "
            "(updateSlasher); try again when EigenLayer's delay is over",
        )
    pending = ask("getPendingSlasher")
    if pending["pendingSlasher"] not in (source, ZERO_ADDRESS):
        raise ConfigurationError(
            SET,
            f"the slasher of {shown} will be {pending['pendingSlasher']} from block {pending['effectBlock']} on, and not the "
            f"planned stake source {source}: its service takes that back (updateSlasher with {source})",
        )


def _verify_delay(stake: EigenLayerSettings, name: str, blocks: int) -> None:
    if blocks >= stake.horizon:
        return
    dispute = stake.horizon - stake.max_age
    advice = (
        f"give {MAX_AGE} {blocks - dispute} or less"
        if blocks > dispute
        else "give --params with a shorter longest dispute, or another EigenLayer"
    )
    raise ConfigurationError(
        MAX_AGE,
        f"a record of {stake.max_age} blocks and the longest dispute of {dispute} need {stake.horizon} blocks, and the {name} "
        f"delay of EigenLayer at {stake.allocations} is {blocks}: stake could leave before it is slashed; {advice}",
    )


def _ask(client: Chain, option: str, contract: str, at: Address, function: str, *arguments: Any) -> Any:
    try:
        return client.call(contract, at, function, *arguments, block="latest")
    except (ChainReverted, BrokenAnswer):
        what = f"{at} does not answer {function}, so it is no {contract.removeprefix('I')} of EigenLayer"
        raise ConfigurationError(option, f"{what}: {_LISTED}") from None

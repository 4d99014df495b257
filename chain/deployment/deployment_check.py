"""Checks that contracts belong to this deployment: reads from each contract the values that the deployer's options decide.

The address of an account's next contract does not depend on its code, so a run with other options has its contracts at the same
addresses. EigenLayer's contracts are checked, too, before anything is sent.
"""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.errors.actors import ChainReverted, ConfigurationError
from bytewise.protocol.units import ZERO_ADDRESS, Address
from chain.client.access import Chain
from chain.client.artifacts import from_struct, interface
from chain.client.rpc import BrokenAnswer, reading_answer
from chain.deployment.plan import TREE, DeploymentPlan, EigenLayerSettings, code
from chain.reads.roles import ROLES

# Check, before anything is sent, that EigenLayer is ready for a deployment whose stake it holds.

MANAGER, STRATEGY, SET, MAX_AGE = "--allocation-manager", "--strategy", "--operator-set", "--max-age"
"""Options of `bytewise chain deploy` that error messages name."""

_LISTED = "take it from EigenLayer's list of deployments for this chain"


def verify_eigenlayer(client: Chain, site: DeploymentPlan, stake: EigenLayerSettings) -> None:
    """Raises `ConfigurationError` unless EigenLayer exists, the strategy has wrapped ether, and the delays of deallocation and
    withdrawal are at least `horizon` blocks: the age up to which a record of stake counts, plus the longest dispute."""
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
    """Raises `ConfigurationError` unless the operator set exists, has the strategy, and names the planned stake source as
    slasher and recipient."""
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
    """Raises `ConfigurationError` with advice if a delay of EigenLayer is shorter than `horizon` blocks."""
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


_ROLE = {name: number for number, name in ROLES.items()}


class _ExpectedAnswer(NamedTuple):
    """The answer that one view of a contract must give."""

    contract: str
    """Name of the contract in the deployment."""
    what: str
    """Words for messages: what the option decides."""
    wanted: Any
    """The answer that the view must give."""
    function: str
    """Name of the view."""
    arguments: tuple[Any, ...] = ()
    """Arguments of the view."""
    artifact: str = ""
    """Name of the compiled contract, if it differs from `contract`."""


def verify_options(client: Chain, site: DeploymentPlan, created: Collection[str]) -> None:
    """Raises `ConfigurationError`, which names the difference, if one of the `created` contracts is not the one that this
    deployment creates.

    Which tree belongs to which pool is not checked: all trees have the same code, and the curator decides it later.
    """
    for choice in _expected_answers(site):
        if choice.contract in created:
            _verify(client, site, choice)


def verify_role_holders(client: Chain, site: DeploymentPlan) -> None:
    """Raises `ConfigurationError` unless the planned accounts have the roles guardian and curator, after the roles were
    assigned."""
    for office, who in (("GUARDIAN", site.vote.guardian), ("CURATOR", site.vote.curator)):
        _verify(
            client, site, _ExpectedAnswer("AccessManager", f"whether {who} is {office}", True, "hasRole", (_ROLE[office], who))
        )


def _verify(client: Chain, site: DeploymentPlan, choice: _ExpectedAnswer) -> None:
    """Raises `ConfigurationError` unless the view gives the expected answer."""
    at, name = site.at[choice.contract], choice.artifact or code(choice.contract).name
    try:
        found = client.call(name, at, choice.function, *choice.arguments, block="latest")
    except ChainReverted:
        raise _other_deployment(choice, f"{at} is no {choice.artifact or choice.contract}") from None
    with reading_answer(choice.function):
        found = _plain(choice, found)
    if found != choice.wanted:
        told = "are others" if isinstance(choice.wanted, ParamSet) else f"is {found}, this command asks for {choice.wanted}"
        raise _other_deployment(choice, f"{choice.what} of {choice.contract} at {at} {told}")


def _plain(choice: _ExpectedAnswer, found: Any) -> Any:
    if isinstance(choice.wanted, ParamSet):
        return from_struct(ParamSet, found)
    if choice.function == "hasRole":
        return found["isMember"]
    return tuple(found.values()) if isinstance(choice.wanted, tuple) else found


def _other_deployment(choice: _ExpectedAnswer, what: str) -> ConfigurationError:
    advice = (
        "another run by this account has deployed at these addresses: give that run's options and its --out, or remove the "
        ".draft file of this one to begin a new deployment"
    )
    return ConfigurationError(choice.contract, f"{what}; {advice}")


_NATIVE = _ExpectedAnswer("StakeVault", "the most requests of one account", 8, "MAX_REQUESTS")
"""Answer that only the native vault gives, because `EigenLayerStake` has no such limit."""


def _restaking(stake: EigenLayerSettings) -> Iterator[_ExpectedAnswer]:
    values = {
        "ALLOCATIONS": ("the AllocationManager", stake.allocations),
        "STRATEGY": ("the strategy", stake.strategy),
        "AVS": ("the service", stake.avs),
        "SET_ID": ("the number of the operator set", stake.set_id),
        "MAX_AGE": ("the age of records", stake.max_age),
        "LONGEST": ("the longest dispute", stake.longest_s),
    }
    for function, (what, wanted) in values.items():
        yield _ExpectedAnswer("StakeVault", what, wanted, function, artifact="EigenLayerStake")


def _expected_answers(site: DeploymentPlan) -> Iterator[_ExpectedAnswer]:
    """Yields the answers that the options of this deployment decide."""
    shape, vote = site.shape, site.vote
    prices = (shape.least_price_wei, shape.most_price_wei, shape.target, shape.price_epoch_s)
    yield _ExpectedAnswer("Params", "the parameters", site.params, "get", (1,))
    yield from _restaking(site.restaked) if site.restaked else [_NATIVE]
    for pool in site.pools:
        yield _ExpectedAnswer(TREE + pool.hex(), "the epoch in blocks", shape.epoch_blocks, "EPOCH_BLOCKS")
        yield _ExpectedAnswer(TREE + pool.hex(), "the lookahead in blocks", shape.lookahead, "LOOKAHEAD")
    yield _ExpectedAnswer("RandaoSource", "the shortest seed distance", shape.shortest, "SHORTEST")
    yield _ExpectedAnswer("RandaoSource", "the longest seed distance", shape.longest, "LONGEST")
    yield _ExpectedAnswer("FeeMarket", "the limits of prices", prices, "limits")
    yield _ExpectedAnswer("GovernanceToken", f"the number of votes of {vote.holder}", vote.supply, "balanceOf", (vote.holder,))
    yield _ExpectedAnswer("ShortTimelock", "the delay in seconds", vote.short_delay_s, "getMinDelay")
    yield _ExpectedAnswer("LongTimelock", "the delay in seconds", vote.long_delay_s, "getMinDelay")

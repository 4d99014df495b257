"""Check that contracts are those of this deployment: each is asked for the values that options decide.

An account's next contract has the same address whatever it is, so a run with other options leaves its own contracts there.
"""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.errors.actors import ChainReverted, ConfigurationError
from chain.client.access import Chain
from chain.client.rpc import reading_answer
from chain.client.structs import from_struct
from chain.deployment.plan import TREE, DeploymentPlan, EigenLayerSettings, code
from chain.reads.roles import ROLES

_ROLE = {name: number for number, name in ROLES.items()}


class _ExpectedAnswer(NamedTuple):
    """The answer that one view of a contract must give."""

    contract: str
    """Name of the contract in the deployment."""
    what: str
    """The option in words."""
    wanted: Any
    function: str
    arguments: tuple[Any, ...] = ()
    artifact: str = ""
    """Artifact of its code, where another contract than the named one is deployed there."""


def verify_options(client: Chain, site: DeploymentPlan, created: Collection[str]) -> None:
    """`ConfigurationError` names the difference if these contracts, which the chain has, are not those that this deployment
    creates.

    Pools are not checked: their trees are alike, and the curator says which tree belongs to which pool.
    """
    for choice in _expected_answers(site):
        if choice.contract in created:
            _verify(client, site, choice)


def verify_role_holders(client: Chain, site: DeploymentPlan) -> None:
    """The same check for the holders of guardian and curator role, after the roles were assigned."""
    for office, who in (("GUARDIAN", site.vote.guardian), ("CURATOR", site.vote.curator)):
        _verify(
            client, site, _ExpectedAnswer("AccessManager", f"whether {who} is {office}", True, "hasRole", (_ROLE[office], who))
        )


def _verify(client: Chain, site: DeploymentPlan, choice: _ExpectedAnswer) -> None:
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
"""`EigenLayerStake` has no such limit."""


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

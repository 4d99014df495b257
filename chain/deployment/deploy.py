"""Deploys a network, puts documents and models in force, and registers accounts. Deployer, guardian and curator make these
calls.

The deployer has no power after `deploy`, because the contract `Charter` assigns the roles (`plan.GovernanceSettings`).
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from eth_typing import HexAddress, HexStr
from web3.types import Nonce
from web3.utils.address import get_create_address

from bytewise.protocol.address_book import Addresses, Network, PoolTree, StakeSource
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ChainReverted, ConfigurationError
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U64, U256, ZERO_DIGEST, Address, Digest, address
from chain.client.access import Chain
from chain.client.address_book import code_hashes, field_of, verify_code
from chain.client.blocks import header_rlp
from chain.client.simulation import as_rule
from chain.deployment.calls import CALL_GAS, DOCUMENT_GAS_PER_BYTE, ContractCall, call_of
from chain.deployment.deployment_check import verify_options, verify_role_holders
from chain.deployment.lengths import lengths_of, verify_lengths
from chain.deployment.plan import (
    TREE,
    DeploymentPlan,
    DeploymentStep,
    EigenLayerSettings,
    GovernanceSettings,
    Header,
    Shape,
    names,
    steps,
)
from chain.sending.transactions import TX_GAS_CAP, TransactionCall, send_all

# Calls that the guardian and the curator may make at once (`Charter`). Calls about key epochs of a ceremony are in
# `chain.acts.epochs`.

# --- guardian ---


def pause(seconds: int) -> ContractCall:
    """Returns the call that stops the protocol clock for `seconds`, at most `maxPause`. The next pause is possible only after
    the time of the longest dispute."""
    return ContractCall("Guardian", "pause", (seconds,))


def unpause() -> ContractCall:
    """Returns the call that ends a pause early."""
    return ContractCall("Guardian", "unpause")


def refund(court: Address, dispute: Digest) -> ContractCall:
    """Returns the call that refunds all parties of a dispute which is decided and has not ended."""
    return ContractCall("Guardian", "refund", (court, dispute))


def compromise_epoch(epoch: int) -> ContractCall:
    """Returns the call that ends a key epoch whose key leaked. Everything that was sealed to it must be treated as read."""
    return ContractCall("KeyEpochs", "compromise", (epoch,))


# --- curator ---


def add_pool(pool: Digest, tree: Address) -> ContractCall:
    """Returns the call that adds a verifier pool with its own stake tree, so that verifiers can join. There are at most 128
    pools, and none is removed."""
    return ContractCall("Registry", "addPool", (pool, tree))


def set_measurement(measurement: Digest, allowed: bool) -> ContractCall:
    """Returns the call that allows or forbids an enclave measurement. `Registry.refresh` then corrects the weight of each
    verifier that runs it."""
    return ContractCall("Registry", "setMeasurement", (measurement, allowed))


def set_policy(digest: Digest, serial: int, document: bytes) -> ContractCall:
    """Returns the call that puts an appraisal policy in force. Its serial must be above that of the policy before."""
    return ContractCall("Registry", "setPolicy", (digest, serial, document))


def propose_item(digest: Digest, pool: Digest, vectors: Digest, document: bytes) -> ContractCall:
    """Returns the call that proposes an environment with its pool, or a model with `pool` zero. Anybody may propose; only the
    curator may replace a running proposal."""
    return ContractCall("Registry", "propose", (digest, pool, vectors, document))


def activate_item(digest: Digest) -> ContractCall:
    """Returns the call that puts a certified environment or model in force, or opens a closed one again."""
    return ContractCall("Registry", "activate", (digest,))


def close_item(digest: Digest) -> ContractCall:
    """Returns the call that closes an environment or model. Receipts that were signed before can be anchored for
    `maxAnchorDelay` after it."""
    return ContractCall("Registry", "close", (digest,))


def readmit_operator(who: Address) -> ContractCall:
    """Returns the call that lets a suspended operator anchor batches again. The breaker suspends an operator after too many
    verdicts DRAW."""
    return ContractCall("Registry", "readmit", (who,))


def drain_epoch(epoch: int) -> ContractCall:
    """Returns the call that stops new sealing to a key epoch. Its shards answer until its retention is over."""
    return ContractCall("KeyEpochs", "drain", (epoch,))


def reset_breaker(environment: Digest) -> ContractCall:
    """Returns the call that releases the convictions of an environment which the breaker holds back."""
    return ContractCall("Breaker", "resetBreaker", (environment,))


DEFAULT_TIMEOUT_S = 60.0
"""Time limit in seconds for transactions that are sent together: five blocks of Ethereum."""

_CREATION_GAS_PER_BYTE = 240
"""Gas for each byte of creation code: 200 for storing code, 16 for calldata, and some more for the constructor."""


class Policy(NamedTuple):
    """An appraisal policy to put in force."""

    digest: Digest
    """Digest of the policy."""
    serial: int
    """Serial of the policy, above that of the policy in force."""
    document: bytes
    """Canonical bytes of the policy."""


class ItemProposal(NamedTuple):
    """A proposal of an environment or a model."""

    digest: Digest
    """Digest of the environment, or the model id."""
    pool: Digest
    """Pool that judges an environment; zero for a model."""
    vectors: Digest
    """Digest of the golden vectors' results that certifiers must reproduce."""
    document: bytes
    """Bytes of the environment, or of the model's manifest."""


class RehearsedStep(NamedTuple):
    """A deployment step that was not sent, with the gas that it would take."""

    step: DeploymentStep
    """The step."""
    at: Address
    """Address that the step's contract will have."""
    limit: int
    """Gas limit of the step."""
    estimate: int | None
    """Gas that the step would use; None if it depends on earlier steps."""


class Joiner(NamedTuple):
    """An account that deposits stake and registers: an operator with its endpoint, or a verifier of a pool with its machine."""

    signer: LocalSigner
    """Key of the account."""
    stake_wei: int
    """Stake to deposit in wei; 0 if EigenLayer has the stake."""
    endpoint: str | None
    """Endpoint of an operator; None for a verifier."""
    pool: Digest = ZERO_DIGEST
    """Pool that a verifier joins."""
    platform_id: Digest = ZERO_DIGEST
    """Id of a verifier's machine."""
    measurement: Digest = ZERO_DIGEST
    """Measurement of a verifier's enclave."""


def survey(
    client: Chain,
    deployer: Address,
    params: ParamSet,
    shape: Shape,
    pools: Sequence[Digest],
    vote: GovernanceSettings,
    nonce: int | None = None,
    restaked: EigenLayerSettings | None = None,
) -> DeploymentPlan:
    """Returns the plan of a deployment by this account at the current block.

    Raises `ConfigurationError` on a chain with fewer than two blocks. `nonce` is the nonce of the first transaction; None means
    the account's next nonce. `restaked` is set if EigenLayer has the stake.
    """
    newest = client.head().number
    if newest < 2:
        raise ConfigurationError("chain", f"needs two blocks to show that mixes change, has {newest}")
    first = client.nonce(deployer) if nonce is None else nonce
    listed = names(pools)
    at = {name: created_address(deployer, first + place) for place, name in enumerate(listed)}
    headers = (Header(newest - 1, header_rlp(client, newest - 1)), Header(newest, header_rlp(client, newest)))
    return DeploymentPlan(deployer, at, params, shape, headers, tuple(pools), vote, restaked)


def deploy(client: Chain, deployer: LocalSigner, site: DeploymentPlan, timeout_s: float = DEFAULT_TIMEOUT_S) -> Network:
    """Deploys and wires all contracts, checks them, and returns the address book.

    Before it sends anything, it raises `MalformedValue` if a parameter is outside its bounds, and `ConfigurationError` if a
    length is too short.
    """
    verify_parameters(client, site)
    book = planned_book(client, site)
    send_steps(client, deployer, site, 0, timeout_s)
    return verify_deployed(client, site, book)


def planned_book(client: Chain, site: DeploymentPlan) -> Network:
    """Returns the address book that a deployment from now on will have. Code hashes and key epochs are still missing."""
    return Network(
        chain_id=U256(client.chain_id),
        deploy_block=U64(client.head().number),
        addresses=Addresses(**{field_of(name): at for name, at in site.at.items() if not name.startswith(TREE)}),
        pools=tuple(PoolTree(pool, site.at[TREE + pool.hex()]) for pool in site.pools),
        code=(),
        epochs=(),
        stake=StakeSource.EIGENLAYER if site.restaked else StakeSource.NATIVE,
    )


def send_steps(
    client: Chain, deployer: LocalSigner, site: DeploymentPlan, taken: int, timeout_s: float = DEFAULT_TIMEOUT_S,
    progress: Callable[[int, int], None] = lambda done, total: None, ceiling_wei: int | None = None,
) -> None:  # fmt: skip
    """Sends all steps except the first `taken`, which the chain has already, and waits for their receipts. An error has the
    contract's reason.

    No transaction has a fee cap above `ceiling_wei` wei per gas; by default each portion has the ceiling of `send_all`.

    After each portion it calls `progress` with the number of steps that the chain has, and the number of all steps.
    """
    if deployer.address != site.deployer:
        raise ConfigurationError("deployer", f"is {deployer.address}, the site was surveyed for {site.deployer}")
    calls = [TransactionCall(deployer, each.to, each.data, 0, gas_limit(each)) for each in steps(site)[taken:]]
    done = taken
    for portion in _portions(calls):
        send_all(client, portion, timeout_s, ceiling_wei)
        done += len(portion)
        progress(done, taken + len(calls))


def verify_deployed(client: Chain, site: DeploymentPlan, book: Network) -> Network:
    """Returns the address book with its code hashes if the chain has this whole deployment. Raises `ConfigurationError`, which
    names the difference, if it does not."""
    for step in steps(site):
        if step.verb == "wire" and not client.call(step.contract.split()[0], site.at[step.contract], "wired", block="latest"):
            raise ConfigurationError(step.contract, "is not wired: its transaction failed; begin a new deployment")
    admin = client.call("AccessManager", site.at["AccessManager"], "hasRole", 0, site.at["LongTimelock"], block="latest")
    if not admin["isMember"]:
        raise ConfigurationError("Charter", "has not given the roles away: its transaction failed; begin a new deployment")
    whole = verify_code(client, replace(book, code=code_hashes(client, list(site.at.values()))))
    verify_options(client, site, site.at)
    verify_role_holders(client, site)
    return whole


def verify_parameters(client: Chain, site: DeploymentPlan) -> DeploymentPlan:
    """Returns the plan if the contract `Params` accepts the plan's parameters and the plan's lengths fit each other.

    Raises `ConfigurationError` if a length is too short. If `Params` refuses, raises the error that `as_rule` finds.
    """
    verify_lengths(site.params, lengths_of(site.shape, client.chain_id))
    first = next(step for step in steps(site) if step.contract == "Params")
    try:
        client.replay({"from": site.deployer, "data": "0x" + first.data.hex()}, "latest")
    except ChainReverted as error:
        raise as_rule(error) from error
    return site


def rehearse(client: Chain, site: DeploymentPlan, taken: int = 0) -> list[RehearsedStep]:
    """Returns the steps that `send_steps` would send, with their gas. Nothing is sent."""
    found = []
    for step in steps(site)[taken:]:
        estimate = None
        if step.to is None:
            # A constructor that calls a contract which is not there yet reverts.
            with contextlib.suppress(ChainReverted):
                estimate = client.estimate({"from": site.deployer, "data": "0x" + step.data.hex()})
        found.append(RehearsedStep(step, site.at[step.contract], gas_limit(step), estimate))
    return found


def largest_cost_wei(site: DeploymentPlan, ceiling_wei: int, taken: int = 0) -> int:
    """Returns the largest amount of wei that `send_steps` can spend with this ceiling: all gas limits at the highest fee."""
    return ceiling_wei * sum(gas_limit(each) for each in steps(site)[taken:])


def gas_limit(step: DeploymentStep) -> int:
    """Returns the gas limit of a step: enough for the step, and at most the limit of one transaction."""
    per_byte = DOCUMENT_GAS_PER_BYTE if step.to else _CREATION_GAS_PER_BYTE
    return min(CALL_GAS + per_byte * len(step.data), TX_GAS_CAP)


def put_in_force(
    client: Chain,
    network: Network,
    curator: LocalSigner,
    measurements: Sequence[Digest],
    proposals: Sequence[ItemProposal],
    policy: Policy,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> None:
    """Adds the pools, allows measurements, proposes items, and puts the appraisal policy in force.

    `activate` puts items in force after verifiers certified them. `chain.acts.epochs.open_epoch` opens key epochs.
    """
    acts = [add_pool(pool.digest, pool.tree) for pool in network.pools]
    acts += [set_measurement(each, allowed=True) for each in measurements]
    acts += [propose_item(each.digest, each.pool, each.vectors, each.document) for each in proposals]
    acts.append(set_policy(policy.digest, policy.serial, policy.document))
    send_all(client, [call_of(curator, network, act) for act in acts], timeout_s)


def _portions(calls: Sequence[TransactionCall]) -> Iterator[list[TransactionCall]]:
    """Yields the calls in portions that each fit into any block. Part of a larger portion might wait until other transactions
    cause the next block."""
    portion: list[TransactionCall] = []
    for call in calls:
        if portion and sum(each.gas for each in portion) + call.gas > TX_GAS_CAP:
            yield portion
            portion = []
        portion.append(call)
    if portion:
        yield portion


def environment_proposal(environment: Environment, pool: Digest, vectors: Digest) -> ItemProposal:
    """Returns the proposal of an environment."""
    return ItemProposal(environment.digest, pool, vectors, encode(environment))


def join(client: Chain, network: Network, joiners: Sequence[Joiner], timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
    """Deposits the stake of every account and registers the account, as operator or verifier."""
    calls = []
    for each in joiners:
        if each.stake_wei:
            calls.append(call_of(each.signer, network, ContractCall("StakeVault", "deposit", (), each.stake_wei)))
        if each.endpoint is not None:
            calls.append(call_of(each.signer, network, ContractCall("Registry", "registerOperator", (each.endpoint,))))
        else:
            machine = (each.pool, each.platform_id, each.measurement)
            calls.append(call_of(each.signer, network, ContractCall("Registry", "join", machine)))
    send_all(client, calls, timeout_s)


def certify(
    client: Chain,
    network: Network,
    verifiers: Sequence[LocalSigner],
    items: Mapping[Digest, Digest],
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> None:
    """Sends the statements of verifiers that they reproduced items (digest → vectors). The verifiers' stake must already have
    weight."""
    words = [ContractCall("Registry", "certify", (digest, vectors)) for digest, vectors in items.items()]
    send_all(client, [call_of(who, network, word) for who in verifiers for word in words], timeout_s)


def activate(
    client: Chain,
    network: Network,
    curator: LocalSigner,
    items: Sequence[Digest],
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> None:
    """Puts certified items in force."""
    send_all(client, [call_of(curator, network, activate_item(item)) for item in items], timeout_s)


def fund(client: Chain, rich: LocalSigner, accounts: Mapping[Address, int], timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
    """Sends wei from `rich` to accounts."""
    send_all(client, [TransactionCall(rich, who, b"", amount, 21_000) for who, amount in accounts.items()], timeout_s)


def created_address(deployer: Address, nonce: int) -> Address:
    """Returns the address of the contract that a deployer's transaction creates: the last 20 bytes of keccak256(rlp([deployer,
    nonce]))."""
    return address(get_create_address(HexAddress(HexStr(deployer)), Nonce(nonce)))

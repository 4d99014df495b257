"""What only a vote may do, through the short timelock or the long one; `chain.acts.proposals` finds which, and makes the
proposal.

Acts of OpenZeppelin's contracts are here as far as a deployment of ours can need them.
"""

from collections.abc import Sequence
from typing import Literal

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.units import Address, Digest
from chain.client.structs import to_struct
from chain.deployment.calls import ContractCall

Timelock = Literal["ShortTimelock", "LongTimelock"]
"""Names of the two in the address book."""

# --- parameters and prices: the short timelock ---


def set_params(params: ParamSet) -> ContractCall:
    """A new version of the parameters, for batches that are anchored later."""
    return ContractCall("Params", "set", (to_struct(params),))


def set_price_limits(least_wei: int, most_wei: int, target: int, epoch_s: int) -> ContractCall:
    """Bounds of the price of a place for one receipt; the receipts of one price epoch at which it stays; its length."""
    return ContractCall("FeeMarket", "setLimits", (least_wei, most_wei, target, epoch_s))


# --- movers of money and stake: the long timelock ---


def set_money_mover(who: Address, allowed: bool) -> ContractCall:
    """Lets a contract open, pay and close pots of the ledger, or no more."""
    return ContractCall("Ledger", "setMover", (who, allowed))


def set_money_source(who: Address, allowed: bool) -> ContractCall:
    """Lets a stake source bring slashed stake to the ledger, or a court bonds, or no more."""
    return ContractCall("Ledger", "setSource", (who, allowed))


def set_stake_mover(who: Address, allowed: bool) -> ContractCall:
    """Lets a contract lock, slash and reserve stake of the vault, or no more."""
    return ContractCall("StakeVault", "setMover", (who, allowed))


def set_court(court: Address) -> ContractCall:
    """Names the court whose breaker closes environments."""
    return ContractCall("Registry", "setCourt", (court,))


# --- who may call what ---


def grant_role(role: int, account: Address) -> ContractCall:
    """Gives a role, at once when the vote's time is over. Guardian and curator by the short timelock, others by the long one."""
    return ContractCall("AccessManager", "grantRole", (role, account, 0))


def revoke_role(role: int, account: Address) -> ContractCall:
    """Takes a role away."""
    return ContractCall("AccessManager", "revokeRole", (role, account))


def label_role(role: int, label: str) -> ContractCall:
    """Names a role for people."""
    return ContractCall("AccessManager", "labelRole", (role, label))


def set_role_admin(role: int, admin: int) -> ContractCall:
    """Says which role gives and takes a role."""
    return ContractCall("AccessManager", "setRoleAdmin", (role, admin))


def set_function_role(target: Address, selectors: Sequence[bytes], role: int) -> ContractCall:
    """Says which role may call some functions of a contract; of a new court, say."""
    return ContractCall("AccessManager", "setTargetFunctionRole", (target, list(selectors), role))


def close_target(target: Address, closed: bool) -> ContractCall:
    """Closes every governed function of a contract to everybody, or opens them again."""
    return ContractCall("AccessManager", "setTargetClosed", (target, closed))


def move_authority(target: Address, authority: Address) -> ContractCall:
    """Puts a contract under another manager, for good unless that one gives it back."""
    return ContractCall("AccessManager", "updateAuthority", (target, authority))


# --- the vote itself ---


def set_voting_delay(blocks: int) -> ContractCall:
    """Blocks from a proposal to its vote."""
    return ContractCall("BytewiseGovernor", "setVotingDelay", (blocks,))


def set_voting_period(blocks: int) -> ContractCall:
    """Blocks of a vote."""
    return ContractCall("BytewiseGovernor", "setVotingPeriod", (blocks,))


def set_proposal_threshold(votes: int) -> ContractCall:
    """Votes that a proposer needs."""
    return ContractCall("BytewiseGovernor", "setProposalThreshold", (votes,))


def set_quorum_percent(percent: int) -> ContractCall:
    """Share of all votes that must take part."""
    return ContractCall("BytewiseGovernor", "updateQuorumNumerator", (percent,))


def relay_from_governor(target: Address, value_wei: int, data: bytes) -> ContractCall:
    """Has the governor itself call something: what was sent to it by mistake leaves it so."""
    return ContractCall("BytewiseGovernor", "relay", (target, value_wei, data))


def set_delay(timelock: Timelock, seconds: int) -> ContractCall:
    """Changes the delay of a timelock, which alone may do so."""
    return ContractCall(timelock, "updateDelay", (seconds,))


def grant_timelock_role(timelock: Timelock, role: Digest, account: Address) -> ContractCall:
    """Gives a role of a timelock (proposer, executor, canceller), which alone may do so."""
    return ContractCall(timelock, "grantRole", (role, account))


def revoke_timelock_role(timelock: Timelock, role: Digest, account: Address) -> ContractCall:
    """Takes a role of a timelock away."""
    return ContractCall(timelock, "revokeRole", (role, account))


def cancel_operation(operation: Digest) -> ContractCall:
    """Stops what waits in the long timelock, by a vote through the short one."""
    return ContractCall("LongTimelock", "cancel", (operation,))

"""Calls that only a vote can make, through the short or the long timelock. `chain.acts.proposals` makes the proposal.

It has only those functions of OpenZeppelin's contracts that a deployment can need.
"""

from collections.abc import Sequence
from typing import Literal

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.units import Address, Digest
from chain.client.structs import to_struct
from chain.deployment.calls import ContractCall

Timelock = Literal["ShortTimelock", "LongTimelock"]
"""Names of the two timelocks in the address book."""

# --- parameters and prices: the short timelock ---


def set_params(params: ParamSet) -> ContractCall:
    """Sets a new version of the parameters, for batches that are anchored later."""
    return ContractCall("Params", "set", (to_struct(params),))


def set_price_limits(least_wei: int, most_wei: int, target: int, epoch_s: int) -> ContractCall:
    """Sets the bounds of the anchoring price per receipt, the receipts per price epoch at which it stays, and the epoch's
    length. The contract takes prices up to 1 ether and epochs up to 14 days."""
    return ContractCall("FeeMarket", "setLimits", (least_wei, most_wei, target, epoch_s))


# --- movers of money and stake: the long timelock ---


def set_money_mover(who: Address, allowed: bool) -> ContractCall:
    """Allows or forbids a contract to open, pay and close pots of the ledger."""
    return ContractCall("Ledger", "setMover", (who, allowed))


def set_money_source(who: Address, allowed: bool) -> ContractCall:
    """Allows or forbids a contract to bring slashed stake or bonds to the ledger."""
    return ContractCall("Ledger", "setSource", (who, allowed))


def set_stake_mover(who: Address, allowed: bool) -> ContractCall:
    """Allows or forbids a contract to lock, slash and reserve stake of the vault."""
    return ContractCall("StakeVault", "setMover", (who, allowed))


def set_court(court: Address) -> ContractCall:
    """Names the court whose breaker closes environments."""
    return ContractCall("Registry", "setCourt", (court,))


# --- who may call what ---


def grant_role(role: int, account: Address) -> ContractCall:
    """Grants a role, effective at once after the vote. Guardian and curator go through the short timelock, other roles through
    the long one."""
    return ContractCall("AccessManager", "grantRole", (role, account, 0))


def revoke_role(role: int, account: Address) -> ContractCall:
    """Revokes a role."""
    return ContractCall("AccessManager", "revokeRole", (role, account))


def label_role(role: int, label: str) -> ContractCall:
    """Sets the label of a role, for people."""
    return ContractCall("AccessManager", "labelRole", (role, label))


def set_role_admin(role: int, admin: int) -> ContractCall:
    """Sets which role grants and revokes a role."""
    return ContractCall("AccessManager", "setRoleAdmin", (role, admin))


def set_function_role(target: Address, selectors: Sequence[bytes], role: int) -> ContractCall:
    """Sets which role may call some functions of a contract, of a new court for example."""
    return ContractCall("AccessManager", "setTargetFunctionRole", (target, list(selectors), role))


def close_target(target: Address, closed: bool) -> ContractCall:
    """Closes all governed functions of a contract to everybody, or opens them again."""
    return ContractCall("AccessManager", "setTargetClosed", (target, closed))


def move_authority(target: Address, authority: Address) -> ContractCall:
    """Puts a contract under another manager. Only that manager can give it back."""
    return ContractCall("AccessManager", "updateAuthority", (target, authority))


# --- the vote itself ---


def set_voting_delay(blocks: int) -> ContractCall:
    """Sets the blocks between a proposal and its vote."""
    return ContractCall("BytewiseGovernor", "setVotingDelay", (blocks,))


def set_voting_period(blocks: int) -> ContractCall:
    """Sets the length of a vote in blocks."""
    return ContractCall("BytewiseGovernor", "setVotingPeriod", (blocks,))


def set_proposal_threshold(votes: int) -> ContractCall:
    """Sets the votes that a proposer needs."""
    return ContractCall("BytewiseGovernor", "setProposalThreshold", (votes,))


def set_quorum_percent(percent: int) -> ContractCall:
    """Sets the share of all votes that must take part."""
    return ContractCall("BytewiseGovernor", "updateQuorumNumerator", (percent,))


def relay_from_governor(target: Address, value_wei: int, data: bytes) -> ContractCall:
    """Has the governor itself make a call, for example to return what was sent to it by mistake."""
    return ContractCall("BytewiseGovernor", "relay", (target, value_wei, data))


def set_delay(timelock: Timelock, seconds: int) -> ContractCall:
    """Changes the delay of a timelock, which only the timelock itself may do."""
    return ContractCall(timelock, "updateDelay", (seconds,))


def grant_timelock_role(timelock: Timelock, role: Digest, account: Address) -> ContractCall:
    """Grants a role of a timelock (proposer, executor, canceller), which only the timelock itself may do."""
    return ContractCall(timelock, "grantRole", (role, account))


def revoke_timelock_role(timelock: Timelock, role: Digest, account: Address) -> ContractCall:
    """Revokes a role of a timelock."""
    return ContractCall(timelock, "revokeRole", (role, account))


def cancel_operation(operation: Digest) -> ContractCall:
    """Cancels an operation that waits in the long timelock, by a vote through the short one."""
    return ContractCall("LongTimelock", "cancel", (operation,))

"""Contract calls that only a vote can make, through the short or the long timelock.

`chain.acts.proposals` puts them into a proposal. Of OpenZeppelin's contracts, this module has only the functions that
a deployment can need.
"""

from collections.abc import Sequence
from typing import Literal

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.units import Address, Digest
from chain.client.artifacts import to_struct
from chain.deployment.calls import ContractCall

Timelock = Literal["ShortTimelock", "LongTimelock"]
"""Names of the two timelocks in the address book."""

# --- parameters and prices: the short timelock ---


def set_params(params: ParamSet) -> ContractCall:
    """Returns the call that sets a new version of the parameters. It applies to batches that are anchored later."""
    return ContractCall("Params", "set", (to_struct(params),))


def set_price_limits(least_wei: int, most_wei: int, target: int, epoch_s: int) -> ContractCall:
    """Returns the call that sets the limits of the anchoring price: lowest and highest wei per receipt, and the length of a
    price epoch in seconds.

    The price does not change after an epoch with `target` receipts. The contract accepts prices up to 1 ether and epochs up to
    14 days.
    """
    return ContractCall("FeeMarket", "setLimits", (least_wei, most_wei, target, epoch_s))


# --- movers of money and stake: the long timelock ---


def set_money_mover(who: Address, allowed: bool) -> ContractCall:
    """Returns the call that allows or forbids a contract to open, pay and close pots of the ledger."""
    return ContractCall("Ledger", "setMover", (who, allowed))


def set_money_source(who: Address, allowed: bool) -> ContractCall:
    """Returns the call that allows or forbids a contract to bring slashed stake or bonds to the ledger."""
    return ContractCall("Ledger", "setSource", (who, allowed))


def set_stake_mover(who: Address, allowed: bool) -> ContractCall:
    """Returns the call that allows or forbids a contract to lock, slash and reserve stake of the vault."""
    return ContractCall("StakeVault", "setMover", (who, allowed))


def set_court(court: Address) -> ContractCall:
    """Returns the call that tells the registry which contract `Breaker` belongs to the court. The registry then lets this
    `Breaker` close environments and suspend operators."""
    return ContractCall("Registry", "setCourt", (court,))


# --- roles, and the functions that a role may call ---


def grant_role(role: int, account: Address) -> ContractCall:
    """Returns the call that grants a role, effective as soon as it is executed. Guardian and curator go through the short
    timelock, other roles through the long one."""
    return ContractCall("AccessManager", "grantRole", (role, account, 0))


def revoke_role(role: int, account: Address) -> ContractCall:
    """Returns the call that revokes a role."""
    return ContractCall("AccessManager", "revokeRole", (role, account))


def label_role(role: int, label: str) -> ContractCall:
    """Returns the call that sets the label of a role, which people read."""
    return ContractCall("AccessManager", "labelRole", (role, label))


def set_role_admin(role: int, admin: int) -> ContractCall:
    """Returns the call that sets which role, `admin`, may grant and revoke a role."""
    return ContractCall("AccessManager", "setRoleAdmin", (role, admin))


def set_function_role(target: Address, selectors: Sequence[bytes], role: int) -> ContractCall:
    """Returns the call that sets which role may call the functions with these selectors, for example those of a new court's
    contract."""
    return ContractCall("AccessManager", "setTargetFunctionRole", (target, list(selectors), role))


def close_target(target: Address, closed: bool) -> ContractCall:
    """Returns the call that closes all governed functions of a contract to everybody, or opens them again."""
    return ContractCall("AccessManager", "setTargetClosed", (target, closed))


def move_authority(target: Address, authority: Address) -> ContractCall:
    """Returns the call that puts a contract under another access manager. Only that manager can put it back."""
    return ContractCall("AccessManager", "updateAuthority", (target, authority))


# --- rules of votes, and of timelocks ---


def set_voting_delay(blocks: int) -> ContractCall:
    """Returns the call that sets the number of blocks between a proposal and its vote."""
    return ContractCall("BytewiseGovernor", "setVotingDelay", (blocks,))


def set_voting_period(blocks: int) -> ContractCall:
    """Returns the call that sets the length of a vote in blocks."""
    return ContractCall("BytewiseGovernor", "setVotingPeriod", (blocks,))


def set_proposal_threshold(votes: int) -> ContractCall:
    """Returns the call that sets how many votes an account needs to make a proposal."""
    return ContractCall("BytewiseGovernor", "setProposalThreshold", (votes,))


def set_quorum_percent(percent: int) -> ContractCall:
    """Returns the call that sets the percentage of all votes that must be cast for a proposal or abstain. Votes against it do not
    count for this percentage."""
    return ContractCall("BytewiseGovernor", "updateQuorumNumerator", (percent,))


def relay_from_governor(target: Address, value_wei: int, data: bytes) -> ContractCall:
    """Returns the call that makes the governor itself call a contract, for example to return money that was sent to it by
    mistake."""
    return ContractCall("BytewiseGovernor", "relay", (target, value_wei, data))


def set_delay(timelock: Timelock, seconds: int) -> ContractCall:
    """Returns the call that changes the delay of a timelock. Only the timelock itself may make it."""
    return ContractCall(timelock, "updateDelay", (seconds,))


def grant_timelock_role(timelock: Timelock, role: Digest, account: Address) -> ContractCall:
    """Returns the call that grants a role of a timelock (proposer, executor, canceller). Only the timelock itself may make
    it."""
    return ContractCall(timelock, "grantRole", (role, account))


def revoke_timelock_role(timelock: Timelock, role: Digest, account: Address) -> ContractCall:
    """Returns the call that revokes a role of a timelock. Only the timelock itself may make it."""
    return ContractCall(timelock, "revokeRole", (role, account))


def cancel_operation(operation: Digest) -> ContractCall:
    """Returns the call that cancels an operation which waits in the long timelock. The vote for it goes through the short
    timelock."""
    return ContractCall("LongTimelock", "cancel", (operation,))

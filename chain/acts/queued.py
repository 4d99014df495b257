"""Calls that the governor takes from its timelock, tried before they are voted on.

OpenZeppelin's `Governor` does to itself only what the proposal says that it executes: until then it keeps the hashes of those
calls in a queue, and refuses any other. A call that is only tried has no proposal, so the node is asked
to answer as if the queue had it.
"""

from typing import Any

from eth_abi.abi import encode

from bytewise.protocol.address_book import Network
from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors import ChainReverted, ConfigurationError
from bytewise.protocol.units import Address
from chain.client.access import Chain
from chain.client.address_book import address_of
from chain.client.artifacts import Reason
from chain.deployment.calls import Act, dry_run

_ENDS_SLOT, _CALLS_SLOT = 5, 6
"""Of the governor's storage: the ends of the queue (the first call's number in the low half, the next free one in the high half),
and its calls by number."""

_EMPTY_QUEUE = 0x31
"""Solidity's panic for taking from an empty array: the governor's queue has no such call."""


def try_queued(client: Chain, network: Network, timelock: Address, act: Act) -> None:
    """`dry_run` of an act on the governor in the name of its timelock, as if a proposal had it done.

    `ConfigurationError` if the node answers no calls on a changed state: another one must be asked.
    """
    slots = {_word(_ENDS_SLOT): _word(1 << 128), "0x" + _place_of_first().hex(): "0x" + keccak256(act.calldata).hex()}
    changed: dict[str, Any] = {address_of(network, act.contract): {"stateDiff": slots}}
    try:
        dry_run(client, network, timelock, act, changed)
    except ChainReverted as error:
        reason = error.values[2] if len(error.values) > 2 else None
        if isinstance(reason, Reason) and (reason.name, reason.arguments.get("code")) == ("Panic", _EMPTY_QUEUE):
            what = f"the node cannot try {act}: it answers no eth_call on a changed state (state override)"
            raise ConfigurationError("rpc", f"{what}; name another node") from None
        raise


def _place_of_first() -> bytes:
    """Slot of call number 0 of the queue."""
    return keccak256(encode(["uint256", "uint256"], [0, _CALLS_SLOT]))


def _word(value: int) -> str:
    return f"0x{value:064x}"

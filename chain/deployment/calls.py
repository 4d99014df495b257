"""Contract calls of the deployer, of role holders and of governance, and their conversion to transactions with a gas limit."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import ChainReverted
from bytewise.protocol.signing import Signer
from bytewise.protocol.units import Address, Blob
from chain.client.access import Chain
from chain.client.address_book import address_of
from chain.client.rpc import at_number
from chain.client.simulation import as_rule
from chain.deployment.plan import code
from chain.sending.transactions import TX_GAS_CAP, TransactionCall

CALL_GAS = 1_000_000
"""Gas of a call without its data: more than a call that stores a few words needs."""

DOCUMENT_GAS_PER_BYTE = 60
"""Gas for each byte of data that the contract repeats in an event."""


class ContractCall(NamedTuple):
    """A contract call that is not signed yet."""

    contract: str
    """Name of the contract. It selects address and code: `ShortTimelock` and `LongTimelock` have the same code."""
    function: str
    """Name of the function."""
    arguments: tuple[Any, ...] = ()
    """Arguments in the order of the contract's ABI."""
    value_wei: int = 0
    """Wei that the call sends to the contract."""
    at: Address | None = None
    """Address of the contract; None for the address in the address book."""

    def target(self, network: Network) -> Address:
        """Returns the address that the call goes to."""
        return self.at or address_of(network, self.contract)

    @property
    def calldata(self) -> Blob:
        """Encoded function and arguments. Raises `MalformedValue` if arguments do not fit their types."""
        return Blob(code(self.contract).call(self.function, *self.arguments))

    def __str__(self) -> str:
        return f"{self.contract}.{self.function}"


def request_of(network: Network, who: Address, act: ContractCall) -> dict[str, str]:
    """Returns the call by account `who` in the form of JSON-RPC."""
    return {"from": who, "to": act.target(network), "data": "0x" + act.calldata.hex(), "value": hex(act.value_wei)}


def call_of(signer: Signer, network: Network, act: ContractCall) -> TransactionCall:
    """Returns the call as a transaction with an upper bound of gas. The gas cannot be estimated before earlier transactions are
    mined."""
    data = act.calldata
    gas = min(CALL_GAS + DOCUMENT_GAS_PER_BYTE * len(data), TX_GAS_CAP)
    return TransactionCall(signer, act.target(network), data, act.value_wei, gas)


def estimated_call(client: Chain, network: Network, signer: Signer, act: ContractCall) -> TransactionCall:
    """Returns the call as a transaction. Its gas limit is one and a half times the node's estimate, at most `TX_GAS_CAP`.

    If the contract refuses the call, raises the error that `as_rule` finds for the refusal.
    """
    try:
        gas = client.estimate(request_of(network, signer.address, act))
    except ChainReverted as error:
        raise as_rule(error) from error
    return TransactionCall(signer, act.target(network), act.calldata, act.value_wei, min(gas + gas // 2, TX_GAS_CAP))


def dry_run(client: Chain, network: Network, who: Address, act: ContractCall, changed: Mapping[str, Any] | None = None) -> None:
    """Tries a call by `who` on the newest block without sending it. If the contract refuses the call, raises the error that
    `as_rule` finds for the refusal.

    `changed` overrides parts of the state, by account, in the form of `eth_call`.
    """
    try:
        client.replay(request_of(network, who, act), at_number(client.head().number), changed)
    except ChainReverted as error:
        raise as_rule(error) from error

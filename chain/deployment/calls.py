"""Contract calls of the deployer, of role holders and of governance: by name, with gas for their data."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import ChainReverted
from bytewise.protocol.signing import Signer
from bytewise.protocol.units import Address, Blob
from chain.client.access import Chain
from chain.client.address_book import address_of
from chain.client.error_rules import as_rule
from chain.client.rpc import at_number
from chain.deployment.plan import code
from chain.sending.transactions import TX_GAS_CAP, TransactionCall

CALL_GAS = 1_000_000
"""Gas of a call without its data: more than any call that stores a few words needs."""

DOCUMENT_GAS_PER_BYTE = 60
"""Gas per byte that an event repeats."""


class ContractCall(NamedTuple):
    """An unsigned call of a contract."""

    contract: str
    """Name of the contract. `ShortTimelock` and `LongTimelock` have the same code."""
    function: str
    arguments: tuple[Any, ...] = ()
    value_wei: int = 0
    at: Address | None = None
    """Address of the contract; None for the address in the book."""

    def target(self, network: Network) -> Address:
        """Address of the contract."""
        return self.at or address_of(network, self.contract)

    @property
    def calldata(self) -> Blob:
        """Calldata. `MalformedValue` for arguments outside their types."""
        return Blob(code(self.contract).call(self.function, *self.arguments))

    def __str__(self) -> str:
        return f"{self.contract}.{self.function}"


def request_of(network: Network, who: Address, act: ContractCall) -> dict[str, str]:
    """The call of account `who` as a JSON-RPC request."""
    return {"from": who, "to": act.target(network), "data": "0x" + act.calldata.hex(), "value": hex(act.value_wei)}


def call_of(signer: Signer, network: Network, act: ContractCall) -> TransactionCall:
    """The call as a transaction, with gas for its data: it cannot be estimated before the transactions ahead of it are mined."""
    data = act.calldata
    gas = min(CALL_GAS + DOCUMENT_GAS_PER_BYTE * len(data), TX_GAS_CAP)
    return TransactionCall(signer, act.target(network), data, act.value_wei, gas)


def measured(client: Chain, network: Network, signer: Signer, act: ContractCall) -> TransactionCall:
    """The call as a transaction, with half more gas than it needs now. Raises the rule behind a refusal."""
    try:
        gas = client.estimate(request_of(network, signer.address, act))
    except ChainReverted as error:
        raise as_rule(error) from error
    return TransactionCall(signer, act.target(network), act.calldata, act.value_wei, min(gas + gas // 2, TX_GAS_CAP))


def dry_run(client: Chain, network: Network, who: Address, act: ContractCall, changed: Mapping[str, Any] | None = None) -> None:
    """Tries a call of `who` on the newest block without sending it. Raises the rule behind the contract's refusal.

    `changed` overrides state by account, as `eth_call` takes it.
    """
    try:
        client.replay(request_of(network, who, act), at_number(client.head().number), changed)
    except ChainReverted as error:
        raise as_rule(error) from error

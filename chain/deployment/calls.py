"""Calls of contracts as the starter, the offices and governance make them: by name, with gas for what they carry."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import ChainReverted
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import Address, Blob
from chain.client.access import Chain
from chain.client.address_book import address_of
from chain.client.error_rules import as_rule
from chain.client.rpc import at_number
from chain.deployment.plan import code
from chain.sending.transactions import TX_GAS_CAP, TransactionCall

CALL_GAS = 1_000_000
"""Of a call whatever it carries: above any that stores a few words."""

DOCUMENT_GAS_PER_BYTE = 60
"""Of bytes that an event repeats."""


class ContractCall(NamedTuple):
    """A call of a contract, before anybody signs it."""

    contract: str
    """Its name; `ShortTimelock` and `LongTimelock` are two of one code."""
    function: str
    arguments: tuple[Any, ...] = ()
    value_wei: int = 0
    at: Address | None = None
    """Where it is; None for where the address book says."""

    def target(self, network: Network) -> Address:
        """The contract's address."""
        return self.at or address_of(network, self.contract)

    @property
    def calldata(self) -> Blob:
        """What is sent; `MalformedValue` for arguments outside their types."""
        return Blob(code(self.contract).call(self.function, *self.arguments))

    def __str__(self) -> str:
        return f"{self.contract}.{self.function}"


def request_of(network: Network, who: Address, act: ContractCall) -> dict[str, str]:
    """The act as a call of `who` in JSON-RPC."""
    return {"from": who, "to": act.target(network), "data": "0x" + act.calldata.hex(), "value": hex(act.value_wei)}


def call_of(signer: LocalSigner, network: Network, act: ContractCall) -> TransactionCall:
    """The act as a transaction, with gas by what it carries: what it meets on the chain may not be there yet."""
    data = act.calldata
    gas = min(CALL_GAS + DOCUMENT_GAS_PER_BYTE * len(data), TX_GAS_CAP)
    return TransactionCall(signer, act.target(network), data, act.value_wei, gas)


def measured(client: Chain, network: Network, signer: LocalSigner, act: ContractCall) -> TransactionCall:
    """The act as a transaction, with half more gas than it takes now; raises the rule that a refusal names."""
    try:
        gas = client.estimate(request_of(network, signer.address, act))
    except ChainReverted as error:
        raise as_rule(error) from error
    return TransactionCall(signer, act.target(network), act.calldata, act.value_wei, min(gas + gas // 2, TX_GAS_CAP))


def dry_run(client: Chain, network: Network, who: Address, act: ContractCall, changed: Mapping[str, Any] | None = None) -> None:
    """Tries an act of `who` on the newest block without sending it; raises the rule that the contract's refusal names.

    `changed` is what is to be otherwise, by account, as `eth_call` takes it (a state override).
    """
    try:
        client.replay(request_of(network, who, act), at_number(client.head().number), changed)
    except ChainReverted as error:
        raise as_rule(error) from error

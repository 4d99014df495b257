"""Calls of contracts as the starter and governance make them: by name, with gas for what they carry."""

from typing import Any

from bytewise.protocol.network import Network
from bytewise.protocol.signing import LocalSigner
from chain.artifacts import interface
from chain.book import address_of
from chain.transactions import TX_GAS_CAP, Call

CALL_GAS = 1_000_000
"""Of a call whatever it carries: above any that stores a few words."""

DOCUMENT_GAS_PER_BYTE = 60
"""Of bytes that an event repeats."""

STORED_GAS_PER_BYTE = 800
"""Of bytes that are stored: 22,100 for each 32 of them, and calldata."""


def call_of(
    signer: LocalSigner,
    network: Network,
    contract: str,
    function: str,
    *arguments: Any,
    value_wei: int = 0,
    gas_per_byte: int = DOCUMENT_GAS_PER_BYTE,
) -> Call:
    """A call of the contract of that name in the address book."""
    data = interface(contract).call(function, *arguments)
    gas = min(CALL_GAS + gas_per_byte * len(data), TX_GAS_CAP)
    return Call(signer, address_of(network, contract), data, value_wei, gas)

"""What the contracts would say to an act, without sending it: who decides learns of a refusal before it puts money aside."""

from collections.abc import Mapping
from typing import Any

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors import ChainReverted, ConfigurationError
from bytewise.protocol.records.receipt import Receipt, SignedReceipt
from bytewise.protocol.signing import struct_values
from bytewise.protocol.units import Address, Blob, Digest
from chain.client.access import Chain
from chain.client.address_book import address_of
from chain.client.artifacts import interface
from chain.client.blocks import BlockReader
from chain.client.error_rules import as_rule
from chain.client.rpc import at_hash


class Trials(BlockReader):
    """Acts of anybody, tried on one network."""

    def __init__(self, client: Chain, network: Network, tag: str = "latest") -> None:
        if network.chain_id != client.chain_id:
            raise ConfigurationError("network.json", f"for chain {network.chain_id}, not {client.chain_id}")
        super().__init__(client, tag)
        self.network = network

    def anchor_demand_refused(self, who: Address, signed: SignedReceipt, bond_wei: int, block: int) -> str | None:
        """Why the chain would not take a demand of `who` that a receipt be anchored; None if it would."""
        arguments = (struct_values(signed.receipt), signed.signature)
        return self._refused(who, "demandAnchor", arguments, bond_wei, block)

    def expiry_refused(self, who: Address, subject: Digest, block: int) -> str | None:
        """Why the chain would not end a demand for `who`, again or for the first time; None if it would."""
        return self._refused(who, "expire", (subject,), 0, block)

    def report_refused(
        self, who: Address, first: Receipt, first_signature: Blob, second: Receipt, signature: Blob, block: int
    ) -> str | None:
        """Why the chain would not take a report of `who` that two signed receipts have one number; None if it would."""
        arguments = (struct_values(first), first_signature, struct_values(second), signature)
        return self._refused(who, "equivocation", arguments, 0, block)

    def skip_refused(
        self, who: Address, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], block: int
    ) -> str | None:
        """Why the chain would not take a report of `who` that a receipt's operator skipped its number; None if it would."""
        arguments = (struct_values(receipt), signature, batch_id, proof)
        return self._refused(who, "reportSkipped", arguments, 0, block)

    def sharing_refused(self, who: Address, ref: Digest, block: int) -> str | None:
        """Why the chain would not share what a report slashed, asked by `who`; None if it would."""
        return self._refused(who, "collect", (ref,), 0, block)

    def _refused(
        self, who: Address, function: str, arguments: tuple[Any, ...], value_wei: int, block: int,
        contract: str = "Demands",
    ) -> str | None:  # fmt: skip
        data = interface(contract).call(function, *arguments)
        to = address_of(self.network, contract)
        request: Mapping[str, str] = {"from": who, "to": to, "data": "0x" + data.hex(), "value": hex(value_wei)}
        try:
            self.client.replay(request, at_hash(self.client.block(block).hash))
        except ChainReverted as error:
            return str(as_rule(error))
        return None

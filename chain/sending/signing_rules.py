"""Rules of what an account signs: only for its network, and only up to its ceilings (ADR-064).

The rules read the bytes that are signed, not what the caller says about them, before a signer of either kind gets them. That a
member votes once for a seat is not theirs: the protection table sees to that (`bytewise.storage.protection`).
"""

import dataclasses

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import SigningRefused
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.signing import LABELS, TRANSACTION, TYPED, Preimage
from bytewise.protocol.units import Address
from chain.sending.transactions import TX_GAS_CAP, UnsignedTransaction, read_unsigned

_WORD = 32


class SigningRules:
    """Rules for the signatures of one account on one network."""

    def __init__(self, network: Network, account: Address, max_value_wei: int, max_fee_wei: int) -> None:
        self._chain_id = int(network.chain_id)
        self._account = account
        self._max_value_wei = max_value_wei
        self._max_fee_wei = max_fee_wei
        self._contracts = {*dataclasses.astuple(network.addresses), *(pool.tree for pool in network.pools)}
        # Receipts; votes, commits and audit results; tickets.
        self._domains = {each.separator for each in (network.anchor_domain, network.disputes_domain, network.epochs_domain)}

    def verify(self, preimage: Preimage) -> None:
        """`SigningRefused` with the rule and the value that breaks it."""
        if preimage.startswith(TRANSACTION):
            self._verify_transaction(_read(preimage))
        elif preimage.startswith(TYPED):
            self._verify_typed(preimage)
        elif not any(preimage.startswith(label) and len(preimage) == len(label) + _WORD for label in LABELS):
            raise SigningRefused("form", f"{len(preimage)} bytes that are no transaction, no typed data and no label of ours")

    def _verify_transaction(self, made: UnsignedTransaction) -> None:
        if made.chain_id != self._chain_id:
            raise SigningRefused("chain id", f"a transaction of chain {made.chain_id}, the network is on {self._chain_id}")
        uses_nonce_only = made.to == self._account and not made.data and made.value_wei == 0
        if made.to not in self._contracts and not uses_nonce_only:
            raise SigningRefused("contract", f"a transaction to {made.to or 'nobody'}, which is no contract of the network")
        if made.value_wei > self._max_value_wei:
            raise SigningRefused("value", f"{made.value_wei} wei, the ceiling is {self._max_value_wei} (signer.max_value_wei)")
        if made.max_fee > self._max_fee_wei:
            raise SigningRefused("fee", f"{made.max_fee} wei per gas, the ceiling is {self._max_fee_wei} (signer.max_fee_wei)")
        if made.gas > TX_GAS_CAP:
            raise SigningRefused("gas", f"{made.gas}, the ceiling is {TX_GAS_CAP}")

    def _verify_typed(self, preimage: Preimage) -> None:
        if len(preimage) != len(TYPED) + 2 * _WORD:
            raise SigningRefused("form", f"{len(preimage)} bytes of typed data instead of {len(TYPED) + 2 * _WORD}")
        separator = preimage[len(TYPED) : len(TYPED) + _WORD]
        if separator not in self._domains:
            raise SigningRefused("domain", f"domain separator 0x{separator.hex()} is none under which this account signs")


def _read(preimage: Preimage) -> UnsignedTransaction:
    try:
        return read_unsigned(preimage)
    except MalformedValue as error:
        raise SigningRefused("form", str(error)) from None

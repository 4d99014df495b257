"""What an actor can ask of the contracts, each act named so that asking twice is one transaction.

Before a signature, and again before a fee is raised, the act is tried on the newest block (`chain.sender`); `answers.classify`
says what its refusal means. That somebody else did it first is no error (design section 2).
"""

from collections.abc import Mapping
from typing import Any

from bytewise.protocol.errors import ChainReverted, ConfigurationError
from bytewise.protocol.network import Network
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import Address
from bytewise.storage.lane import Lane
from bytewise.storage.outbox import Outbox
from chain.access import Chain
from chain.account_acts import AccountActs
from chain.answers import check_round, classify
from chain.artifacts import interface
from chain.book import address_of
from chain.client import at_number
from chain.demand_acts import DemandActs
from chain.dispute_acts import DisputeActs
from chain.rules import as_rule
from chain.sender import SenderPolicy, TransactionSender


class ContractSender(DisputeActs, DemandActs, AccountActs):
    """All acts of one account; `pump` (each tick) moves them on without waiting."""


def contract_sender(
    client: Chain,
    network: Network,
    lane: Lane,
    signer: LocalSigner,
    role: str,
    policy: SenderPolicy | None = None,
) -> ContractSender:
    """The sender of one account, its outbox in the process's own database (`Lane(engine, clock, chain_id, signer.address)`).

    `role` keeps two uses of one contract apart. `ConfigurationError` if the lane is another account's or chain's.
    """
    if (lane.chain_id, lane.account) != (client.chain_id, signer.address):
        raise ConfigurationError("sender", f"the lane is of {lane.account} on chain {lane.chain_id}")
    transactions = TransactionSender(client, Outbox(lane), signer, check_round(client, network), classify, policy)
    return ContractSender(transactions, network, role)


def dry_run(
    client: Chain, network: Network, who: Address, contract: str, function: str, *arguments: Any, value_wei: int = 0
) -> None:
    """Tries a call of `who` on the newest block without sending it; raises the rule that the contract's refusal names."""
    to = address_of(network, contract)
    data = interface(contract).call(function, *arguments)
    request: Mapping[str, str] = {"from": who, "to": to, "data": "0x" + data.hex(), "value": hex(value_wei)}
    try:
        client.replay(request, at_number(client.head().number))
    except ChainReverted as error:
        raise as_rule(error) from error

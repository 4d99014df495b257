"""What an actor can ask of the contracts, each act named so that asking twice is one transaction.

Before a signature, and again before a fee is raised, the act is tried on the newest block (`chain.sending.sender`);
`answers.classify` says what its refusal means. That somebody else did it first is no error (design section 2).
"""

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.signing import LocalSigner
from bytewise.storage.nonce_lease import NonceLease
from bytewise.storage.outbox import Outbox
from chain.acts.accounts import AccountTransactions, EigenLayerTransactions
from chain.acts.demands import DemandTransactions
from chain.acts.disputes import DisputeTransactions
from chain.acts.state_check import check_round, classify
from chain.client.access import Chain
from chain.sending.sender import SenderPolicy, TransactionSender


class ContractSender(DisputeTransactions, DemandTransactions, AccountTransactions, EigenLayerTransactions):
    """All acts of one account; `pump` (each tick) moves them on without waiting."""


def contract_sender(
    client: Chain,
    network: Network,
    lease: NonceLease,
    signer: LocalSigner,
    role: str,
    policy: SenderPolicy | None = None,
) -> ContractSender:
    """The sender of one account, with its outbox in the database of `NonceLease(engine, clock, chain_id, signer.address)`.

    `role` keeps two uses of one contract apart. `ConfigurationError` if the nonce lease is another account's or chain's.
    """
    if (lease.chain_id, lease.account) != (client.chain_id, signer.address):
        raise ConfigurationError("sender", f"the nonce lease is of {lease.account} on chain {lease.chain_id}")
    transactions = TransactionSender(client, Outbox(lease), signer, check_round(client, network), classify, policy)
    return ContractSender(transactions, network, role)

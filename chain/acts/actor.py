"""All transactions of one account, each named so that asking twice plans it once.

The sender tries a transaction on the newest block before it signs it and before it raises a fee (`chain.sending.sender`).
`state_check.classify` says what a refusal means. It is no error if somebody else was first (design section 2).
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
    """All transactions of one account. `pump`, called each tick, moves them on without waiting."""


def contract_sender(
    client: Chain,
    network: Network,
    lease: NonceLease,
    signer: LocalSigner,
    role: str,
    policy: SenderPolicy | None = None,
) -> ContractSender:
    """The sender of one account, with its outbox in the process's own database.

    `role` separates two uses of one contract. `ConfigurationError` if the lease is of another account or chain.
    """
    if (lease.chain_id, lease.account) != (client.chain_id, signer.address):
        raise ConfigurationError(
            "sender", f"the nonce lease is for {lease.account} on chain {lease.chain_id}: open the database of {signer.address}"
        )
    transactions = TransactionSender(client, Outbox(lease), signer, check_round(client, network), classify, policy)
    return ContractSender(transactions, network, role)

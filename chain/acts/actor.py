"""All transactions of one account: about the account itself, disputes and demands. Each has a name, so that a second request for
the same transaction plans nothing new.

The sender tries a transaction on the newest block before it signs it and before it raises a fee (`chain.sending.sender`).
`state_check.classify` says what a refusal means. It is no error if another account was first (design section 2).
"""

from typing import Any

from bytewise.crypto.bls import BlsSigner, key_hash, point_words
from bytewise.protocol.address_book import Network
from bytewise.protocol.digests import keccak256, keccak256_abi
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.records.receipt import BatchHeader, EmptyLeaf, Receipt, ReceiptList, SignedReceipt, receipt_id
from bytewise.protocol.records.statements import AuditResult
from bytewise.protocol.signing import Signer, struct_values
from bytewise.protocol.units import U8, U64, ZERO_ADDRESS, ZERO_DIGEST, Address, Blob, Digest
from bytewise.storage.nonce_lease import NonceLease
from bytewise.storage.outbox import Outbox, OutboxItem
from chain.acts.base import NetworkPlanner
from chain.acts.disputes import DisputeTransactions
from chain.acts.state_check import check_round, classify
from chain.client.access import Chain
from chain.sending.sender import SenderPolicy, TransactionSender

# Transactions about an account itself: stake, roles, keys, batches, audits, money.


class EigenLayerTransactions(NetworkPlanner):
    """Renews stake records, and completes slashes and payments that EigenLayer did not make at once. Any account may send these.

    A network has these where `EigenLayerStake` takes the place of the vault.
    """

    def sync_stake(self, account: Address, block: int) -> None:
        """Records the stake that an account has now. `block`: block of the record to renew, since a record stops counting with
        age."""
        self._act("EigenLayerStake", "sync", bytes.fromhex(account[2:]) + block.to_bytes(8, "big"), (account,))

    def retry_slash(self, account: Address, ref: Digest, times: int) -> None:
        """Retries a slash that EigenLayer refused for `ref`. `times`: how often it has refused so far; each retry is its own
        transaction."""
        subject = bytes.fromhex(account[2:]) + ref + times.to_bytes(8, "big")
        self._act("EigenLayerStake", "retry", subject, (account, ref))

    def collect_slash(self, slash_id: int) -> None:
        """Moves slashed stake to its pot, once EigenLayer pays."""
        self._act("EigenLayerStake", "collect", slash_id.to_bytes(32, "big"), (slash_id,))

    def sweep_stake(self) -> None:
        """Moves money of the adapter that no pot is owed into a pot that pays nobody."""
        self._again("EigenLayerStake", "sweep")


class AccountTransactions(NetworkPlanner):
    """Transactions of an operator or a verifier about itself."""

    # --- operators ---

    def register_operator(self, endpoint: str) -> None:
        """Registers this account as operator, or changes its endpoint."""
        self._act("Registry", "registerOperator", endpoint.encode(), (endpoint,))

    def anchor(self, header: BatchHeader, fee_wei: int, deadline: int = 0) -> None:
        """Posts a batch. The chain sets batch id, operator and anchoring time, and returns the excess of the fee.

        Nothing is sent after chain time `deadline` in Unix seconds (like `anchor_by`); 0 for none. A different batch with the
        same first number is a different transaction: see `withdraw_batch`.
        """
        fields = (
            header.first_seq, header.count, header.root, header.list_hash, header.environment, header.model_id,
            header.key_epoch, header.locator.encode(),
        )  # fmt: skip
        where, subject = self._at("ReceiptAnchor"), _batch_subject(header)
        self._plan("ReceiptAnchor", where, "post", subject, (fields,), value_wei=fee_wei, deadline=deadline)

    def withdraw_batch(self, header: BatchHeader) -> bool:
        """Whether no transaction that posts this batch can be mined any more. A transaction that was never signed is
        cancelled."""
        return self.transactions.withdraw(self._at("ReceiptAnchor"), "post", _batch_subject(header), self._role)

    def release(self, batch_id: int) -> None:
        """Frees the collateral of a batch if nothing locks it."""
        self._act("ReceiptAnchor", "release", batch_id.to_bytes(8, "big"), (batch_id,))

    # --- stake ---

    def deposit(self, amount_wei: int, reference: bytes) -> None:
        """Adds to this account's stake. `reference` distinguishes deposits of the same amount."""
        self._act("StakeVault", "deposit", reference, (), value_wei=amount_wei, repeatable=True)

    def request_unbond(self, amount_wei: int, reference: bytes) -> None:
        """Starts the withdrawal of stake."""
        self._act("StakeVault", "requestUnbond", reference, (amount_wei,), repeatable=True)

    def finish_unbond(self, due_wei: int) -> None:
        """Withdraws stake whose delay is over. Does nothing if `due_wei` is 0 or a withdrawal is on its way."""
        if due_wei > 0:
            self._again("StakeVault", "finishUnbond")

    # --- verifiers ---

    def announce_platform(self, platform_id: Digest) -> None:
        """Announces the machine with which this account joins one block later, so that copying its id from `join` is useless."""
        account = self.transactions.outbox.lease.account
        announcement = keccak256_abi(("address", "bytes32"), (account, platform_id))
        self._act("Registry", "announce", platform_id, (announcement,), repeatable=True)

    def join_pool(self, pool: Digest, platform_id: Digest, measurement: Digest) -> None:
        """Makes this account a verifier of a pool."""
        self._act("Registry", "join", pool, (pool, platform_id, measurement))

    def quit_pool(self) -> None:
        """Leaves the pool: this account's stake does not count from the next stake epoch on."""
        self._again("Registry", "quit")

    def refresh(self, account: Address, block: int) -> None:
        """Lets the registry read a verifier's current stake again, once for each `block` that gave a reason for it."""
        self._act("Registry", "refresh", bytes.fromhex(account[2:]) + block.to_bytes(8, "big"), (account,))

    def propose(self, digest: Digest, pool: Digest, vectors: Digest, document: bytes) -> None:
        """Proposes an environment (with its pool) or a model (pool zero)."""
        self._act("Registry", "propose", digest, (digest, pool, vectors, document))

    def certify_item(self, digest: Digest, vectors: Digest, certify_until: int) -> OutboxItem:
        """States that this verifier reproduced an environment or a model; once for each proposal, which ends at
        `certify_until`."""
        subject = digest + vectors + certify_until.to_bytes(8, "big")
        return self._act("Registry", "certify", subject, (digest, vectors), deadline=certify_until)

    def register_bls(self, signer: BlsSigner) -> None:
        """Registers this account's key for certificates, or replaces it. The contract stores the account's place in the pool with
        the key."""
        proof = signer.prove_possession(self._network.keys_domain, self.transactions.outbox.lease.account)
        self._act("BlsKeys", "register", signer.public_key, (point_words(signer.public_key), point_words(proof)))
        self._act("BlsKeys", "notePlace", signer.public_key, (key_hash(signer.public_key),))

    # --- light audits ---

    def post_audit(self, result: AuditResult, signature: Blob, batch_id: int) -> None:
        """Publishes the signed result of a light audit of a receipt in a batch."""
        subject = result.receipt_id + bytes.fromhex(result.verifier[2:])
        self._act("Audits", "post", subject, (struct_values(result), signature, batch_id))

    def open_audit(self, receipt: Digest, verifier: Address, tokens_hash: Digest, trace_root: Digest, salt: Digest) -> None:
        """Opens the commitment of a result, after the window."""
        arguments = (receipt, verifier, tokens_hash, trace_root, salt)
        self._act("Audits", "open", receipt + bytes.fromhex(verifier[2:]), arguments)

    def claim_bounty(self, signed: SignedReceipt, proof: tuple[Digest, ...], result: AuditResult) -> None:
        """Claims the bounty of an opened audit that another verifier's audit confirms."""
        arguments = (struct_values(signed.receipt), signed.signature, proof, result.verifier)
        self._act("Audits", "claim", result.receipt_id + bytes.fromhex(result.verifier[2:]), arguments)

    # --- money ---

    def withdraw(self, due_wei: int) -> None:
        """Withdraws all payable credit. Does nothing if `due_wei` is 0 or a withdrawal is on its way."""
        if due_wei > 0:
            self._again("Ledger", "withdraw")

    def fund(self, amount_wei: int, reference: bytes) -> None:
        """Pays into the treasury. `reference` distinguishes payments of the same amount."""
        if amount_wei <= 0:
            raise ConfigurationError("amount", "must be above zero")
        self._act("Ledger", "fund", reference, (), value_wei=amount_wei, repeatable=True)

    def feed_audits(self, amount_wei: int, reference: bytes) -> None:
        """Pays into the pool from which light-audit bounties are paid; `reference` as in `fund`."""
        if amount_wei <= 0:
            raise ConfigurationError("amount", "must be above zero")
        self._act("Audits", "feed", reference, (), value_wei=amount_wei, repeatable=True)


def _batch_subject(header: BatchHeader) -> bytes:
    """The subject contains the whole header, because a different batch with the same first number (for example, one that skips a
    number) is a different transaction."""
    return header.first_seq.to_bytes(8, "big") + keccak256(encode(header))


# Transactions about demands for lists, envelopes and anchoring, and reports of reused or skipped receipt numbers.


class DemandTransactions(NetworkPlanner):
    """Transactions of a client, an operator or a helper. Deadlines: protocol clock; `within_s`: see `bytewise.ports`."""

    def demand_list(self, batch_id: int, bond_wei: int, within_s: int = 0) -> None:
        """Demands the list of a batch."""
        self._act("Demands", "demandList", _number(batch_id), (batch_id,), value_wei=bond_wei, within_s=within_s)

    def answer_list(self, batch_id: int, content: bytes, deadline: int = 0) -> None:
        """Puts the list's bytes and the leaves of its root on the chain. Errors of `decode` if the bytes are no list."""
        entries = decode(ReceiptList, content).entries
        receipts, signatures = [_leaf_values(each.record) for each in entries], [each.signature for each in entries]
        arguments = (batch_id, content, receipts, signatures)
        self._act("Demands", "answerList", _number(batch_id), arguments, deadline=deadline)

    def demand_envelope(
        self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], bond_wei: int, within_s: int = 0
    ) -> None:
        """Demands the envelope of a member of a batch."""
        arguments = (struct_values(signed.receipt), signed.signature, batch_id, proof)
        subject = self._id(signed.receipt)
        self._act("Demands", "demandEnvelope", subject, arguments, value_wei=bond_wei, within_s=within_s)

    def answer_envelope(self, receipt: Digest, locator: bytes, deadline: int = 0) -> None:
        """States where the envelope is."""
        self._act("Demands", "answerEnvelope", receipt, (receipt, locator), deadline=deadline)

    def demand_anchor(self, signed: SignedReceipt, bond_wei: int, within_s: int = 0) -> None:
        """Demands that an issued receipt be anchored."""
        arguments = (struct_values(signed.receipt), signed.signature)
        subject = self._id(signed.receipt)
        self._act("Demands", "demandAnchor", subject, arguments, value_wei=bond_wei, within_s=within_s)

    def answer_anchor(self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], deadline: int = 0) -> None:
        """Shows the demanded receipt in a batch."""
        arguments = (struct_values(signed.receipt), signed.signature, batch_id, proof)
        self._act("Demands", "answerAnchor", self._id(signed.receipt), arguments, deadline=deadline)

    def expire(self, subject: Digest, times: int = 0) -> None:
        """Ends a demand that was not answered in time. `times`: how often it was ended before; each time is its own
        transaction."""
        self._act("Demands", "expire", subject + _again(times), (subject,))

    def expire_list(self, batch_id: int) -> None:
        """Ends a demand for a list that was not answered in time."""
        where = ("Demands", self._at("Demands"), "listSubject")
        self.expire(Digest(self.transactions.client.call(*where, batch_id, block="latest")))

    def collect(self, ref: Digest, times: int = 0) -> None:
        """Distributes slashed stake of a report or an expiry that has arrived since. `times`: how often before; each time is its
        own transaction."""
        self._act("Demands", "collect", ref + _again(times), (ref,))

    def report_equivocation(
        self, first: Receipt, first_signature: Blob, second: Receipt, signature: Blob, times: int = 0
    ) -> None:
        """Reports two receipts that an operator signed with one number. `times` counts earlier penalties; each is its own
        transaction."""
        arguments = (struct_values(first), first_signature, struct_values(second), signature)
        self._act("Demands", "equivocation", _place(first) + _again(times), arguments)

    def report_skipped(self, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], times: int = 0) -> None:
        """Reports a receipt whose number its operator anchored as an empty leaf. `proof` is the leaf's path in the batch.

        `times` counts earlier penalties; each is its own transaction.
        """
        arguments = (struct_values(receipt), signature, batch_id, proof)
        self._act("Demands", "reportSkipped", _place(receipt) + _again(times), arguments)

    def _id(self, receipt: Receipt) -> Digest:
        return receipt_id(self._network.anchor_domain, receipt)


def _leaf_values(record: Receipt | EmptyLeaf) -> tuple[Any, ...]:
    """A leaf as `answerList` takes it. A receipt of mode 0 represents the empty leaf of its operator, number and chain."""
    if isinstance(record, Receipt):
        return struct_values(record)
    zero, none = ZERO_DIGEST, U64(0)
    return struct_values(
        Receipt(
            record.operator, record.seq, zero, zero, zero, zero, zero, zero, none, zero, none, none, U8(0), U8(0), ZERO_ADDRESS,
            record.chain_id,
        )
    )  # fmt: skip


def _place(receipt: Receipt) -> bytes:
    """Operator and number of a receipt."""
    return bytes.fromhex(receipt.operator[2:]) + receipt.seq.to_bytes(8, "big")


def _number(batch_id: int) -> bytes:
    return batch_id.to_bytes(8, "big")


def _again(times: int) -> bytes:
    return times.to_bytes(2, "big") if times else b""


class ContractSender(DisputeTransactions, DemandTransactions, AccountTransactions, EigenLayerTransactions):
    """All transactions of one account. The caller calls `pump` each tick; it takes the next step of each without waiting."""


def contract_sender(
    client: Chain,
    network: Network,
    lease: NonceLease,
    signer: Signer,
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

"""All transactions of one account: about the account itself, disputes and demands. Each has a subject that identifies it, so
that a second request for the same transaction plans nothing new.

The sender tries a transaction on the newest block before it signs the transaction and before it raises a fee
(`chain.sending.sender`). `state_check.classify` decides what a refusal of the contract means. A refusal is no error if another
account made the same step first (design section 2).
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
from chain.acts.disputes import DisputeTransactions
from chain.acts.planner import NetworkPlanner
from chain.acts.state_check import check_round, classify
from chain.client.access import Chain
from chain.sending.sender import SenderPolicy, TransactionSender

# Transactions about an account itself: stake, roles, keys, batches, audits, money.


class EigenLayerTransactions(NetworkPlanner):
    """Transactions that renew stake records, and that complete slashes and payments which EigenLayer did not make at once.

    Any account may send them. They exist only on a network where the contract `EigenLayerStake` takes the place of the vault.
    """

    def sync_stake(self, account: Address, block: int) -> None:
        """Makes the contract record the stake that an account has now. Call it before the present record is too old to count.

        `block` is the block of the record that is replaced, or 0 if there is none. It only identifies the transaction: a second
        call with the same `block` is the same transaction.
        """
        self._act("EigenLayerStake", "sync", bytes.fromhex(account[2:]) + block.to_bytes(8, "big"), (account,))

    def retry_slash(self, account: Address, ref: Digest, times: int) -> None:
        """Asks EigenLayer again for a slash of `account` that EigenLayer refused before.

        `ref` identifies the dispute or report that ordered the slash. That dispute or report was settled without this stake, so
        the stake goes to a pot that pays nobody. `times` is the number of earlier refusals, so that each retry is a separate
        transaction.
        """
        subject = bytes.fromhex(account[2:]) + ref + times.to_bytes(8, "big")
        self._act("EigenLayerStake", "retry", subject, (account, ref))

    def collect_slash(self, slash_id: int) -> None:
        """Moves the stake that one slash took to the pot of that slash. The contract refuses until EigenLayer has paid."""
        self._act("EigenLayerStake", "collect", slash_id.to_bytes(32, "big"), (slash_id,))

    def sweep_stake(self) -> None:
        """Empties the contract `EigenLayerStake` of money that it owes to no pot. The money goes to a pot that pays nobody."""
        self._again("EigenLayerStake", "sweep")


class AccountTransactions(NetworkPlanner):
    """Transactions that an operator or a verifier makes about itself."""

    # --- operators ---

    def register_operator(self, endpoint: str) -> None:
        """Registers this account as operator, or changes its endpoint."""
        self._act("Registry", "registerOperator", endpoint.encode(), (endpoint,))

    def anchor(self, header: BatchHeader, fee_wei: int, deadline: int = 0) -> None:
        """Posts a batch.

        The contract sets batch id, operator and anchoring time, and returns the part of the fee that it does not need. The
        transaction is not sent after `deadline`, in Unix seconds of chain time (like `anchor_by`); 0 means no deadline. A
        different batch with the same first number is a different transaction: see `withdraw_batch`.
        """
        fields = (
            header.first_seq, header.count, header.root, header.list_hash, header.environment, header.model_id,
            header.key_epoch, header.locator.encode(),
        )  # fmt: skip
        where, subject = self._at("ReceiptAnchor"), _batch_subject(header)
        self._plan("ReceiptAnchor", where, "post", subject, (fields,), value_wei=fee_wei, deadline=deadline)

    def withdraw_batch(self, header: BatchHeader) -> bool:
        """Cancels the transaction that posts this batch, if it was never signed. Returns whether no transaction that posts this
        batch can be mined any more."""
        return self.transactions.withdraw(self._at("ReceiptAnchor"), "post", _batch_subject(header), self._role)

    def release(self, batch_id: int) -> None:
        """Frees the collateral of a batch. The contract refuses while an open window, demand or dispute locks it."""
        self._act("ReceiptAnchor", "release", batch_id.to_bytes(8, "big"), (batch_id,))

    # --- stake ---

    def deposit(self, amount_wei: int, reference: bytes) -> None:
        """Adds `amount_wei` to this account's stake. `reference` distinguishes deposits of the same amount."""
        self._act("StakeVault", "deposit", reference, (), value_wei=amount_wei, repeatable=True)

    def request_unbond(self, amount_wei: int, reference: bytes) -> None:
        """Starts the withdrawal of `amount_wei` of stake. `reference` distinguishes requests of the same amount."""
        self._act("StakeVault", "requestUnbond", reference, (amount_wei,), repeatable=True)

    def finish_unbond(self, due_wei: int) -> None:
        """Withdraws the stake whose unbonding delay is over. Does nothing if `due_wei` is 0 or a withdrawal is on its way."""
        if due_wei > 0:
            self._again("StakeVault", "finishUnbond")

    # --- verifiers ---

    def announce_platform(self, platform_id: Digest) -> None:
        """Announces, as a hash, the machine with which this account will join a pool in a later block.

        If another account copies the machine's id from the later `join`, this account can still take the machine back.
        """
        account = self.transactions.outbox.lease.account
        announcement = keccak256_abi(("address", "bytes32"), (account, platform_id))
        self._act("Registry", "announce", platform_id, (announcement,), repeatable=True)

    def join_pool(self, pool: Digest, platform_id: Digest, measurement: Digest) -> None:
        """Makes this account a verifier of a pool, with its machine `platform_id` and the enclave program `measurement`."""
        self._act("Registry", "join", pool, (pool, platform_id, measurement))

    def quit_pool(self) -> None:
        """Leaves the pool: this account's stake does not count from the next stake epoch on."""
        self._again("Registry", "quit")

    def refresh(self, account: Address, block: int) -> None:
        """Makes the registry read a verifier's current stake again, to correct its weight.

        `block` is not sent to the contract. It only tells repeated calls apart: a second call with the same account and `block`
        sends no second transaction. Pass for example the first block of the stake epoch.
        """
        self._act("Registry", "refresh", bytes.fromhex(account[2:]) + block.to_bytes(8, "big"), (account,))

    def propose(self, digest: Digest, pool: Digest, vectors: Digest, document: bytes) -> None:
        """Proposes an environment with the pool that judges it, or a model with `pool` zero. `vectors` is the hash of the results
        that certifiers must reproduce."""
        self._act("Registry", "propose", digest, (digest, pool, vectors, document))

    def certify_item(self, digest: Digest, vectors: Digest, certify_until: int) -> OutboxItem:
        """States that this verifier reproduced the vectors of an environment or a model. The statement is sent once for
        each proposal. A proposal ends at `certify_until` on the protocol clock."""
        subject = digest + vectors + certify_until.to_bytes(8, "big")
        return self._act("Registry", "certify", subject, (digest, vectors), deadline=certify_until)

    def register_bls(self, signer: BlsSigner) -> None:
        """Registers this account's BLS key for certificates, or replaces an older key. It sends two transactions.

        The first one registers the key. The second one, `notePlace`, makes the contract store the account's place in the stake
        tree with the key.
        """
        proof = signer.prove_possession(self._network.keys_domain, self.transactions.outbox.lease.account)
        self._act("BlsKeys", "register", signer.public_key, (point_words(signer.public_key), point_words(proof)))
        self._act("BlsKeys", "notePlace", signer.public_key, (key_hash(signer.public_key),))

    # --- light audits ---

    def post_audit(self, result: AuditResult, signature: Blob, batch_id: int) -> None:
        """Publishes the signed result of a light audit of a receipt in a batch."""
        subject = result.receipt_id + bytes.fromhex(result.verifier[2:])
        self._act("Audits", "post", subject, (struct_values(result), signature, batch_id))

    def open_audit(self, receipt: Digest, verifier: Address, tokens_hash: Digest, trace_root: Digest, salt: Digest) -> None:
        """Opens the commitment of an audit result, after the challenge window."""
        arguments = (receipt, verifier, tokens_hash, trace_root, salt)
        self._act("Audits", "open", receipt + bytes.fromhex(verifier[2:]), arguments)

    def claim_bounty(self, signed: SignedReceipt, proof: tuple[Digest, ...], result: AuditResult) -> None:
        """Claims the bounty of an opened audit that another verifier's audit confirms. `proof` is the receipt's path in its
        batch."""
        arguments = (struct_values(signed.receipt), signed.signature, proof, result.verifier)
        self._act("Audits", "claim", result.receipt_id + bytes.fromhex(result.verifier[2:]), arguments)

    # --- money ---

    def withdraw(self, due_wei: int) -> None:
        """Withdraws this account's money in the ledger, as far as the payment delay is over.

        `due_wei` is the amount that the caller has read. Does nothing if it is 0, or if a withdrawal is on its way.
        """
        if due_wei > 0:
            self._again("Ledger", "withdraw")

    def fund(self, amount_wei: int, reference: bytes) -> None:
        """Pays `amount_wei` into the treasury. `reference` distinguishes payments of the same amount. Raises
        `ConfigurationError` if the amount is not above zero."""
        if amount_wei <= 0:
            raise ConfigurationError("amount", "must be above zero")
        self._act("Ledger", "fund", reference, (), value_wei=amount_wei, repeatable=True)

    def feed_audits(self, amount_wei: int, reference: bytes) -> None:
        """Pays `amount_wei` into the pool from which bounties of light audits are paid. `reference` distinguishes payments of
        the same amount. Raises `ConfigurationError` if the amount is not above zero."""
        if amount_wei <= 0:
            raise ConfigurationError("amount", "must be above zero")
        self._act("Audits", "feed", reference, (), value_wei=amount_wei, repeatable=True)


def _batch_subject(header: BatchHeader) -> bytes:
    """Returns the subject of the transaction that posts a batch. It covers the whole header, because a different batch with the
    same first number (for example, one that skips a number) is a different transaction."""
    return header.first_seq.to_bytes(8, "big") + keccak256(encode(header))


# Transactions about demands for lists, envelopes and anchoring, and reports of reused or skipped receipt numbers.


class DemandTransactions(NetworkPlanner):
    """Transactions about demands. A client, an operator or any other account sends them.

    A deadline is a time of the protocol clock, or 0 for none. `bytewise.ports` explains `within_s`.
    """

    def demand_list(self, batch_id: int, bond_wei: int, within_s: int = 0) -> None:
        """Demands the list of a batch."""
        self._act("Demands", "demandList", _number(batch_id), (batch_id,), value_wei=bond_wei, within_s=within_s)

    def answer_list(self, batch_id: int, content: bytes, deadline: int = 0) -> None:
        """Puts the list's bytes and the leaves of its batch on the chain. Raises the errors of `decode` if the bytes are no
        list."""
        entries = decode(ReceiptList, content).entries
        receipts, signatures = [_leaf_values(each.record) for each in entries], [each.signature for each in entries]
        arguments = (batch_id, content, receipts, signatures)
        self._act("Demands", "answerList", _number(batch_id), arguments, deadline=deadline)

    def demand_envelope(
        self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], bond_wei: int, within_s: int = 0
    ) -> None:
        """Demands the envelope of one receipt of a batch. `proof` is the receipt's path in the batch."""
        arguments = (struct_values(signed.receipt), signed.signature, batch_id, proof)
        subject = self._id(signed.receipt)
        self._act("Demands", "demandEnvelope", subject, arguments, value_wei=bond_wei, within_s=within_s)

    def answer_envelope(self, receipt: Digest, locator: bytes, deadline: int = 0) -> None:
        """States a locator: where the demanded envelope of this receipt can be fetched."""
        self._act("Demands", "answerEnvelope", receipt, (receipt, locator), deadline=deadline)

    def demand_anchor(self, signed: SignedReceipt, bond_wei: int, within_s: int = 0) -> None:
        """Demands that the operator anchor a receipt which it has signed."""
        arguments = (struct_values(signed.receipt), signed.signature)
        subject = self._id(signed.receipt)
        self._act("Demands", "demandAnchor", subject, arguments, value_wei=bond_wei, within_s=within_s)

    def answer_anchor(self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], deadline: int = 0) -> None:
        """Proves that the demanded receipt is in a batch. `proof` is the receipt's path in the batch."""
        arguments = (struct_values(signed.receipt), signed.signature, batch_id, proof)
        self._act("Demands", "answerAnchor", self._id(signed.receipt), arguments, deadline=deadline)

    def expire(self, subject: Digest, times: int = 0) -> None:
        """Ends a demand that nobody answered in time, and takes the penalty from the operator's stake. A demand for an envelope
        has no penalty.

        A demand can be ended again if the stake did not cover the whole penalty. `times` is the number of earlier ends, so that
        each end is a separate transaction.
        """
        self._act("Demands", "expire", subject + _again(times), (subject,))

    def expire_list(self, batch_id: int) -> None:
        """Ends the demand for the list of this batch, if nobody answered the demand in time."""
        where = ("Demands", self._at("Demands"), "listSubject")
        self.expire(Digest(self.transactions.client.call(*where, batch_id, block="latest")))

    def collect(self, ref: Digest, times: int = 0) -> None:
        """Distributes slashed stake that arrived after its slash. `ref` identifies the report or ended demand that slashed it.

        `times` is the number of earlier distributions for `ref`, so that each distribution is a separate transaction.
        """
        self._act("Demands", "collect", ref + _again(times), (ref,))

    def report_equivocation(
        self, first: Receipt, first_signature: Blob, second: Receipt, signature: Blob, times: int = 0
    ) -> None:
        """Reports two different receipts that one operator signed with one number. `times` is the number of earlier penalties
        for that number; each report is a separate transaction."""
        arguments = (struct_values(first), first_signature, struct_values(second), signature)
        self._act("Demands", "equivocation", _place(first) + _again(times), arguments)

    def report_skipped(self, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], times: int = 0) -> None:
        """Reports a signed receipt whose number its operator anchored as an empty leaf. `proof` is the leaf's path in the batch.

        `times` is the number of earlier penalties for that number; each report is a separate transaction.
        """
        arguments = (struct_values(receipt), signature, batch_id, proof)
        self._act("Demands", "reportSkipped", _place(receipt) + _again(times), arguments)

    def _id(self, receipt: Receipt) -> Digest:
        return receipt_id(self._network.anchor_domain, receipt)


def _leaf_values(record: Receipt | EmptyLeaf) -> tuple[Any, ...]:
    """Returns a leaf as `answerList` takes it. An empty leaf is a receipt of mode 0 with only its operator, number and chain."""
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
    """Returns operator and number of a receipt, which together identify the number's leaf."""
    return bytes.fromhex(receipt.operator[2:]) + receipt.seq.to_bytes(8, "big")


def _number(batch_id: int) -> bytes:
    return batch_id.to_bytes(8, "big")


def _again(times: int) -> bytes:
    return times.to_bytes(2, "big") if times else b""


class ContractSender(DisputeTransactions, DemandTransactions, AccountTransactions, EigenLayerTransactions):
    """All transactions of one account. The caller calls `pump` each tick, which takes the next step of each open transaction
    without waiting."""


def contract_sender(
    client: Chain,
    network: Network,
    lease: NonceLease,
    signer: Signer,
    role: str,
    policy: SenderPolicy | None = None,
) -> ContractSender:
    """Returns the sender of one account, with its outbox in the database of the nonce lease.

    `role` separates two uses of one contract. Raises `ConfigurationError` if the lease is of another account or chain.
    """
    if (lease.chain_id, lease.account) != (client.chain_id, signer.address):
        raise ConfigurationError(
            "sender", f"the nonce lease is for {lease.account} on chain {lease.chain_id}: open the database of {signer.address}"
        )
    transactions = TransactionSender(client, Outbox(lease), signer, check_round(client, network), classify, policy)
    return ContractSender(transactions, network, role)

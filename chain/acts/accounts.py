"""Transactions about an account itself: stake, roles, keys, batches, audits, money."""

from bytewise.crypto.bls import BlsSigner, key_hash, point_words
from bytewise.protocol.digests import keccak256, keccak256_abi
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.records.receipt import BatchHeader, SignedReceipt
from bytewise.protocol.records.statements import AuditResult
from bytewise.protocol.signing import struct_values
from bytewise.protocol.units import Address, Blob, Digest
from bytewise.storage.outbox import OutboxItem
from chain.acts.base import NetworkPlanner


class EigenLayerTransactions(NetworkPlanner):
    """Keeps weights fresh, and completes what EigenLayer did not take or pay at once. Anybody may.

    A network has these where `EigenLayerStake` takes the place of the vault.
    """

    def sync_stake(self, account: Address, block: int) -> None:
        """Records the stake that an account has now. `block` is that of the record to renew: a record loses its weight with
        age."""
        self._act("EigenLayerStake", "sync", bytes.fromhex(account[2:]) + block.to_bytes(8, "big"), (account,))

    def retry_slash(self, account: Address, ref: Digest, times: int) -> None:
        """Retries a slash that EigenLayer refused for `ref`; once for each of the `times` that it has refused so far."""
        subject = bytes.fromhex(account[2:]) + ref + times.to_bytes(8, "big")
        self._act("EigenLayerStake", "retry", subject, (account, ref))

    def collect_slash(self, slash_id: int) -> None:
        """Moves slashed stake to its pot, once EigenLayer pays."""
        self._act("EigenLayerStake", "collect", slash_id.to_bytes(32, "big"), (slash_id,))

    def sweep_stake(self) -> None:
        """Moves money at the adapter that is owed to no pot into a pot from which nobody is paid."""
        self._again("EigenLayerStake", "sweep")


class AccountTransactions(NetworkPlanner):
    """Transactions of an operator or a verifier about itself."""

    # --- operators ---

    def register_operator(self, endpoint: str) -> None:
        """Registers this account as operator, or changes its endpoint."""
        self._act("Registry", "registerOperator", endpoint.encode(), (endpoint,))

    def anchor(self, header: BatchHeader, fee_wei: int, deadline: int = 0) -> None:
        """Posts a batch. Batch id, operator and anchoring time are set by the chain. The excess of the fee comes back.

        Nothing is sent after chain time `deadline` in Unix seconds (as `anchor_by` is); 0 for none. Another batch from the same
        number on is another transaction: see `withdraw_batch`.
        """
        fields = (
            header.first_seq, header.count, header.root, header.list_hash, header.environment, header.model_id,
            header.key_epoch, header.locator.encode(),
        )  # fmt: skip
        where, subject = self._at("ReceiptAnchor"), _batch_subject(header)
        self._plan("ReceiptAnchor", where, "post", subject, (fields,), value_wei=fee_wei, deadline=deadline)

    def withdraw_batch(self, header: BatchHeader) -> bool:
        """Whether no transaction that posts this batch can be mined any more. One that was never signed is given up."""
        return self.transactions.withdraw(self._at("ReceiptAnchor"), "post", _batch_subject(header), self._role)

    def release(self, batch_id: int) -> None:
        """Frees the collateral of a batch that nothing locks."""
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
        """Leaves the pool: this account weighs nothing from the next stake epoch on."""
        self._again("Registry", "quit")

    def refresh(self, account: Address, block: int) -> None:
        """Has a verifier weighed again by its current stake; once for each `block` that gave the reason."""
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
        """Registers this account's key for certificates, or replaces it, and has its place in the pool noted with it."""
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
    """Includes the whole header, because another batch with the same first number (one that skips a number, say) is another
    transaction."""
    return header.first_seq.to_bytes(8, "big") + keccak256(encode(header))

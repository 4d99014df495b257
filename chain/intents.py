"""What an actor can ask of the contracts, each act named so that asking twice is one transaction (implements `ports.Sender`).

Before a signature, and again before a fee is raised, the contract's state is asked; `classify` says what its refusal means. That
somebody else did it first is no error (design section 2).
"""

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from bytewise.protocol.dispute import Phase
from bytewise.protocol.errors import ChainReverted, ConfigurationError, SecondVote
from bytewise.protocol.messages import AuditResult, Vote
from bytewise.protocol.network import Network
from bytewise.protocol.receipt import BatchHeader, EmptyLeaf, Receipt, receipt_id
from bytewise.protocol.signing import LocalSigner, struct_values
from bytewise.protocol.units import Blob, Digest
from bytewise.storage.lane import Lane
from bytewise.storage.outbox import Intent, Outbox
from chain.access import Chain
from chain.artifacts import Reason, interface
from chain.client import reading_answer
from chain.planner import Planner
from chain.sender import Answer, SenderPolicy, TransactionSender

_ROUND_STEPS = frozenset({"draw", "rearm", "commit", "reveal", "settle"})
_SUBJECT_BYTES = 34
"""Dispute (32) and round (2)."""


class Slot(enum.Enum):
    """What can be asked once per subject, and what a second asking with other content means."""

    FIRST_WINS = "the first stays"
    VOTE = "a second, different one would be a second vote"


class ContractSender(Planner):
    """Acts of one account; `pump` (each tick) moves them on without waiting."""

    def __init__(self, transactions: TransactionSender, network: Network, role: str) -> None:
        super().__init__(transactions, role)
        self._network = network
        self._at = network.addresses

    # --- operators ---

    def anchor(self, header: BatchHeader, deadline: int = 0) -> None:
        """Posts a batch; batch id, operator and anchoring time are the chain's to give.

        Nothing is sent when the chain's time is past `deadline`, Unix seconds; 0 for none.
        """
        fields = (
            header.first_seq, header.count, header.root, header.list_hash, header.environment, header.model_id,
            header.key_epoch, header.locator.encode(),
        )  # fmt: skip
        subject = header.first_seq.to_bytes(8, "big")
        self._plan("ReceiptAnchor", self._at.receipt_anchor, "post", subject, (fields,), deadline=deadline)

    def register_operator(self, endpoint: str) -> None:
        """Registers this account as operator, or moves its endpoint."""
        self._plan("Registry", self._at.registry, "registerOperator", endpoint.encode(), (endpoint,))

    # --- stake ---

    def deposit(self, amount_wei: int, reference: bytes) -> None:
        """Adds to this account's stake; `reference` tells one deposit from another of the same amount."""
        self._plan("StakeVault", self._at.stake_vault, "deposit", reference, (), value_wei=amount_wei, repeatable=True)

    def request_unbond(self, amount_wei: int, reference: bytes) -> None:
        """Starts the exit of stake."""
        self._plan("StakeVault", self._at.stake_vault, "requestUnbond", reference, (amount_wei,), repeatable=True)

    def register_verifier(self) -> None:
        """Registers this account as verifier."""
        self._plan("Registry", self._at.registry, "registerVerifier", b"", ())

    # --- disputes ---

    def open_dispute(self, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], bond_wei: int) -> None:
        """Challenges a receipt with a bond."""
        subject = receipt_id(self._network.anchor_domain, receipt)
        arguments = (struct_values(receipt), signature, batch_id, proof)
        self._plan("Disputes", self._at.disputes, "open", subject, arguments, value_wei=bond_wei)

    def draw(self, dispute: Digest, round_number: int) -> None:
        """Draws the committee of a round."""
        self._step("draw", dispute, round_number, (dispute,))

    def rearm(self, dispute: Digest, round_number: int) -> None:
        """Names a new seed block. Each lost seed block is an act of its own: a round can be armed again three times."""
        lost: int = self._view(dispute)["seedBlock"]
        self._step("rearm", dispute, round_number, (dispute,), lost.to_bytes(8, "big"))

    def commit(self, dispute: Digest, round_number: int, seat_mask: int, commitment: Digest) -> None:
        """Commits to a vote while the round takes commitments. `SecondVote` if another one of this round was ever planned."""
        until = self._view(dispute)["commitEnd"]
        self._step("commit", dispute, round_number, (dispute, seat_mask, commitment), slot=Slot.VOTE, deadline=until)

    def reveal(self, vote: Vote, quote: Blob) -> None:
        """Opens a vote with its quote while the round takes them. `SecondVote` if another vote of it was ever planned."""
        until = self._view(vote.dispute)["revealEnd"]
        self._step("reveal", vote.dispute, vote.round, (struct_values(vote), quote), slot=Slot.VOTE, deadline=until)

    def settle(self, dispute: Digest, round_number: int) -> None:
        """Counts a round."""
        self._step("settle", dispute, round_number, (dispute,))

    def post_audit(self, result: AuditResult, signature: Blob) -> None:
        """Publishes the signed result of a light audit."""
        subject = result.receipt_id + bytes.fromhex(result.verifier[2:])
        self._plan("Disputes", self._at.disputes, "postAudit", subject, (struct_values(result), signature))

    def report_equivocation(self, first: Receipt, first_signature: Blob, second: Receipt | EmptyLeaf, signature: Blob) -> None:
        """Reports two leaves that an operator signed with one number."""
        subject = bytes.fromhex(first.operator[2:]) + first.seq.to_bytes(8, "big")
        function = "equivocation" if isinstance(second, Receipt) else "equivocationWithEmpty"
        arguments = (struct_values(first), first_signature, struct_values(second), signature)
        self._plan("ReceiptAnchor", self._at.receipt_anchor, function, subject, arguments)

    # --- money ---

    def withdraw(self, credit_wei: int) -> None:
        """Collects everything that is due; nothing if `credit_wei` is 0 or a collection is on its way."""
        if credit_wei > 0:
            self._plan_again("Ledger", self._at.ledger, "withdraw")

    def _step(
        self,
        function: str,
        dispute: Digest,
        round_number: int,
        arguments: tuple[Any, ...],
        more: bytes = b"",
        slot: Slot = Slot.FIRST_WINS,
        deadline: int = 0,
    ) -> None:
        subject = dispute + round_number.to_bytes(2, "big") + more
        item = self._plan("Disputes", self._at.disputes, function, subject, arguments, deadline=deadline)
        if slot is Slot.VOTE and item.intent.calldata != interface("Disputes").call(function, *arguments):
            raise SecondVote(dispute.hex(), round_number, item.id)

    def _view(self, dispute: Digest) -> dict[str, Any]:
        view: dict[str, Any] = self.transactions.client.call("Lens", self._at.lens, "disputeView", dispute, block="latest")
        return view


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


def check_round(client: Chain, network: Network) -> Callable[[Intent], Answer]:
    """Checks before a signature that a dispute's act is still for the round it was meant for: calldata does not say so."""

    def check(intent: Intent) -> Answer:
        if intent.contract != network.addresses.disputes or intent.function not in _ROUND_STEPS:
            return Answer.GO
        dispute, round_number = intent.subject[:32], int.from_bytes(intent.subject[32:_SUBJECT_BYTES], "big")
        view = client.call("Lens", network.addresses.lens, "disputeView", dispute, block="latest")
        if view["round"] < round_number:
            return Answer.WAIT
        late = view["round"] > round_number or view["phase"] == Phase.FINAL
        return _too_late(intent.function) if late else Answer.GO

    return check


class _Meaning(NamedTuple):
    function: str
    error: str
    answer: Answer


_MEANINGS = {
    (each.function, each.error): each.answer
    for each in (
        _Meaning("open", "AlreadyDisputed", Answer.DONE),
        _Meaning("open", "WindowClosed", Answer.LATE),
        _Meaning("draw", "SeedTooEarly", Answer.WAIT),
        _Meaning("draw", "SeedExpired", Answer.LATE),
        _Meaning("rearm", "SeedReadable", Answer.DONE),
        _Meaning("commit", "AlreadyCommitted", Answer.DONE),
        _Meaning("commit", "TooLate", Answer.LATE),
        _Meaning("reveal", "AlreadyRevealed", Answer.DONE),
        _Meaning("reveal", "TooEarly", Answer.WAIT),
        _Meaning("reveal", "TooLate", Answer.LATE),
        _Meaning("settle", "TooEarly", Answer.WAIT),
        _Meaning("postAudit", "AlreadyAudited", Answer.DONE),
        _Meaning("withdraw", "NothingDue", Answer.DONE),
        _Meaning("registerVerifier", "AlreadyRegistered", Answer.DONE),
        _Meaning("registerVerifier", "StakeTooSmall", Answer.WAIT),
        _Meaning("equivocation", "AlreadyPunished", Answer.DONE),
        _Meaning("equivocationWithEmpty", "AlreadyPunished", Answer.DONE),
    )
}


@reading_answer("reason of a revert")
def classify(function: str, error: ChainReverted) -> Answer:
    """What a contract's refusal of a dry run means for the act."""
    reason = error.values[2] if len(error.values) > 2 else None
    if not isinstance(reason, Reason):
        return Answer.REFUSED
    if reason.name == "WrongPhase":
        return _wrong_phase(function, Phase(reason.arguments["have"]))
    if reason.name == "SequenceGap":
        # Numbers below the next one are anchored already; numbers above wait for the batch before.
        return Answer.DONE if reason.arguments["have"] < reason.arguments["want"] else Answer.WAIT
    return _MEANINGS.get((function, reason.name), Answer.REFUSED)


def _wrong_phase(function: str, have: Phase) -> Answer:
    # NONE: the opening is not in this node's chain yet. SEED: neither is the draw.
    if have is Phase.NONE or (have is Phase.SEED and function in ("commit", "reveal", "settle")):
        return Answer.WAIT
    return _too_late(function)


def _too_late(function: str) -> Answer:
    return Answer.LATE if function in ("commit", "reveal") else Answer.DONE

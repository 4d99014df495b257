"""Snapshot: the state of the contracts for one account at one block, with all facts that a decision needs (`Lens.sol`).

Times are of the protocol clock (wall time without pauses) unless the docstring says otherwise. Blocks are block numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import Address, Digest


@dataclass(frozen=True, slots=True)
class Seat:
    """One member of the current round, with all its seats."""

    voter: Address
    """Account of the member; zero if no account has these seats."""
    seat_mask: int
    """Mask of the member's seats: bit i is set for seat i."""
    commitment: Digest
    """The member's commitment in the form of `commitments.sealed`; zero before the commit and after the reveal."""
    group: Digest
    """Group of the vote that the member revealed (`tally.VoteContent.group`); zero before the reveal."""

    @property
    def committed(self) -> bool:
        """Whether the member committed, even if it has revealed its vote since."""
        return any(self.commitment) or any(self.group)


@dataclass(frozen=True, slots=True)
class Seed:
    """The seed of the current round, and whether it can be used."""

    block: int
    """Number of the seed block. The seed is the hash of its mix (random value of the beacon chain), the chain id and this
    number."""
    lost: bool
    """Whether the seed can no longer be read, or its stake epoch is over."""
    drawable: bool
    """Whether the block is over and its stake epoch still runs, so that its header can draw seats."""


@dataclass(frozen=True, slots=True)
class RoundSeats:
    """Progress of paying or charging the seats of one round."""

    seats: int
    """Number of seats of the round."""
    settled: int
    """Number of seats that are paid or charged, counted from the first seat."""


@dataclass(frozen=True, slots=True)
class Challenger:
    """The account that opened a dispute."""

    account: Address
    """Account of the challenger."""
    knew: bool
    """Whether the challenger has shown that it knew the alternative answer."""


@dataclass(frozen=True, slots=True)
class DisputeOpening:
    """The opening of a dispute. The chain has no list of disputes, so readers find them by these events."""

    id: Digest
    """Dispute id, a hash of the receipt's id (`commitments.dispute_id`)."""
    receipt_id: Digest
    """Id of the disputed receipt."""
    block: int
    """Block of the opening transaction."""


@dataclass(frozen=True, slots=True)
class Dispute:
    """One dispute at one block."""

    id: Digest
    """Id of the dispute."""
    receipt_id: Digest
    """Disputed receipt. It is zero if the reader knew only the dispute's id, because the chain stores only a hash of the
    receipt's id."""
    batch_id: int
    """Batch of the receipt."""
    operator: Address
    """Operator that signed the disputed receipt."""
    environment: Digest
    """Environment of the receipt. Its pool judges, and its breaker may hold convictions."""
    claim: Digest
    """Hash of the receipt's claimed hashes (`commitments.claim_of`)."""
    key_epoch: int
    """Key epoch of the receipt."""
    params_version: int
    """Version of the parameters of the receipt's batch."""
    phase: Phase
    """Phase at the block, by the protocol clock."""
    level: int
    """Level of the committee: 1, 2 or 3."""
    round: int
    """Number of committees so far, including the current one."""
    seats: int
    """Number of seats of the current round."""
    drawn: int
    """Number of seats drawn so far."""
    quorum: int
    """Number of seats that a verdict needs."""
    rearms: int
    """Number of times that the seed of the current round was lost."""
    seed: Seed
    """Seed of the current round."""
    round_seed: Digest
    """Seed that the members of the round hash into their round digests; zero before the draw."""
    commit_s: int
    """Length in seconds of a commit phase under the dispute's parameters."""
    commit_end: int
    """End of the commit phase; 0 before the draw."""
    reveal_end: int
    """End of the reveal phase; 0 before the draw."""
    settleable: bool
    """Whether the votes of the round can be counted now."""
    certified_group: Digest
    """Content hash of the accepted verdict certificate; zero if there is none."""
    appealed: bool
    """Whether the dispute's only appeal was used."""
    appeal_bond_wei: int
    """Bond of an appeal in wei; 0 on the last level."""
    appeal_end: int
    """Last second in which an appeal is possible."""
    airgap_end: int
    """End of the airgap. Money moves only after it."""
    held: bool
    """Whether the breaker currently stops convictions in this environment."""
    verdict: Verdict
    """Verdict of the last conclusive round. In the phase FINAL it is final."""
    key: Digest
    """Key of the verdict (`court.tally.key_of`); zero if there is none."""
    replacement: Digest
    """The out_hash that replaces the receipt's, or zero."""
    ended: bool
    """Whether the money of the dispute was split."""
    paid: bool
    """Whether all parties except the seats were paid."""
    members: tuple[Seat, ...]
    """Members of the current round."""
    challenger: Challenger
    """The account that opened the dispute."""
    rounds: tuple[RoundSeats, ...]
    """Seats of all rounds, in order."""

    def seat_of(self, who: Address) -> Seat | None:
        """Returns the seats of an account in the current round, or None."""
        return next((each for each in self.members if each.voter == who), None)


FINAL_AFTER = 96
"""Number of blocks after which a block is regarded as final. It is three epochs, one more than finality takes. Full nodes keep
the states of 128 blocks."""
OPEN_END = 2**64 - 1
"""Value of an end time that is not set (`Registry.anchorable`, `Registry.operatorUntil`)."""


class RegisteredMeasurement(NamedTuple):
    """The measurement with which a verifier joined its pool.

    The verifier's weight in draws depends on this measurement, even if the verifier now runs another enclave.
    """

    measurement: Digest
    is_allowed: bool
    """Whether the network still lets verifiers run this measurement."""
    next_units: int
    """Stake units of the verifier from the next stake epoch on."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """The money and the roles of one account. Amounts are wei."""

    balance_wei: int
    """Balance of the account itself."""
    stake_wei: int
    """Stake that counts for draws and for posting batches."""
    free_wei: int
    """Stake that new receipts can lock: the stake minus collateral, and minus the part that disputes lock. Of that part, at most
    one slash counts."""
    collateral_wei: int
    """Stake that is locked for open receipts."""
    unbonding_wei: int
    """Stake that is being withdrawn."""
    unbond_due_wei: int
    """Part of `unbonding_wei` whose delay is over."""
    credit_wei: int
    """Amount that the ledger owes the account."""
    credit_due_wei: int
    """Part of `credit_wei` that the account can withdraw now."""
    operator_until: int
    """Last second in which the operator's batches are accepted. It is `OPEN_END` unless the operator is suspended, and 0 if the
    account is not an operator."""
    last_seq: int
    """Number of the operator's last anchored receipt."""
    pool: Digest
    """Pool in which the account is a verifier; zero if it is not a verifier."""
    joined_at: int
    """Block at which the verifier joined its pool; 0 if the account is not a verifier."""
    place: int
    """Place of the verifier in the pool's stake tree; 0 if it has none."""

    @property
    def is_operator(self) -> bool:
        """Whether the account is registered as operator, even if it is suspended."""
        return self.operator_until != 0

    @property
    def is_suspended(self) -> bool:
        """Whether the operator is suspended, because too many of its disputes ended in a DRAW.

        Its batches are accepted until `operator_until`.
        """
        return self.operator_until not in (0, OPEN_END)


@dataclass(frozen=True, slots=True)
class AnchoredBatch:
    """One batch, with the facts that decisions about it need."""

    batch_id: int
    """Number of the batch."""
    operator: Address
    """Operator that posted the batch."""
    first_seq: int
    """Number of the batch's first receipt."""
    params_version: int
    """Version of the parameters of the batch's challenge window, audits and disputes."""
    window_end: int
    """Last second of the batch's challenge window. One receipt's window may end later (`ExtendedWindow`)."""
    is_void: bool
    """Whether a demand for its list expired without an answer."""
    released: bool
    """Whether the collateral of the batch is unlocked."""
    list_demanded: bool
    """Whether a demand for its list is open."""
    list_deadline: int
    """Last second in which the operator can answer the open demand for the list; 0 if there is none."""
    list_answered: bool = False
    """Whether the list itself is on the chain, as the answer to a demand."""
    anchored_at: int = 0
    """Wall time of the batch's block. It is compared with `anchor_by` of the receipts."""


class ExtendedWindow(NamedTuple):
    """The challenge window of a receipt whose envelope was demanded.

    The window stands still while the demand is open, so it may end after that of the batch.
    """

    batch_id: int
    """Batch of the receipt."""
    end: int
    """Last second in which the receipt can be disputed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that one decision of one account reads, at one block."""

    block_hash: Digest
    """Hash of the block."""
    number: int
    """Number of the block."""
    timestamp: int
    """Wall time of the block. `anchor_by` and `expiry` are compared with it."""
    clock: int
    """Time of the protocol clock. Every deadline uses it."""
    paused: bool
    """Whether the protocol clock stands still."""
    params_version: int
    """Version of the parameters in force."""
    required_bond_wei: int
    """Bond of a dispute, in wei."""
    price_wei: int
    """Fee for anchoring one receipt, in wei."""
    me: Holdings
    """Money and roles of the account that reads."""
    disputes: tuple[Dispute, ...]
    """The requested disputes that exist, in the order of the request."""
    batch_count: int
    """Number of all batches."""
    active_epoch: int
    """Key epoch to which new envelopes are sealed; 0 if there is none."""
    policy: Digest
    """Digest of the appraisal policy in force."""
    policy_serial: int
    """Serial number of the appraisal policy in force."""
    batches: tuple[AnchoredBatch, ...] = ()
    """Batches whose challenge window may be open or whose list is owed, by number and without a gap. Empty if they were not
    requested."""
    extended: Mapping[Digest, ExtendedWindow] = field(default_factory=dict)
    """Receipts with an extended window that may be open, if they were requested. Their batches are in `batches`."""
    has_windows: bool = True
    """Whether `extended` is complete. If it is not, a receipt that is missing there may still be open."""

    def batch(self, batch_id: int) -> AnchoredBatch | None:
        """Returns the batch of this number from `batches`, or None."""
        place = batch_id - self.batches[0].batch_id if self.batches else -1
        return self.batches[place] if 0 <= place < len(self.batches) else None

    def is_open(self, batch_id: int) -> bool:
        """Returns whether every receipt of a batch can still be disputed: the batch is in `batches` and its window is not
        over."""
        found = self.batch(batch_id)
        return found is not None and self.clock <= found.window_end

    def window_end(self, receipt_id: Digest, batch_id: int) -> int:
        """Returns the last second in which a receipt of a batch can be disputed, audited and opened.

        Returns -1 if the batch is not in `batches`.
        """
        found, own = self.batch(batch_id), self.extended.get(receipt_id)
        return max(-1 if found is None else found.window_end, -1 if own is None else own.end)

    def can_question(self, receipt_id: Digest, batch_id: int) -> bool:
        """Returns whether a receipt of a batch can still be disputed."""
        return self.clock <= self.window_end(receipt_id, batch_id)

    def has_open(self, batch_id: int) -> bool:
        """Returns whether at least one receipt of a batch can still be disputed."""
        return self.is_open(batch_id) or any(
            each.batch_id == batch_id and self.clock <= each.end for each in self.extended.values()
        )

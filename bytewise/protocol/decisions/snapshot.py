"""The state of the court for one account at one block: all facts that a decision needs (`Lens.sol`).

Times are of the protocol clock (wall time without pauses) unless said otherwise. Blocks are block numbers.
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
    """Account of the member; zero if nobody holds these seats."""
    seat_mask: int
    """Bit i is set if the member holds seat i."""
    commitment: Digest
    """The commitment as the court stores it (`commitments.sealed`); zero before the commit and after the reveal."""
    group: Digest
    """Hash of everything that was revealed (`tally.vote_content`); zero before the reveal."""

    @property
    def committed(self) -> bool:
        """Whether the member committed, revealed or not."""
        return any(self.commitment) or any(self.group)


@dataclass(frozen=True, slots=True)
class Seed:
    """Whether the seed of the current round is available."""

    block: int
    """Block whose mix is the seed."""
    lost: bool
    """Whether the seed can never be read, or its stake epoch is over."""
    drawable: bool
    """Whether the block is over and still in its stake epoch, so that its header can draw seats."""


@dataclass(frozen=True, slots=True)
class RoundSeats:
    """How many seats of one round are paid or charged."""

    seats: int
    """Seats of the round."""
    settled: int
    """Seats that are settled, from the first one on."""


@dataclass(frozen=True, slots=True)
class Challenger:
    """The account that opened a dispute."""

    account: Address
    """Its account."""
    knew: bool
    """Whether it has shown that it knew the alternative answer."""


@dataclass(frozen=True, slots=True)
class DisputeOpening:
    """The opening of a dispute. The chain has no list of disputes, so readers find them by these events."""

    id: Digest
    """Dispute id, a hash of the receipt's id (`commitments.dispute_id`)."""
    receipt_id: Digest
    """Disputed receipt."""
    block: int
    """Block of the opening transaction."""


@dataclass(frozen=True, slots=True)
class Dispute:
    """One dispute at one block."""

    id: Digest
    """Dispute id."""
    receipt_id: Digest
    """Disputed receipt; zero if the reader knew only the dispute's id, because the chain stores only a hash of the receipt's
    id."""
    batch_id: int
    """Batch of the receipt."""
    operator: Address
    """Accused operator."""
    environment: Digest
    """Environment, whose pool judges and whose breaker may hold convictions."""
    claim: Digest
    """Hash of the receipt's claim (`commitments.claim_of`)."""
    key_epoch: int
    """Key epoch of the receipt."""
    params_version: int
    """Version of the parameters of its batch."""
    phase: Phase
    """Phase at the block's protocol clock."""
    level: int
    """Level of the committee: 1, 2 or 3."""
    round: int
    """Committees drawn so far, including the current one."""
    seats: int
    """Seats of this round."""
    drawn: int
    """Seats drawn so far."""
    quorum: int
    """Seats that make a verdict."""
    rearms: int
    """How often this round's seed was lost."""
    seed: Seed
    """Seed of this round."""
    round_seed: Digest
    """Seed of the round's members; zero before the draw."""
    commit_s: int
    """Length of a commit phase under the dispute's parameters."""
    commit_end: int
    """End of the commit phase; 0 before the draw."""
    reveal_end: int
    """End of the reveal phase; 0 before the draw."""
    settleable: bool
    """Whether the round can be counted now."""
    certified_group: Digest
    """Content hash of an accepted certificate; zero without one."""
    appealed: bool
    """Whether the one appeal was used."""
    appeal_bond_wei: int
    """Bond of an appeal; 0 on the last level."""
    appeal_end: int
    """Last second to appeal."""
    airgap_end: int
    """End of the airgap. Money moves after it."""
    held: bool
    """Whether the breaker holds convictions of this environment."""
    verdict: Verdict
    """Verdict of the last conclusive round. In phase FINAL it is final."""
    key: Digest
    """Key of the verdict; zero without one."""
    replacement: Digest
    """out_hash that replaces the claim, or zero."""
    ended: bool
    """Whether the money was split."""
    paid: bool
    """Whether all parties except the seats were paid."""
    members: tuple[Seat, ...]
    """Members of the current round."""
    challenger: Challenger
    """The account that opened the dispute."""
    rounds: tuple[RoundSeats, ...]
    """All rounds, in order."""

    def seat_of(self, who: Address) -> Seat | None:
        """The seats of an account in this round, or None."""
        return next((each for each in self.members if each.voter == who), None)


FINAL_AFTER = 96
"""Blocks after which a block is taken as final: three epochs, one more than finality takes. Full nodes keep 128 states."""
OPEN_END = 2**64 - 1
"""Value of a closing time that is not set (`Registry.anchorable`, `Registry.operatorUntil`)."""


class RegisteredMeasurement(NamedTuple):
    """The measurement with which a verifier joined its pool. Its weight belongs to that one, whatever enclave it runs now."""

    measurement: Digest
    is_allowed: bool
    """Whether the network still lets verifiers run it."""
    next_units: int
    """Units of the verifier from the next stake epoch on."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """One account in its roles. Amounts are wei."""

    balance_wei: int
    """Balance of the account itself."""
    stake_wei: int
    """Stake that counts for draws and for posting."""
    free_wei: int
    """Stake that receipts can lock: the stake less what is locked already and, while anything is disputed, at most one slash."""
    collateral_wei: int
    """Stake that open receipts lock."""
    unbonding_wei: int
    """Stake that is being withdrawn."""
    unbond_due_wei: int
    """Part of `unbonding_wei` whose delay is over."""
    credit_wei: int
    """Credit: amount that the ledger owes the account."""
    credit_due_wei: int
    """Part of `credit_wei` that it can withdraw now."""
    operator_until: int
    """Last second of the protocol clock in which its batches are accepted: `OPEN_END` unless it is suspended, 0 if it is no
    operator."""
    last_seq: int
    """Number of its last anchored receipt; operators only."""
    pool: Digest
    """Pool in which it is a verifier; zero if it is none."""
    joined_at: int
    """Block at which it joined its pool; 0 if it is no verifier."""
    place: int
    """Place in the pool's tree; 0 without one."""

    @property
    def is_operator(self) -> bool:
        """Whether the account is registered as operator, suspended or not."""
        return self.operator_until != 0

    @property
    def is_suspended(self) -> bool:
        """Whether it is a suspended operator, because too many of its disputes ended in a DRAW. Its new receipts cannot be
        anchored."""
        return self.operator_until not in (0, OPEN_END)


@dataclass(frozen=True, slots=True)
class AnchoredBatch:
    """One batch, with the facts that duties about it need."""

    batch_id: int
    """Number of the batch."""
    operator: Address
    """Operator that posted it."""
    first_seq: int
    """Number of its first receipt."""
    params_version: int
    """Version of the parameters of its window, audits and disputes."""
    window_end: int
    """Last second in which one of its receipts can be disputed."""
    is_void: bool
    """Whether a demand for its list expired without an answer."""
    released: bool
    """Whether its collateral is free."""
    list_demanded: bool
    """Whether a demand for its list is open."""
    list_deadline: int
    """Deadline of that demand; 0 without one."""
    list_answered: bool = False
    """Whether the list itself is on the chain, as the answer to a demand."""
    anchored_at: int = 0
    """Wall time of its block, which is compared with the `anchor_by` of its receipts."""


class ExtendedWindow(NamedTuple):
    """The window of a receipt whose envelope was demanded. It stood still meanwhile, so it may end after that of its batch."""

    batch_id: int
    """Batch of the receipt."""
    end: int
    """Last second in which the receipt can be disputed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All reads that serve one decision of one account, at one block."""

    block_hash: Digest
    """Hash of the block."""
    number: int
    """Number of the block."""
    timestamp: int
    """Wall time of the block. `anchor_by` and expiry are compared with it."""
    clock: int
    """Protocol clock. Every deadline is on it."""
    paused: bool
    """Whether the protocol clock stands still."""
    params_version: int
    """Version of the parameters in force."""
    required_bond_wei: int
    """Bond of a dispute."""
    price_wei: int
    """Fee for anchoring one receipt."""
    me: Holdings
    """The reader's own account."""
    disputes: tuple[Dispute, ...]
    """The requested disputes that exist, in the order of the request."""
    batch_count: int
    """Number of all batches."""
    active_epoch: int
    """Key epoch to which new envelopes are sealed; 0 if there is none."""
    policy: Digest
    """Digest of the appraisal policy in force."""
    policy_serial: int
    """Serial of that policy."""
    batches: tuple[AnchoredBatch, ...] = ()
    """Batches whose window may be open or whose list is owed, by number and without a gap, if they were requested."""
    extended: Mapping[Digest, ExtendedWindow] = field(default_factory=dict)
    """Receipts with a window of their own that may be open, if they were requested. Their batches are among `batches`."""
    has_windows: bool = True
    """Whether `extended` has all of them; else a receipt that is missing there may be open all the same."""

    def batch(self, batch_id: int) -> AnchoredBatch | None:
        """The batch of that number among `batches`, or None."""
        place = batch_id - self.batches[0].batch_id if self.batches else -1
        return self.batches[place] if 0 <= place < len(self.batches) else None

    def is_open(self, batch_id: int) -> bool:
        """Whether every receipt of a batch can still be disputed: it is among `batches` and its window is not over."""
        found = self.batch(batch_id)
        return found is not None and self.clock <= found.window_end

    def window_end(self, receipt_id: Digest, batch_id: int) -> int:
        """Last second in which a receipt of a batch can be disputed, audited and opened; -1 if the batch is not among
        `batches`."""
        found, own = self.batch(batch_id), self.extended.get(receipt_id)
        return max(-1 if found is None else found.window_end, -1 if own is None else own.end)

    def can_question(self, receipt_id: Digest, batch_id: int) -> bool:
        """Whether a receipt of a batch can still be disputed."""
        return self.clock <= self.window_end(receipt_id, batch_id)

    def has_open(self, batch_id: int) -> bool:
        """Whether any receipt of a batch can still be disputed."""
        return self.is_open(batch_id) or any(
            each.batch_id == batch_id and self.clock <= each.end for each in self.extended.values()
        )

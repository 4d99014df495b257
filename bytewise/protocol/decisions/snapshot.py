"""The court as one block shows it to one account: everything a decision needs (`Lens.sol`).

Times are of the protocol clock (wall time without pauses) unless said otherwise; blocks are block numbers.
"""

from dataclasses import dataclass

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import Address, Digest


@dataclass(frozen=True, slots=True)
class Seat:
    """One member of the current round with all its seats."""

    voter: Address
    """Account; zero if nobody holds these seats."""
    seat_mask: int
    """Bit i set: seat i."""
    commitment: Digest
    """As the court stores it (`ballots.sealed`); zero until committed, and again after the reveal."""
    group: Digest
    """Hash of everything revealed (`court.count.said_by`); zero until revealed."""

    @property
    def committed(self) -> bool:
        """Whether it committed, revealed or not."""
        return any(self.commitment) or any(self.group)


@dataclass(frozen=True, slots=True)
class Seed:
    """Whether the seed of the current round can be had."""

    block: int
    """Whose mix is the seed."""
    lost: bool
    """It can never be read, or its stake epoch is over."""
    drawable: bool
    """Over, and in its stake epoch: its header draws."""


@dataclass(frozen=True, slots=True)
class RoundSeats:
    """How far the seats of one round are paid or charged."""

    seats: int
    """Seats of the round."""
    settled: int
    """From the first one on."""


@dataclass(frozen=True, slots=True)
class Challenger:
    """Who put a bond on a receipt."""

    account: Address
    """Its account."""
    knew: bool
    """Whether it has shown that it knew the other answer."""


@dataclass(frozen=True, slots=True)
class DisputeOpening:
    """That a dispute was opened. The chain has no list of disputes: they are found by these events."""

    id: Digest
    """Dispute id, a hash of the receipt's id (`ballots.dispute_id`)."""
    receipt_id: Digest
    """Disputed receipt."""
    block: int
    """Whose transaction opened it."""


@dataclass(frozen=True, slots=True)
class Dispute:
    """One dispute at one block."""

    id: Digest
    """Dispute id."""
    receipt_id: Digest
    """Disputed receipt; zero where only the dispute's id was known: the chain keeps no more than that hash of it."""
    batch_id: int
    """Its batch."""
    operator: Address
    """Accused."""
    environment: Digest
    """Whose pool judges, and whose breaker may hold."""
    claim: Digest
    """What the receipt claims (`ballots.claim_of`)."""
    key_epoch: int
    """Epoch of the receipt."""
    params_version: int
    """Of its batch."""
    phase: Phase
    """By the block's clock."""
    level: int
    """Size of the committee, 1, 2, 3."""
    round: int
    """Committees drawn so far, the current one included."""
    seats: int
    """Seats of this round."""
    drawn: int
    """Seats drawn so far."""
    quorum: int
    """Seats that make a verdict."""
    rearms: int
    """How often this round's seed was lost."""
    seed: Seed
    """Of this round."""
    round_seed: Digest
    """Zero before the draw."""
    commit_s: int
    """Length of a commit phase under its parameters."""
    commit_end: int
    """0 before the draw."""
    reveal_end: int
    """0 before the draw."""
    settleable: bool
    """Whether the round can be counted now."""
    certified_group: Digest
    """What the certificate said; zero without one."""
    appealed: bool
    """Whether its one appeal was used."""
    appeal_bond_wei: int
    """What an appeal costs; 0 on the last level."""
    appeal_end: int
    """Last second to appeal."""
    airgap_end: int
    """Money moves after it."""
    held: bool
    """Whether the breaker holds convictions of its environment."""
    verdict: Verdict
    """Of the last conclusive round; final in FINAL."""
    key: Digest
    """What the verdict says; zero without one."""
    replacement: Digest
    """out_hash that replaces the claim, or zero."""
    ended: bool
    """Whether its money was split."""
    paid: bool
    """Whether everybody but the seats has its money."""
    members: tuple[Seat, ...]
    """Of the current round."""
    challenger: Challenger
    """Who opened it."""
    rounds: tuple[RoundSeats, ...]
    """All rounds, the first one first."""

    def seat_of(self, who: Address) -> Seat | None:
        """The seats of `who` in this round, if it has any."""
        return next((each for each in self.members if each.voter == who), None)


OPEN_END = 2**64 - 1
"""Until when batches are taken of what is open (`Registry.anchorable`, `Registry.operatorUntil`)."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """An account in its roles; wei."""

    balance_wei: int
    """In the account itself."""
    stake_wei: int
    """Counts for draws and for posting."""
    free_wei: int
    """What receipts can bind: the stake less what they bind already and, while anything is disputed, one slash at most."""
    collateral_wei: int
    """Bound by open receipts."""
    unbonding_wei: int
    """On its way out."""
    unbond_due_wei: int
    """Of that, what has waited long enough."""
    credit_wei: int
    """What the ledger owes it."""
    credit_due_wei: int
    """Of that, what it can withdraw now."""
    operator_until: int
    """Last second (protocol clock) in which its batches are taken: `OPEN_END` unless it is suspended, 0 if it is no operator."""
    last_seq: int
    """Its last anchored receipt; operators."""
    pool: Digest
    """Where it is a verifier; zero if nowhere."""
    place: int
    """In the pool's tree; 0 without one."""

    @property
    def is_operator(self) -> bool:
        """Whether it is registered as operator, suspended or not."""
        return self.operator_until != 0

    @property
    def is_suspended(self) -> bool:
        """Whether it is an operator that signs in vain: too many of its disputes ended in a DRAW."""
        return self.operator_until not in (0, OPEN_END)


@dataclass(frozen=True, slots=True)
class AnchoredBatch:
    """A batch as far as duties about it go."""

    batch_id: int
    """Its number."""
    operator: Address
    """Who posted it."""
    first_seq: int
    """Number of its first receipt."""
    params_version: int
    """Of its windows, audits and disputes."""
    window_end: int
    """Last second to question a receipt of it."""
    is_void: bool
    """Whether its list was demanded in vain."""
    released: bool
    """Whether its collateral is free."""
    list_demanded: bool
    """Whether a demand for its list is open."""
    list_deadline: int
    """Until when that is answered; 0 without one."""
    list_answered: bool = False
    """Whether the list itself is on the chain, as the answer to a demand."""
    anchored_at: int = 0
    """Wall time of its block: receipts of it are compared with their `anchor_by`."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All reads that serve one decision of one account, at one block."""

    block_hash: Digest
    """Hash of the block."""
    number: int
    """Its number."""
    timestamp: int
    """Its wall time: `anchor_by` and expiry are compared with it."""
    clock: int
    """Protocol clock: every deadline is on it."""
    paused: bool
    """Whether the clock stands still."""
    params_version: int
    """In force."""
    required_bond_wei: int
    """Bond of a dispute."""
    price_wei: int
    """Fee of a place for one receipt."""
    me: Holdings
    """The reader's own account."""
    disputes: tuple[Dispute, ...]
    """Those that were asked for and exist, in that order."""
    batch_count: int
    """All batches ever."""
    active_epoch: int
    """Key epoch to seal to; 0 if none."""
    policy: Digest
    """Digest of the appraisal policy in force."""
    policy_serial: int
    """Its serial."""
    batches: tuple[AnchoredBatch, ...] = ()
    """Those whose window may be open or whose list is owed, by number and without a gap, if they were asked for."""

    def batch(self, batch_id: int) -> AnchoredBatch | None:
        """One of `batches`, or None."""
        place = batch_id - self.batches[0].batch_id if self.batches else -1
        return self.batches[place] if 0 <= place < len(self.batches) else None

    def is_open(self, batch_id: int) -> bool:
        """Whether receipts of a batch can still be questioned: its window is among `batches` and not over."""
        found = self.batch(batch_id)
        return found is not None and self.clock <= found.window_end

"""A dispute as one block shows it: phases, deadlines, and the table of moves (design section 9, `Disputes.sol`).

                  ┌──── seed lost once too often: DRAW ────┐
                  │                                        ▼
        open ──▶ SEED ──draw──▶ COMMIT ──▶ REVEAL ──settle──▶ FINAL
                 ▲ └rearm┘                   │
                 └─────── next round ◀───────┘  (inconclusive, rounds left)

COMMIT ends at `commit_end` or when every seat has committed; REVEAL at `reveal_end` or when every committed seat has revealed.
"""

import enum
from dataclasses import dataclass

from bytewise.protocol.units import Address, Digest


class Phase(enum.IntEnum):
    """Where a dispute stands."""

    NONE = 0
    SEED = 1
    COMMIT = 2
    REVEAL = 3
    FINAL = 4


class Event(enum.StrEnum):
    """What moves a dispute."""

    OPEN = "open"
    DRAW = "draw"
    REARM = "rearm"
    SEED_LOST = "rearm: seed lost once too often"
    COMMITS_CLOSED = "commits closed"
    SETTLE_CONCLUSIVE = "settle: conclusive, or last round"
    SETTLE_INCONCLUSIVE = "settle: inconclusive, rounds left"


TRANSITIONS: dict[tuple[Phase, Event], Phase] = {
    (Phase.NONE, Event.OPEN): Phase.SEED,
    (Phase.SEED, Event.REARM): Phase.SEED,
    (Phase.SEED, Event.SEED_LOST): Phase.FINAL,
    (Phase.SEED, Event.DRAW): Phase.COMMIT,
    (Phase.COMMIT, Event.COMMITS_CLOSED): Phase.REVEAL,
    (Phase.REVEAL, Event.SETTLE_CONCLUSIVE): Phase.FINAL,
    (Phase.REVEAL, Event.SETTLE_INCONCLUSIVE): Phase.SEED,
}
"""Every legal move; the diagram in `docs/protocol.md` is this table."""


@dataclass(frozen=True, slots=True)
class Params:
    """The parameters that decisions need; seconds, wei and 1/10,000."""

    window_s: int
    """Challenge window after anchoring."""
    max_anchor_delay_s: int
    """How long after ACTIVE an epoch still takes batches."""
    commit_s: int
    """Length of the commit phase."""
    reveal_s: int
    """Length of the reveal phase."""
    seats: tuple[int, ...]
    """Seats of each round."""
    tau_num: int
    """Quorum numerator."""
    tau_den: int
    """Quorum denominator."""
    audit_rate_bps: int
    """Light-audit chance per audit seat."""
    audit_unit_wei: int
    """Stake of one audit seat."""
    required_bond_wei: int
    """Bond of a dispute."""


@dataclass(frozen=True, slots=True)
class Member:
    """One seat holder of the current round."""

    voter: Address
    """Account."""
    seat_mask: int
    """Bit i set: seat i."""
    commitment: Digest
    """Zero until committed."""
    revealed: bool
    """Whether the vote is open."""
    outcome: int
    """`Outcome` once revealed."""
    code: int
    """Code once revealed."""
    out_hash: Digest
    """keccak256(tokens hash, trace root) once revealed as EXECUTED."""


@dataclass(frozen=True, slots=True)
class Dispute:
    """One dispute at one block."""

    id: Digest
    """Dispute id."""
    receipt_id: Digest
    """Disputed receipt."""
    batch_id: int
    """Its batch."""
    operator: Address
    """Accused."""
    challenger: Address
    """Opener."""
    claimed_out_hash: Digest
    """out_hash of the receipt."""
    key_epoch: int
    """Epoch of the receipt."""
    phase: Phase
    """By the block's time."""
    round: int
    """1, 2, …"""
    seats: int
    """Seats of this round."""
    seed_block: int
    """Block whose beacon seeds the draw."""
    round_seed: Digest
    """Zero before the draw."""
    opened_at: int
    """Chain time."""
    commit_end: int
    """Chain time; 0 before the draw."""
    reveal_end: int
    """Chain time; 0 before the draw."""
    bond_wei: int
    """Challenger's bond."""
    verdict: int
    """`Verdict`; NONE until FINAL."""
    replacement: Digest
    """out_hash that replaces the claim, or zero."""
    members: tuple[Member, ...]
    """Of the current round."""

    @property
    def ready_to_settle(self) -> bool:
        """Every seat that committed has revealed (time alone also suffices; see `decide`)."""
        committed = [m for m in self.members if any(m.commitment)]
        return self.phase is Phase.REVEAL and all(m.revealed for m in committed)

    def member(self, who: Address) -> Member | None:
        """The seat holder `who`, if it has seats in this round."""
        return next((m for m in self.members if m.voter == who), None)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All reads that serve one decision, at one block."""

    block_hash: Digest
    """Hash of the block."""
    number: int
    """Its number."""
    timestamp: int
    """Its time: the only clock of the protocol."""
    params: Params
    """In force."""
    disputes: tuple[Dispute, ...]
    """Those that were asked for, oldest first."""
    dispute_count: int
    """All disputes ever."""
    verifiers: tuple[tuple[Address, int], ...]
    """Registered verifiers in registry order with their stake in wei."""
    credit_wei: int
    """What the reader may withdraw."""
    active_epoch: int
    """Key epoch to seal to; 0 if none."""
    policy: Digest
    """Digest of the appraisal policy in force."""

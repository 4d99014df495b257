"""What the court made of the member's seats. They are counted and logged once all seats of their dispute are settled."""

from collections.abc import Sequence
from typing import Protocol

from bytewise.protocol.court.settlement import SeatSettledEvent
from bytewise.protocol.decisions.actions import Action
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.units import Address, Digest
from bytewise.service import metrics, telemetry
from verifier.watch.open_windows import CHECKPOINTS, is_over


class SeatSettlements(Protocol):
    """The part of the chain that `SeatResults` reads."""

    def seats(self, from_block: int, to_block: int) -> Sequence[SeatSettledEvent]:
        """Reads the seats that were paid or charged in a closed range of blocks."""
        ...


class SeatResults:
    """A part of a member that counts how its seats were settled. It decides no action.

    It reads the events of a dispute when all seats of the dispute are settled. It counts each seat once, also if a reorganisation
    repeats the settlement. Seats that were settled while the process was stopped are not counted; `bytewise status` has all sums.
    """

    def __init__(self, chain: SeatSettlements, me: Address) -> None:
        self._chain = chain
        self._me = me
        self._seen: dict[Digest, int] = {}
        """Block at which each dispute that is not over was first seen."""
        self._over: dict[Digest, int] = {}
        """The same block of each dispute that is over and whose events were not read yet."""
        self._counted: dict[tuple[Digest, int, int], int] = {}
        """Dispute, round and mask of the seats that were counted, with the block of that."""

    def step(self, snapshot: Snapshot) -> Sequence[Action]:
        """Follows the disputes, and counts the seats of those that are over. Returns no action. After an error, the next step
        reads the same blocks again."""
        still_open = {case.id for case in snapshot.disputes if not is_over(case)}
        for dispute in still_open:
            self._seen.setdefault(dispute, snapshot.number)
        # A step may have been left out, and snapshots lack a dispute from the second block on at which it is over.
        for dispute in self._seen.keys() - still_open:
            self._over[dispute] = self._seen.pop(dispute)
        for dispute, first in list(self._over.items()):
            # The range begins where the dispute was open, so that no reorganisation moves its settlement out of it.
            self._count(dispute, self._chain.seats(first, snapshot.number), snapshot.number)
            del self._over[dispute]
        # As long as `OpenDisputes` remembers: no reorganisation that it finds goes back further.
        self._counted = {key: block for key, block in self._counted.items() if block > snapshot.number - CHECKPOINTS}
        return ()

    def _count(self, dispute: Digest, settled: Sequence[SeatSettledEvent], block: int) -> None:
        for each in settled:
            key = each.dispute, each.round, each.seat_mask
            if (each.dispute, each.voter) != (dispute, self._me) or key in self._counted:
                continue
            self._counted[key] = block
            outcome, seats = each.standing.name.lower(), each.seat_mask.bit_count()
            metrics.SEATS.labels(outcome=outcome).inc(seats)
            telemetry.log(
                "seats.settled", dispute=dispute, round=each.round, outcome=outcome, seats=seats, pay_wei=each.pay,
                penalty_wei=each.penalty,
            )  # fmt: skip

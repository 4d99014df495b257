"""What the court made of the member's seats. Every seat that costs money is counted and logged when it is charged."""

from collections.abc import Sequence
from typing import Protocol

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import SeatSettledEvent
from bytewise.protocol.decisions.actions import Action
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.units import Address, Digest
from bytewise.service import metrics, telemetry
from verifier.watch.open_windows import is_over


class SeatSettlements(Protocol):
    """The part of the chain that `SeatResults` reads."""

    def seats(self, from_block: int, to_block: int) -> Sequence[SeatSettledEvent]:
        """Reads the seats that were paid or charged in a closed range of blocks."""
        ...


class SeatResults:
    """A part of a member that counts how its seats were settled. It decides no action.

    It reads the events of a dispute once, when the dispute is over. Seats that were settled while the process was stopped are not
    counted; `bytewise status` has the sums of all time.
    """

    def __init__(self, chain: SeatSettlements, me: Address) -> None:
        self._chain = chain
        self._me = me
        self._unsettled: dict[Digest, int] = {}
        """Last block at which each dispute was seen without a final verdict, or the first at which it was seen at all."""
        self._unread: dict[Digest, tuple[int, int]] = {}
        """First and last block of the settlement of each dispute that is over."""

    def step(self, snapshot: Snapshot) -> Sequence[Action]:
        """Follows the disputes, and counts the seats of those that are over. Returns no action. After an error, the next step
        reads the same blocks again."""
        open_cases = [case for case in snapshot.disputes if not is_over(case)]
        for case in open_cases:
            if case.phase is Phase.FINAL:
                self._unsettled.setdefault(case.id, snapshot.number)
            else:
                self._unsettled[case.id] = snapshot.number
        # A step may have been left out, and snapshots lack a dispute from the second block on at which it is over.
        for dispute in self._unsettled.keys() - {case.id for case in open_cases}:
            self._unread[dispute] = self._unsettled.pop(dispute) + 1, snapshot.number
        for dispute, (first, last) in list(self._unread.items()):
            self._count(dispute, self._chain.seats(first, last))
            del self._unread[dispute]
        return ()

    def _count(self, dispute: Digest, settled: Sequence[SeatSettledEvent]) -> None:
        for each in settled:
            if (each.dispute, each.voter) != (dispute, self._me):
                continue
            outcome, seats = each.standing.name.lower(), each.seat_mask.bit_count()
            metrics.SEATS.labels(outcome=outcome).inc(seats)
            telemetry.log(
                "seats.settled", dispute=dispute, round=each.round, outcome=outcome, seats=seats, pay_wei=each.pay,
                penalty_wei=each.penalty,
            )  # fmt: skip

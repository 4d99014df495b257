"""What becomes of demanded envelopes: they are fetched from where the answer says, and those that never came can be disputed."""

import time
from collections.abc import Callable, Mapping

from bytewise.ports import ChainView
from bytewise.protocol.decisions.decide_demands import is_over
from bytewise.protocol.decisions.demands import DemandKind, DemandRecord, DemandState
from bytewise.protocol.decisions.snapshot import Docket
from bytewise.protocol.errors import Fault, NotServed, Unavailable
from bytewise.protocol.units import Address, Digest
from bytewise.service import telemetry
from verifier.watch.backlog import Backlog
from verifier.watch.records import FETCH_BUDGET_S, Records

OTHERS_PAUSE_S = 60
"""Protocol time after the end of a demand in which only who made it disputes; half of the window if less of that is left."""


class FollowUp:
    """Envelopes whose demand has ended, until they are here or can be questioned no more."""

    def __init__(self, chain: ChainView, records: Records, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._chain = chain
        self._records = records
        self._monotonic = monotonic
        self._waiting: Backlog[Digest] = Backlog()
        self._settled: set[Digest] = set()
        self._ended_at: dict[Digest, int] = {}
        """When we first saw that a demand had ended."""

    def step(self, docket: Docket, known: Mapping[Digest, DemandRecord]) -> None:
        """Asks for what is due, as long as the tick's budget lasts; `known` are all demands."""
        self._settled &= known.keys()
        self._ended_at = {subject: since for subject, since in self._ended_at.items() if subject in known}
        for subject, demand in known.items():
            ended = demand.state in (DemandState.ANSWERED, DemandState.EXPIRED) or is_over(docket, demand)
            if demand.kind is DemandKind.ENVELOPE and ended and subject not in self._settled:
                self._waiting.add(subject)
                self._ended_at.setdefault(subject, docket.clock)
        until = self._monotonic() + FETCH_BUDGET_S
        for subject in self._waiting.due(docket.clock):
            if self._monotonic() >= until:
                telemetry.log("demands.postponed", waiting=len(self._waiting.due(docket.clock)))
                return
            self._try(subject, known.get(subject), docket)

    def unserved(self, docket: Docket, known: Mapping[Digest, DemandRecord], me: Address, tries: int) -> tuple[Digest, ...]:
        """Receipts that are not disputed, whose demand has ended, and that DA still does not give after so many tries.

        Ours come first. Whoever made a demand has a pause to dispute what it did not bring; then anybody may: an operator that
        demands its own envelopes would be disputed by nobody else.
        """
        disputed = {case.receipt_id for case in docket.cases}
        found = [name for name in known if name not in disputed and self._waiting.failures(name) >= tries]
        ours = [name for name in found if known[name].by == me]
        return (*ours, *(name for name in found if known[name].by != me and self._is_anybodys(name, known[name], docket)))

    def _is_anybodys(self, subject: Digest, demand: DemandRecord, docket: Docket) -> bool:
        since, end = self._ended_at[subject], self._chain.window_end(subject, demand.batch_id, docket.number)
        return docket.clock >= since + min(OTHERS_PAUSE_S, max(end - since, 0) // 2)

    def _try(self, subject: Digest, demand: DemandRecord | None, docket: Docket) -> None:
        if demand is None or self._chain.window_end(subject, demand.batch_id, docket.number) < docket.clock:
            self._end(subject)
            return
        try:
            self._records.obtain(subject, demand.batch_id, docket)
        except NotServed as error:
            self._waiting.failed(subject, docket.clock)
            telemetry.log_error("demand.brought_nothing", error, receipt=subject, state=demand.state.name)
        except (Fault, Unavailable) as error:
            telemetry.log_error("demand.not_followed", error, receipt=subject)
        else:
            telemetry.log("demand.brought", receipt=subject)
            self._end(subject)

    def _end(self, subject: Digest) -> None:
        self._settled.add(subject)
        self._waiting.drop(subject)

"""What becomes of demanded envelopes: they are fetched from where the answer says, and those that never came can be disputed."""

from collections.abc import Mapping

from bytewise.ports import ChainView
from bytewise.protocol.decide_demands import is_over
from bytewise.protocol.demands import DemandKind, DemandRecord, DemandState
from bytewise.protocol.docket import Docket
from bytewise.protocol.errors import Fault, NotServed, Unavailable
from bytewise.protocol.units import Address, Digest
from bytewise.service import telemetry
from verifier.backlog import Backlog
from verifier.records import Records


class FollowUp:
    """Envelopes whose demand has ended, until they are here or can be questioned no more."""

    def __init__(self, chain: ChainView, records: Records) -> None:
        self._chain = chain
        self._records = records
        self._waiting: Backlog[Digest] = Backlog()
        self._settled: set[Digest] = set()

    def step(self, docket: Docket, known: Mapping[Digest, DemandRecord]) -> None:
        """Asks for what is due; `known` are all demands."""
        self._settled &= known.keys()
        for subject, demand in known.items():
            ended = demand.state in (DemandState.ANSWERED, DemandState.EXPIRED) or is_over(docket, demand)
            if demand.kind is DemandKind.ENVELOPE and ended and subject not in self._settled:
                self._waiting.add(subject)
        for subject in self._waiting.due(docket.clock):
            self._try(subject, known.get(subject), docket)

    def unserved(self, docket: Docket, known: Mapping[Digest, DemandRecord], me: Address, tries: int) -> tuple[Digest, ...]:
        """Receipts that are not disputed, whose envelope we demanded, and that DA still does not give after so many tries."""
        disputed = {case.receipt_id for case in docket.cases}
        own = [subject for subject, each in known.items() if each.by == me and subject not in disputed]
        return tuple(subject for subject in own if self._waiting.failures(subject) >= tries)

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

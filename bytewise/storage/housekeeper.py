"""The periodic job that keeps a database small: it deletes the records that `Retention` allows, and logs their number."""

import threading
from collections.abc import Callable

from sqlalchemy import Engine

from bytewise.service import metrics, telemetry
from bytewise.service.housekeeping import HousekeepingSettings
from bytewise.service.schedule import PeriodicJob
from bytewise.storage.retention import Horizon, Retention


def housekeeping_job(
    engine: Engine, settings: HousekeepingSettings, horizon: Callable[[], Horizon | None], stop: threading.Event,
    prune_inbox: Callable[[int], int] = lambda _before: 0,
) -> PeriodicJob:  # fmt: skip
    """Returns the periodic job that deletes old records from the database of one process.

    `horizon` returns the records that the chain still needs. The job does nothing while `horizon` returns None. `prune_inbox`
    gets a Unix second, deletes the files of receipts that are older, and returns how many it deleted.
    """
    retention = Retention(engine, settings, stop.is_set)

    def run() -> None:
        needed = horizon()
        if needed is None:
            return
        gone = +retention.prune(needed)
        inbox = prune_inbox(retention.receipts_before(needed))
        if inbox:
            gone["inbox"] = inbox
        for what, count in gone.items():
            metrics.DELETED.labels(what=what).inc(count)
        freed = 0
        try:
            freed = retention.compact()
        finally:
            if gone:
                telemetry.log("housekeeping.deleted", freed_pages=freed, clock=needed.clock, **gone)

    return PeriodicJob("housekeeping", run, settings.every_s)

"""The periodic job that keeps a database small: it deletes the records that `Retention` allows, and logs their number."""

import threading
from collections.abc import Callable

from sqlalchemy import Engine

from bytewise.service import metrics, telemetry
from bytewise.service.housekeeping import HousekeepingSettings
from bytewise.service.schedule import PeriodicJob
from bytewise.storage.retention import Horizon, Retention


def housekeeping_job(
    engine: Engine, settings: HousekeepingSettings, horizon: Callable[[], Horizon | None], stop: threading.Event
) -> PeriodicJob:
    """The job of one process. It does nothing before `horizon` returns the records that the chain still needs."""
    retention = Retention(engine, settings, stop.is_set)

    def run() -> None:
        needed = horizon()
        if needed is None:
            return
        gone = +retention.prune(needed)
        freed = retention.compact()
        for what, count in gone.items():
            metrics.DELETED.labels(what=what).inc(count)
        if gone:
            telemetry.log("housekeeping.deleted", freed_pages=freed, clock=needed.clock, **gone)

    return PeriodicJob("housekeeping", run, settings.every_s)

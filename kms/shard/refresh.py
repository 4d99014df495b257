"""Checks the age of the shares in force. The check runs repeatedly beside the server, and in `bytewise doctor` and `bytewise
status`.

A shard only reminds; it does not renew shares by itself. New shares need two other accounts: the coordinator, which signs the
ceremony's log, and the curator, which posts the new shares on the chain (`docs/guide/key-ceremony.md`). Until both have acted,
the present shares stay in force.
"""

import contextlib
import math
import threading
from collections.abc import Callable, Iterator

from bytewise.ports import Clock
from bytewise.protocol.suites import SUITE_HYBRID, suite_of
from bytewise.service import schedule, telemetry
from bytewise.service.readiness import Check
from bytewise.service.sections import DAY_S
from kms.settings import ShardSettings
from kms.storage import keyring

LOOK_S = 6 * 3_600.0
"""Seconds between two checks, each of which reads the events of `KeyEpochs`."""

DealtAt = Callable[[int], int | None]
"""Function that returns the Unix second of the block that put the newest shares of a key epoch in force. Returns None unless the
epoch is ACTIVE. Raises `Unavailable` if the chain cannot be read."""


def share_age_check(settings: ShardSettings, dealt_at: DealtAt, now: int) -> Check:
    """Returns a check that passes if the shares of this shard's key epoch are less than `refresh_days` days old. It also passes
    if `refresh_days` is 0, the shard has no epoch, or the epoch is not ACTIVE. `now` is in Unix seconds."""
    name, advice = "share_age", "Deal the shares again: `bytewise key reshare`, then `bytewise key open`."
    if not settings.refresh_days:
        return Check(name, True, "refresh_days is 0: not checked", "any age", advice)
    threshold = f"at most {settings.refresh_days} days"
    if not settings.epoch_file.exists():
        return Check(name, True, "no key epoch", threshold, advice)
    epoch = keyring.load_document(settings.epoch_file).record.epoch
    if suite_of(epoch) == SUITE_HYBRID:
        advice = "Make the next key epoch: `bytewise key rotate`; shares of a hybrid epoch are never dealt again."
    since = dealt_at(epoch)
    if since is None:
        return Check(name, True, f"epoch {epoch} takes no new receipts", threshold, advice)
    is_met = refresh_in_s(settings, since, now) > 0
    return Check(name, is_met, f"epoch {epoch}, {max(now - since, 0) // DAY_S} days old", threshold, advice)


def refresh_in_s(settings: ShardSettings, since: int, now: int) -> int:
    """Returns the seconds until shares that came into force at `since` should be dealt again. Returns 0 or less if that is
    due."""
    return since + settings.refresh_days * DAY_S - now


@contextlib.contextmanager
def refresh_reminder(settings: ShardSettings, dealt_at: DealtAt, clock: Clock) -> Iterator[None]:
    """Context manager that checks the age of the shares in a thread while it is open. It logs `share.refresh_due` at every check
    while the shares are too old. Nothing else happens, so several shards and any number of restarts do no harm."""

    def look() -> None:
        found = share_age_check(settings, dealt_at, clock.now())
        if not found.ok:
            telemetry.log("share.refresh_due", found=found.value, must_be=found.threshold, do=found.advice)

    stop = threading.Event()
    # A reminder that waits for a slow node must not end the process that serves keys.
    options = {"name": "refresh", "hung_after_s": math.inf}
    thread = threading.Thread(target=schedule.run_ticks, args=(look, LOOK_S, stop), kwargs=options, name="refresh", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()

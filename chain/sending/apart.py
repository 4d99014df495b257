"""Steps that do not wait for each other: what endpoints cannot agree about one act keeps no other from its deadline."""

from collections.abc import Callable

from bytewise.protocol.errors import Fault, LaneStopped, Unavailable
from bytewise.service import telemetry


def apart(function: str, step: Callable[[], None]) -> bool:
    """Takes a step about an act, and says whether it came to an end; a failure is logged and counted, for the next tick.

    `LaneStopped` goes on: it is about all acts.
    """
    try:
        step()
        return True
    except LaneStopped:
        raise
    except (Fault, Unavailable) as error:
        telemetry.count("bytewise_sender_step_failures_total", function=function, error=type(error).__name__)
        telemetry.log_error("sender.step_failed", error, function=function)
        return False

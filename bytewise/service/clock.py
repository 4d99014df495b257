"""The only clocks. Protocol time is the block's; these serve timeouts, records and logs (design section 2)."""

import time


class SystemClock:
    """Wall time; implements `bytewise.ports.Clock`."""

    def now(self) -> int:
        """Unix seconds."""
        return int(time.time())


def monotonic_s() -> float:
    """Seconds of a clock that never steps back, for timeouts and durations."""
    return time.monotonic()

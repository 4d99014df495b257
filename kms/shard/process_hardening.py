"""A process with a shard's secrets is closed to other processes of its user, and leaves no core when it crashes (ADR-040)."""

from bytewise.service import telemetry
from bytewise.tee import confinement


def close_process() -> None:
    """Closes this process, before it reads a secret. Where that cannot be had the log says so, and it goes on."""
    fence = confinement.unseen()
    if fence.missing:
        telemetry.log("kms.process_not_closed", missing=fence.missing)

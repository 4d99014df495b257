"""Protects a process that has a shard's secrets from other processes of its user, and from leaving a core dump (ADR-041)."""

from bytewise.service import telemetry
from bytewise.tee import confinement


def harden_process() -> None:
    """Protects this process before it reads a secret. If the system cannot protect it, the process logs this and continues."""
    fence = confinement.deny_inspection()
    if fence.missing:
        telemetry.log("process.hardening_failed", missing=fence.missing)

"""Assurance labels of key epochs, and the warning that people see (fence 6, design section 7)."""

SIMULATED, HARDWARE = "simulated", "hardware"
"""Labels of a key epoch: which kind of evidence its shards accept."""


def warning(assurance: str) -> str:
    """Warning to show with every result of a key epoch; empty for `hardware`, and for no epoch (empty label)."""
    if assurance in (HARDWARE, ""):
        return ""
    return f"{assurance.upper()}: this run shows protocol and policy; it hides nothing from the owners of the machines"

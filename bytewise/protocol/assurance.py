"""Assurance labels of key epochs, and the warning that is shown to people (fence 6, design section 7)."""

SIMULATED, HARDWARE = "simulated", "hardware"
"""Labels of a key epoch. They say whether its shards accept simulated evidence or evidence of hardware."""


def warning(assurance: str) -> str:
    """Returns the warning to show with every result of a key epoch.

    It is empty for `hardware`, and for the empty label of no epoch.
    """
    if assurance in (HARDWARE, ""):
        return ""
    return f"{assurance.upper()}: this run shows protocol and policy; it hides nothing from the owners of the machines"

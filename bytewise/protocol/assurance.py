"""Assurance labels of key epochs, and the warning that programs show with results under a label other than `hardware` (fence 6
of `docs/reference/attestation.md`, design section 7)."""

SIMULATED, HARDWARE = "simulated", "hardware"
"""Labels of a key epoch. They say whether its shards accept simulated evidence or evidence of hardware."""


def warning(assurance: str) -> str:
    """Returns the warning that programs show with every result under this label.

    Returns an empty text for `hardware`, and for an empty label, which means that the result has no key epoch.
    """
    if assurance in (HARDWARE, ""):
        return ""
    return f"{assurance.upper()}: this run shows protocol and policy; it hides nothing from the owners of the machines"

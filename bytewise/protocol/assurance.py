"""What a key epoch is worth, by the chain's label of it, and the words that tell people so (fence 6, design section 7)."""

SIMULATED, HARDWARE = "simulated", "hardware"
"""Labels of a key epoch: what evidence its shards release keys to."""


def warning(assurance: str) -> str:
    """What whoever shows a result says with it; empty where the label is `hardware`, or where there is no epoch (no label)."""
    if assurance in (HARDWARE, ""):
        return ""
    return f"{assurance.upper()}: this shows protocol and policy, and keeps nothing from the owners of the machines"

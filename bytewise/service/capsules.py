"""Section `[capsules]` of a node: where it keeps capsules of disputes that are over."""

from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError


@dataclass(frozen=True, slots=True)
class CapsuleSettings:
    """Section `[capsules]`: where capsules of disputes that are over are kept."""

    folder: Path
    """Folder of the capsules, which is made if it is missing. A file is named after its dispute."""
    most: int = 1000
    """Most capsules that are kept; the oldest files go first. A verdict takes some 50 kB."""
    every_s: int = 60
    """Seconds between two looks for disputes that are over: less than the time for which the node keeps the state of a block."""
    finality: str = "finalized"
    """Block to prove: finalized, safe or latest."""

    def __post_init__(self) -> None:
        if self.most < 1 or self.every_s < 1:
            raise ConfigurationError("capsules", "most and every_s must be at least 1")
        if self.finality not in ("finalized", "safe", "latest"):
            raise ConfigurationError("capsules.finality", f"{self.finality} is none of finalized, safe, latest")

"""Section `[checkpoints]` of a node: where it keeps signed checkpoints of its journal."""

from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """Section `[checkpoints]`: where signed checkpoints of the journal are kept. Copy them to others: a checkpoint that somebody
    else has shows later that no entry before it was changed."""

    folder: Path
    """Folder of the checkpoints, which is made if it is missing. A file is named after the number of entries."""
    every_s: int = 3600
    """Seconds between two checkpoints. None is made while the journal has no new entry."""
    most: int = 1000
    """Most checkpoints that are kept; the oldest files go first. One takes some 5 kB."""

    def __post_init__(self) -> None:
        if self.most < 1 or self.every_s < 1:
            raise ConfigurationError("checkpoints", "most and every_s must be at least 1")

"""Section `[checkpoints]` of a node's settings: the folder in which the node stores signed checkpoints of its journal."""

from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """Section `[checkpoints]`: where the node stores signed checkpoints of its journal. Copy the checkpoints to other people:
    with a copy they can show later whether an entry that it covers was changed."""

    folder: Path
    """Folder of the checkpoints. The node makes it if it is missing. A file is named after the number of entries."""
    every_s: int = 3600
    """Seconds between two checkpoints. No checkpoint is made while the journal has no new entry."""
    most: int = 1000
    """Most checkpoints that are stored. The oldest files are deleted first. A checkpoint takes some 5 kB."""

    def __post_init__(self) -> None:
        if self.most < 1 or self.every_s < 1:
            raise ConfigurationError("checkpoints", "most and every_s must be at least 1")

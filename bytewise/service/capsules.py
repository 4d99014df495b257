"""Section `[capsules]` of a node's settings: the folder in which the node stores capsules of disputes that are over."""

from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError


@dataclass(frozen=True, slots=True)
class CapsuleSettings:
    """Section `[capsules]`: where the node stores evidence capsules of disputes that are over."""

    folder: Path
    """Folder of the capsules. The node makes it if it is missing. A file is named after its dispute."""
    most: int = 1000
    """Most capsules that are stored. The oldest files are deleted first. A capsule of a verdict takes some 50 kB."""
    every_s: int = 60
    """Seconds between two searches for disputes that are over. It must be less than the time for which the chain node keeps old
    states."""
    finality: str = "finalized"
    """Block at which the capsule proves the state: finalized, safe or latest."""

    def __post_init__(self) -> None:
        if self.most < 1 or self.every_s < 1:
            raise ConfigurationError("capsules", "most and every_s must be at least 1")
        verify_finality("capsules.finality", self.finality)


def verify_finality(name: str, tag: str) -> None:
    """Raises `ConfigurationError` unless `tag`, the value of the setting or option `name`, is the tag of a block."""
    if tag not in ("finalized", "safe", "latest"):
        raise ConfigurationError(name, f"{tag} is none of finalized, safe, latest")

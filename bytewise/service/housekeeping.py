"""Sections `[housekeeping]` and `[backup]` of a process with a database: which records it deletes, and when it makes backups."""

from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class HousekeepingSettings:
    """Section `[housekeeping]`: how long records are kept. Shorter settings do not delete a record that a dispute, a demand, a
    penalty or a transaction can still need. Votes and the journal are kept for ever."""

    every_s: int = 600
    """Seconds between two runs."""
    receipts_days: int = 90
    """Days for which batches, receipts and light audits are kept at least."""
    envelopes_days: int = 0
    """Days for which ciphertext is kept at least; 0: only as long as its receipt can be disputed."""
    duties_days: int = 365
    """Days for which ended duties are kept at least."""
    transactions_days: int = 90
    """Days for which ended transactions are kept at least."""

    def __post_init__(self) -> None:
        if self.every_s < 1:
            raise ConfigurationError("every_s", "must be at least 1")
        if min(self.receipts_days, self.envelopes_days, self.duties_days, self.transactions_days) < 0:
            raise ConfigurationError("housekeeping", "days must not be negative")


@dataclass(frozen=True, slots=True)
class BackupSettings:
    """Section `[backup]`: backups that the process makes by itself. Copy them to another machine."""

    folder: Path
    """Folder of the backups, which exists; best on another disk. It holds keys: only the owner may read it. Without the folder
    the node runs, and its check `backup_age` fails."""
    every_h: int = 24
    """Hours between two backups."""
    keep: int = 7
    """How many of the newest backups stay; older ones are deleted."""

    def __post_init__(self) -> None:
        if self.every_h < 1 or self.keep < 1:
            raise ConfigurationError("backup", "every_h and keep must be at least 1")

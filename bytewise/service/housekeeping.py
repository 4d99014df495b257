"""Settings sections `[housekeeping]` and `[backup]`: how long a process keeps records, and when it makes backups."""

from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class HousekeepingSettings:
    """Section `[housekeeping]`: how long the process keeps records. A record that a dispute, a demand, a penalty or a
    transaction can still need is never deleted, however short these times are. Votes and the journal are kept for ever."""

    every_s: int = 600
    """Seconds between two runs of housekeeping."""
    receipts_days: int = 90
    """Days for which batches, receipts and light audits are kept at least."""
    envelopes_days: int = 0
    """Days for which ciphertext is kept at least. With 0 it is kept only as long as its receipt can be disputed."""
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
    """Section `[backup]`: backups that the process makes by itself. Copy the backups to another machine."""

    folder: Path
    """Folder of the backups, best on another disk. The folder must exist. Only the owner may read it, because backups contain
    keys. Without the folder the node runs, but its check `backup_age` fails."""
    every_h: int = 24
    """Hours between two backups."""
    keep: int = 7
    """Number of the newest backups that are kept. Older backups are deleted."""

    def __post_init__(self) -> None:
        if self.every_h < 1 or self.keep < 1:
            raise ConfigurationError("backup", "every_h and keep must be at least 1")

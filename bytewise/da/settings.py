"""Settings of the DA store."""

from dataclasses import dataclass
from pathlib import Path

from bytewise.service.sections import MetricsSettings


@dataclass(frozen=True)
class StoreSettings:
    """Settings of `bytewise da run --config FILE`."""

    directory: Path
    """Folder in which the store keeps blobs."""
    port: int
    """TCP port of the REST interface."""
    host: str = "127.0.0.1"
    """Address at which the REST interface listens."""
    retention_s: int = 14 * 24 * 3600
    """Time in seconds for which the store keeps a blob. The default is two weeks, as with EigenDA."""
    max_total_bytes: int = 4 * 2**30
    """Largest total size of all blobs in bytes. The store answers further uploads with 503."""
    metrics: MetricsSettings | None = None
    """Address at which the store serves metrics and probes. Without this section it serves none."""
    memstore: bool = False
    """Whether the fault settings under /memstore/config can be read and changed; for tests only."""

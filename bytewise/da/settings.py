"""Settings of the store."""

from dataclasses import dataclass
from pathlib import Path

from bytewise.service.listener import MetricsSettings


@dataclass(frozen=True)
class StoreSettings:
    """Settings of `bytewise da run --config FILE`."""

    directory: Path
    """Folder of the blobs."""
    port: int
    """TCP port of the REST interface."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    retention_s: int = 14 * 24 * 3600
    """How long a blob is kept, in seconds; two weeks, as with EigenDA."""
    max_total_bytes: int = 4 * 2**30
    """Size of the folder at which uploads are answered with 503."""
    metrics: MetricsSettings | None = None
    """Where metrics and probes are served. Without this section they are not served."""
    memstore: bool = False
    """Whether the fault settings under /memstore/config exist; for tests only."""

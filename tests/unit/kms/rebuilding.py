"""An enclave's key source that opens one job in a process of its own, and stands still where its memory is worth a look.

`python -m tests.unit.kms.rebuilding JOB PLATFORM MEASUREMENT [careless]`; the transport secret is the first line of its input. It
says "rebuilt" when the key is there and "opened" when the plaintext is, and goes on with every line that it gets. `careless`:
nothing is erased.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from bytewise.crypto import erasable, reconstruction
from bytewise.protocol.encoding import decode
from bytewise.protocol.jobs import RunJob
from bytewise.protocol.units import Digest
from bytewise.service.clock import SystemClock
from bytewise.tee_simulated.quoter import SimulatedQuoter
from bytewise.tee_simulated.root import Platform
from enclave import release_client
from enclave.release_client import ShardKeySource


def pause(where: str) -> None:
    """Says where it stands and waits."""
    print(where, flush=True)
    sys.stdin.readline()


def showing(interpolate: Callable[..., bytearray]) -> Callable[..., bytearray]:
    """The same, and a pause once the key is there."""

    def call(shares: dict[int, bytearray]) -> bytearray:
        key = interpolate(shares)
        pause("rebuilt")
        return key

    return call


def main() -> None:
    """Opens the job."""
    job, platform, measurement, *careless = sys.argv[1:]
    if careless:
        for module in (erasable, release_client, reconstruction):
            module.erase = lambda *_: None  # type: ignore[attr-defined]
    reconstruction.interpolate = showing(reconstruction.interpolate)  # type: ignore[attr-defined]
    quoter = SimulatedQuoter(Platform(Path(platform)), Digest(bytes.fromhex(measurement)), SystemClock())
    source = ShardKeySource(quoter, rebuilds=True)
    opened = source.open(decode(RunJob, Path(job).read_bytes()), bytes.fromhex(sys.stdin.readline()))
    pause("opened")
    print(opened.hex())


if __name__ == "__main__":
    main()

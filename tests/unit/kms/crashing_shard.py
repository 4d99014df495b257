"""A shard that dies between committing its release record and answering; run by `test_records`."""

import os
import sys
from pathlib import Path

from bytewise.protocol.encoding import encode
from tests.unit.kms.world import World


class DyingRandomness:
    """Randomness that ends the process the first time it is asked for after `arm`: that is for the partial's proof."""

    armed = False

    def __call__(self, size: int) -> bytes:
        if self.armed:
            os._exit(9)
        return os.urandom(size)


def main() -> None:
    """Releases once in the folder given; must not come back."""
    world, rng = World(Path(sys.argv[1])), DyingRandomness()
    shard, case = world.shard(1, rng=rng), world.case()
    world.chain.open(case)
    body = encode(world.request(case))
    peer = world.peer(shard)
    rng.armed = True
    shard.release(body, peer)


if __name__ == "__main__":
    main()

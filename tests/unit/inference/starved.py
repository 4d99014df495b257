"""An engine whose process gets little more memory than it has; run by `test_many_claims`. Prints how each job ended."""

import resource
import sys
from pathlib import Path
from typing import Any

from bytewise.inference.artifact import artifact
from bytewise.inference.engine import ExactEngine, memory_bounded
from bytewise.protocol.errors.actors import CannotExecute
from bytewise.protocol.records.compare import Verification
from bytewise.protocol.records.request import output_for
from bytewise.protocol.units import ZERO_DIGEST
from tests.unit.inference.models import policy, request

SPARE_BYTES = 48 * 2**20
CLAIMS, ROOM = 60, 8000
"""Their caches have 132 MiB together."""
MANY = 300
"""Claims whose smallest array of a cache has 37 MiB: above 32 MiB the allocator maps each for itself, whatever was freed."""


def mapped() -> int:
    """Bytes of this process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def as_computed(path: Any) -> bool:
    """Whether a cache of the C engine takes the bytes that were computed for it. Here nothing else comes or goes meanwhile."""
    before = mapped()
    kept = path.cache(MANY, ROOM)
    taken = mapped() - before
    del kept
    return bool(path.name.startswith("torch")) or 0.99 < taken / path.cache_bytes(MANY, ROOM) < 1.01


def main() -> None:
    """A cache as large as computed; one that does not fit, then as many claims, which do not fit together, then an answer."""
    model = artifact.load(Path(sys.argv[1]))
    engine = ExactEngine(model)
    (first,) = engine.generate(request(model, [65], policy(1))).output.token_ids
    # The first token ends the answer: what is long is the room for it.
    asked = request(model, [65], policy(ROOM, stops=(first,)))
    claim = (asked, output_for(asked, (first,), "stop"), ZERO_DIGEST)
    print(as_computed(engine._path))
    resource.setrlimit(resource.RLIMIT_AS, (mapped() + SPARE_BYTES,) * 2)
    try:
        with memory_bounded():
            engine._path.cache(CLAIMS, ROOM + 1)
    except CannotExecute as error:
        print(error.values[1].name)  # type: ignore[attr-defined]
    found = engine.verify_many([claim] * CLAIMS)
    print(all(isinstance(each, Verification) and each == found[0] for each in found), 1 < engine.verify_passes < CLAIMS)
    print(engine.generate(request(model, b"small", policy(2))).output.completion_tokens == 2)
    # Seconds of every start: the native path shall not wait for what only torch needs.
    print(engine._path.name.startswith("torch") or "transformers" not in sys.modules)


if __name__ == "__main__":
    main()

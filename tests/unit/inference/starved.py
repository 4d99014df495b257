"""An engine whose process gets little more memory than it has; run by `test_engine`. Prints how each job ended."""

import resource
import sys
from pathlib import Path

from bytewise.inference import artifact
from bytewise.inference.engine import ExactEngine
from bytewise.protocol.errors import CannotExecute
from bytewise.protocol.request import output_for
from bytewise.protocol.units import ZERO_DIGEST
from tests.unit.inference.models import policy, request

SPARE_BYTES = 64 * 2**20
CLAIMS = 4000
"""Their cache alone has a gigabyte."""


def main() -> None:
    """Two jobs that do not fit, then one that does."""
    model = artifact.load(Path(sys.argv[1]))
    engine, asked = ExactEngine(model), request(model, b"hungry", policy(240))
    claim = (asked, output_for(asked, (65,), "length"), ZERO_DIGEST)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + SPARE_BYTES,) * 2)
    for _ in range(2):
        try:
            engine.verify_many([claim] * CLAIMS)
        except CannotExecute as error:
            print(error.values[1].name)  # type: ignore[attr-defined]
    small = request(model, b"small", policy(2))
    print(engine.generate(small).output.completion_tokens == 2)


if __name__ == "__main__":
    main()

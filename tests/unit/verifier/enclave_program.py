"""The enclave's own program, and what its job processes have imported: each writes it beside the settings at its end.

`python -m tests.unit.verifier.enclave_program --config FILE`. Nothing but this list is added to the program.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from verifier.enclave import __main__ as program


def main() -> int:
    """Runs it."""
    out = Path(sys.argv[sys.argv.index("--config") + 1]).with_suffix(".modules")

    def listed(serve_one: Callable[..., bool]) -> Callable[..., bool]:
        def serve(*arguments: Any) -> bool:
            served = serve_one(*arguments)
            if served:
                out.write_text(json.dumps(sorted(sys.modules)))
            return served

        return serve

    def late(name: str, _path: object, _target: object = None) -> None:
        # The server is imported after the fences stand, by the program itself: it is wrapped when it is there.
        server = sys.modules.get("verifier.enclave.server")
        if name == "verifier.enclave.second" and server is not None:
            server.serve_one = listed(server.serve_one)  # type: ignore[attr-defined]

    sys.meta_path.insert(0, type("Listing", (), {"find_spec": staticmethod(late)})())
    return program.main()


if __name__ == "__main__":
    sys.exit(main())

"""The enclave's own program, and what its job processes have imported, from which files: each says it in the log at its end.

`python -m tests.unit.verifier.enclave_program --config FILE`. Nothing but this list is added to the program.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from enclave import __main__ as program


def main() -> int:
    """Runs it."""

    def listed(serve_one: Callable[..., bool]) -> Callable[..., bool]:
        def serve(*arguments: Any) -> bool:
            served = serve_one(*arguments)
            if served:
                # The log is open already, and no file can be opened for writing.
                loaded = {name: getattr(module, "__file__", None) for name, module in sorted(sys.modules.items())}
                os.write(sys.stderr.fileno(), f"modules: {json.dumps(loaded)}\n".encode())
            return served

        return serve

    def late(name: str, _path: object, _target: object = None) -> None:
        # The server is imported after the fences stand, by the program itself: it is wrapped when it is there.
        server = sys.modules.get("enclave.server")
        if name == "enclave.cross_check" and server is not None:
            server.serve_one = listed(server.serve_one)  # type: ignore[attr-defined]

    sys.meta_path.insert(0, type("Listing", (), {"find_spec": staticmethod(late)})())
    return program.main()


if __name__ == "__main__":
    sys.exit(main())

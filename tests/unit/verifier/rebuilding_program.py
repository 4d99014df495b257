"""The enclave's own program, which stands still where its memory is worth a look: with a rebuilt key, and with an open envelope.

`python -m tests.unit.verifier.rebuilding_program --config FILE`. If `rebuilt` or `opened` lies beside the settings, it says which
process has come so far, and goes on when that file is gone; and it says the secret of each transport key, and who drew it.
Nothing else is added to the program.
"""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bytewise.crypto import reconstruction
from bytewise.protocol.units import Blob
from enclave import __main__ as program
from enclave import judge, key_rebuilder


def say(what: str, value: object) -> None:
    """By the log: it is open already, and no file can be opened for writing."""
    print(f"{what}: {value}.", file=sys.stderr, flush=True)


def showing(place: Path, work: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
    """The same, and a stop before or after it."""

    def stop() -> None:
        if place.exists():
            say(place.name, os.getpid())
            while place.exists():
                threading.Event().wait(0.02)

    def call(*arguments: Any) -> Any:
        if not after:
            stop()
        made = work(*arguments)
        if after:
            stop()
        return made

    return call


def telling(born: Callable[..., tuple[bytes, Blob]]) -> Callable[..., tuple[bytes, Blob]]:
    """The same, and its secret is said."""

    def call(*arguments: Any) -> tuple[bytes, Blob]:
        secret, public = born(*arguments)
        say("secret", f"{os.getpid()}_{secret.hex()}")
        return secret, public

    return call


def main() -> int:
    """Runs it."""
    folder = Path(sys.argv[sys.argv.index("--config") + 1]).parent
    reconstruction.interpolate = showing(folder / "rebuilt", reconstruction.interpolate, after=True)  # type: ignore[attr-defined]
    judge.verify_opening = showing(folder / "opened", judge.verify_opening, after=False)  # type: ignore[attr-defined]
    key_rebuilder.transport_keypair = telling(key_rebuilder.transport_keypair)  # type: ignore[attr-defined]
    return program.main()


if __name__ == "__main__":
    sys.exit(main())

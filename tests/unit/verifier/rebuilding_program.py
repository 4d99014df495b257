"""The enclave's own program, which stands still where its memory is worth a look: with a rebuilt key, and with an open envelope.

`python -m tests.unit.verifier.rebuilding_program --config FILE`. If `look` lies beside the settings, it writes the number of the
process there, as `rebuilt` and `opened`, and goes on when that file is gone. Nothing else is added to the program.
"""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kms import rebuilt
from verifier.enclave import __main__ as program
from verifier.enclave import judge


def showing(place: Path, work: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
    """The same, and a stop before or after it."""

    def stop() -> None:
        if (place.parent / "look").exists():
            draft = place.with_suffix(".draft")
            draft.write_text(str(os.getpid()))
            draft.rename(place)
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


def main() -> int:
    """Runs it."""
    folder = Path(sys.argv[sys.argv.index("--config") + 1]).parent
    rebuilt.interpolate = showing(folder / "rebuilt", rebuilt.interpolate, after=True)  # type: ignore[attr-defined]
    judge.verify_opening = showing(folder / "opened", judge.verify_opening, after=False)  # type: ignore[attr-defined]
    return program.main()


if __name__ == "__main__":
    sys.exit(main())

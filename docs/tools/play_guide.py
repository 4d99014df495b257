"""Runs the commands of a guide: `python docs/tools/play_guide.py docs/guide/start-a-network.md`.

The indented blocks of the page, in their order, make one bash script. The script runs in the root of the checkout and ends at the
first command that fails. At the end this program sends SIGTERM to the script's process group. The exit code is that of the
script, or 124 after `--timeout`.
"""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INDENT = "    "


def script_of(page: str) -> str:
    """Returns the indented blocks of a page as one script."""
    return "".join(f"{line[len(INDENT) :]}\n" for line in page.splitlines() if line.startswith(INDENT))


def play(script: str, timeout_s: float) -> int:
    """Runs a script with bash and shows its commands and output. Returns its exit code, or 124 if it took too long."""
    running = subprocess.Popen(["bash", "-e", "-x", "-c", script], cwd=ROOT, start_new_session=True)
    try:
        return running.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return 124
    finally:
        _stop(running.pid)


def _stop(group: int) -> None:
    try:
        os.killpg(group, signal.SIGTERM)
    except ProcessLookupError:
        return


def main() -> int:
    """Runs the commands of one guide. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("page", type=Path, help="the guide")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds until all is stopped (%(default)s)")
    options = parser.parse_args()
    try:
        page = options.page.read_text()
    except OSError as error:
        parser.error(f"{options.page}: {error.strerror}")
    return play(script_of(page), options.timeout)


if __name__ == "__main__":
    sys.exit(main())

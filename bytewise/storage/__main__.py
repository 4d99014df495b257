"""`python -m bytewise.storage migrate --url URL …`: migrates databases. A starter runs it before its processes.

`step-back` takes the databases one revision back, so that the previous version of this program can use them. Stop their processes
first. Exit code 0: all are done. Exit code 64: a database cannot be opened or written, or is at the first revision. The databases
before this one on the command line are done, the later databases are not.
"""

import sys
from collections.abc import Callable, Sequence

from bytewise.service.entry_point import PlainParser, run_entry
from bytewise.storage.migrations.migrate import migrate, step_back


def main(arguments: Sequence[str] | None = None) -> int:
    """Migrates each database that the arguments name, or takes it one revision back. Returns the exit code."""
    parser = PlainParser(prog="python -m bytewise.storage")
    verbs = parser.add_subparsers(required=True)
    moves = {"migrate": (migrate, "bring databases to the newest revision"), "step-back": (step_back, "one revision back")}
    for name, (move, text) in moves.items():
        verb = verbs.add_parser(name, help=text)
        verb.add_argument("--url", action="append", required=True, help="database URL without a password; repeatable")
        verb.set_defaults(move=move)
    chosen = parser.parse_args(arguments)
    return run_entry("storage", lambda: _move(chosen.move, chosen.url))


def _move(move: Callable[[str], str], urls: Sequence[str]) -> int:
    for url in urls:
        print(move(url))
    return 0


if __name__ == "__main__":
    sys.exit(main())

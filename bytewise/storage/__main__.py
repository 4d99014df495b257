"""`python -m bytewise.storage migrate --url URL …`: migrates databases. A starter runs it before its processes.

Exit codes: 0 done, 64 a database cannot be opened or written; the databases named before it are migrated.
"""

import sys
from collections.abc import Sequence

from bytewise.service.entry_point import PlainParser, run_entry
from bytewise.storage.migrate import migrate


def main(arguments: Sequence[str] | None = None) -> int:
    """Migrates every named database; the exit code."""
    parser = PlainParser(prog="python -m bytewise.storage")
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("migrate", help="bring databases to the newest revision")
    verb.add_argument("--url", action="append", required=True, help="database URL without a password; repeatable")
    urls = parser.parse_args(arguments).url
    return run_entry("storage", lambda: _migrate(urls))


def _migrate(urls: Sequence[str]) -> int:
    for url in urls:
        print(migrate(url))
    return 0


if __name__ == "__main__":
    sys.exit(main())

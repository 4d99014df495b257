"""`python -m bytewise.storage migrate --url URL …`: what a starter runs before its processes.

Exit codes: 0 done, 64 a database cannot be opened or written; those named before it are done.
"""

import sys

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.exit_codes import EXIT_USAGE, Parser
from bytewise.storage.migrate import migrate


def main() -> int:
    """Migrates every named database; the exit code."""
    parser = Parser(prog="python -m bytewise.storage")
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("migrate", help="bring databases to the newest revision")
    verb.add_argument("--url", action="append", required=True, help="database URL without a password; repeatable")
    try:
        for url in parser.parse_args().url:
            print(migrate(url))
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main())

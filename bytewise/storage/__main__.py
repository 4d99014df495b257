"""`python -m bytewise.storage migrate --url URL …`: what a starter runs before its processes."""

import argparse

from bytewise.storage.migrate import migrate


def main() -> None:
    """Migrates every named database."""
    parser = argparse.ArgumentParser(prog="python -m bytewise.storage")
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("migrate", help="bring databases to the newest revision")
    verb.add_argument("--url", action="append", required=True, help="database URL without a password; repeatable")
    for url in parser.parse_args().url:
        print(migrate(url))


if __name__ == "__main__":
    main()

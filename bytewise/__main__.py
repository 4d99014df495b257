"""The `bytewise` command. It is in this package because no other project has one of this name: it checks the others first."""

import sys

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.installation import check_packages


def main() -> int:
    """Runs `cli`, if it is ours; the exit code."""
    try:
        check_packages()
    except ConfigurationError as error:
        from bytewise.service.exit_codes import Exit

        print(error, file=sys.stderr)
        return Exit.USAGE
    from cli.__main__ import main as run_command

    return run_command()


if __name__ == "__main__":
    sys.exit(main())

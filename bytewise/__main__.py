"""Entry point of the `bytewise` command.

It checks that the other packages, such as `cli`, are really ours. The check is in this package, because no other project has a
package with the name `bytewise`.
"""

import sys

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.installation import check_packages


def main() -> int:
    """Checks the packages, and then runs `cli`. Returns the exit code."""
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

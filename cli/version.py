"""`bytewise version` and `bytewise --version`."""

import sys

from bytewise.service.installation import package_version
from cli.output import OutputFormat, OutputOption, emit


def version(output: OutputOption = OutputFormat.TABLE) -> None:
    """Print the versions of this program, its arithmetic profile and Python.

    Example: bytewise version --output json
    """
    # Imported here, because that module imports eth_abi, whose import takes as long as a whole help page.
    from bytewise.protocol.records.environment import PROFILE_EXACT_1

    found = {"bytewise": package_version(), "profile": PROFILE_EXACT_1, "python": sys.version.split()[0]}
    emit(output, found, lambda: print(" ".join(f"{name} {value}" for name, value in found.items())))

"""Production mode of this process: in production, the simulator cannot be imported (fence 3, design section 7)."""

import sys

from bytewise.protocol.errors.actors import ConfigurationError

SIMULATOR = "bytewise.tee_simulated"


class ProcessMode:
    """The mode of this process."""

    production = False
    """Whether it is in production; set by `enter_production` only."""


def enter_production() -> None:
    """Puts the process into production, permanently; `ConfigurationError` if the simulator is already loaded."""
    loaded = sorted(name for name in sys.modules if name.startswith(SIMULATOR + "."))
    if loaded:
        raise ConfigurationError("production", f"{loaded[0]} is loaded")
    ProcessMode.production = True


def refuse_in_production() -> None:
    """Called by every module of the simulator at its import; `ConfigurationError` in a production process."""
    if ProcessMode.production:
        raise ConfigurationError(SIMULATOR, "imported in a production process")

"""Production mode of this process. In production, the simulator cannot be imported (fence 3, design section 7)."""

import sys

from bytewise.protocol.errors.actors import ConfigurationError

SIMULATOR = "bytewise.tee_simulated"


class ProcessMode:
    """Mode of this process. It is stored in the class, because it belongs to the whole process."""

    production = False
    """Whether the process is in production. Only `enter_production` sets it."""


def enter_production() -> None:
    """Puts the process into production, permanently. Raises `ConfigurationError` if the simulator is already loaded."""
    loaded = sorted(name for name in sys.modules if name.startswith(SIMULATOR + "."))
    if loaded:
        raise ConfigurationError("production", f"{loaded[0]} is loaded")
    ProcessMode.production = True


def refuse_in_production() -> None:
    """Raises `ConfigurationError` in a production process. Every module of the simulator calls this function when it is
    imported."""
    if ProcessMode.production:
        raise ConfigurationError(SIMULATOR, "imported in a production process")

"""All error classes by name, for processes that receive an error by its name and for pages that list every rule."""

from bytewise.protocol.errors import actors, branches, evidence, records
from bytewise.protocol.errors.branches import BytewiseError

CLASSES: dict[str, type[BytewiseError]] = {
    name: value
    for module in (branches, records, actors, evidence)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, BytewiseError)
}
"""Maps each class name to its class, including the branches."""

"""Bounds of the integers in a policy. A policy is a section of a node's settings file, so a wrong value must stop the start."""

import dataclasses
from typing import Any

from bytewise.protocol.errors.actors import ConfigurationError


def verify_bounds(policy: Any, *positive: str) -> None:
    """Raises `ConfigurationError` unless the fields `positive` of a dataclass of integers are at least 1, and all others at least
    0."""
    for field in dataclasses.fields(policy):
        value, least = getattr(policy, field.name), int(field.name in positive)
        if value < least:
            raise ConfigurationError(field.name, f"{value}: must be at least {least}")

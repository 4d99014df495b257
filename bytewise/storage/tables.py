"""All tables in one place, for migrations and their drift test."""

from bytewise.storage import tables_ceremonies, tables_core, tables_keys, tables_network
from bytewise.storage.base import Base

MODULES = (tables_core, tables_keys, tables_network, tables_ceremonies)
"""Importing them registers their tables."""

METADATA = Base.metadata
"""The whole schema."""

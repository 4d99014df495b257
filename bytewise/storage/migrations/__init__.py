"""Alembic migrations. A change of `tables_*` needs a new revision here, and `engine.HEAD` names the newest."""

"""Alembic migrations. A change of `bytewise.storage.tables` needs a new revision here; `engine.HEAD` names the newest."""

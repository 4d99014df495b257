"""Alembic migrations. A change of `bytewise.storage.tables` needs a new revision here; `engine.REVISIONS` names all.

Each but the first also has a downgrade, which the program before it needs (ADR-066).
"""

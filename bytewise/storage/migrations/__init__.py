"""Alembic migrations, and the functions that run them (`migrate`). A change of `bytewise.storage.tables` needs a new revision
here. `engine.REVISIONS` names all revisions.

Each revision except the first also has a downgrade, because the previous version of this program needs the old schema (ADR-018).
"""

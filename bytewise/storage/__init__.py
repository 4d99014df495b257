"""The only folder that knows SQLAlchemy. Read `base`, `engine`, `tables_*`, then one repository per concern.

One database per process. A starter migrates (`python -m bytewise.storage migrate`), actors only check the revision. All SQL is
neutral between SQLite and PostgreSQL; repositories take and return bytes, integers and records, never rows of SQLAlchemy.
"""

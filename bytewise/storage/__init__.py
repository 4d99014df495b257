"""The databases: the only folder that imports SQLAlchemy. Read `base`, `engine` and `tables`, then one repository for each
concern.

There is one database per process. A starter migrates it (`python -m bytewise.storage migrate`); actors only check the revision.
All SQL works on SQLite and PostgreSQL. Repositories take and return bytes, integers and records, never rows of SQLAlchemy.
"""

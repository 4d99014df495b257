"""The databases of all processes. Only this folder imports SQLAlchemy.

Read `tables` and `engine` first, then one database store for each concern. A database store is a class that reads and writes the
tables of one concern. It takes and returns bytes, integers and records, never rows of SQLAlchemy.

Each process has one database. A starter migrates it (`python -m bytewise.storage migrate`); an actor only checks its revision.
All SQL works on SQLite and PostgreSQL.
"""

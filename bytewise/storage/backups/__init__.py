"""Backups of a node: the file, the copy of its database, and the limits of a node that was restored from a backup.

Read `backup_file` first, then `backup`.
"""

"""The declarative base and the column types that mean the same on SQLite and PostgreSQL."""

from typing import Annotated

from sqlalchemy import BigInteger, Dialect, Integer, LargeBinary, MetaData, String, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, mapped_column

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """The base class of every table in the database of an actor."""

    metadata = MetaData(naming_convention=NAMES)


class _WithoutNul(TypeDecorator[str]):
    # PostgreSQL's text has no U+0000. Text from others may contain it, and an operator's list must not stop the node that reports
    # it.
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else value.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _serial() -> BigInteger:
    # SQLite numbers rows by itself only for the exact type INTEGER.
    return BigInteger().with_variant(Integer, "sqlite")


RowId = Annotated[int, mapped_column(_serial(), primary_key=True, autoincrement=True)]
"""A row number that the database chooses."""
Int64 = Annotated[int, mapped_column(BigInteger)]
"""A sequence number, a block number, or a time in Unix seconds."""
Bytes32 = Annotated[bytes, mapped_column(LargeBinary(32))]
"""A digest of 32 bytes."""
Bytes = Annotated[bytes, mapped_column(LargeBinary)]
"""Bytes of any length."""
Account = Annotated[str, mapped_column(String(42))]
"""An address in lower case."""
Prose = Annotated[str, mapped_column(_WithoutNul)]
"""Text for people, possibly from an untrusted peer. U+0000 is replaced."""
Word = Annotated[str, mapped_column(String(80))]
"""A short name, a state, or a 256-bit integer in decimal."""

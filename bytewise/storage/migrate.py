"""Migrates a database to the newest revision. Only the starter of a process imports this; actors check the revision."""

from collections.abc import Sequence
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.storage.engine import cause_of, check_revision, open_database

_FOLDER = Path(__file__).parent / "migrations"


def migrate(url: str) -> str:
    """Upgrades the database at `url`, and creates it if it is new. Returns the revision.

    `ConfigurationError` if the database cannot be opened or written.
    """
    engine = open_database(url)
    config = configuration()
    try:
        connection = engine.connect()
    except OperationalError:
        raise ConfigurationError("database", "does not open: make the folder of its file, or start its server") from None
    try:
        with connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except DBAPIError as error:
        url = engine.url.render_as_string(hide_password=True)
        raise ConfigurationError("database", f"{url} cannot be written: {cause_of(error)}") from None
    revision = check_revision(engine)
    engine.dispose()
    return revision


def make_databases(server_url: str, template: str, names: Sequence[str]) -> None:
    """Makes one migrated database for each name on a PostgreSQL server. They are copies of a new database with the name
    `template`.

    `ConfigurationError` if the server cannot be reached, refuses, or has one of these databases already.
    """
    engine = open_database(server_url).execution_options(isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            quote = connection.dialect.identifier_preparer.quote
            connection.exec_driver_sql(f"CREATE DATABASE {quote(template)}")
            migrate(database_on(server_url, template))
            for name in names:
                connection.exec_driver_sql(f"CREATE DATABASE {quote(name)} TEMPLATE {quote(template)}")
    except (OperationalError, DBAPIError) as error:
        where = engine.url.render_as_string(hide_password=True)
        raise ConfigurationError("database", f"{where}: {cause_of(error)}") from None
    finally:
        engine.dispose()


def database_on(server_url: str, name: str) -> str:
    """URL of another database of the same server."""
    try:
        return make_url(server_url).set(database=name).render_as_string(hide_password=False)
    except ArgumentError:
        raise ConfigurationError("database", "is no URL: postgresql+psycopg://USER@HOST/DATABASE") from None


def configuration() -> Config:
    """Alembic's configuration, which needs no file."""
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    return config

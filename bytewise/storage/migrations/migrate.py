"""Migrates a database to the newest revision, or one revision back. Only a starter of processes imports this module."""

from collections.abc import Sequence
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.storage.engine import REVISIONS, cause_of, check_revision, newer_revision, open_database

_FOLDER = Path(__file__).parent


def migrate(url: str) -> str:
    """Upgrades the database at `url`, and creates it if it does not exist. Returns its revision.

    Raises `ConfigurationError` if the database cannot be opened or written, or if a newer program migrated it.
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
            found = MigrationContext.configure(connection).get_current_revision()
            if found is not None and found not in REVISIONS:
                raise newer_revision(engine.url.render_as_string(hide_password=True), found)
            connection.rollback()
            command.upgrade(config, "head")
    except DBAPIError as error:
        url = engine.url.render_as_string(hide_password=True)
        raise ConfigurationError("database", f"{url} cannot be written: {cause_of(error)}") from None
    revision = check_revision(engine)
    engine.dispose()
    return revision


def step_back(url: str) -> str:
    """Takes the database at `url` back by one revision, so that the previous version of this program can use it.

    Returns the new revision. No process may use the database meanwhile. Data that only the newer revision can store is lost.
    Raises `ConfigurationError` if the database cannot be opened or written, or if it has no revision, the first revision or a
    revision that this program does not know.
    """
    engine = open_database(url)
    shown = engine.url.render_as_string(hide_password=True)
    try:
        with engine.connect() as connection:
            found = MigrationContext.configure(connection).get_current_revision()
            if found is None:
                connection.rollback()  # the check opens the database again, and would wait for this connection
                check_revision(engine)
            if found not in REVISIONS:
                raise newer_revision(shown, str(found))
            place = REVISIONS.index(found)
            if place == 0:
                raise ConfigurationError("database", f"{shown} has revision {found}, the first: there is no step back")
            config = configuration()
            config.attributes["connection"] = connection
            connection.rollback()
            command.downgrade(config, REVISIONS[place - 1])
    except DBAPIError as error:
        raise ConfigurationError("database", f"{shown} cannot be taken back: {cause_of(error)}") from None
    finally:
        engine.dispose()
    return REVISIONS[place - 1]


def make_databases(server_url: str, template: str, names: Sequence[str]) -> None:
    """Makes one migrated database for each of these names on a PostgreSQL server.

    First makes and migrates a new database named `template`, and then copies it. Raises `ConfigurationError` if the server cannot
    be reached or refuses, or if one of these databases exists.
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


def make_empty_database(server_url: str, name: str) -> None:
    """Makes a database without tables on a PostgreSQL server, for an index of the dashboard.

    Raises `ConfigurationError` if the server cannot be reached or refuses, or if the database exists.
    """
    engine = open_database(server_url).execution_options(isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {connection.dialect.identifier_preparer.quote(name)}")
    except (OperationalError, DBAPIError) as error:
        where = engine.url.render_as_string(hide_password=True)
        raise ConfigurationError("database", f"{where}: {cause_of(error)}") from None
    finally:
        engine.dispose()


def database_on(server_url: str, name: str) -> str:
    """Returns the URL of the database `name` on the server that `server_url` names. The URL contains the password.

    Raises `ConfigurationError` if `server_url` is no URL.
    """
    try:
        return make_url(server_url).set(database=name).render_as_string(hide_password=False)
    except ArgumentError:
        raise ConfigurationError("database", "is no URL: postgresql+psycopg://USER@HOST/DATABASE") from None


def configuration() -> Config:
    """Returns the configuration of Alembic. It needs no configuration file."""
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    return config

"""Brings a database to the newest revision. Only the starter of a process imports this; actors check the revision."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy.exc import DBAPIError, OperationalError

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.storage.engine import cause_of, check_revision, open_database

_FOLDER = Path(__file__).parent / "migrations"


def migrate(url: str) -> str:
    """Upgrades the database at `url`, creating it if it is new; returns the revision.

    `ConfigurationError` if it does not open, or cannot be written.
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


def configuration() -> Config:
    """Alembic's configuration, without a file."""
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    return config

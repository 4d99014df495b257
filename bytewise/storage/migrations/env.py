"""Alembic's entry point: runs migrations on the connection that `bytewise.storage.migrations.migrate` opened, or prints SQL."""

from alembic import context

from bytewise.storage.tables import METADATA


def run() -> None:
    """Runs the migrations in one transaction where the database supports that. In offline mode it prints their SQL."""
    if context.is_offline_mode():
        context.configure(dialect_name=context.config.get_main_option("dialect"), target_metadata=METADATA, literal_binds=True)
        with context.begin_transaction():
            context.run_migrations()
        return
    connection = context.config.attributes["connection"]
    context.configure(connection=connection, target_metadata=METADATA, transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()


run()

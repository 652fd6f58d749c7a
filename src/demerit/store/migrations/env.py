"""Run by Alembic: the migrations go through the connection, and the transaction, that the store opened."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table=context.config.attributes["version_table"],
    transactional_ddl=True,
    transaction_per_migration=False,
)
context.run_migrations()

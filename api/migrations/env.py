"""Alembic's environment: migrations run over the connection that `api.store.migrate` hands over."""

from alembic import context

from api.store import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()

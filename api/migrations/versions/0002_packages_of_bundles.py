"""Packages that bundles require."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("bundles", schema=None) as batch_op:
        batch_op.add_column(sa.Column("packages", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Take back."""
    with op.batch_alter_table("bundles", schema=None) as batch_op:
        batch_op.drop_column("packages")

"""The last failure of what was asked of a query, and whether it is being started."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("queries", schema=None) as batch_op:
        batch_op.add_column(sa.Column("failure", sa.JSON(), nullable=True))
        batch_op.add_column(sa.Column("starting", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Take back."""
    with op.batch_alter_table("queries", schema=None) as batch_op:
        batch_op.drop_column("starting")
        batch_op.drop_column("failure")
